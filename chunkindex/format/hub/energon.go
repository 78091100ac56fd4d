package hub

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/millrace-data/millrace/chunkindex/format/naming"
)

// EnergonFiles returns the keys of the files in which Megatron Energon assigns shards to splits.
// The first existing file applies. The YAML parser also reads the JSON file.
func EnergonFiles() []string { return []string{".nv-meta/split.yaml", ".nv-meta/split.json"} }

// MaxEnergon is the maximum number of bytes of an Energon file.
const MaxEnergon = 16 << 20

// Shards is a split that lists its shards.
type Shards struct {
	Name        string
	in, without entries
}

// Takes reports whether the split contains a shard.
func (s Shards) Takes(key string) bool { return s.in.name(key) && !s.without.name(key) }

// entries are names of shards.
type entries struct {
	keys     map[string]bool
	patterns []string // entries with braces
}

// braces matches alternatives in an entry: {000..012} or {a,b}.
var braces = regexp.MustCompile(`\{(?:(\d+)\.\.\d+|([^{},]*)(?:,[^{},]*)+)\}`)

func newEntries(texts []string) (entries, error) {
	e := entries{keys: map[string]bool{}}
	for _, text := range texts {
		switch {
		case strings.ContainsAny(braces.ReplaceAllString(text, ""), "{}"):
			return e, fmt.Errorf("braces in %.200q: use {000..012} or {a,b}", text)
		case strings.Contains(text, "{"):
			e.patterns = append(e.patterns, text)
		default:
			e.keys[text] = true
		}
	}
	return e, nil
}

// name reports whether the entries name a shard.
func (e entries) name(key string) bool {
	return e.keys[key] || slices.ContainsFunc(e.patterns, func(p string) bool { return slices.Contains(naming.Braces(p, key), key) })
}

// ReadEnergon parses one of the EnergonFiles and returns its splits by name. Excluded shards form a
// split "excluded".
func ReadEnergon(text []byte) ([]Shards, error) {
	var file struct {
		Exclude []string            `yaml:"exclude"`
		Parts   map[string][]string `yaml:"split_parts"`
	}
	if len(text) == MaxEnergon {
		return nil, fmt.Errorf("longer than %d bytes", MaxEnergon)
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	excluded, err := newEntries(file.Exclude)
	if err != nil {
		return nil, err
	}
	var splits []Shards
	for _, name := range slices.Sorted(maps.Keys(file.Parts)) {
		if err := checkName(name); err != nil {
			return nil, fmt.Errorf("split: %w", err)
		}
		in, err := newEntries(file.Parts[name])
		if err != nil {
			return nil, err
		}
		splits = append(splits, Shards{name, in, excluded})
	}
	for _, e := range file.Exclude {
		first := braces.ReplaceAllString(e, "$1$2")
		if !slices.ContainsFunc(splits, func(s Shards) bool { return s.in.name(first) }) {
			return nil, fmt.Errorf("an entry excludes %.200q, which is not a shard: to exclude samples, use millrace quarantine; to index the whole shard, use --split all, or remove the entry", e)
		}
	}
	if len(file.Exclude) > 0 {
		splits = append(splits, Shards{Name: "excluded", in: excluded})
	}
	return splits, nil
}
