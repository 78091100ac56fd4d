package datapath

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/shuffle"
)

// hotBatch marks the samples of a batch below limit as hot.
func hotBatch(tb testing.TB, d *dataset, samples []uint64, limit uint64) []batch.ChunkRanges {
	tb.Helper()
	chunks := d.ranges(tb, samples)
	for _, c := range chunks {
		for i := range c.Ranges {
			c.Ranges[i].Hot = samples[c.Ranges[i].Seq] < limit
		}
	}
	return chunks
}

// readHot reads a batch of an order without locality by the ranges of its samples, and compares it
// with the stored bytes. It returns the number of bytes read from the store.
func readHot(t *testing.T, p *Path, d *dataset, s *Source, samples []uint64, limit uint64) uint64 {
	t.Helper()
	plan := d.plan(t, shuffle.Full, 0)
	at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: uint64(len(samples)), BatchSize: uint64(len(samples))}
	before := p.Stats().StoreBytes
	chunks := hotBatch(t, d, samples, limit)
	body, err := s.Read(t.Context(), at, chunks)
	must(t, err)
	defer body.Close()
	must(t, d.check(chunks, body))
	return p.Stats().StoreBytes - before
}

// Samples that a plan draws often are read once, even if a batch contains them several times; other
// samples are read each time.
func TestHotSamplesAreReadOnce(t *testing.T) {
	d := newDataset(t, 1, same(1000, 3000), 1000, 64<<10)
	p := newPath(t, Config{Budget: bud(2 << 20)})
	s := p.Open(d.index, d.store, "set/")
	batch := []uint64{5, 905, 405, 5, 705, 5} // two hot samples, one of them three times
	first := readHot(t, p, d, s, batch, 500)
	if want := uint64(4 * 3584); first != want {
		t.Errorf("got %d bytes from the store for four samples, want %d", first, want)
	}
	if again, want := readHot(t, p, d, s, batch, 500), uint64(2*3584); again != want {
		t.Errorf("got %d bytes from the store for two samples that are not hot, want %d", again, want)
	}
	if st := p.Stats(); st.HotHits != 4 || st.HotHitBytes != 4*3584 || st.HotBytes == 0 {
		t.Errorf("got %d hits of %d bytes, %d held; want 4 of %d, some held", st.HotHits, st.HotHitBytes, st.HotBytes, 4*3584)
	}
}

// Hot samples stay within their share of the budget, the oldest are evicted first, and all of them
// are freed on demand.
func TestHotSamplesStayWithinTheirShare(t *testing.T) {
	d := newDataset(t, 2, same(1000, 3000), 1000, 64<<10)
	b := bud(2 << 20)
	p := newPath(t, Config{Budget: b})
	s := p.Open(d.index, d.store, "set/")
	for n := uint64(0); n < 1000; n += 10 {
		samples := []uint64{n, n + 3, n + 6, n + 9}
		readHot(t, p, d, s, samples, 1000)
		if held := p.Stats().HotBytes; held > 2<<20/hotShare {
			t.Fatalf("got %d bytes of hot samples, want at most %d", held, 2<<20/hotShare)
		}
	}
	if got := readHot(t, p, d, s, []uint64{990, 993, 996, 999}, 1000); got != 0 {
		t.Errorf("got %d bytes from the store for the newest samples, want none", got)
	}
	if got := readHot(t, p, d, s, []uint64{0, 3, 6, 9}, 1000); got == 0 {
		t.Error("the oldest samples are still there, with room for an eighth of all")
	}
	r, err := b.Reserve(t.Context(), 2<<20)
	must(t, err)
	r.Release()
	if held := p.Stats().HotBytes; held != 0 {
		t.Errorf("got %d bytes of hot samples during a reservation of everything, want none", held)
	}
}

// Hot samples without a hit for ten minutes are freed.
func TestHotSamplesGoWhenTheirJobHasEnded(t *testing.T) {
	d := newDataset(t, 3, same(1000, 3000), 1000, 64<<10)
	bubble.Test(t, func(t *testing.T) {
		p := newPath(t, Config{Budget: bud(2 << 20), NoPrefetch: true})
		s := p.Open(d.index, d.store, "set/")
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = p.Run(ctx) })
		plan := d.plan(t, shuffle.None, 0)
		for minute := range uint64(30) {
			if minute < 10 {
				readHot(t, p, d, s, []uint64{101, 301, 501, 701}, 1000)
			}
			at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), First: minute, End: minute + 1, BatchSize: 1}
			body, err := s.Read(t.Context(), at, d.ranges(t, []uint64{minute}))
			must(t, err)
			body.Close()
			time.Sleep(time.Minute)
			if held := p.Stats().HotBytes; held > 0 != (minute < 19) {
				t.Errorf("minute %d: got %d bytes held", minute, held)
			}
		}
		stop()
		run.Wait()
	})
}

// A hot sample of a chunk that another gateway holds is requested once, and both gateways hold it
// from then on.
func TestHotSamples_OfOtherGatewayAreAskedOnce(t *testing.T) {
	d := newDataset(t, 58, same(240, 900), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		d.store.Reset()
		f := newFleet(t, d, nil, 2, Config{}, 2<<20)
		m := f.members[0]
		m.lose(0)
		for n := range 3 {
			chunks := hotBatch(t, d, []uint64{3, 40, 90, 150, 200}, 100)
			body, err := m.source.Read(t.Context(), shuffle.Cursor{}, chunks)
			must(t, err)
			must(t, d.check(chunks, body))
			body.Close()
			asked := 0
			for _, c := range m.questions()[n].Chunks {
				asked += len(c.Ranges)
			}
			if want := map[bool]int{true: 5, false: 2}[n == 0]; asked != want || len(m.questions()) != n+1 {
				t.Errorf("batch %d: got %d samples asked for in %d questions, want %d in %d", n, asked, len(m.questions()), want, n+1)
			}
		}
		if got := m.path.Stats().HotHits; got != 6 {
			t.Errorf("got %d hot hits, want 6", got)
		}
	})
}

// A free slot may be larger than the limit for all hot samples. No hot samples are kept in such a
// slot.
func TestHot_LeavesASlotThatIsTooLarge(t *testing.T) {
	const count, size = 200, 100
	p := newPath(t, Config{Budget: bud(4 << 20)})
	const n = count * (size + hotCost)
	p.hot.max = chunkcache.Cost(n)
	larger, ok := p.cache.TryBuffer(n * 6 / 5)
	if !ok || larger.Cost() <= p.hot.max {
		t.Fatalf("got no slot that is larger than %d bytes", p.hot.max)
	}
	larger.Close()
	s := &Source{path: p}
	e := &extract{all: &p.extracts, source: s, room: room{bytes: make([]byte, count*size)}, pins: 1}
	for i := range uint32(count) {
		e.add(samplePlace{s, 0, i * size, size, false}, true).Publish()
	}
	if p.hot.keep(e); p.hot.held() != 0 {
		t.Errorf("got %d bytes held, want none", p.hot.held())
	}
	p.cache.Reclaim(p.budget.Total(), chunkcache.AnyDue)
	if p.hot.keep(e); p.hot.held() != p.hot.max {
		t.Errorf("got %d bytes held in a slot of its own, want %d", p.hot.held(), p.hot.max)
	}
}
