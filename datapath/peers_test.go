package datapath

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/seeds"
	"github.com/millrace-data/millrace/shuffle"
)

// slowly delays each store read, so that concurrent requests find it running.
func (d *dataset) slowly(delay time.Duration) (restore func()) {
	d.store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Delay: delay} })
	return func() { d.store.SetFault(nil) }
}

// The bytes are right for any number of gateways and any order. If all ranks read a cold epoch
// concurrently, the gateways together read each stored byte of a chunk once.
func TestAFleetReadsEachChunkOnce(t *testing.T) {
	d := newDataset(t, 60, same(480, 900), 60, 8<<10)
	for _, order := range []string{shuffle.None, shuffle.Window, shuffle.Slot, shuffle.Full} {
		for _, n := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("%s %d", order, n), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					d.store.Reset()
					defer d.slowly(20 * time.Millisecond)()
					f := newFleet(t, d, d.plan(t, order, 6), n, Config{}, 2<<20)
					f.readEpoch(t, 0, 48)
					if got, want := f.stats().StoreBytes, d.bytes(); got != want {
						t.Errorf("got %d bytes from the store, want %d: each chunk once", got, want)
					}
					if got := f.stats(); (got.PeerReads > 0) != (n > 1) || got.PeerFailed+got.PeerLies > 0 {
						t.Errorf("got %d questions, of which %d failed and %d were answered wrongly, want some and none", got.PeerReads, got.PeerFailed, got.PeerLies)
					}
				})
			})
		}
	}
}

// All members repeatedly need every chunk at the same time. Each chunk is read from the store once.
func TestAColdHerdReadsEachChunkOnce(t *testing.T) {
	d := newDataset(t, 61, same(120, 900), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		d.store.Reset()
		defer d.slowly(200 * time.Millisecond)()
		f := newFleet(t, d, d.plan(t, shuffle.Window, 4), 4, Config{}, 2<<20)
		var readers sync.WaitGroup
		for i := range 64 {
			readers.Go(func() {
				if err := f.readRank(t.Context(), t, f.members[i%4], 0, 60, 0, 1); err != nil {
					t.Error(err)
				}
			})
		}
		readers.Wait()
		if got, want := f.stats().StoreBytes, d.bytes(); got != want {
			t.Errorf("got %d bytes from the store, want %d: each chunk once", got, want)
		}
	})
}

var errWire = errors.New("the wire is cut")

// A peer may be silent or slow, reject the query, serve another generation, or send wrong bytes or
// none. The bytes of a batch are right, no read waits long, and wrong bytes are reported.
func TestPeers_FaultsChangeNoByte(t *testing.T) {
	d := newDataset(t, 63, same(240, 900), 60, 8<<10)
	flip := func(_ *peer.Query, dst [][]byte) {
		for _, b := range dst {
			if len(b) > 0 {
				b[len(b)/2] ^= 1
			}
		}
	}
	faults := map[string]struct {
		fault func(to int, q *peer.Query) (wireFault, error)
		lies  bool
	}{
		"silent":      {func(int, *peer.Query) (wireFault, error) { return wireFault{}, errWire }, false},
		"stopped":     {func(int, *peer.Query) (wireFault, error) { return wireFault{delay: time.Hour}, nil }, false},
		"wrong bytes": {func(int, *peer.Query) (wireFault, error) { return wireFault{spoil: flip}, nil }, true},
		"one wrong sample": {func(int, *peer.Query) (wireFault, error) {
			return wireFault{spoil: func(_ *peer.Query, dst [][]byte) { dst[0][0] ^= 1 }}, nil
		}, true},
		"another generation": {func(int, *peer.Query) (wireFault, error) {
			return wireFault{query: func(q *peer.Query) { q.Generation = "other" }}, nil
		}, false},
		"another chunk": {func(int, *peer.Query) (wireFault, error) {
			return wireFault{query: func(q *peer.Query) { q.Chunks[0].Digest[0] ^= 1 }}, nil
		}, false},
		"no memory": {func(int, *peer.Query) (wireFault, error) { return wireFault{}, peer.ErrNoRoom }, false},
	}
	for what, c := range faults {
		for _, total := range []int64{1 << 20, 96 << 10} {
			t.Run(fmt.Sprintf("%s %d", what, total), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					d.store.Reset()
					f := newFleet(t, d, d.plan(t, shuffle.Window, 6), 3, Config{}, total)
					for _, m := range f.members {
						m.breaks(c.fault)
					}
					var ranks sync.WaitGroup
					for r, m := range f.members {
						ranks.Go(func() {
							ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second*5)
							defer cancel()
							if err := f.readRank(ctx, t, m, 0, 48, uint64(r), 3); err != nil {
								t.Error(err)
							}
						})
					}
					ranks.Wait()
					lies := f.members[0].lies() + f.members[1].lies() + f.members[2].lies()
					if (lies > 0) != c.lies || uint64(lies) != f.stats().PeerLies {
						t.Errorf("got %d wrong answers reported and %d counted, want some: %v", lies, f.stats().PeerLies, c.lies)
					}
				})
			})
		}
	}
}

// A member that does not answer is not asked again. Its successor is asked once, and reads whole
// chunks.
func TestPeers_SuccessorIsAskedOnce(t *testing.T) {
	d := newDataset(t, 64, same(240, 900), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		d.store.Reset()
		f := newFleet(t, d, d.plan(t, shuffle.None, 0), 3, Config{NoPrefetch: true}, 1<<20)
		m := f.members[0]
		m.breaks(func(to int, _ *peer.Query) (wireFault, error) {
			if to != 1 {
				return wireFault{}, nil
			}
			m.lose(1)
			return wireFault{}, errWire
		})
		must(t, f.readRank(t.Context(), t, m, 0, 48, 0, 1))
		if got := m.path.Stats(); got.PeerFailed != 1 || got.PeerReads < 2 {
			t.Errorf("got %d questions of which %d failed, want some and 1", got.PeerReads, got.PeerFailed)
		}
		if got, want := f.stats().StoreBytes, d.bytes(); got != want {
			t.Errorf("got %d bytes from the store, want %d: each chunk once", got, want)
		}
		if got := f.members[1].path.Stats().StoreBytes; got != 0 {
			t.Errorf("the lost one read %d bytes, want 0", got)
		}
	})
}

// line returns the order of the members that own a chunk: each member owns it when those before it
// have left.
func (f *fleet) line(chunk int) (order []*member) {
	m := f.members[0]
	for range f.members {
		n := m.owner(m.source.peerChunk(chunk))
		order = append(order, f.members[n])
		m.lose(n)
	}
	for i := range f.members {
		m.find(i)
	}
	return order
}

// TestAChunkStaysWithItsOwner checks that a gateway asks the owner of a chunk only for the samples
// that it needs, and keeps no part of the chunk.
func TestAChunkStaysWithItsOwner(t *testing.T) {
	d := newDataset(t, 66, same(480, 900), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		d.store.Reset()
		f := newFleet(t, d, d.plan(t, shuffle.None, 0), 3, Config{CarryBytes: -1, NoPrefetch: true}, 2<<20)
		line := f.line(0)
		owner, m := line[0], line[2]
		chunks := d.ranges(t, []uint64{1, 2, 3})
		body, err := m.source.Read(t.Context(), shuffle.Cursor{Plan: f.plan, Epoch: f.plan.Epoch(0), End: 4, BatchSize: 4}, chunks)
		must(t, err)
		must(t, d.check(chunks, body))
		body.Close()
		if own, other := owner.path.Stats().CachedChunks, m.path.Stats().CachedChunks; own != 1 || other != 0 {
			t.Errorf("got %d chunks at the owner and %d at the gateway that asked it, want 1 and 0", own, other)
		}
	})
}

// Several owners of a chunk fail one after another. The gateway asks at most two further members.
// The last member asked, or else this gateway, reads the chunk as a whole, even if memory is short.
func TestOwnersThatAreGoneOneAfterAnother(t *testing.T) {
	d := newDataset(t, 65, same(480, 900), 60, 8<<10)
	for _, c := range []struct {
		gateways, gone int
		total          int64
		asked          int
	}{
		{gateways: 3, gone: 1, total: 2 << 20, asked: 2},
		{gateways: 4, gone: 2, total: 2 << 20, asked: 3},
		{gateways: 4, gone: 2, total: 256 << 10, asked: 3},
		{gateways: 3, gone: 2, total: 2 << 20, asked: 2},
		{gateways: 3, gone: 2, total: 256 << 10, asked: 2},
		{gateways: 5, gone: 3, total: 2 << 20, asked: mostAsked},
	} {
		bubble.Test(t, func(t *testing.T) {
			d.store.Reset()
			f := newFleet(t, d, d.plan(t, shuffle.None, 0), c.gateways, Config{CarryBytes: -1, NoPrefetch: true}, c.total)
			line := f.line(0)
			m := line[c.gateways-1]
			m.breaks(func(to int, _ *peer.Query) (wireFault, error) {
				for _, gone := range line[:c.gone] {
					if gone.number == to {
						m.lose(to)
						return wireFault{}, errWire
					}
				}
				return wireFault{}, nil
			})
			chunks := d.ranges(t, []uint64{1, 2, 3})
			body, err := m.source.Read(t.Context(), shuffle.Cursor{Plan: f.plan, Epoch: f.plan.Epoch(0), End: 4, BatchSize: 4}, chunks)
			must(t, err)
			must(t, d.check(chunks, body))
			body.Close()
			got := f.stats()
			if len(m.questions()) != c.asked || got.StoreReads != 1 || got.RangeReads != 0 {
				t.Errorf("%d of %d gone: got %d questions, %d reads of the store of which %d of samples; want %d, 1 and 0",
					c.gone, c.gateways, len(m.questions()), got.StoreReads, got.RangeReads, c.asked)
			}
		})
	}
}

// Each of two gateways takes the other one for the owner of all chunks, and has little memory. All
// readers request batches at the same time. There is no deadlock: every read ends with its bytes
// long before any timeout, or is rejected for lack of memory.
func TestPeers_MutualOwnersDoNotDeadlock(t *testing.T) {
	d := newDataset(t, 66, same(240, 900), 60, 8<<10)
	var answered uint64
	for _, total := range []int64{24 << 10, 40 << 10, 64 << 10, 256 << 10} {
		bubble.Test(t, func(t *testing.T) {
			d.store.Reset()
			defer d.slowly(5 * time.Millisecond)()
			f := newFleet(t, d, d.plan(t, shuffle.Window, 4), 2, Config{}, total)
			f.members[0].lose(0)
			f.members[1].lose(1)
			var readers sync.WaitGroup
			begun := time.Now()
			for i := range 16 {
				readers.Go(func() {
					if err := f.readRank(t.Context(), t, f.members[i%2], 0, 12, 0, 1); err != nil {
						t.Error(err)
					}
				})
			}
			readers.Wait()
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("budget %d: it took %v on the bubble's clock, want no wait for a time-out", total, took)
			}
			answered += f.stats().PeerServedReads
		})
	}
	if answered == 0 {
		t.Error("no question was answered, want some")
	}
}

// The gateways have different views, which change all the time. That costs additional reads, but no
// byte is wrong.
func TestViewsThatFlap(t *testing.T) {
	d := newDataset(t, 67, same(240, 900), 60, 8<<10)
	from, to, _ := seeds.Range(t, usualScenarios/100, 100_000/100)
	for seed := from; seed < to; seed++ {
		bubble.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 67))
			d.store.Reset()
			orders := []string{shuffle.None, shuffle.Window, shuffle.Slot, shuffle.Full}
			f := newFleet(t, d, d.plan(t, orders[rnd.IntN(4)], 1+rnd.Uint64N(8)), 3, Config{}, 48<<10<<rnd.IntN(5))
			var mu sync.Mutex // guards rnd
			for _, m := range f.members {
				m.former = func(peer.Chunk) string { return name((m.number + 1) % 3) }
				m.breaks(func(to int, _ *peer.Query) (wireFault, error) {
					mu.Lock()
					defer mu.Unlock()
					if n := rnd.IntN(3); rnd.IntN(2) == 0 {
						m.lose(n)
					} else {
						m.find(n)
					}
					if rnd.IntN(4) == 0 {
						return wireFault{}, errWire
					}
					return wireFault{delay: time.Duration(rnd.IntN(20)) * time.Millisecond}, nil
				})
			}
			f.readEpoch(t, 0, 1+rnd.Uint64N(60))
		})
	}
}

// Each gateway that warms loads only the chunks that it owns.
func TestWarm_LoadsOwnedChunks(t *testing.T) {
	d := newDataset(t, 68, same(480, 900), 60, 8<<10)
	for _, order := range []string{shuffle.Window, shuffle.Slot, shuffle.Full} {
		bubble.Test(t, func(t *testing.T) {
			d.store.Reset()
			f := newFleet(t, d, d.plan(t, order, 6), 3, Config{}, 2<<20)
			e := f.plan.Epoch(0)
			chunks := 0
			for _, m := range f.members {
				for first := uint64(0); first < f.plan.Samples(); {
					got, err := m.source.Warm(t.Context(), shuffle.Cursor{Plan: f.plan, Epoch: e, First: first, End: f.plan.Samples(), BatchSize: 48})
					must(t, err)
					first = got.Next
					chunks += got.Chunks
				}
			}
			if got := f.stats().StoreBytes; got != d.bytes() || chunks != d.index.Chunks() {
				t.Errorf("%s: got %d chunks and %d bytes from the store, want %d and %d: each once", order, chunks, got, d.index.Chunks(), d.bytes())
			}
			f.readEpoch(t, 0, 48)
			if got := f.stats().StoreBytes; got != d.bytes() {
				t.Errorf("%s: got %d bytes from the store in all, want %d", order, got, d.bytes())
			}
		})
	}
}

// Chunks in memory or on disk are served from there, regardless of their owner.
func TestPeers_NotAskedForLocalChunks(t *testing.T) {
	d := newDataset(t, 69, same(240, 900), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		d.store.Reset()
		f := newFleet(t, d, d.plan(t, shuffle.Window, 6), 2, Config{}, 2<<20)
		m := f.members[0]
		m.lose(1)
		must(t, f.readRank(t.Context(), t, m, 0, 48, 0, 1))
		m.find(1)
		must(t, f.readRank(t.Context(), t, m, 1, 48, 0, 1))
		if got := m.path.Stats(); got.PeerReads != 0 || got.StoreBytes != d.bytes() {
			t.Errorf("got %d questions and %d bytes from the store, want 0 and %d", got.PeerReads, got.StoreBytes, d.bytes())
		}
	})
}

// A sample that a batch contains several times is requested once, and the bytes of the tiers add up
// to the body.
func TestASampleIsAskedForOnce(t *testing.T) {
	d := newDataset(t, 59, same(60, 900), 60, 64<<10) // one chunk
	bubble.Test(t, func(t *testing.T) {
		d.store.Reset()
		f := newFleet(t, d, nil, 2, Config{}, 1<<20)
		m := f.members[0]
		m.lose(0)
		chunks := d.ranges(t, []uint64{5, 9, 5, 5, 9, 2})
		body, err := m.source.Read(t.Context(), shuffle.Cursor{}, chunks)
		must(t, err)
		must(t, d.check(chunks, body))
		var sum, peers int64
		for _, tier := range body.Tiers {
			sum += tier.Bytes
			if tier.Tier == "peer" {
				peers = tier.Bytes
			}
		}
		body.Close()
		sample := int64(chunks[0].Ranges[0].Length)
		if qs := m.questions(); len(qs) != 1 || len(qs[0].Chunks[0].Ranges) != 3 || sum != 6*sample || peers != 3*sample {
			t.Errorf("got %d questions, the first for %v, and tiers %+v; want one for 3 samples, and 3 of 6 from a peer", len(qs), qs[0].Chunks, body.Tiers)
		}
	})
}

// A reader that continues after a pause of days is served like any other.
func TestAReaderThatPausedForDays(t *testing.T) {
	d := newDataset(t, 57, same(240, 900), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		d.store.Reset()
		f := newFleet(t, d, d.plan(t, shuffle.Window, 6), 2, Config{}, 2<<20)
		f.read(t, f.members[0], 0)
		time.Sleep(72 * time.Hour)
		f.read(t, f.members[0], 20)
		if got := f.members[0].path.Stats(); got.PeerReads < 2 || got.PeerFailed != 0 {
			t.Errorf("got %d questions of which %d failed, want some and none", got.PeerReads, got.PeerFailed)
		}
	})
}
