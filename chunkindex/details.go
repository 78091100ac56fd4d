package chunkindex

import (
	"context"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
)

// Names holds the keys of a chunk's samples in stored order.
type Names struct {
	text string // all keys, concatenated
	ends []uint32
}

// Key returns the key of sample i of the chunk. It is a substring of all the chunk's keys: clone it
// before storing it.
func (n *Names) Key(i int) string {
	begin := uint32(0)
	if i > 0 {
		begin = n.ends[i-1]
	}
	return n.text[begin:n.ends[i]]
}

// Bytes returns the memory size of the names.
func (n *Names) Bytes() int64 { return int64(len(n.text)) + int64(4*cap(n.ends)) + 128 }

// Names returns the keys of all samples of a chunk, from the cache or from the verified index.
func (x *Index) Names(ctx context.Context, chunk int) (*Names, error) {
	return detail(ctx, x, layout.SecNames, chunk, func(b []byte) (*Names, error) {
		n := uint32(x.first[chunk+1] - x.first[chunk])
		names := &Names{ends: make([]uint32, 0, n)}
		rule := x.rule(chunk)
		text := make([]byte, 0, max(len(b), int(n)*(len(rule.Stem)+10)))
		err := layout.EachKey(b, n, rule, func(_ uint32, key []byte) error {
			text = append(text, key...)
			names.ends = append(names.ends, uint32(len(text)))
			return nil
		})
		names.text = string(text)
		return names, err
	})
}

// Parts returns the parts of all samples of a chunk, from the cache or from the verified index.
func (x *Index) Parts(ctx context.Context, chunk int) (*Parts, error) {
	return detail(ctx, x, layout.SecParts, chunk, func(b []byte) (*Parts, error) {
		t, err := x.Table(ctx, chunk)
		if err != nil {
			return nil, err
		}
		return layout.DecodeParts(b, t)
	})
}

// PartNames returns the distinct part names of a chunk's samples. It bypasses the cache, so that a
// scan of all chunks does not evict entries that batches need.
func (x *Index) PartNames(ctx context.Context, chunk int) ([]string, error) {
	uncached := *x
	uncached.tables = nil
	p, err := uncached.Parts(ctx, chunk)
	if err != nil {
		return nil, err
	}
	return p.Names, nil
}

// detail returns a chunk's decoded block of one section, from the cache or from the index.
func detail[T Cached](ctx context.Context, x *Index, sec, chunk int, decode func([]byte) (T, error)) (d T, err error) {
	key := CacheKey{Section: sec, Chunk: chunk}
	if x.tables != nil {
		if kept, ok := x.tables.Get(key); ok {
			return kept.(T), nil
		}
	}
	if err := ctx.Err(); err != nil {
		return d, err
	}
	b, err := x.Block(ctx, sec, chunk)
	if err == nil {
		d, err = decode(b)
	}
	if err != nil {
		return d, fmt.Errorf("index %.12s: chunk %d: %w", x.generation, chunk, err)
	}
	if x.tables != nil {
		x.tables.Add(key, d)
	}
	return d, nil
}
