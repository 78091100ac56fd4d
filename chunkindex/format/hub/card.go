package hub

import (
	"errors"
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// maxColumns limits the number of columns visited in a card, because YAML aliases may repeat a
// column many times.
const maxColumns = 1 << 16

// CardClasses returns the class names that a README.md assigns to the columns of a configuration,
// by the column paths that Classes uses. text is the start of README.md. An empty config selects
// the only configuration, or the configuration named default.
func CardClasses(text []byte, config string) (map[string][]string, error) {
	block, ok := metadata(text)
	if !ok {
		return nil, nil
	}
	var card struct {
		Info yaml.Node `yaml:"dataset_info"`
	}
	if err := yaml.Unmarshal(block, &card); err != nil {
		return nil, fmt.Errorf("README.md: metadata: %w", err)
	}
	infos := []*yaml.Node{&card.Info}
	if card.Info.Kind == yaml.SequenceNode {
		infos = card.Info.Content
	}
	for _, node := range infos {
		var info struct {
			Config   string    `yaml:"config_name"`
			Features yaml.Node `yaml:"features"`
		}
		if err := decode(node, &info); err != nil {
			return nil, fmt.Errorf("README.md: dataset_info: %w", err)
		}
		if info.Config == "" {
			info.Config = "default"
		}
		if info.Config != config && (config != "" || len(infos) > 1 && info.Config != "default") {
			continue
		}
		c := cardColumns{classes: map[string][]string{}}
		if err := c.read("", &info.Features, maxDepth); err != nil {
			return nil, fmt.Errorf("README.md: features: %w", err)
		}
		return c.classes, nil
	}
	return nil, nil
}

// decode decodes a node, or does nothing if the node is missing.
func decode(n *yaml.Node, into any) error {
	if n.Kind == 0 {
		return nil
	}
	return n.Decode(into)
}

// cardColumns collects the class names of a card's columns.
type cardColumns struct {
	classes map[string][]string
	seen    int
}

// read reads a list of columns or the type of a column.
func (c *cardColumns) read(at string, n *yaml.Node, depth int) error {
	if depth == 0 {
		return fmt.Errorf("column %.64q: nested deeper than %d levels", at, maxDepth)
	}
	if c.seen++; c.seen > maxColumns {
		return fmt.Errorf("column %.64q exceeds the limit of %d", at, maxColumns)
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.SequenceNode {
		return c.list(at, n, depth)
	}
	if n.Kind != yaml.MappingNode {
		return nil // a type name instead of a class label
	}
	var column struct {
		Label *struct {
			Names yaml.Node `yaml:"names"`
		} `yaml:"class_label"`
		DType     yaml.Node `yaml:"dtype"`
		List      yaml.Node `yaml:"list"`
		LargeList yaml.Node `yaml:"large_list"`
		Sequence  yaml.Node `yaml:"sequence"`
		Struct    yaml.Node `yaml:"struct"`
	}
	if err := n.Decode(&column); err != nil {
		return fmt.Errorf("column %.64q: %w", at, err)
	}
	if column.Label != nil {
		names, err := namesOf(&column.Label.Names)
		if err != nil {
			return fmt.Errorf("column %.64q: %w", at, err)
		}
		if len(names) > 0 {
			c.classes[at] = names
		}
		return nil
	}
	for _, inside := range []*yaml.Node{&column.DType, &column.List, &column.LargeList, &column.Sequence, &column.Struct} {
		if inside.Kind != 0 {
			return c.read(at, inside, depth-1)
		}
	}
	return nil
}

// list reads named columns.
func (c *cardColumns) list(at string, n *yaml.Node, depth int) error {
	for _, item := range n.Content {
		var column struct {
			Name string `yaml:"name"`
		}
		if err := item.Decode(&column); err != nil {
			return fmt.Errorf("column %.64q: %w", at, err)
		}
		if at != "" {
			column.Name = at + "." + column.Name
		}
		if err := c.read(column.Name, item, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// namesOf reads class names: a list, or a mapping from numbers to names.
func namesOf(n *yaml.Node) ([]string, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.SequenceNode {
		names := make([]string, len(n.Content))
		for i, name := range n.Content {
			names[i] = name.Value
		}
		return names, nil
	}
	names := make([]string, len(n.Content)/2)
	named := make([]bool, len(names))
	for i := range names {
		number, err := strconv.Atoi(n.Content[2*i].Value)
		if err != nil || number < 0 || number >= len(names) || named[number] {
			return nil, errors.New("the numbers of its classes are not consecutive from 0")
		}
		names[number], named[number] = n.Content[2*i+1].Value, true
	}
	return names, nil
}
