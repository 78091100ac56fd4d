package datapath

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/tracing"
)

// begin leases chunks of a batch, in their order. If all are in memory it returns the leases at
// once; otherwise it returns wait, which the caller must call once.
func (s *Source) begin(ctx context.Context, b *request, which []batch.ChunkRanges) (l *chunkcache.Leases[key], wait func() (*chunkcache.Leases[key], error), err error) {
	if l, ok := s.lease(which); ok {
		if b.next != unknown {
			s.path.look()
		}
		return l, nil, nil
	}
	chunks := make([]int, len(which))
	for i, c := range which {
		chunks[i] = c.Chunk
	}
	f := &fetch{load: load{source: s}, first: b.visit != nil && b.visit.First, chunks: chunks}
	var span tracing.Span
	request := f.request()
	request.Told = func(load any) { span.Link(load.(tracing.Span)) }
	loaded, err := s.path.cache.Start(ctx, request)
	if err != nil {
		return nil, nil, err
	}
	_, span = tracing.Start(ctx, "wait for chunks")
	if b.next != unknown {
		s.path.look() // the reads that this request needs have already started
	}
	return nil, func() (*chunkcache.Leases[key], error) {
		l, err := loaded()
		span.Ended(err)
		return l, err
	}, nil
}

// lease leases chunks if all of them are in memory.
func (s *Source) lease(which []batch.ChunkRanges) (*chunkcache.Leases[key], bool) {
	return s.path.cache.Lease(s.chunks, len(which), true, func(i int) int { return which[i].Chunk })
}

// into copies samples from whole chunks if there is memory for the chunks, and loads the other
// samples by their ranges. It never waits to reserve memory.
func (l *load) into(ctx context.Context, b *request, whole, ranged []batch.ChunkRanges, samples []*sample) error {
	s := l.source
	rest, came, err := s.copyChunks(ctx, b, whole, samples)
	l.came.add(came)
	if b.next != unknown {
		s.path.look()
	}
	if rest = append(rest, ranged...); err != nil || len(rest) == 0 {
		return err
	}
	l.alone = b.visit != nil && b.visit.ownReads.Load() > 0
	return s.path.tiers.Load(ctx, l, fillsOf(rest, samples))
}

// copyChunks copies samples out of whole chunks, a few chunks at a time. It returns the chunks that
// did not fit into memory, and the number of bytes from chunks that were not in memory before.
func (s *Source) copyChunks(ctx context.Context, b *request, whole []batch.ChunkRanges, samples []*sample) (rest []batch.ChunkRanges, came tally, err error) {
	numbers := make([]int, len(whole))
	for i, c := range whole {
		numbers[i] = c.Chunk
	}
	var mu sync.Mutex // guards rest and came
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(s.path.gate.places())
	for _, side := range s.group(numbers, s.path.cfg.PartSize) {
		group := whole[:len(side)]
		whole = whole[len(side):]
		g.Go(func() error {
			missing := s.missing(group)
			l, wait, err := s.begin(ctx, b, group)
			if wait != nil {
				l, err = wait()
			}
			mu.Lock()
			switch {
			case err == nil:
				came.add(missing)
			case errors.Is(err, chunkcache.ErrNoRoom):
				rest, err = append(rest, group...), nil
			}
			mu.Unlock()
			if l == nil {
				return err
			}
			defer l.Close()
			for i, c := range group {
				for _, r := range c.Ranges {
					samples[r.Seq].take(l.Bytes(i)[r.Offset:])
				}
			}
			return nil
		})
	}
	err = g.Wait() // finish the copies before the other samples are read
	return rest, came, err
}

// tally is the number of bytes of a batch that each tier behind memory delivered.
type tally struct{ disk, peer, store int64 }

func (t *tally) add(more tally) {
	t.disk, t.peer, t.store = t.disk+more.disk, t.peer+more.peer, t.store+more.store
}

// tiers returns the number of bytes that each tier delivered, out of the batch's total. The wait is
// assigned to the last tier in the list.
func (t tally) tiers(total int64, wait time.Duration) []batch.TierTime {
	list := []batch.TierTime{{Tier: "memory", Bytes: total - t.disk - t.peer - t.store}}
	for _, tier := range []batch.TierTime{{Tier: "disk", Bytes: t.disk}, {Tier: "peer", Bytes: t.peer}, {Tier: "store", Bytes: t.store}} {
		if tier.Bytes > 0 {
			list = append(list, tier)
		}
	}
	list[len(list)-1].Wait = wait
	return list
}

// missing returns the number of needed bytes in those of the chunks that are not in memory.
func (s *Source) missing(which []batch.ChunkRanges) (n tally) {
	for _, c := range which {
		switch {
		case s.chunks.Resident(c.Chunk):
		case s.path.disk.answers(s, c.Chunk):
			n.disk += bytesOf(c)
		default:
			n.store += bytesOf(c)
		}
	}
	return n
}
