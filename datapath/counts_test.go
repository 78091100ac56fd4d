//go:build !race

package datapath

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

func TestFullEpochWithATenthOfTheDataInMemory(t *testing.T) {
	for _, size := range []int{300, 3000, 40000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			d := newDataset(t, 3, same(1200, size), 100, 256<<10)
			data := d.index.Bytes()
			p := newPath(t, Config{Budget: bud(data / 10)})
			d.readEpoch(t, p.Open(d.index, d.store, "set/"), d.plan(t, shuffle.Full, 0), 0, 64)
			if got, most := d.store.Stats().BytesRead, data*13/10; got > most {
				t.Errorf("got %d bytes from the store for %d of data, want at most %d", got, data, most)
			}
		})
	}
}

// A restarted process serves a whole epoch from disk, in any order, while the store is down.
func TestRestartedPathReadsTheDiskAlone(t *testing.T) {
	for name, c := range map[string]struct {
		order  string
		budget int64
		cfg    Config
	}{
		"stored order":               {shuffle.None, 2 << 20, Config{}},
		"slot":                       {shuffle.Slot, 2 << 20, Config{}},
		"window":                     {shuffle.Window, 2 << 20, Config{}},
		"window, nothing read ahead": {shuffle.Window, 2 << 20, Config{NoPrefetch: true}},
		"window, SHA-256":            {shuffle.Window, 2 << 20, Config{CheckSHA: true}},
		"full":                       {shuffle.Full, 8 << 20, Config{}},
		"full, little memory":        {shuffle.Full, 1 << 20, Config{}},
		"slot, little memory":        {shuffle.Slot, 512 << 10, Config{}},
		"window, little memory":      {shuffle.Window, 300 << 10, Config{}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDataset(t, 61, same(400, 3000), 40, 64<<10)
			dir := t.TempDir()
			plan := d.plan(t, c.order, 8)
			bubble.Test(t, func(t *testing.T) {
				cfg := c.cfg
				cfg.Budget = bud(8 << 20)
				onDisk(t, dir, 4<<20, cfg, func(p *Path) { d.readEpoch(t, d.opened(p, "here"), plan, 0, 32) })
				defer d.store.SetFault(nil)
				d.store.SetFault(down)
				cfg.Budget = bud(c.budget)
				onDisk(t, dir, 4<<20, cfg, func(p *Path) {
					s := d.opened(p, "here")
					d.readEpoch(t, s, plan, 1, 32)
					st := p.Stats()
					if st.StoreReads != 0 || st.Disk.HitBytes < uint64(d.index.Bytes())*9/10 || st.Disk.Writes != 0 {
						t.Errorf("got %d reads of the store, %d of the disk and %d writes, want 0, all chunks and 0", st.StoreReads, st.Disk.Hits, st.Disk.Writes)
					}
				})
			})
		})
	}
}

// With memory for half of the data each, two gateways hold all of it together: the second epoch
// reads nothing from the store.
func TestFleet_TwoHalvesHoldAllChunks(t *testing.T) {
	d := newDataset(t, 62, same(960, 900), 60, 8<<10)
	for _, order := range []string{shuffle.Window, shuffle.Slot} {
		bubble.Test(t, func(t *testing.T) {
			d.store.Reset()
			var cost int64
			for i := range d.index.Chunks() {
				cost += int64(float64(d.index.Chunk(i).Length) * 1.1)
			}
			f := newFleet(t, d, d.plan(t, order, 8), 2, Config{}, cost/2*100/62) // the share for prefetched chunks is a little more than half
			f.readEpoch(t, 0, 48)
			cold := f.stats().StoreBytes
			f.readEpoch(t, 1, 48)
			if got := f.stats().StoreBytes - cold; got != 0 || cold != d.bytes() {
				t.Errorf("%s: got %d bytes from the store and then %d, want %d and 0", order, cold, got, d.bytes())
			}
		})
	}
}

// With a disk for half of the data, each epoch reads the other half from the store, and chunks on
// disk are not replaced repeatedly.
func TestHalfOfTheDataOnDisk(t *testing.T) {
	d := newDataset(t, 67, same(800, 3000), 40, 32<<10) // 80 chunks
	plan := d.plan(t, shuffle.Window, 4)
	chunks := uint64(d.index.Chunks())
	size := d.index.Bytes() / 2
	bubble.Test(t, func(t *testing.T) {
		onDisk(t, t.TempDir(), size, Config{Budget: bud(1 << 20)}, func(p *Path) {
			s := d.opened(p, "here")
			d.readEpoch(t, s, plan, 0, 20)
			synctest.Wait()
			kept := p.Stats().Disk.Chunks
			var before Stats
			const epochs = 4
			for epoch := uint64(1); epoch <= epochs; epoch++ {
				before = p.Stats()
				d.readEpoch(t, s, plan, epoch, 20)
				synctest.Wait()
				after := p.Stats()
				loads := after.StoreBytes - before.StoreBytes
				if most := uint64(d.index.Bytes() * 7 / 10); loads > most {
					t.Errorf("epoch %d: got %d bytes from the store, want %d at most", epoch, loads, most)
				}
			}
			if st := p.Stats().Disk; st.Writes-uint64(kept) > epochs*chunks/4 || st.Bytes > size {
				t.Errorf("got %+v, want few of %d chunks written over others in %d epochs", st, chunks, epochs)
			}
		})
	})
}

// Jobs whose plans are too large to be followed have their chunks read whole as long as that takes
// no memory from readers: into free memory, or into the memory of chunks that no reader needs.
func TestUnfollowedReaders_UseUnneededMemory(t *testing.T) {
	d := newDataset(t, 47, same(4096, 500), 4096, 4<<10) // 1024 chunks
	for name, fill := range map[string]func(*testing.T, *Path, int64){"free": mapMemory, "cold": fillMemory} {
		t.Run(name, func(t *testing.T) {
			p := newPath(t, Config{Budget: bud(6 << 20), NoPrefetch: true})
			s := p.Open(d.index, d.store, "set/")
			s.cost = 6 << 20 // pretend that the dataset does not fit into memory
			fill(t, p, s.index.Chunk(0).Length)
			for seed := range uint64(4) {
				plan, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.Window, Window: 16, Seed: seed}, d.index.First())
				must(t, err)
				d.readPart(t, s, plan, 1024)
			}
			if got := p.Stats(); got.StoreBytes > 3<<20 || got.RangeReads > 100 {
				t.Errorf("got %d bytes in %d store reads, %d of them of single samples, for four quarters of 4 MiB; want hardly any twice",
					got.StoreBytes, got.StoreReads, got.RangeReads)
			}
		})
	}
}

// Samples that peers send ahead are served from memory, so at most a third as many queries are
// sent. No sample is sent twice or in vain.
func TestReadAhead_OneQuestionForManyBatches(t *testing.T) {
	d := newDataset(t, 70, same(1920, 450), 480, 32<<10)
	for _, order := range []string{shuffle.Window, shuffle.Slot} {
		read := func(most int64) (sum Stats) {
			bubble.Test(t, func(t *testing.T) {
				d.store.Reset()
				f := newFleet(t, d, d.plan(t, order, 16), 2, Config{CarryBytes: most}, 8<<20)
				f.readInStep(t)
				sum = f.stats()
			})
			return sum
		}
		with, without := read(0), read(-1)
		if without.CarriedHits != 0 || with.CarriedHits == 0 || with.PeerReads*3 > without.PeerReads {
			t.Errorf("%s: got %d questions with %d samples sent along, %d without any: want a third at most",
				order, with.PeerReads, with.CarriedHits, without.PeerReads)
		}
		if with.PeerBytes != without.PeerBytes {
			t.Errorf("%s: got %d bytes from peers, %d where nothing is sent along: want as many", order, with.PeerBytes, without.PeerBytes)
		}
		if with.StoreBytes != d.bytes() {
			t.Errorf("%s: got %d bytes from the store, want %d", order, with.StoreBytes, d.bytes())
		}
	}
}

// readInStep reads an epoch in batches of 8 samples, with one rank per gateway. The ranks stay in
// step, as in training: the fake clock advances only after all of them have read their shares. If a
// rank gets ahead of the others by more batches than one reader spans, the gateways forget its
// read-ahead.
func (f *fleet) readInStep(t *testing.T) {
	t.Helper()
	var ranks sync.WaitGroup
	for rank, m := range f.members {
		ranks.Go(func() {
			for n := range f.plan.Samples() / 8 {
				f.readShare(t, m, n, uint64(rank), uint64(len(f.members)))
				time.Sleep(time.Millisecond)
			}
		})
	}
	ranks.Wait()
}

// For compressed chunks, the stored bytes are read and counted once each, and the decoded bytes are
// kept in memory.
func TestCompressedChunksAreKeptDecoded(t *testing.T) {
	for _, form := range []string{gzips, zstds} {
		t.Run(form, func(t *testing.T) {
			d := newDatasetOf(t, form, 63, same(200, 1000), 20, 8<<10)
			var stored uint64
			for c := range d.index.Chunks() {
				stored += uint64(d.index.Chunk(c).Stored)
			}
			p := newPath(t, Config{Budget: bud(8 << 20), CheckSHA: true, NoPrefetch: true})
			s := p.Open(d.index, d.store, "set/")
			for range 2 {
				d.readEpoch(t, s, d.plan(t, shuffle.Slot, 8), 0, 20)
			}
			if got := p.Stats(); got.StoreBytes != stored || got.RangeReads != 0 || uint64(got.CachedBytes) < d.bytes() {
				t.Errorf("got %d bytes read, %d ranges, %d bytes kept; want %d, none, and %d at least", got.StoreBytes, got.RangeReads, got.CachedBytes, stored, d.bytes())
			}
		})
	}
}

// The dataset has one chunk per shard, so no reads are joined and the number of reads is the number
// of chunks.
func TestStoreReadsOfAnEpoch(t *testing.T) {
	const chunks, window = 512, 16
	d := newDataset(t, 2, same(chunks*4, 700), 4, 1<<20)
	if got := d.index.Chunks(); got != chunks {
		t.Fatalf("got %d chunks, want %d", got, chunks)
	}
	for _, c := range []struct {
		shuffle string
		cache   int64
		most    int
	}{
		{shuffle.Window, 600 << 10, chunks},
		{shuffle.Slot, 600 << 10, chunks + window - 1},
		{shuffle.None, 100 << 10, chunks},
		{shuffle.Window, 8 << 20, chunks},
		{shuffle.Slot, 8 << 20, chunks},
	} {
		for _, ahead := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%dKiB/ahead=%v", c.shuffle, c.cache>>10, ahead), func(t *testing.T) {
				d.store.Reset()
				p := newPath(t, Config{Budget: bud(c.cache), NoPrefetch: !ahead})
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { p.Run(ctx) })
				d.readEpoch(t, p.Open(d.index, d.store, "set/"), d.plan(t, c.shuffle, window), 0, 32)
				cancel()
				wg.Wait()
				next := 0 // reads ahead for the next epoch
				if ahead {
					next = 2 * window
				}
				if got := d.store.Stats().Requests[memstore.Read]; got < chunks || got > c.most+next {
					t.Errorf("got %d store reads, want %d to %d", got, chunks, c.most+next)
				}
			})
		}
	}
}
