package body

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/gateway/plans"
)

// byChunk calls visit for each chunk of the samples, with the indexes of its samples in stored
// order.
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

// index provides the keys and parts of samples.
type index interface {
	plans.Places
	plans.Texts
}

// readKeys returns the keys of samples. It reads the names of each chunk once.
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

// part is a part of a sample: a range of its bytes, or its class in decimal digits, which is not
// stored.
type part struct {
	chunkindex.Part
	class int32
	added bool // the part is the class, located after the end of the sample
}

// text returns the class in decimal digits.
func (p part) text() string { return strconv.Itoa(int(p.class)) }

// readParts returns the parts of samples. If fields is nil it returns all parts in stored order,
// otherwise the parts in fields, in that order. A sample may lack a part. If several parts have the
// same name, which no format here writes, the first counts.
func readParts(ctx context.Context, x index, samples []sample, fields []string) ([][]part, error) {
	out := make([][]part, len(samples))
	picture := slices.IndexFunc(fields, chunkindex.IsPicture)
	var stored []chunkindex.Part
	var all, kept []part // kept holds the parts of many samples in one allocation
	err := byChunk(samples, func(chunk int, places []int) error {
		parts, err := x.Parts(ctx, chunk)
		if err != nil {
			return fmt.Errorf("parts of chunk %d: %w", chunk, err)
		}
		first := x.First()[chunk]
		for _, at := range places {
			s := &samples[at]
			stored, all = parts.Append(stored[:0], int(s.number-first)), all[:0]
			for _, p := range stored {
				all = append(all, part{Part: p})
			}
			if class, ok := x.ClassOf(s.number); ok {
				if picture >= 0 {
					renamePicture(all, fields, fields[picture])
				}
				all = append(all, classPart(class, s.length))
			}
			from := len(kept)
			kept = appendFields(kept, all, fields)
			out[at] = kept[from:len(kept):len(kept)]
		}
		return nil
	})
	return out, err
}

// renamePicture renames the picture of a sample in class folders to the picture name in fields,
// unless fields contains the picture's own name.
func renamePicture(all []part, fields []string, name string) {
	for i := range all {
		if !slices.Contains(fields, all[i].Ext) {
			all[i].Ext = name
		}
	}
}

// classPart returns the part with the class of a sample.
func classPart(class int, sample uint32) part {
	p := part{Part: chunkindex.Part{Ext: chunkindex.ClassPart, Offset: sample}, class: int32(class), added: true}
	p.Length = uint32(len(p.text()))
	return p
}

// texts are the keys and parts of samples; nil: the form does not contain them.
type texts struct {
	keys  []string
	parts [][]part
}

// readTexts reads the keys and parts of samples that a form contains.
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

// readTexts returns the keys and parts of the body's samples that a form contains.
func (b *Body) readTexts(ctx context.Context, a Answer) (texts, error) {
	if b.texts != nil {
		return *b.texts, nil
	}
	return readTexts(ctx, b.samples, a)
}

// appendFields appends the parts in fields to dst, in that order. If fields is nil it appends all
// parts.
func appendFields(dst, all []part, fields []string) []part {
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

// partNamed returns the index of the first part with a name, or -1.
func partNamed(all []part, name string) int {
	return slices.IndexFunc(all, func(p part) bool { return p.Ext == name })
}
