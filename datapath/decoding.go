package datapath

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/budget"
)

// decoding is memory for compressed chunks that have no room of their own. It is taken when a
// compressed dataset is opened: so a batch can always decode, and waits for no memory while it
// holds some.
type decoding struct {
	cache *chunkcache.Cache[key]
	size  atomic.Int64                 // stored and decoded bytes of the largest compressed chunk
	kept  chan *chunkcache.Buffer[key] // of that size, for one batch at a time, which waits for no memory meanwhile
}

func newDecoding(cache *chunkcache.Cache[key]) *decoding {
	d := &decoding{cache: cache, kept: make(chan *chunkcache.Buffer[key], 1)}
	d.kept <- nil
	return d
}

// grow sees to memory for the chunks of one more dataset.
func (d *decoding) grow(x *chunkindex.Index) {
	var n int64
	for i := range x.Chunks() {
		if desc := x.Chunk(i); desc.Codec != codec.None {
			n = max(n, desc.Length+desc.Stored)
		}
	}
	old := <-d.kept
	if n > d.size.Load() {
		d.size.Store(n)
		if more, ok := d.cache.TryBuffer(n); ok {
			if old != nil {
				old.Close()
			}
			old = more
		}
	}
	d.kept <- old
}

// enter returns n bytes to decode a chunk in, until leave is called: what is free now, or else what is kept, in turn.
func (d *decoding) enter(ctx context.Context, n int64) (work []byte, leave func(), err error) {
	if own, ok := d.cache.TryBuffer(n); ok {
		return own.Bytes(), own.Close, nil
	}
	select {
	case kept := <-d.kept:
		if kept == nil || int64(len(kept.Bytes())) < n { // memory was short when the dataset was opened
			d.kept <- kept
			return nil, nil, fmt.Errorf("decode a chunk of %d bytes, stored and decoded: %w", n, budget.ErrOverloaded)
		}
		return kept.Bytes()[:n], func() { d.kept <- kept }, nil
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}

// close gives the memory back.
func (d *decoding) close() {
	if kept := <-d.kept; kept != nil {
		kept.Close()
	}
	d.kept <- nil
}
