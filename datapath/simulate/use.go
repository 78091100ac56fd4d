package simulate

import (
	"slices"
	"sort"

	"github.com/millrace-data/millrace/datapath/policy"
)

// use describes the samples that a request needs from one chunk.
type use struct {
	chunk   int32
	samples int64
	places  []uint64 // numbers of the samples, ascending
}

// chunkOf returns the chunk that holds a sample.
func (d *Data) chunkOf(sample uint64) int32 {
	return int32(sort.Search(len(d.Chunks), func(i int) bool { return d.First[i+1] > sample }))
}

// usesOf groups samples by chunk.
func (d *Data) usesOf(samples []uint64) []use {
	slices.Sort(samples)
	var uses []use
	for begin := 0; begin < len(samples); {
		s := samples[begin]
		chunk := d.chunkOf(s)
		end := begin + 1
		for end < len(samples) && samples[end] < d.First[chunk+1] {
			end++
		}
		uses = append(uses, use{chunk, int64(end - begin), samples[begin:end]})
		begin = end
	}
	return uses
}

// ranges returns the length of each read if the samples of a use are read by their ranges, with
// close ranges joined.
func (d *Data) ranges(u use, part int64) []int64 {
	c := &d.Chunks[u.chunk]
	if c.Stored > 0 { // compressed chunks are not read in part
		return []int64{c.Stored}
	}
	size := max(c.Length/max(d.samplesOf(u.chunk), 1), 1)
	if n := d.each(); n > 1 || c.Extents > 0 {
		return slices.Repeat([]int64{max(size/n, 1)}, int(u.samples*n))
	}
	var reads []int64
	var wasted int64
	for i, s := range u.places {
		if i > 0 {
			gap := int64(s-u.places[i-1]-1) * size
			last := &reads[len(reads)-1]
			if policy.Joins(*last-wasted, wasted, gap, size, part) {
				*last += gap + size
				wasted += gap
				continue
			}
		}
		reads = append(reads, size)
		wasted = 0
	}
	return reads
}
