package auth

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// faults collects all faults of a file.
type faults struct {
	file string
	list []fault
}

type fault struct {
	line int
	text string
}

func (f *faults) add(at *yaml.Node, format string, args ...any) {
	f.list = append(f.list, fault{at.Line, fmt.Sprintf(format, args...)})
}

// err returns the faults in order of lines, each with the file name.
func (f *faults) err() error {
	slices.SortStableFunc(f.list, func(a, b fault) int { return cmp.Compare(a.line, b.line) })
	var all []error
	for _, one := range f.list {
		all = append(all, fmt.Errorf("%s:%d: %s", f.file, one.line, one.text))
	}
	return errors.Join(all...)
}

// document returns the root of a file's YAML.
func (f *faults) document(text []byte) (*yaml.Node, bool) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var first, second yaml.Node
	switch err := decoder.Decode(&first); {
	case errors.Is(err, io.EOF) || err == nil && len(first.Content) != 1:
		f.list = append(f.list, fault{1, "the file is empty"})
		return nil, false
	case err != nil:
		f.syntax(err)
		return nil, false
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		f.add(&second, "a second YAML document begins here: the file must have only one")
	case !errors.Is(err, io.EOF):
		f.syntax(err)
	default:
		return first.Content[0], true
	}
	return nil, false
}

// syntax records an error of the YAML parser as a fault with its line.
func (f *faults) syntax(err error) {
	said, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(said); m != nil {
		line, _ = strconv.Atoi(m[1])
		said = strings.TrimPrefix(said, m[0])
	}
	if strings.Contains(said, "anchor") || strings.Contains(said, "alphabetic") {
		said += ` (write a pattern that begins with * in quotes: "*-train")`
	}
	f.list = append(f.list, fault{line, "not YAML: " + said})
}

// fields are the values of a mapping with known keys.
type fields struct {
	at     *yaml.Node
	what   string
	values map[string]*yaml.Node
}

// fields parses a mapping. what describes it in faults, such as "a token".
func (f *faults) fields(n *yaml.Node, what string, known ...string) (fields, bool) {
	if n.Kind != yaml.MappingNode {
		f.add(n, "%s must be a mapping with %s", what, enumerate(known, "and"))
		return fields{}, false
	}
	got := fields{at: n, what: what, values: map[string]*yaml.Node{}}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case !slices.Contains(known, key.Value):
			f.add(key, "%s cannot have the key %.40q: must be %s", what, key.Value, enumerate(known, "or"))
		case got.values[key.Value] != nil:
			f.add(key, "%s has %s twice", what, key.Value)
		default:
			got.values[key.Value] = value
		}
	}
	return got, true
}

func enumerate(words []string, last string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " " + last + " " + words[len(words)-1]
}

// each parses the elements of a list, which are mappings with known keys.
func (f *faults) each(m fields, key, what string, parse func(fields), known ...string) {
	for _, e := range f.elements(m, key) {
		if one, ok := f.fields(e, what, known...); ok {
			parse(one)
		}
	}
}

// elements returns the elements of a list, or none if the key is missing.
func (f *faults) elements(m fields, key string) []*yaml.Node {
	n := m.values[key]
	switch {
	case n == nil:
	case n.Kind != yaml.SequenceNode:
		f.add(n, "%s must be a list", key)
	case len(n.Content) == 0:
		f.add(n, "%s is empty: add an entry, or remove the key", key)
	default:
		return n.Content
	}
	return nil
}

// required returns the scalar value of a required key.
func (f *faults) required(m fields, key string) (string, bool) {
	if m.values[key] == nil {
		f.add(m.at, "%s requires %s", m.what, key)
	}
	return f.optional(m, key)
}

// optional returns the scalar value of a key. ok is false if the key is missing.
func (f *faults) optional(m fields, key string) (text string, ok bool) {
	if m.values[key] == nil {
		return "", false
	}
	return f.scalar(m.values[key], key)
}

// scalar returns a scalar value, which must not be empty.
func (f *faults) scalar(n *yaml.Node, what string) (string, bool) {
	switch {
	case n.Kind != yaml.ScalarNode:
		f.add(n, "%s must be one plain value", what)
	case n.Tag == "!!null" || n.Value == "":
		f.add(n, "%s is empty", what)
	default:
		return n.Value, true
	}
	return "", false
}
