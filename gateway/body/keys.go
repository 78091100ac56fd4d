package body

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/gateway/plans"
)

// byChunk calls visit for each chunk of some samples, with the places of its samples in the slice, in stored order.
func byChunk(samples []sample, visit func(chunk int, places []int) error) error {
	stored := make([]int, len(samples))
	for i := range stored {
		stored[i] = i
	}
	slices.SortFunc(stored, func(a, b int) int { return cmp.Compare(samples[a].number, samples[b].number) })
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

// index tells the keys and the parts of samples.
type index interface {
	plans.Places
	plans.Texts
}

// readKeys returns the keys of some samples. It reads the names of each chunk once.
func readKeys(ctx context.Context, x index, samples []sample) ([]string, error) {
	keys := make([]string, len(samples))
	err := byChunk(samples, func(chunk int, places []int) error {
		names, err := x.Names(ctx, chunk)
		if err != nil {
			return fmt.Errorf("keys of chunk %d: %w", chunk, err)
		}
		first := x.First()[chunk]
		for _, at := range places {
			keys[at] = strings.Clone(names.Key(int(samples[at].number - first)))
		}
		return nil
	})
	return keys, err
}

// readParts returns the parts of some samples: those that fields names, in its order, or all in stored order. A sample
// may lack a part. Of two parts of one name, which no format here writes, the first counts.
func readParts(ctx context.Context, x index, samples []sample, fields []string) ([][]chunkindex.Part, error) {
	out := make([][]chunkindex.Part, len(samples))
	var all, kept []chunkindex.Part // kept holds the parts of many samples, one after the other
	err := byChunk(samples, func(chunk int, places []int) error {
		parts, err := x.Parts(ctx, chunk)
		if err != nil {
			return fmt.Errorf("parts of chunk %d: %w", chunk, err)
		}
		first := x.First()[chunk]
		for _, at := range places {
			all = parts.Append(all[:0], int(samples[at].number-first))
			from := len(kept)
			kept = appendFields(kept, all, fields)
			out[at] = kept[from:len(kept):len(kept)]
		}
		return nil
	})
	return out, err
}

// texts are the keys and the parts of some samples; nil: a form does not show them.
type texts struct {
	keys  []string
	parts [][]chunkindex.Part
}

// readTexts reads what a form shows of some samples.
func readTexts(ctx context.Context, samples []sample, a Answer) (t texts, err error) {
	keys, parts, fields := a.shows()
	if keys {
		if t.keys, err = readKeys(ctx, a.Dataset.Index, samples); err != nil {
			return t, err
		}
	}
	if parts {
		t.parts, err = readParts(ctx, a.Dataset.Index, samples, fields)
	}
	return t, err
}

// readTexts returns what a form shows of the samples of the body.
func (b *Body) readTexts(ctx context.Context, a Answer) (texts, error) {
	if b.texts != nil {
		return *b.texts, nil
	}
	return readTexts(ctx, b.samples, a)
}

// appendFields appends the parts that fields names, in its order; nil means all.
func appendFields(dst, all []chunkindex.Part, fields []string) []chunkindex.Part {
	if fields == nil {
		return append(dst, all...)
	}
	for _, name := range fields {
		if i := partNamed(all, name); i >= 0 {
			dst = append(dst, all[i])
		}
	}
	return dst
}

// partNamed returns the place of the first part of a name, -1 if there is none.
func partNamed(all []chunkindex.Part, name string) int {
	return slices.IndexFunc(all, func(p chunkindex.Part) bool { return p.Ext == name })
}
