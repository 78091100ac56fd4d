package simulate

import (
	"slices"
	"sort"

	"github.com/millrace-data/millrace/shuffle"
)

// use is what a request wants of one chunk.
type use struct {
	chunk   int32
	samples int64
	places  []uint64 // the samples' numbers, ascending; nil: they are not followed one by one
}

// chunkOf returns the chunk that holds a sample.
func (d *Data) chunkOf(sample uint64) int32 {
	return int32(sort.Search(len(d.Chunks), func(i int) bool { return d.First[i+1] > sample }))
}

// usesOf sorts samples by chunk.
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

// Reads of samples' own ranges are joined as the data path does: over gaps of at most gapLimit, and while at most an eighth more is
// read than is wanted.
const gapLimit = 64 << 10

// ranges returns how the samples of a use are read by themselves: the bytes of each read.
func (d *Data) ranges(u use, part int64) []int64 {
	c := &d.Chunks[u.chunk]
	if c.Stored > 0 { // no sample of it is read by itself
		return []int64{c.Stored}
	}
	size := max(c.Length/max(d.samplesOf(u.chunk), 1), 1)
	if u.places == nil || c.Extents > 0 {
		reads := make([]int64, u.samples)
		for i := range reads {
			reads[i] = size
		}
		return reads
	}
	var reads []int64
	var wasted int64
	for i, s := range u.places {
		if i > 0 {
			gap := int64(s-u.places[i-1]-1) * size
			last := &reads[len(reads)-1]
			if gap >= 0 && gap <= gapLimit && wasted+gap <= (*last-wasted+size)/8 && *last+gap+size <= part {
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

// course is one epoch, as far as it is followed: which chunks each step of it needs.
type course struct {
	epoch   *shuffle.Epoch
	sharing shuffle.Sharing
	spans   []shuffle.Span   // where samples are not followed: all of the epoch, in the order of need
	homes   [][]shuffle.Span // those of each rank that holds them, with locality; nil: all ranks need all
	stays   bool             // what is in use stays in memory
}

// pace is where one rank stands in a course that is followed span by span.
type pace struct {
	next   int   // in spans
	active []int // in spans: those that have begun and not ended
}

// usesBetween returns what one rank of world needs between two positions, without looking at samples: an even share of
// every chunk that is in use there, or where all that is in use stays in memory, of those whose use begins there.
func (c *course) usesBetween(p *pace, lo, hi uint64, rank, world int) []use {
	spans := c.spans
	if c.homes != nil {
		spans, world = c.homes[rank], 1
	}
	for p.next < len(spans) && spans[p.next].From < hi {
		p.active = append(p.active, p.next)
		p.next++
	}
	uses := make([]use, 0, len(p.active))
	rest := p.active[:0]
	for _, i := range p.active {
		s := &spans[i]
		from, to := max(s.From, lo), min(s.To, hi)
		if c.stays {
			from, to = s.From, s.To
		}
		share := float64(s.Samples) * float64(to-from) / float64(s.To-s.From) / float64(world)
		uses = append(uses, use{chunk: int32(s.Chunk), samples: max(int64(share+.5), 1)})
		if s.To > hi && !c.stays {
			rest = append(rest, i)
		}
	}
	p.active = rest
	slices.SortFunc(uses, func(a, b use) int { return int(a.chunk - b.chunk) })
	return merge(uses)
}

// merge joins the uses of one chunk: a slot order may cut it into two pieces.
func merge(uses []use) []use {
	n := 0
	for _, u := range uses {
		if n > 0 && uses[n-1].chunk == u.chunk {
			uses[n-1].samples += u.samples
			uses[n-1].places = slices.Concat(uses[n-1].places, u.places)
			continue
		}
		uses[n] = u
		n++
	}
	return uses[:n]
}

// samples are those of one rank's share of the batch between two positions.
func (c *course) samples(lo, hi uint64, share shuffle.Share, rank, world int) []uint64 {
	if c.sharing != shuffle.Locality {
		return c.epoch.AppendShare(nil, share)
	}
	batch := shuffle.Share{First: lo, Count: hi - lo}
	all := c.epoch.AppendShare(nil, batch)
	places := c.epoch.DealHomes(batch, uint64(rank), uint64(world), uint64(world))
	samples := make([]uint64, len(places))
	for i, at := range places {
		samples[i] = all[at]
	}
	return samples
}
