package hub

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// EnergonFiles returns the keys of the files in which Megatron Energon assigns shards to splits.
// The first existing file applies. The YAML parser also reads the JSON file.
func EnergonFiles() []string { return []string{".nv-meta/split.yaml", ".nv-meta/split.json"} }

// Limits of an Energon file.
const (
	MaxEnergon = 16 << 20 // its bytes
	maxShards  = 1 << 20  // maximum number of shards that a file names
)

// Excluded is the name of the split of excluded shards.
const Excluded = "excluded"

// Shards is a split that lists its shards by key.
type Shards struct {
	Name string
	Keys map[string]bool
}

// ReadEnergon parses one of the EnergonFiles and returns its splits by name.
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
	named, splits := map[string]bool{}, make([]Shards, 0, len(file.Parts)+1)
	for _, name := range slices.Sorted(maps.Keys(file.Parts)) {
		if err := checkName(name); err != nil {
			return nil, fmt.Errorf("split: %w", err)
		}
		keys, err := expandAll(file.Parts[name])
		if err != nil {
			return nil, err
		}
		splits = append(splits, Shards{name, keys})
		maps.Copy(named, keys)
	}
	excluded, err := expandAll(file.Exclude)
	if err != nil || len(excluded) == 0 {
		return splits, err
	}
	for key := range excluded {
		if !named[key] {
			return nil, fmt.Errorf("an entry excludes %.200q, which is not a shard: to exclude samples, use millrace quarantine; to index the whole shard, use --split all, or remove the entry", key)
		}
		for _, s := range splits {
			delete(s.Keys, key)
		}
	}
	return append(splits, Shards{Excluded, excluded}), nil
}

// expandAll returns the set of names that the patterns expand to.
func expandAll(patterns []string) (map[string]bool, error) {
	all := map[string]bool{}
	for _, p := range patterns {
		names, err := expand(p)
		if err != nil {
			return nil, err
		}
		if len(all)+len(names) > maxShards {
			return nil, errMany
		}
		for _, name := range names {
			all[name] = true
		}
	}
	return all, nil
}

// expand expands braces: {000..012} into numbers, {a,b} into words.
func expand(pattern string) (names []string, err error) {
	before, rest, open := strings.Cut(pattern, "{")
	inside, after, closed := strings.Cut(rest, "}")
	if !open {
		return []string{pattern}, nil
	}
	words := strings.Split(inside, ",")
	if from, to, isRange := strings.Cut(inside, ".."); isRange {
		words, err = numbers(from, to)
	}
	if err != nil || !closed || len(words) < 2 || strings.Contains(inside, "{") {
		return nil, fmt.Errorf("braces in %.200q: use {000..012} or {a,b}", pattern)
	}
	ends, err := expand(after)
	if err != nil {
		return nil, err
	}
	if len(words)*len(ends) > maxShards {
		return nil, errMany
	}
	for _, word := range words {
		for _, end := range ends {
			names = append(names, before+word+end)
		}
	}
	return names, nil
}

// numbers returns the range of numbers, zero-padded if one of the bounds is.
func numbers(from, to string) (all []string, err error) {
	first, err := strconv.ParseUint(from, 10, 32)
	last, fault := strconv.ParseUint(to, 10, 32)
	if err := errors.Join(err, fault); err != nil {
		return nil, err
	}
	if last < first || last-first >= maxShards {
		return nil, errMany
	}
	width := 0
	if from[0] == '0' && len(from) > 1 || to[0] == '0' && len(to) > 1 {
		width = max(len(from), len(to))
	}
	for n := first; n <= last; n++ {
		all = append(all, fmt.Sprintf("%0*d", width, n))
	}
	return all, nil
}
