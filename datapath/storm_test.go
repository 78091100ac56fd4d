package datapath

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/seeds"
	"github.com/millrace-data/millrace/shuffle"
)

// Three gateways with little memory have different and changing views, and connections that fail,
// send wrong bytes and hang. Meanwhile they open and close the dataset, with a store that also
// fails, sends wrong bytes and hangs. Each read ends with the stored bytes or an error, at most a
// second after its deadline, and nothing leaks.
func TestStormBetweenGateways(t *testing.T) {
	lengths := make([]int, 240)
	for i := range lengths {
		lengths[i] = i * 53 % 1500
	}
	d := newDataset(t, 100, lengths, 60, 6<<10)
	ended := map[string]int{}
	from, to, few := seeds.Range(t, usualScenarios/20, 100_000/20)
	for seed := from; seed < to; seed++ {
		bubble.Test(t, func(t *testing.T) { d.storm(t, seed, ended) })
		if t.Failed() {
			t.Fatalf("storm %d", seed)
		}
	}
	if few {
		return
	}
	for _, kind := range []string{"bytes", "canceled", "deadline", "peer bytes", "carried", "former", "wrong bytes", "failed"} {
		if ended[kind] == 0 {
			t.Errorf("got none of %q: %v", kind, ended)
		}
	}
	t.Logf("reads ended so: %v", ended)
}

func (d *dataset) storm(t *testing.T, seed uint64, ended map[string]int) {
	rnd := rand.New(rand.NewPCG(seed, 101))
	d.store.Reset()
	d.store.SetFault(script(rnd.Uint64(), rnd.IntN(3)))
	defer d.store.SetFault(nil)
	names := []string{shuffle.None, shuffle.Window, shuffle.Slot, shuffle.Full}
	f := newFleet(t, d, d.plan(t, names[rnd.IntN(4)], 1+rnd.Uint64N(12)), 3, Config{
		Fetchers: 1 + rnd.IntN(12), PartSize: 2 << 10 << rnd.IntN(5), CheckSHA: rnd.IntN(2) == 0, NoPrefetch: rnd.IntN(2) == 0,
	}, 10<<10<<rnd.IntN(7))
	for _, m := range f.members {
		m.former = func(c peer.Chunk) string {
			if to := (m.number + 1 + c.Number) % 3; to != m.number {
				return name(to)
			}
			return ""
		}
		m.breaks(m.storms(rand.New(rand.NewPCG(rnd.Uint64(), 102))))
	}
	var mu sync.Mutex // guards ended
	var readers sync.WaitGroup
	for range 2 + rnd.IntN(6) {
		r := &simulated{rnd: rand.New(rand.NewPCG(rnd.Uint64(), 103)), data: d, plan: f.plan}
		m := f.members[rnd.IntN(3)]
		readers.Go(func() {
			for range 1 + r.rnd.IntN(4) {
				kind := r.storm(t, f, m)
				mu.Lock()
				ended[kind]++
				mu.Unlock()
			}
		})
	}
	for range rnd.IntN(3) {
		guest := rand.New(rand.NewPCG(rnd.Uint64(), 104))
		m := f.members[rnd.IntN(3)]
		readers.Go(func() { m.reopen(guest) })
	}
	readers.Wait()
	got := f.stats()
	ended["peer bytes"] += int(got.PeerBytes)
	ended["carried"] += int(got.CarriedHits)
	ended["former"] += int(got.FormerChunks)
	ended["wrong bytes"] += int(got.PeerLies)
	ended["failed"] += int(got.PeerFailed)
}

// reopen opens the dataset several times under the name that the other gateways use, and closes it.
func (m *member) reopen(rnd *rand.Rand) {
	for range 1 + rnd.IntN(4) {
		s := m.path.Open(m.fleet.index, m.fleet.store, "set/")
		s.Share("set")
		time.Sleep(time.Duration(rnd.IntN(1000)) * time.Millisecond)
		s.over()
		time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
	}
}

// storms returns the faults of the queries to one member, and changes that member's view meanwhile.
func (m *member) storms(rnd *rand.Rand) func(int, *peer.Query) (wireFault, error) {
	var mu sync.Mutex // guards rnd
	level := rnd.IntN(8)
	return func(int, *peer.Query) (wireFault, error) {
		mu.Lock()
		defer mu.Unlock()
		f := wireFault{delay: time.Duration(rnd.IntN(20)) * time.Millisecond}
		if rnd.IntN(10) >= level {
			return f, nil
		}
		n, bit := rnd.IntN(3), rnd.IntN(1<<20)
		switch rnd.IntN(6) {
		case 0:
			m.lose(n)
		case 1:
			m.find(n)
		case 2:
			return f, errWire
		case 3:
			f.delay = time.Duration(rnd.IntN(3000)) * time.Millisecond
		case 4:
			f.spoil = func(_ *peer.Query, dst [][]byte) {
				if b := dst[bit%len(dst)]; len(b) > 0 {
					b[bit%len(b)] ^= 1
				}
			}
		case 5:
			f.query = func(q *peer.Query) { q.Chunks[0].Digest[0] ^= 1 }
		}
		return f, nil
	}
}

// storm reads several batches as a rank that proceeds, or lets one gateway pull from another, and
// returns the kind of result.
func (r *simulated) storm(t *testing.T, f *fleet, m *member) string {
	limit := time.Duration(1+r.rnd.IntN(5000)) * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if r.rnd.IntN(4) == 0 {
		defer time.AfterFunc(limit/3, cancel).Stop()
	}
	if r.rnd.IntN(8) == 0 {
		other := f.members[r.rnd.IntN(3)]
		if held := other.path.Held(); len(held) > 0 {
			m.path.Pull(ctx, name(other.number), heldOf(held))
		}
		return "pulled"
	}
	batch, world := 1+r.rnd.Uint64N(64), 1+r.rnd.Uint64N(3)
	rank := r.rnd.Uint64N(world)
	e := r.plan.Epoch(r.rnd.Uint64N(2))
	batching := shuffle.Batching{Samples: r.plan.Samples(), BatchSize: batch}
	first := r.rnd.Uint64N((r.plan.Samples() + batch - 1) / batch)
	begun := time.Now()
	for n := first; n < min(first+10, (r.plan.Samples()+batch-1)/batch); n++ {
		share := batching.Share(n, rank, world)
		at := shuffle.Cursor{
			Plan: r.plan, Epoch: e, First: n * batch, End: min((n+1)*batch, r.plan.Samples()), BatchSize: batch, Rank: rank, WorldSize: world,
		}
		chunks := r.data.ranges(t, e.Append(nil, share.First, share.First+share.Count))
		body, err := m.source.Read(ctx, at, chunks)
		if took := time.Since(begun); took > limit+time.Second {
			t.Errorf("reads with a limit of %v took %v (%v)", limit, took, err)
		}
		if err != nil {
			return readEnd(ctx, t, err)
		}
		time.Sleep(time.Duration(r.rnd.IntN(100)) * time.Millisecond) // simulate a slow client, in fake time
		if err := r.data.check(chunks, body); err != nil {
			t.Error(err)
		}
		body.Close()
	}
	return "bytes"
}

// readEnd returns the kind of a read's result.
func readEnd(ctx context.Context, t *testing.T, err error) string {
	var where *chunkindex.RangeError
	switch {
	case errors.Is(err, budget.ErrTooLarge):
		return "too large"
	case errors.Is(err, budget.ErrOverloaded):
		return "overloaded"
	case errors.Is(err, context.Canceled) && ctx.Err() == context.Canceled:
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == context.DeadlineExceeded:
		return "deadline"
	case !errors.As(err, &where):
		t.Errorf("got %v, want an error of the vocabulary", err)
	case errors.Is(err, chunkindex.ErrCorrupt):
		return "corrupt"
	}
	return "store"
}
