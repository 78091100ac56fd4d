package datapath

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/shuffle"
)

// A hot sample in one part of a mixture is counted once, even if another part makes the batch
// retry.
func TestMixture_CountsHotSamplesOnce(t *testing.T) {
	a, b := newDataset(t, 320, same(40, 3000), 10, 16<<10), newDataset(t, 321, same(40, 3000), 10, 16<<10)
	bubble.Test(t, func(t *testing.T) {
		m := newPair(t, a, b, 8<<20)
		p := m.paths[0]
		body, err := m.sources[0].Read(t.Context(), shuffle.Cursor{}, hotBatch(t, a, []uint64{1, 22, 33}, 40))
		must(t, err)
		body.Close()
		open := make(chan struct{})
		store := &keyed{RangeReader: b.store, next: func(ctx context.Context, _ string, _ int64) error {
			select {
			case <-open:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		m.sources[1].store = store
		short, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		first := b.reading(short, t, m.sources[1], []uint64{22})
		synctest.Wait()
		read := make(chan error)
		go func() {
			body, err := m.mixture.Read(t.Context(), m.at, m.chunks)
			if err == nil {
				m.right(t, body)
				var memory int64
				for _, tier := range body.Tiers {
					if tier.Tier == "memory" {
						memory = tier.Bytes
					}
				}
				if hits := p.hot.hitBytes.Load(); int64(hits) != memory {
					t.Errorf("got hits of %d bytes, and %d bytes from memory", hits, memory)
				}
				body.Close()
			}
			read <- err
		}()
		time.Sleep(2 * time.Second)
		close(open)
		<-first
		must(t, <-read)
	})
}

// nearTwo is a cluster in which gateway a owns all chunks except chunks 0 to 2, which this gateway
// owns.
type nearTwo struct{ scripted }

func (h *nearTwo) Owner(c peer.Chunk, asked ...string) string {
	if c.Number < 3 {
		return ""
	}
	return h.scripted.Owner(c, asked...)
}

// If the near part fails, the batch ends although the far part hangs. If the client leaves, the
// batch ends too.
func TestExtracts_AFailedNearPartWaitsForNoFarPart(t *testing.T) {
	d := newDatasetOf(t, gzips, 65, same(50, 10_000), 10, 1<<20) // 5 chunks
	bubble.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context, _ *scripted, _ *peer.Query, _ [][]byte, _ Instead) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		peers := &nearTwo{scripted{dataset: d, answers: map[string]answerScript{"a": hangs, "b": hangs, "c": hangs}}}
		var fail bool
		store := &keyed{RangeReader: d.store, next: func(context.Context, string, int64) error {
			if fail {
				return objstore.ErrDenied
			}
			return nil
		}}
		p := newPath(t, Config{Budget: bud(520 << 10), Peers: peers, NoPrefetch: true})
		s := p.Open(d.index, store, "set/")
		s.Share("set")
		chunks := d.ranges(t, []uint64{5, 15, 25, 35})
		fail = true
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		leaving, leave := context.WithCancel(ctx)
		time.AfterFunc(5*time.Second, leave)
		begun := time.Now()
		_, err := s.Read(leaving, shuffle.Cursor{}, chunks)
		t.Logf("got %v after %v", err, time.Since(begun))
		if took := time.Since(begun); took > 6*time.Second {
			t.Errorf("got %v after %v, though the store failed at once and the client left after 5 s", err, took)
		}
	})
}

// A load reaches its deadline. The batches that joined it then read the sample once for all of
// them, not once each.
func TestExtracts_JoinersOfALostLoadReadOnce(t *testing.T) {
	d := newDataset(t, 3, same(40, 100<<10), 40, 4<<20)
	bubble.Test(t, func(t *testing.T) {
		s, store, release := d.held(t, sound)
		short, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		all := []<-chan result{d.reading(short, t, s, []uint64{5})}
		synctest.Wait()
		for range 8 {
			all = append(all, d.reading(t.Context(), t, s, []uint64{5}))
		}
		time.Sleep(2 * time.Second)
		release()
		for i, c := range all {
			got := <-c
			if i == 0 {
				continue
			}
			must(t, got.err)
			got.body.Close()
		}
		if n := store.counted(); n != 2 {
			t.Errorf("got %d reads of one sample, want 2", n)
		}
	})
}

// BenchmarkClaim pins 4,096 samples: new ones, or hot ones in one extract or in many.
func BenchmarkClaim(b *testing.B) {
	for name, extracts := range map[string]int{"fresh": 0, "hot, one extract": 1, "hot, 4096 extracts": 4096} {
		b.Run(name, func(b *testing.B) {
			d := newDataset(b, 3, same(4096, 256), 4096, 4<<20)
			p := newPath(b, Config{NoPrefetch: true, Budget: bud(64 << 20)})
			s := p.Open(d.index, d.store, "set/")
			defer s.Close()
			samples := make([]uint64, 4096)
			for i := range samples {
				samples[i] = uint64(i)
			}
			for n := range extracts {
				each := len(samples) / extracts
				d.keepHot(b, s, samples[n*each:][:each])
			}
			near, err := s.newBatch(d.ranges(b, samples))
			must(b, err)
			b.ReportAllocs()
			for b.Loop() {
				q := &part{source: s, request: near, near: near, ranged: near.chunks}
				must(b, claim(context.Background(), []*part{q}, manner{leases: true, joins: true}))
				q.giveBack()
			}
		})
	}
}

// keepHot stores samples as a hot extract.
func (d *dataset) keepHot(b *testing.B, s *Source, samples []uint64) {
	b.Helper()
	p := s.path
	own, ok := p.cache.TryBuffer(1 << 10 * int64(len(samples)))
	if !ok {
		b.Fatal("no room")
	}
	e := &extract{all: &p.extracts, source: s, room: newRoom(own), pins: 1, hot: true}
	for _, c := range d.ranges(b, samples) {
		for _, r := range c.Ranges {
			is := e.add(samplePlace{s, c.Chunk, r.Offset, r.Length, false}, false)
			is.Publish()
			p.extracts.samples[is.place] = is
		}
	}
	p.hot.kept, p.hot.bytes = append(p.hot.kept, e), p.hot.bytes+own.Cost()
}

// If an open body already holds most samples of a run, the run uses memory only for the others.
func TestReadAhead_CountsTheMemoryOfARun(t *testing.T) {
	d := newDataset(t, 310, same(60, 90_000), 20, 800<<10)
	bubble.Test(t, func(t *testing.T) {
		peers := &scripted{dataset: d, answers: map[string]answerScript{"a": sends}}
		p := newPath(t, Config{Budget: bud(64 << 20), Peers: peers, NoPrefetch: true})
		s := p.Open(d.index, d.store, "set/")
		s.Share("set")
		defer s.Close()
		plan := d.plan(t, shuffle.None, 0)
		open := <-d.reading(t.Context(), t, s, []uint64{4, 5, 6, 7, 8, 9, 10})
		must(t, open.err)
		at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: 4, BatchSize: 4}
		body, err := s.Read(t.Context(), at, d.ranges(t, []uint64{0, 1, 2, 3}))
		must(t, err)
		body.Close()
		synctest.Wait()
		for _, r := range p.ahead.ranks {
			for _, n := range r.Runs() {
				if n.Came.extract == nil {
					continue
				}
				if got, want := n.Came.cost, n.Came.extract.room.own.Cost(); got > want {
					t.Errorf("got a run of %d bytes that holds %d", got, want)
				}
			}
		}
		if pinned, want := p.budget.Pinned(), int64(7*90_000); pinned < want {
			t.Errorf("got %d bytes pinned in addition to an open body of %d", pinned, want)
		}
		open.body.Close()
	})
}

// Each of two gateways takes the other one for the owner of all chunks. Reads of the same samples
// end promptly, even if their queries join running loads.
func TestFleet_ViewsThatPointAtEachOther(t *testing.T) {
	d := newDataset(t, 310, same(60, 9000), 20, 80<<10)
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, d, nil, 2, Config{NoPrefetch: true}, 4<<20)
		f.members[0].lose(0)
		f.members[1].lose(1)
		begun := time.Now()
		var all []<-chan result
		for range 4 {
			for _, m := range f.members {
				all = append(all, d.reading(t.Context(), t, m.source, []uint64{1, 22, 43}))
			}
		}
		for _, c := range all {
			got := <-c
			must(t, got.err)
			got.body.Close()
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// A source is closed while only a batch that joined a load keeps that load running. The hot samples
// of the load are freed with the source.
func TestSource_CloseWhileAJoinerKeepsTheLoad(t *testing.T) {
	d := newDataset(t, 3, same(40, 60<<10), 40, 4<<20)
	bubble.Test(t, func(t *testing.T) {
		s, _, release := d.held(t, sound)
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			_, err := s.Read(ctx, shuffle.Cursor{}, hotBatch(t, d, []uint64{5, 6}, 40))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		}()
		synctest.Wait()
		joiner := d.reading(t.Context(), t, s, []uint64{6})
		synctest.Wait()
		leave()
		closed := make(chan struct{})
		go func() { s.Close(); close(closed) }()
		synctest.Wait()
		release()
		got := <-joiner
		must(t, got.err)
		got.body.Close()
		<-closed
		if n := s.path.extracted(); n != 0 || s.path.hot.held() != 0 {
			t.Errorf("got %d samples, %d bytes of hot samples", n, s.path.hot.held())
		}
	})
}

// A mixture that has the same source twice reads a sample that both parts need once. It retries if
// the load of the sample is given up.
func TestMixture_OfOneSourceTwice(t *testing.T) {
	d := newDataset(t, 3, same(40, 60<<10), 40, 4<<20)
	for _, total := range []int64{32 << 20, 300 << 10} {
		bubble.Test(t, func(t *testing.T) {
			p := newPath(t, Config{NoPrefetch: true, Budget: bud(total)})
			open := make(chan struct{})
			store := &keyed{RangeReader: d.store, next: func(ctx context.Context, _ string, _ int64) error {
				select {
				case <-open:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}}
			s := p.Open(d.index, store, "set/")
			m := Mix([]*Path{p}, []Part{{"a", s}, {"b", s}})
			chunks := d.ranges(t, []uint64{5})
			other := shifted(d.ranges(t, []uint64{5, 20}), d.index.Chunks())
			for _, c := range other {
				for i := range c.Ranges {
					c.Ranges[i].Seq++
				}
			}
			short, end := context.WithTimeout(t.Context(), time.Second)
			defer end()
			first := d.reading(short, t, s, []uint64{20})
			synctest.Wait()
			time.AfterFunc(2*time.Second, func() { close(open) })
			body, err := m.Read(t.Context(), shuffle.Cursor{}, append(chunks, other...))
			must(t, err)
			if string(body.Segments[0]) != string(body.Segments[1]) {
				t.Error("other bytes")
			}
			body.Settle()
			body.Close()
			<-first
			synctest.Wait()
			p.idle(t, "read")
		})
	}
}
