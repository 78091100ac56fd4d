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
			Files   yaml.Node `yaml:"data_files"`
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
		splits, err := readFiles(&c.Files, c.Dir)
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

// readFiles reads data_files in the notations of the hub: a pattern, a list of patterns, a mapping
// of splits to patterns, or a list of {split, path}. If a configuration has only a directory, all
// objects in it are training data.
func readFiles(n *yaml.Node, dir string) ([]Split, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	f := &files{dir: strings.Trim(strings.TrimPrefix(dir, "./"), "/")}
	if n.Kind == 0 {
		if f.dir == "" {
			return nil, nil
		}
		err := f.add("train", "**")
		return f.splits, err
	}
	err := f.read(n)
	return f.splits, err
}

func (f *files) read(n *yaml.Node) error {
	switch n.Kind {
	case yaml.ScalarNode:
		return f.add("train", n.Value)
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if err := f.addPaths(n.Content[i].Value, n.Content[i+1]); err != nil {
				return err
			}
		}
		return nil
	case yaml.SequenceNode:
		for _, item := range n.Content {
			if item.Kind != yaml.MappingNode {
				if err := f.addPaths("train", item); err != nil {
					return err
				}
				continue
			}
			var entry struct {
				Split string    `yaml:"split"`
				Path  yaml.Node `yaml:"path"`
			}
			if err := item.Decode(&entry); err != nil {
				return err
			}
			if err := f.addPaths(entry.Split, &entry.Path); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("data_files is neither a pattern nor a list or mapping of patterns")
}

// addPaths adds a pattern or a list of patterns to a split.
func (f *files) addPaths(split string, n *yaml.Node) error {
	if err := checkName(split); err != nil {
		return fmt.Errorf("split: %w", err)
	}
	switch n.Kind {
	case yaml.ScalarNode:
		return f.add(split, n.Value)
	case yaml.SequenceNode:
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return fmt.Errorf("split %s: a path is not a string", split)
			}
			if err := f.add(split, item.Value); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("split %s: not a path or a list of paths", split)
}

func (f *files) add(split, pattern string) error {
	if f.dir != "" {
		pattern = f.dir + "/" + strings.TrimPrefix(pattern, "./")
	}
	p, err := ParsePattern(pattern)
	if err != nil {
		return err
	}
	for i := range f.splits {
		if f.splits[i].Name == split {
			if len(f.splits[i].Patterns) == maxPatterns {
				return errMany
			}
			f.splits[i].Patterns = append(f.splits[i].Patterns, p)
			return nil
		}
	}
	if len(f.splits) == maxSplits {
		return errMany
	}
	f.splits = append(f.splits, Split{split, []Pattern{p}})
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
