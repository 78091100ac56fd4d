package datapath

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shaped"
	"github.com/millrace-data/millrace/shuffle"
)

// unevenChunks is like oneToAShard, with chunks of different lengths, so that their streams end one
// by one, as they do on a real link. Streams of equal length would all end at the same instant of
// the fake clock. Between that end and the next start the gate is not full and counts no bytes.
// Then the order in which the goroutines run would decide which rate the climb sees.
func unevenChunks(t *testing.T, chunks int) *dataset {
	rnd := rand.New(rand.NewPCG(1, 1))
	lengths := make([]int, chunks*perChunk)
	for i := range lengths {
		lengths[i] = 16_000 + rnd.IntN(8_000)
	}
	d := newDataset(t, 60, lengths, perChunk, 1<<20)
	if got := d.index.Chunks(); got != chunks {
		t.Fatalf("got %d chunks, want %d", got, chunks)
	}
	return d
}

// If each stream has a rate of its own, the gateway opens more streams until more bring nothing. If
// all streams share a link, it opens no more than fill the link. A configured number of fetchers
// does not change.
func TestReadsSideBySideFollowTheBandwidth(t *testing.T) {
	d := unevenChunks(t, 600)
	const chunk = 80_000
	for name, c := range map[string]struct {
		total       float64 // number of streams that fill the link; 0: unlimited
		fetchers    int
		least, most int           // number of places at the end
		took        time.Duration // maximum duration of the last epoch
	}{
		"each its own":     {0, 0, 48, 160, 2500 * time.Millisecond},
		"each its own, 12": {0, 12, 12, 12, 7 * time.Second},
		"a line of 5":      {5, 0, 4, 8, 17 * time.Second},
		"a line of 20":     {20, 0, 15, 27, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				x := d.trialOf(t, 240, Config{PartSize: 2 * chunk, Fetchers: c.fetchers})
				store := shaped.New(d.store, shaped.Shape{Stream: chunk * 5, Total: chunk * 5 * c.total, Piece: chunk / 16})
				x.source.store = store
				plan := d.plan(t, shuffle.Window, 100)
				for number := range uint64(4) {
					x.epoch(t, plan, number, 0)
				}
				begin := time.Now()
				x.epoch(t, plan, 4, 0)
				took := time.Since(begin)
				x.stop()
				places := x.path.Stats().StorePlaces
				t.Logf("%d places, an epoch in %v, %d reads at once", places, took, store.Stats().MaxInFlight)
				if places < c.least || places > c.most || took > c.took {
					t.Errorf("got %d places and an epoch in %v, want %d to %d and at most %v", places, took, c.least, c.most, c.took)
				}
			})
		})
	}
}

// A link of 100 Gbit/s carries 156 streams of 80 MB/s. With enough memory for that many chunks, the
// reads use nine tenths of it.
func TestReadsFillALineOfManyStreams(t *testing.T) {
	const chunks, chunk, streams = 4000, 8_000, 156
	rnd := rand.New(rand.NewPCG(2, 1))
	lengths := make([]int, chunks*perChunk)
	for i := range lengths {
		lengths[i] = 1_600 + rnd.IntN(800)
	}
	d := newDataset(t, 64, lengths, perChunk, 1<<20)
	bubble.Test(t, func(t *testing.T) {
		x := d.trialOf(t, 1000, Config{PartSize: chunk})
		store := shaped.New(d.store, shaped.Shape{Stream: chunk * 5, Total: chunk * 5 * streams, Piece: chunk / 8})
		x.source.store = store
		plan := d.plan(t, shuffle.Window, 100)
		x.epoch(t, plan, 0, 0)
		x.epoch(t, plan, 1, 0)
		begin := time.Now()
		x.epoch(t, plan, 2, 0)
		took := time.Since(begin)
		x.stop()
		var bytes int64
		for c := range d.index.Chunks() {
			bytes += int64(d.index.Chunk(c).Length)
		}
		if filled := float64(bytes) / (chunk * 5 * streams) / took.Seconds(); filled < 0.9 {
			t.Errorf("got %.2f of the line with %d places, want 0.9 at least", filled, x.path.Stats().StorePlaces)
		}
	})
}

// Reads that get a place at once are no reason to add places, however full the gate is.
func TestPlacesThatSuffice(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var came atomic.Int64
		g := &gate{limit: 12, idle: func() {}, climb: &climb{least: 4, most: 48, came: &came}}
		for range 100 {
			var wg sync.WaitGroup
			for range 12 {
				wg.Go(func() {
					must(t, g.enter(t.Context(), nil))
					time.Sleep(200 * time.Millisecond)
					came.Add(1000)
					g.leave(nil)
				})
			}
			wg.Wait()
		}
		if got := g.places(); got != 12 {
			t.Errorf("got %d places, want the 12 that sufficed", got)
		}
	})
}

// heldBack is a store that delays reads to enforce a limit.
type heldBack struct{ objstore.RangeReader }

func (heldBack) Paced() bool { return true }

// Reads that the store delays show neither how many concurrent reads pay nor how fast a stream is.
func TestReadsThatAreHeldBackMoveNoPlaces(t *testing.T) {
	d := oneToAShard(t, 600)
	const chunk = 80_000
	bubble.Test(t, func(t *testing.T) {
		x := d.trialOf(t, 240, Config{PartSize: 2 * chunk})
		slow := shaped.New(d.store, shaped.Shape{Stream: chunk * 5, Total: chunk * 5 * 5, Piece: chunk / 16})
		x.source = x.path.Open(d.index, heldBack{slow}, "set/")
		plan := d.plan(t, shuffle.Window, 100)
		for number := range uint64(3) {
			x.epoch(t, plan, number, 0)
		}
		x.stop()
		if places, reads := x.path.Stats().StorePlaces, x.path.rates.all.Reads; places != DefaultFetchers || reads > 0 {
			t.Errorf("got %d places and %d reads that say how fast a stream is, want the %d of the start and none", places, reads, DefaultFetchers)
		}
	})
}

// A store that throttles gets fewer reads, and more again after it has recovered. A store that is
// down or denies access does not change the limit. Each call is one store read: of several
// concurrent reads, any number may fail before the first failure cancels the others.
func TestStoreThatAsksForLess(t *testing.T) {
	d := unevenChunks(t, 600)
	bubble.Test(t, func(t *testing.T) {
		x := d.trialOf(t, 240, Config{})
		buf := make([]byte, d.index.Chunk(0).Length)
		for _, c := range []struct {
			err  error
			want int
		}{{objstore.ErrUnavailable, 12}, {objstore.ErrDenied, 12}, {objstore.ErrThrottled, 9}, {objstore.ErrTimeout, 6}, {objstore.ErrThrottled, 4}} {
			d.store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Err: c.err} })
			for range 3 {
				if err := x.source.read(t.Context(), []*portion{x.source.whole(0, buf, nil)}, int64(len(buf)), nil); !errors.Is(err, c.err) {
					t.Errorf("got %v, want %v", err, c.err)
				}
			}
			if got := x.path.gate.places(); got != c.want {
				t.Errorf("got %d places after three reads that ended with %v, want %d", got, c.err, c.want)
			}
		}
		d.store.SetFault(nil)
		x.source.store = shaped.New(d.store, shaped.Shape{Stream: 400_000, Piece: 5_000})
		// The reader needs the chunks in order, so each one is being loaded when it is
		// needed. Prefetches do not limit the reads of requests, and with four places a
		// request's read adds a quarter to the throughput.
		plan := d.plan(t, shuffle.None, 0)
		for number := range uint64(4) {
			x.epoch(t, plan, number, 0)
		}
		x.stop()
		if got := x.path.gate.places(); got < 10 {
			t.Errorf("got %d places when the store had recovered, want 10 at least", got)
		}
	})
}

// TestClimb runs the climb on known curves of throughput, with rates that vary. It checks the mean
// limit, and how often the limit still changes.
func TestClimb(t *testing.T) {
	for name, c := range map[string]struct {
		hill        func(n float64) float64
		noise       float64
		least, most int
	}{
		"a line of 5":           {func(n float64) float64 { return min(n, 5) }, 0, 5, 6},
		"a line of 5, rough":    {func(n float64) float64 { return min(n, 5) }, 0.05, 4, 18},
		"no line":               {func(n float64) float64 { return n }, 0.05, 36, 48},
		"a line of 30":          {func(n float64) float64 { return min(n, 30) }, 0.03, 24, 41},
		"worse above 16":        {func(n float64) float64 { return min(n, 32-n) }, 0.02, 12, 18},
		"nothing pays or costs": {func(float64) float64 { return 1 }, 0.05, 4, 18},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(50) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				k := &climb{least: 4, most: 48}
				limit, moves, sum := 12, 0, 0.
				const rounds = 200
				for n := range rounds {
					next := k.next(limit, c.hill(float64(limit))*(1+c.noise*rnd.NormFloat64()))
					if n >= rounds/2 {
						sum += float64(limit)
						if next != limit {
							moves++
						}
					}
					limit = next
				}
				if mean := sum * 2 / rounds; mean < float64(c.least) || mean > float64(c.most) || moves > 40 {
					t.Errorf("seed %d: got %.1f places in the mean and %d moves in the last %d rounds, want %d to %d and at most 40", seed, mean, moves, rounds/2, c.least, c.most)
				}
			}
		})
	}
}
