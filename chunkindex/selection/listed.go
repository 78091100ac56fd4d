package selection

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Names of the subsets in a split made from a list of samples.
const (
	Listed = "listed" // the samples in the list
	Rest   = "rest"   // all others
)

// maxNamed limits the keys that an error lists.
const maxNamed = 3

// listedRule returns the rule that all splits made from lists have.
func listedRule() Rule { return Rule{Parts: []Part{{Name: Listed}, {Name: Rest}}} }

// FindKeys returns the ranges of samples with the given keys, in any order, and the number of keys
// that repeat a sample. If several shards have a key, a tab and the shard must follow the key; d
// must then implement Shards. FindKeys reads the names of all samples once. For missing or
// ambiguous keys it returns ErrInvalid, with the number of these keys.
func FindKeys(ctx context.Context, d Dataset, keys []string) (runs []Places, repeated int, err error) {
	found, err := FindSamples(ctx, d, keys)
	if err != nil {
		return nil, 0, err
	}
	runs = runsOf(slices.Sorted(maps.Values(found)))
	samples := 0
	for _, r := range runs {
		samples += int(r.Last - r.First + 1)
	}
	return runs, len(keys) - samples, nil
}

// FindSamples is FindKeys that returns the number of the sample of each key.
func FindSamples(ctx context.Context, d Dataset, keys []string) (map[string]uint64, error) {
	f := finder{found: make(map[string]uint64, len(keys))}
	for _, key := range keys {
		if key == "" {
			return nil, invalid("a key is empty")
		}
		f.found[key] = noSample
		if strings.Contains(key, "\t") {
			f.shards, _ = d.(Shards)
		}
	}
	for i := range len(d.First()) - 1 {
		if err := d.Keys(ctx, i, f.visit); err != nil {
			return nil, fmt.Errorf("keys of chunk %d: %w", i, err)
		}
	}
	return f.found, f.check()
}

const noSample = ^uint64(0)

// finder finds the samples for a list of keys.
type finder struct {
	found     map[string]uint64 // sample by key, or by key, tab and shard
	shards    Shards            // nil: no listed key has a shard
	ambiguous []string
}

func (f *finder) visit(sample uint64, key []byte) {
	n, ok := f.found[string(key)]
	switch {
	case ok && n != noSample:
		f.ambiguous = append(f.ambiguous, string(key))
	case ok:
		f.found[string(key)] = sample
	}
	if f.shards == nil {
		return
	}
	if full := string(key) + "\t" + f.shards.ShardKey(sample); f.found[full] == noSample {
		f.found[full] = sample
	}
}

// check returns an error for missing or ambiguous keys.
func (f *finder) check() error {
	var missing []string
	for key, n := range f.found {
		if n == noSample {
			missing = append(missing, key)
		}
	}
	if err := wrongKeys("no sample has", missing, len(f.found)); err != nil {
		return err
	}
	return wrongKeys("add a tab and the shard after each key that several shards have:", f.ambiguous, len(f.found))
}

// runsOf returns the ranges of sorted samples.
func runsOf(numbers []uint64) (runs []Places) {
	for _, n := range numbers {
		switch last := len(runs) - 1; {
		case last >= 0 && n == runs[last].Last: // listed both with and without its shard
		case last >= 0 && n == runs[last].Last+1:
			runs[last].Last = n
		default:
			runs = append(runs, Places{n, n})
		}
	}
	return runs
}

// wrongKeys returns an error with the number of wrong keys and the first of them.
func wrongKeys(why string, keys []string, all int) error {
	if len(keys) == 0 {
		return nil
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	named := make([]string, 0, maxNamed)
	for _, key := range keys[:min(len(keys), maxNamed)] {
		named = append(named, fmt.Sprintf("%.200q", key))
	}
	more := ""
	if len(keys) > maxNamed {
		more = ", ..."
	}
	return invalid("%s %d of %d keys: %s%s", why, len(keys), all, strings.Join(named, ", "), more)
}

// KeepSubset stores a computed subset as the subset Listed of a split whose other subset is Rest.
// It does not affect the default split. If the subset has no samples, KeepSubset returns
// ErrInvalid.
func (s *Store) KeepSubset(ctx context.Context, d Dataset, members Base) (SplitResult, error) {
	m, err := s.store(ctx, &splitWriter{data: d, rule: listedRule(), members: members})
	if err != nil {
		return SplitResult{}, fmt.Errorf("store a subset: %w", err)
	}
	return m, nil
}
