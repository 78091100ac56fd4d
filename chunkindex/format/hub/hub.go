// Package hub reads the metadata in which Hugging Face repositories describe their configurations,
// splits and classes: the metadata of README.md and of data files, and the dataset_dict.json of
// save_to_disk. All of it is untrusted input.
package hub

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Limits of the input.
const (
	MaxCard = 1 << 20  // maximum bytes of metadata: the largest cards have hundreds of configurations of some hundred bytes
	MaxDict = 64 << 10 // maximum bytes of a dataset_dict.json

	maxConfigs  = 4096
	maxSplits   = 256  // maximum number of splits in a configuration
	maxPatterns = 4096 // maximum number of patterns in a split
	maxName     = 256  // maximum bytes of a name
)

// Config is one configuration of a repository: a set of its files, grouped into splits.
type Config struct {
	Name    string
	Default bool
	Splits  []Split
}

// Split is a split and the patterns of its objects.
type Split struct {
	Name     string
	Patterns []Pattern
}

// Takes reports whether the split contains an object.
func (s Split) Takes(key string) bool {
	return slices.ContainsFunc(s.Patterns, func(p Pattern) bool { return p.Match(key) })
}

// errMany is the error for more items than any plausible description has.
var errMany = errors.New("too many configurations, splits or patterns")

// ReadCard parses the configurations at the start of a README.md. It returns nil for a text without
// metadata, or if the metadata lists no data files.
func ReadCard(text []byte) ([]Config, error) {
	block, ok := metadata(text)
	if !ok {
		return nil, nil
	}
	var card struct {
		Configs []struct {
			Name    string    `yaml:"config_name"`
			Default bool      `yaml:"default"`
			Dir     string    `yaml:"data_dir"`
			Files   dataFiles `yaml:"data_files"`
		} `yaml:"configs"`
	}
	if err := yaml.Unmarshal(block, &card); err != nil {
		return nil, fmt.Errorf("README.md: metadata: %w", err)
	}
	if len(card.Configs) > maxConfigs {
		return nil, fmt.Errorf("README.md: %w", errMany)
	}
	var all []Config
	for _, c := range card.Configs {
		c.Name = cmp.Or(c.Name, "default")
		if err := checkName(c.Name); err != nil {
			return nil, fmt.Errorf("README.md: configuration: %w", err)
		}
		splits, err := c.Files.splits(c.Dir)
		if err != nil {
			return nil, fmt.Errorf("README.md: configuration %s: %w", c.Name, err)
		}
		if len(splits) > 0 {
			all = append(all, Config{c.Name, c.Default || c.Name == "default", splits})
		}
	}
	return all, nil
}

// metadata returns the YAML block between two lines of three dashes at the start of a text.
func metadata(text []byte) ([]byte, bool) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	text, ok := bytes.CutPrefix(text, []byte("---\n"))
	if !ok {
		return nil, false
	}
	block, _, ok := bytes.Cut(text, []byte("\n---"))
	return block, ok
}

// checkName rejects names that a user cannot print or type.
func checkName(name string) error {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return fmt.Errorf("name %.64q: use 1 to %d bytes without spaces", name, maxName)
	}
	return nil
}

// files collects the splits of a configuration.
type files struct {
	dir    string // directory to which patterns are relative
	splits []Split
}

// dataFiles are data_files in the notations of the hub: a pattern, a list of patterns, a mapping of
// splits to patterns, or a list of {split, path}.
type dataFiles []entry

// entry assigns patterns to a split.
type entry struct {
	Split string `yaml:"split"`
	Path  paths  `yaml:"path"`
}

// paths is a pattern or a list of patterns.
type paths []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *dataFiles) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return list(n).Decode((*[]entry)(d))
	}
	for i := 0; i < len(n.Content); i += 2 {
		e := entry{Split: n.Content[i].Value}
		if err := n.Content[i+1].Decode(&e.Path); err != nil {
			return err
		}
		*d = append(*d, e)
	}
	return nil
}

// UnmarshalYAML implements yaml.Unmarshaler. Patterns without a split are training data.
func (e *entry) UnmarshalYAML(n *yaml.Node) error {
	type fields entry
	if n.Kind == yaml.MappingNode {
		return n.Decode((*fields)(e))
	}
	e.Split = "train"
	return n.Decode(&e.Path)
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (p *paths) UnmarshalYAML(n *yaml.Node) error { return list(n).Decode((*[]string)(p)) }

// list returns a node, with a scalar replaced by a list of it.
func list(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.ScalarNode {
		return &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{n}}
	}
	return n
}

// splits returns the splits of a configuration with a directory, to which the patterns are relative.
// If it has only a directory, all objects in it are training data.
func (d dataFiles) splits(dir string) ([]Split, error) {
	f := &files{dir: strings.Trim(strings.TrimPrefix(dir, "./"), "/")}
	if d == nil && f.dir != "" {
		d = dataFiles{{"train", paths{"**"}}}
	}
	for _, e := range d {
		if err := checkName(e.Split); err != nil {
			return nil, fmt.Errorf("split: %w", err)
		}
		if e.Path == nil {
			return nil, fmt.Errorf("split %s: no path", e.Split)
		}
		for _, pattern := range e.Path {
			if err := f.add(e.Split, pattern); err != nil {
				return nil, err
			}
		}
	}
	return f.splits, nil
}

func (f *files) add(split, pattern string) error {
	if f.dir != "" {
		pattern = f.dir + "/" + strings.TrimPrefix(pattern, "./")
	}
	p, err := ParsePattern(pattern)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(f.splits, func(s Split) bool { return s.Name == split })
	if i < 0 {
		i = len(f.splits)
		f.splits = append(f.splits, Split{Name: split})
	}
	f.splits[i].Patterns = append(f.splits[i].Patterns, p)
	if len(f.splits) > maxSplits || len(f.splits[i].Patterns) > maxPatterns {
		return errMany
	}
	return nil
}

// ReadDict parses the dataset_dict.json of a saved DatasetDict: each split is a folder.
func ReadDict(text []byte) ([]Split, error) {
	var dict struct {
		Splits []string `json:"splits"`
	}
	if err := json.Unmarshal(text, &dict); err != nil {
		return nil, fmt.Errorf("dataset_dict.json: %w", err)
	}
	if len(dict.Splits) > maxSplits {
		return nil, fmt.Errorf("dataset_dict.json: %w", errMany)
	}
	f := &files{}
	for _, name := range dict.Splits {
		err := checkName(name)
		if err == nil && strings.ContainsAny(name, `/\*?[`) {
			err = fmt.Errorf("name %q is not a folder name", name)
		}
		if err == nil {
			err = f.add(name, name+"/**")
		}
		if err != nil {
			return nil, fmt.Errorf("dataset_dict.json: split: %w", err)
		}
	}
	return f.splits, nil
}
