package datapath

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace-data/millrace/datapath/batch"
)

// Slabs are filled to their last byte, hold each sample once, and drop the oldest samples first.
func TestHot_FillsItsSlabs(t *testing.T) {
	p := newPath(t, Config{Budget: bud(1 << 20)})
	h, s := p.hot, &Source{}
	size := int(h.slab/hotSamples - hotCost) // sixteen fill a slab
	sample := func(n int) (hotKey, []byte) { return hotKey{s, 0, uint32(n)}, bytes.Repeat([]byte{byte(n)}, size) }
	there := func(n int) bool {
		k, want := sample(n)
		got := make([]byte, size)
		ok := h.read(k, got)
		if ok && !bytes.Equal(got, want) {
			t.Errorf("sample %d: got other bytes", n)
		}
		return ok
	}
	for n := range hotSamples {
		k, b := sample(n)
		h.keep(k, b)
		h.keep(k, b)
		clear(b) // it is a copy that is kept
	}
	if len(h.slabs) != 1 || h.kept != hotSamples || h.bytes != h.slabs[0].buffer.Cost() {
		t.Fatalf("got %d slabs of %d bytes with %d samples, want one with %d", len(h.slabs), h.bytes, h.kept, hotSamples)
	}
	if h.keep(hotKey{s, 1, 0}, make([]byte, size+1)); h.read(hotKey{s, 1, 0}, make([]byte, size+1)) {
		t.Error("got a sample that is too large for a slab")
	}
	slabs := int(h.max / h.bytes)
	for n := hotSamples; n < (slabs+1)*hotSamples; n++ {
		h.keep(sample(n))
		if h.held() > h.max {
			t.Fatalf("got %d bytes held, want %d at most", h.held(), h.max)
		}
	}
	for n := range (slabs + 1) * hotSamples {
		if got := there(n); got != (n >= hotSamples) {
			t.Errorf("sample %d of %d slabs: got it there: %v", n, slabs+1, got)
		}
	}
	if hits := h.hits.Load(); hits != uint64(slabs*hotSamples) || h.hitBytes.Load() != hits*uint64(size) {
		t.Errorf("got %d hits of %d bytes, want %d of %d each", hits, h.hitBytes.Load(), slabs*hotSamples, size)
	}
	one := h.slabs[0].buffer.Cost()
	if got := h.reclaim(one + 1); got != 2*one || there(2*hotSamples) || !there(3*hotSamples) {
		t.Errorf("got %d bytes reclaimed, want those of two slabs, the oldest", got)
	}
	h.reclaim(1 << 20)
}

// A sample for which there is no memory, or that has not come, is not kept; a source that is closed takes its own samples along.
func TestHot_KeepsOnlyWhatHasCome(t *testing.T) {
	p := newPath(t, Config{Budget: bud(1 << 20)})
	h, goes, stays := p.hot, &Source{}, &Source{}
	all, err := p.budget.Reserve(t.Context(), p.budget.Total())
	must(t, err)
	h.keep(hotKey{goes, 0, 0}, []byte{1})
	if h.read(hotKey{goes, 0, 0}, make([]byte, 1)) || len(h.slabs) != 0 || h.held() != 0 {
		t.Error("got a sample kept without memory")
	}
	all.Release()
	failed := errors.New("scripted")
	wants := func(s *Source) []*fill {
		ranges := []batch.Range{{Length: 1, Hot: true}, {Seq: 1, Offset: 1, Length: 1}}
		return []*fill{{ChunkRanges: batch.ChunkRanges{Ranges: ranges}, segments: [][]byte{{7}, {8}}}}
	}
	for _, c := range []struct {
		source *Source
		err    error
		asked  int // samples that the next tier is asked for
	}{{goes, failed, 2}, {goes, nil, 2}, {goes, nil, 1}, {stays, nil, 2}} {
		next := &sampleCounter{err: c.err}
		if err := (hotTier{h, next}).Load(t.Context(), &load{source: c.source}, wants(c.source)); !errors.Is(err, c.err) || next.samples != c.asked {
			t.Errorf("got %v and %d samples asked for, want %v and %d", err, next.samples, c.err, c.asked)
		}
	}
	if h.forget(goes); h.read(hotKey{goes, 0, 0}, make([]byte, 1)) || !h.read(hotKey{stays, 0, 0}, make([]byte, 1)) || len(h.slabs) != 1 {
		t.Error("got another source's samples forgotten, or those of the closed one kept")
	}
	now := time.Now()
	h.expire(now)
	if h.expire(now.Add(hotIdle)); len(h.slabs) != 1 {
		t.Error("got samples given up too soon")
	}
	if h.expire(now.Add(hotIdle + 1)); len(h.slabs) != 0 || len(h.samples) != 0 || h.held() != 0 {
		t.Error("got samples kept that nobody asks for")
	}
}

// sampleCounter is a tier that counts the samples asked of it.
type sampleCounter struct {
	err     error
	samples int
}

func (c *sampleCounter) Load(_ context.Context, _ *load, fills []*fill) error {
	for _, x := range fills {
		c.samples += len(x.Ranges)
	}
	return c.err
}
