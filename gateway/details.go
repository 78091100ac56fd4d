package gateway

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/millrace-data/millrace/chunkindex"
)

// byChunk calls visit for every chunk that some samples lie in, with the places of its samples, in stored order.
func byChunk(samples []placed, visit func(chunk int, places []int) error) error {
	stored := make([]int, len(samples))
	for i := range stored {
		stored[i] = i
	}
	slices.SortFunc(stored, func(a, b int) int { return cmp.Compare(samples[a].sample, samples[b].sample) })
	for len(stored) > 0 {
		chunk, n := samples[stored[0]].chunk, 1
		for n < len(stored) && samples[stored[n]].chunk == chunk {
			n++
		}
		if err := visit(int(chunk), stored[:n]); err != nil {
			return err
		}
		stored = stored[n:]
	}
	return nil
}

// readKeys returns the keys of some samples. The names of a chunk are read once, however many of its samples are among them.
func readKeys(ctx context.Context, x Index, samples []placed) ([]string, error) {
	keys := make([]string, len(samples))
	err := byChunk(samples, func(chunk int, places []int) error {
		err := x.Keys(ctx, chunk, func(sample uint64, key []byte) {
			for len(places) > 0 && samples[places[0]].sample == sample { // padding may repeat it
				keys[places[0]] = string(key)
				places = places[1:]
			}
		})
		if err != nil {
			return fmt.Errorf("keys of chunk %d: %w", chunk, err)
		}
		return nil
	})
	return keys, err
}

// readParts returns those parts of some samples that fields names, in its order, or all of them in stored order. A sample that
// has no part of a name goes without. Of two parts of one name, which no format here writes, the first counts.
func readParts(ctx context.Context, x Index, samples []placed, fields []string) ([][]chunkindex.Part, error) {
	out := make([][]chunkindex.Part, len(samples))
	err := byChunk(samples, func(chunk int, places []int) error {
		all, err := x.Parts(ctx, chunk)
		if err != nil {
			return fmt.Errorf("parts of chunk %d: %w", chunk, err)
		}
		first := x.First()[chunk]
		for _, at := range places {
			out[at] = selectParts(all[samples[at].sample-first], fields)
		}
		return nil
	})
	return out, err
}

// selectParts returns the parts that fields names, in its order; nil means all.
func selectParts(all []chunkindex.Part, fields []string) []chunkindex.Part {
	if fields == nil {
		return all
	}
	chosen := make([]chunkindex.Part, 0, min(len(all), len(fields)))
	for _, name := range fields {
		if i := partNamed(all, name); i >= 0 {
			chosen = append(chosen, all[i])
		}
	}
	return chosen
}

// partNamed returns the place of the first part of a name, -1 if there is none.
func partNamed(all []chunkindex.Part, name string) int {
	return slices.IndexFunc(all, func(p chunkindex.Part) bool { return p.Ext == name })
}
