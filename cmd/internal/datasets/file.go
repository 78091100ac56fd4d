package datasets

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/cmd/internal/location"
)

// MaxFile is the maximum size of a file of datasets in bytes. 4 MiB hold 20,000 addresses.
const MaxFile = 4 << 20

// reader collects the datasets and mixtures of a file, and all its faults.
type reader struct {
	file   string
	set    Set
	faults []error
}

// Parse parses a file of datasets. The error lists all faults, each with file and line. A fault
// never repeats a value that could contain a secret.
func Parse(file string, text []byte) (Set, error) {
	r := &reader{file: file}
	var doc, more yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF): // an empty file, or only comments
		return Set{}, nil
	case err != nil:
		return Set{}, fmt.Errorf("%s: %w", file, err)
	case !errors.Is(decoder.Decode(&more), io.EOF):
		return Set{}, fmt.Errorf("%s: must be one YAML document", file)
	}
	r.root(doc.Content[0])
	return r.set, errors.Join(r.faults...)
}

// at returns the file and line of a node.
func (r *reader) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d", r.file, n.Line) }

func (r *reader) fault(n *yaml.Node, format string, args ...any) {
	r.faults = append(r.faults, At(r.at(n), fmt.Errorf(format, args...)))
}

// pairs calls visit for each entry of a mapping. An empty value has no entries.
func (r *reader) pairs(n *yaml.Node, what string, visit func(key, value *yaml.Node)) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.fault(n, "%s: must be names with values, such as photos: s3://bucket/photos", what)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if seen[key.Value] {
			r.fault(key, "%s: %q is given twice", what, key.Value)
			continue
		}
		seen[key.Value] = true
		visit(key, n.Content[i+1])
	}
}

func (r *reader) root(n *yaml.Node) {
	r.pairs(n, "the file", func(key, value *yaml.Node) {
		switch key.Value {
		case "datasets":
			r.pairs(value, "datasets", r.dataset)
		case "mixtures":
			r.pairs(value, "mixtures", r.mixture)
		default:
			r.fault(key, "unknown key %q: must be datasets or mixtures", key.Value)
		}
	})
}

// text returns the text of a plain value.
func (r *reader) text(n *yaml.Node) (string, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n.Value, n.Kind == yaml.ScalarNode && n.Tag != "!!null" && n.Value != ""
}

func (r *reader) dataset(key, value *yaml.Node) {
	name := key.Value
	if !chunkindex.ValidName(name) {
		r.fault(key, "dataset %.140q: the name must be letters, digits, dot, dash and underscore", name)
		return
	}
	if l, ok := r.location(name, value); ok {
		r.set.Datasets = append(r.set.Datasets, Dataset{l, r.at(key)})
	}
}

// location parses an address, or the parts of one by name. It records the faults.
func (r *reader) location(name string, value *yaml.Node) (l location.Location, ok bool) {
	if text, ok := r.text(value); ok {
		l, err := location.Parse(name + "=" + text)
		if err != nil {
			r.fault(value, "%w", err) // the error names the dataset
		}
		return l, err == nil
	}
	known := len(r.faults)
	parts := map[string]string{}
	var order []*yaml.Node
	r.pairs(value, "dataset "+name, func(key, value *yaml.Node) {
		text, ok := r.text(value)
		if !ok {
			r.fault(key, "dataset %s: %s: must be a plain value", name, key.Value)
		}
		if parts[key.Value] = text; key.Value != "url" {
			order = append(order, key)
		}
	})
	switch {
	case len(r.faults) > known:
		return l, false
	case parts["url"] == "":
		r.fault(value, "dataset %s: must be an address, or a mapping with url: ADDRESS", name)
		return l, false
	}
	l, err := location.Parse(name + "=" + parts["url"])
	if err != nil {
		r.fault(value, "%w", err)
		return l, false
	}
	for _, key := range order {
		if err := l.SetOption(key.Value, parts[key.Value]); err != nil {
			r.fault(key, "dataset %s: %w", name, err)
		}
	}
	return l, len(r.faults) == known
}

func (r *reader) mixture(key, value *yaml.Node) {
	text, ok := r.text(value)
	if !ok && value.Kind == yaml.MappingNode {
		r.scheduled(key, value)
		return
	}
	if !ok {
		r.fault(key, "mixture %.140q: must be SOURCE:WEIGHT,SOURCE:WEIGHT", key.Value)
		return
	}
	m, err := ParseMixture(key.Value + "=" + strings.TrimSpace(text))
	r.add(key, m, err)
}

// scheduled reads a mixture with a schedule: mix has its text, schedule maps positions to weights.
func (r *reader) scheduled(key, value *yaml.Node) {
	var text string
	var entries [][2]string
	r.pairs(value, "mixture "+key.Value, func(key, value *yaml.Node) {
		switch key.Value {
		case "mix":
			text, _ = r.text(value)
		case "schedule":
			r.pairs(value, "schedule", func(at, weights *yaml.Node) { entries = append(entries, [2]string{at.Value, weights.Value}) })
		default:
			r.fault(key, "unknown key %q: must be mix or schedule", key.Value)
		}
	})
	m, err := parseMixture(key.Value+"="+strings.TrimSpace(text), 0)
	if err == nil {
		err = setSchedule(&m.Mixture, entries)
	}
	r.add(key, m, err)
}

// add adds a mixture, or the fault in it.
func (r *reader) add(key *yaml.Node, m Mixture, err error) {
	if err != nil {
		r.fault(key, "mixture %.140q: %w", key.Value, err)
		return
	}
	m.At = r.at(key)
	r.set.Mixtures = append(r.set.Mixtures, m)
}
