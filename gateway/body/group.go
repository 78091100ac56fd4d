package body

import (
	"context"
	"fmt"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/plans"
)

// Group has the bodies of several batches that are measured but not sent. It reads the index data
// of a chunk once for all batches.
type Group struct {
	pool   *Pool
	bodies []*Body
}

// NewGroup returns an empty group.
func (p *Pool) NewGroup() *Group { return &Group{pool: p} }

// Close returns the bodies to the pool.
func (g *Group) Close() {
	for _, b := range g.bodies {
		g.pool.Put(b)
	}
	g.bodies = nil
}

// Add adds a batch.
func (g *Group) Add(ctx context.Context, r plans.BatchOrder, batch address.Batch) error {
	b := g.pool.Get()
	g.bodies = append(g.bodies, b)
	_, err := b.name(ctx, r, batch)
	return err
}

// Find locates the samples of all batches, and reads the keys and parts that the form contains.
func (g *Group) Find(ctx context.Context, a Answer) error {
	all, err := g.find(ctx, a.Dataset.Index)
	if err != nil {
		return err
	}
	for _, b := range g.bodies {
		n := len(b.numbers)
		b.samples, b.lengths = append(b.samples[:0], all[:n]...), b.lengths[:0]
		for _, s := range all[:n] {
			b.lengths = append(b.lengths, s.length)
		}
		all = all[n:]
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

// find returns the samples of all batches, concatenated. They have no slots, because their bytes
// are not read.
func (g *Group) find(ctx context.Context, x Tables) ([]sample, error) {
	var all []sample
	for _, b := range g.bodies {
		if err := fetch(ctx, x, b.numbers); err != nil {
			return nil, err
		}
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
			k := int(s.number - first)
			s.offset, s.length, s.crc = t.Offset(k), t.Length(k), t.CRC32C(k)
		}
		return nil
	})
	return all, err
}

// cut removes the texts of the first n samples and returns them.
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

// LayOut lays out the body of batch i of the group. The body is valid until the next call, which
// reuses its memory.
func (g *Group) LayOut(ctx context.Context, i int, a Answer) (*Body, error) {
	b := g.bodies[i]
	if i > 0 {
		last := g.bodies[i-1]
		b.pieces, b.text, last.pieces, last.text = last.pieces, last.text, nil, nil
	}
	return b, b.LayOut(ctx, a)
}
