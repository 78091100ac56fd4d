package build

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/internal/parallel"
)

const (
	runEnds  = 1 << 14  // on average, one in this number of objects ends a run
	maxAhead = 16 << 20 // maximum bytes of loose objects that are read concurrently into memory
)

// unit is a shard or a run of loose objects. A unit is scanned, stored and reused as a whole.
type unit struct{ from, to int } // range [from, to) of shards

// divide divides the shards into units. The end of a run of loose objects depends only on the key
// of the run's last object. Adding or removing an object thus affects only its own run.
func (b *builder) divide() {
	from := 0
	for i := range b.shards {
		if !b.found.Loose || endsRun(b.key(i)) || i == len(b.shards)-1 {
			b.units = append(b.units, unit{from, i + 1})
			from = i + 1
		}
	}
}

func endsRun(key string) bool { return crc32.ChecksumIEEE([]byte(key))%runEnds == 0 }

// bytes returns the total size of a unit's shards.
func (b *builder) bytes(u unit) (n int64) {
	for _, o := range b.shards[u.from:u.to] {
		n += o.Size
	}
	return n
}

// read scans the objects of a unit in order. It reads concurrently the number of objects that fit
// into memory.
func (b *builder) read(ctx context.Context, u unit, cut *cutter) error {
	for from := u.from; from < u.to; {
		to, size := from+1, b.shards[from].Size
		for to < u.to && size+b.shards[to].Size <= maxAhead {
			size += b.shards[to].Size
			to++
		}
		if err := b.readSome(ctx, u, from, to, cut); err != nil {
			return err
		}
		from = to
	}
	if err := cut.finish(); err != nil {
		return fmt.Errorf("shard %s: %w", b.shards[u.from].Key, err)
	}
	return nil
}

// readSome scans the objects [from, to) of a unit: one object of any size, or several that fit into
// memory together.
func (b *builder) readSome(ctx context.Context, u unit, from, to int, cut *cutter) error {
	if to == from+1 {
		cut.begin(from - u.from)
		return b.readShard(ctx, from, cut)
	}
	bodies := make([][]byte, to-from)
	err := parallel.Each(ctx, b.opt.Parallel, len(bodies), func(ctx context.Context, _, i int) error {
		o := b.shards[from+i]
		bodies[i] = make([]byte, o.Size)
		if err := b.store.ReadRange(ctx, o.Ref(), 0, bodies[i]); err != nil {
			return fmt.Errorf("object %s: %w", o.Key, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, body := range bodies {
		o := b.shards[from+i]
		cut.begin(from + i - u.from)
		if err := b.found.Scan(ctx, from+i, bytes.NewReader(body), cut); err != nil {
			return fmt.Errorf("object %s: %w", o.Key, err)
		}
		b.addRead(o.Size)
		b.step(chunkindex.Progress{Done: o.Size})
	}
	return nil
}
