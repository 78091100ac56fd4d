package datapath

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/shuffle"
)

// carriedBytes returns the number of bytes that a gateway's read-ahead holds.
func (m *member) carriedBytes() int64 {
	synctest.Wait()
	c := m.path.ahead
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

// Read-ahead for a reader's next batches is freed when the reader has jumped, when it has ended,
// and when its memory is needed.
func TestReadAhead_FreedWithoutReader(t *testing.T) {
	d := newDataset(t, 71, same(960, 900), 60, 8<<10)
	begin := func(t *testing.T) *fleet {
		d.store.Reset()
		f := newFleet(t, d, d.plan(t, shuffle.Window, 16), 2, Config{}, 8<<20)
		f.read(t, f.members[0], 0)
		synctest.Wait()
		if got := f.members[0].carriedBytes(); got == 0 {
			t.Fatal("got nothing read ahead, want some")
		}
		return f
	}
	t.Run("jumped", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) {
			f := begin(t)
			before := f.members[0].path.Stats().PeerBytes
			f.read(t, f.members[0], 40)
			time.Sleep(time.Second) // longer than a reader is remembered after its ranks have jumped
			f.members[0].path.look()
			all, had := f.members[0].carriedBytes(), f.members[0].path.Stats().PeerBytes
			if got := f.members[0].path.Stats().CarriedHits; got != 0 || all > int64(had-before)+8*200 {
				t.Errorf("got %d hits and %d bytes kept, want none and no more than came since: %d", got, all, had-before)
			}
		})
	})
	t.Run("gone", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) {
			f := begin(t)
			time.Sleep(time.Hour)
			f.members[0].path.look()
			synctest.Wait()
			if got := f.members[0].carriedBytes(); got != 0 {
				t.Errorf("got %d bytes kept for a reader that has gone, want 0", got)
			}
		})
	})
	t.Run("left behind", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) {
			d.store.Reset()
			f := newFleet(t, d, d.plan(t, shuffle.Window, 16), 2, Config{}, 8<<20)
			m := f.members[0]
			for n := range uint64(40) {
				f.readShare(t, m, n, 0, 2)
				if n == 2 {
					f.readShare(t, m, n, 1, 2) // and from then on at another gateway
				}
			}
			m.path.look()
			m.carriedBytes()
			for _, r := range m.path.ahead.ranks {
				if r.At().Rank == 1 {
					t.Error("got a rank remembered that its reader has left behind")
				}
			}
		})
	})
	t.Run("needed", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) {
			f := begin(t)
			b := f.members[0].path.budget
			r, err := b.Reserve(t.Context(), b.Total())
			must(t, err)
			defer r.Release()
			if got := f.members[0].carriedBytes(); got != 0 {
				t.Errorf("got %d bytes kept, want 0: they are needed", got)
			}
		})
	})
}

// read reads one batch of 8 samples as the only rank.
func (f *fleet) read(t *testing.T, m *member, n uint64) {
	t.Helper()
	f.readShare(t, m, n, 0, 1)
}

// readShare reads a rank's share of a batch of 8 samples.
func (f *fleet) readShare(t *testing.T, m *member, n, rank, world uint64) {
	t.Helper()
	e := f.plan.Epoch(0)
	at := shuffle.Cursor{Plan: f.plan, Epoch: e, First: 8 * n, End: 8*n + 8, BatchSize: 8, WorldSize: world, Rank: rank}
	chunks := f.ranges(t, e.Append(nil, 8*n+8/world*rank, 8*n+8/world*(rank+1)))
	body, err := m.source.Read(t.Context(), at, chunks)
	must(t, err)
	must(t, f.check(chunks, body))
	body.Close()
}

// Read-ahead data that differs from the index is not kept, and its sender is reported.
func TestWrongSamplesAreNotKept(t *testing.T) {
	d := newDataset(t, 72, same(960, 450), 480, 32<<10)
	bubble.Test(t, func(t *testing.T) {
		d.store.Reset()
		f := newFleet(t, d, d.plan(t, shuffle.Window, 8), 2, Config{}, 8<<20)
		f.members[0].breaks(func(int, *peer.Query) (wireFault, error) {
			return wireFault{spoil: func(q *peer.Query, dst [][]byte) {
				for _, b := range dst {
					b[0] ^= 1
				}
			}}, nil
		})
		for n := range uint64(20) {
			f.read(t, f.members[0], n)
		}
		synctest.Wait() // wait for running queries
		if got := f.members[0].path.Stats(); got.PeerLies == 0 || got.PeerLies != got.PeerReads || got.CarriedHits != 0 {
			t.Errorf("got %d wrong answers to %d questions and %d samples served from read-ahead, want as many, and none",
				got.PeerLies, got.PeerReads, got.CarriedHits)
		}
	})
}

// A client may have several open requests, which arrive in any order. Batches wait for the runs
// being loaded, so no sample is requested twice.
func TestReadAhead_ParallelRequestsAskOnce(t *testing.T) {
	d := newDataset(t, 73, same(960, 450), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		d.store.Reset()
		f := newFleet(t, d, d.plan(t, shuffle.Slot, 8), 2, Config{}, 8<<20)
		m := f.members[0]
		m.breaks(func(int, *peer.Query) (wireFault, error) { return wireFault{delay: 10 * time.Millisecond}, nil })
		var want uint64
		for c := range d.index.Chunks() {
			if m.owner(m.source.peerChunk(c)) == 0 {
				continue
			}
			table, err := d.index.Table(t.Context(), c)
			must(t, err)
			for i := range table.Len() {
				want += uint64(table.Length(i))
			}
		}
		batches := make(chan uint64)
		var client sync.WaitGroup
		for range 6 {
			client.Go(func() {
				for n := range batches {
					f.read(t, m, n)
				}
			})
		}
		for n := range uint64(120) {
			batches <- n ^ 1 // swap the two batches of each pair
		}
		close(batches)
		client.Wait()
		if got := m.path.Stats(); got.PeerBytes != want || got.CarriedBytes*2 < want {
			t.Errorf("got %d bytes from peers of which %d read ahead, want %d, and half of them at least", got.PeerBytes, got.CarriedBytes, want)
		}
	})
}

// A batch requests samples itself if its run fails or is late.
func TestReadAhead_BatchReadsWithoutItsRun(t *testing.T) {
	d := newDataset(t, 74, same(960, 450), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		d.store.Reset()
		f := newFleet(t, d, d.plan(t, shuffle.Slot, 8), 2, Config{}, 8<<20)
		m := f.members[0]
		m.breaks(func(_ int, q *peer.Query) (wireFault, error) {
			// The content of a query decides whether it fails. Its number must not: a
			// failed run's batches and the next run together send nine queries, so the
			// query of every run could have the number of a failing one.
			var sum uint32
			for _, c := range q.Chunks {
				for _, r := range c.Ranges {
					sum += uint32(c.Chunk) + r.Offset>>9
				}
			}
			if sum%3 == 0 {
				return wireFault{delay: time.Millisecond}, errWire
			}
			return wireFault{delay: time.Millisecond}, nil
		})
		for n := range uint64(60) {
			f.read(t, m, n)
		}
		if got := m.path.Stats(); got.PeerFailed == 0 || got.CarriedHits == 0 {
			t.Errorf("got %d failures and %d samples read ahead, want some of both", got.PeerFailed, got.CarriedHits)
		}
	})
}

// The memory of a run is freed after the last batch that the run was for. It does not stay until
// the rank has moved far ahead.
func TestReadAhead_FreesARunWithItsLastBatch(t *testing.T) {
	d := newDataset(t, 75, same(960, 450), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		d.store.Reset()
		f := newFleet(t, d, d.plan(t, shuffle.Slot, 8), 2, Config{}, 8<<20)
		m := f.members[0]
		for n := range uint64(40) {
			f.read(t, m, n)
			m.carriedBytes()
			for _, r := range m.path.ahead.ranks {
				if got := len(r.Runs()); got > 3 {
					t.Fatalf("batch %d: got %d runs held, want those in use and the next: three at most", n, got)
				}
			}
		}
	})
}
