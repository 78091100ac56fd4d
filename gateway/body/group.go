package body

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/shuffle"
)

// Group is the bodies of several batches that are measured and not sent. What the index says of a chunk is read once for
// all of them.
type Group struct {
	pool    *Pool
	bodies  []*Body
	batches []address.Batch
}

// NewGroup returns an empty group.
func (p *Pool) NewGroup() *Group { return &Group{pool: p} }

// Close gives the bodies back.
func (g *Group) Close() {
	for _, b := range g.bodies {
		g.pool.Put(b)
	}
	g.bodies = nil
}

// Add adds a batch.
func (g *Group) Add(ctx context.Context, r plans.Reading, batch address.Batch) error {
	b := g.pool.Get()
	g.bodies, g.batches = append(g.bodies, b), append(g.batches, batch)
	_, err := b.name(ctx, r, batch)
	return err
}

// Find finds the samples of all batches, and reads what the form of an answer shows of them.
func (g *Group) Find(ctx context.Context, a Answer) error {
	all, err := g.find(ctx, a.Dataset.Index)
	if err != nil {
		return err
	}
	for i, b := range g.bodies {
		n := len(b.numbers)
		b.samples, b.lengths = append(b.samples[:0], all[:n]...), b.lengths[:0]
		for _, s := range all[:n] {
			b.lengths = append(b.lengths, s.length)
		}
		all = all[n:]
		if batch := g.batches[i]; batch.Deals() {
			b.deal(batch.Rank, batch.WorldSize)
		}
	}
	if keys, parts, _ := a.shows(); !keys && !parts {
		return nil
	}
	all = all[:0]
	for _, b := range g.bodies {
		all = append(all, b.samples...)
	}
	t, err := readTexts(ctx, all, a)
	if err != nil {
		return err
	}
	for _, b := range g.bodies {
		b.texts = t.cut(len(b.samples))
	}
	return nil
}

// find returns the samples of all batches, one batch after the other. They have no slots: nothing is read of them.
func (g *Group) find(ctx context.Context, x plans.Places) ([]sample, error) {
	var all []sample
	for _, b := range g.bodies {
		for _, n := range b.numbers {
			all = append(all, sample{number: n, chunk: int32(x.ChunkOf(n))})
		}
	}
	err := byChunk(all, func(chunk int, places []int) error {
		t, err := x.Table(ctx, chunk)
		if err != nil {
			return fmt.Errorf("sample table of chunk %d: %w", chunk, err)
		}
		first := x.First()[chunk]
		for _, at := range places {
			s := &all[at]
			k := s.number - first
			s.offset, s.length, s.crc = t.Offset[k], t.Length[k], t.CRC32C[k]
		}
		return nil
	})
	return all, err
}

// cut takes the texts of the first n samples away.
func (t *texts) cut(n int) *texts {
	own := &texts{}
	if t.keys != nil {
		own.keys, t.keys = t.keys[:n:n], t.keys[n:]
	}
	if t.parts != nil {
		own.parts, t.parts = t.parts[:n:n], t.parts[n:]
	}
	return own
}

// Lay lays the body of one of the batches out, by its place in the group. The body is valid until the next one is laid out:
// they use the same memory.
func (g *Group) Lay(ctx context.Context, i int, a Answer) (*Body, error) {
	b := g.bodies[i]
	if i > 0 {
		last := g.bodies[i-1]
		b.pieces, b.text, last.pieces, last.text = last.pieces, last.text, nil, nil
	}
	return b, b.Lay(ctx, a)
}

// GroupBytes is about the memory of so many samples of a group, without that to lay one batch out.
func GroupBytes(d *plans.Dataset, v address.View, samples uint64) int64 {
	const bare, ofKey, ofParts, ofPart = 96, 48, 24, 64
	each := int64(bare)
	keys, parts, _ := Answer{Dataset: d, View: v}.shows()
	if keys {
		each += ofKey
	}
	if parts {
		const table, least = 12, 17 // bytes of an index: a sample's row, and a part at least
		each += ofParts + ofPart*max(1, (d.Index.Size()/max(1, int64(d.Index.Samples()))-table)/least)
	}
	return int64(samples) * each
}

// Processor time, as measured on a core of 2024: to read a row of a sample table, a key and a part from an index, and to
// find and lay out one sample.
const (
	rowTime  = 15 * time.Nanosecond
	keyTime  = 35 * time.Nanosecond
	partTime = 60 * time.Nanosecond
	findTime = 700 * time.Nanosecond
	showTime = 2500 * time.Nanosecond // more, with key and parts
)

// Work is about the processor time to find and lay out so many samples that follow each other in the order of a batch. Of
// each chunk that has one of them all rows are read.
func Work(d *plans.Dataset, b address.Batch, samples uint64) time.Duration {
	perRow, perSample := rowTime, findTime
	if keys, parts, _ := (Answer{Dataset: d, View: b.View}).shows(); keys || parts {
		perSample += showTime
		if keys {
			perRow += keyTime
		}
		if parts {
			perRow += partTime
		}
	}
	perChunk := d.Index.Samples() / uint64(max(1, d.Index.Chunks()))
	chunks := samples // at most: each in a chunk of its own
	switch run := samples/max(1, perChunk) + 2; b.Params.Shuffle {
	case shuffle.None:
		chunks = run
	case shuffle.Window, shuffle.Slot:
		chunks = b.Params.Window + run
	}
	chunks = min(chunks, samples, uint64(d.Index.Chunks()))
	return time.Duration(chunks*perChunk)*perRow + time.Duration(samples)*perSample
}
