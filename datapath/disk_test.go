package datapath

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/diskcache"
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// onDisk runs body with a path over a disk cache in dir, and closes both. It must be called in a
// bubble.
func onDisk(t *testing.T, dir string, size int64, cfg Config, body func(p *Path)) {
	t.Helper()
	disk, err := diskcache.Open(diskcache.Config{Dir: dir, MaxBytes: size, Datasets: []string{"here"}})
	must(t, err)
	defer disk.Close()
	cfg.Disk, cfg.Debug = disk, true
	p := New(cfg)
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = p.Run(ctx) })
	body(p)
	synctest.Wait() // wait for the queued writes
	stop()
	run.Wait()
	finish(t, p)
}

func (d *dataset) opened(p *Path, origin string) *Source {
	s := p.Open(d.index, d.store, "set/")
	s.KeepOnDisk(origin)
	return s
}

var errDown = errors.New("the store is down")

func down(memstore.Call) memstore.Fault { return memstore.Fault{Err: errDown} }

// The tiers of a body report the number of bytes from disk.
func TestBodySaysWhatCameFromDisk(t *testing.T) {
	d := newDataset(t, 62, same(40, 3000), 10, 1<<20) // 4 chunks
	dir := t.TempDir()
	plan := d.plan(t, shuffle.None, 0)
	bubble.Test(t, func(t *testing.T) {
		cfg := Config{NoPrefetch: true, Budget: bud(4 << 20)}
		read := func(s *Source, samples ...uint64) string {
			body, err := s.Read(t.Context(), shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: 40, BatchSize: 40}, d.ranges(t, samples))
			must(t, err)
			defer body.Close()
			text := ""
			for _, tier := range body.Tiers {
				if tier.Bytes > 0 {
					text += tier.Tier + " "
				}
			}
			return text
		}
		want := func(got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("tiers: got %q, want %q", got, want)
			}
		}
		onDisk(t, dir, 1<<20, cfg, func(p *Path) { want(read(d.opened(p, "here"), 0, 10), "store ") })
		cfg.Budget = bud(4 << 20)
		onDisk(t, dir, 1<<20, cfg, func(p *Path) {
			s := d.opened(p, "here")
			want(read(s, 0), "disk ")
			want(read(s, 0, 10, 20), "memory disk store ")
			want(read(s, 0, 10, 20), "memory ")
		})
	})
}

// If every file is damaged while the process is down, no wrong byte is served. The chunks are read
// from the store and written again.
func TestDamagedFilesAreReadFromTheStore(t *testing.T) {
	d := newDataset(t, 63, same(200, 3000), 40, 64<<10)
	dir := t.TempDir()
	plan := d.plan(t, shuffle.Window, 4)
	bubble.Test(t, func(t *testing.T) {
		onDisk(t, dir, 4<<20, Config{Budget: bud(4 << 20)}, func(p *Path) { d.readEpoch(t, d.opened(p, "here"), plan, 0, 20) })
		files := 0
		must(t, filepath.Walk(filepath.Join(dir, "chunks"), func(name string, info os.FileInfo, err error) error {
			if err != nil || info.IsDir() {
				return err
			}
			b, err := os.ReadFile(name)
			must(t, err)
			b[files*997%len(b)] ^= 16
			files++
			return os.WriteFile(name, b, 0o600)
		}))
		onDisk(t, dir, 4<<20, Config{Budget: bud(4 << 20)}, func(p *Path) {
			d.readEpoch(t, d.opened(p, "here"), plan, 0, 20)
			synctest.Wait()
			time.Sleep(time.Hour) // fake time: so many errors disable the disk for a while
			d.readEpoch(t, d.opened(p, "here"), plan, 1, 20)
			if s := p.Stats(); files != d.index.Chunks() || s.Disk.Corrupt == 0 || s.StoreBytes < uint64(d.index.Bytes()) {
				t.Errorf("got %+v for %d damaged files, want them found and all chunks read from the store", s, files)
			}
		})
	})
}

// Reads and writes do not fail if the disk's directory is removed while the process runs.
func TestDiskThatGoesAway(t *testing.T) {
	d := newDataset(t, 64, same(200, 3000), 40, 64<<10)
	dir := t.TempDir()
	plan := d.plan(t, shuffle.Window, 4)
	bubble.Test(t, func(t *testing.T) {
		onDisk(t, dir, 4<<20, Config{Budget: bud(512 << 10)}, func(p *Path) {
			s := d.opened(p, "here")
			d.readEpoch(t, s, plan, 0, 20)
			synctest.Wait()
			must(t, os.RemoveAll(filepath.Join(dir, "chunks")))
			must(t, os.WriteFile(filepath.Join(dir, "chunks"), nil, 0o600)) // so that the directory cannot be created again
			d.readEpoch(t, s, plan, 1, 20)
			synctest.Wait()
			if got := p.Stats().Disk; got.ReadErrors+got.WriteErrors == 0 {
				t.Errorf("got %+v, want errors", got)
			}
		})
	})
}

// Chunks of one origin are not served to readers of another origin, unless all chunks are checked
// by SHA-256.
func TestPlacesShareTheDiskOnlyWithSHA(t *testing.T) {
	d := newDataset(t, 65, same(40, 3000), 10, 1<<20)
	plan := d.plan(t, shuffle.None, 0)
	for check, want := range map[bool]uint64{false: 0, true: uint64(d.index.Chunks())} {
		dir := t.TempDir()
		bubble.Test(t, func(t *testing.T) {
			cfg := Config{CheckSHA: check, NoPrefetch: true, Budget: bud(4 << 20)}
			onDisk(t, dir, 1<<20, cfg, func(p *Path) { d.readEpoch(t, d.opened(p, "here"), plan, 0, 10) })
			cfg.Budget = bud(4 << 20)
			onDisk(t, dir, 1<<20, cfg, func(p *Path) {
				d.readEpoch(t, d.opened(p, "elsewhere"), plan, 0, 10)
				if got := p.Stats().Disk.Hits; got != want {
					t.Errorf("SHA-256 %v: got %d chunks from the other place's files, want %d", check, got, want)
				}
			})
		})
	}
}

// Files with correct checksums and wrong bytes are detected if chunks are checked by SHA-256, also
// when they are read from disk.
func TestForgedFilesAreFoundBySHA(t *testing.T) {
	d := newDataset(t, 73, same(40, 3000), 10, 1<<20)
	dir := t.TempDir()
	plan := d.plan(t, shuffle.None, 0)
	bubble.Test(t, func(t *testing.T) {
		cfg := Config{CheckSHA: true, NoPrefetch: true, Budget: bud(4 << 20)}
		onDisk(t, dir, 1<<20, cfg, func(p *Path) { d.readEpoch(t, d.opened(p, "here"), plan, 0, 10) })
		must(t, filepath.Walk(filepath.Join(dir, "chunks"), func(name string, info os.FileInfo, err error) error {
			if err != nil || info.IsDir() {
				return err
			}
			b, err := os.ReadFile(name)
			must(t, err)
			before := checksum(b)
			// Flip the bits of the generator polynomial itself, x^32 first: CRC-32C
			// cannot detect that.
			for i, bits := 0, uint64(1)<<32|0x1EDC6F41; i <= 32; i++ {
				b[100+i/8] ^= byte(bits>>(32-i)&1) << (i % 8)
			}
			if checksum(b) != before {
				t.Fatal("the forged file has another checksum")
			}
			return os.WriteFile(name, b, 0o600)
		}))
		cfg.Budget = bud(4 << 20)
		onDisk(t, dir, 1<<20, cfg, func(p *Path) {
			d.readEpoch(t, d.opened(p, "here"), plan, 0, 10)
			if got := p.Stats(); got.Disk.Corrupt != uint64(d.index.Chunks()) || got.StoreBytes != uint64(d.index.Bytes()) {
				t.Errorf("got %+v, want all files rejected and all chunks read from the store", got)
			}
		})
	})
}

// A dataset whose owner does not allow caching on disk stays off the disk.
func TestDisk_KeepsOnlyWithKeepOnDisk(t *testing.T) {
	d := newDataset(t, 66, same(40, 3000), 10, 1<<20)
	plan := d.plan(t, shuffle.None, 0)
	bubble.Test(t, func(t *testing.T) {
		onDisk(t, t.TempDir(), 1<<20, Config{Budget: bud(4 << 20)}, func(p *Path) {
			d.readEpoch(t, p.Open(d.index, d.store, "set/"), plan, 0, 10)
			synctest.Wait()
			if got := p.Stats().Disk.Writes; got != 0 {
				t.Errorf("got %d chunks written, want none", got)
			}
		})
	})
}

// Warm fills memory and then the disk, and an epoch then needs no store. If the disk is too small,
// Warm reports that it is full.
func TestWarmGoesOnToTheDisk(t *testing.T) {
	d := newDataset(t, 70, same(400, 3000), 40, 64<<10)
	plan := d.plan(t, shuffle.Window, 4)
	for size, full := range map[int64]bool{4 << 20: false, d.index.Bytes() / 4: true} {
		bubble.Test(t, func(t *testing.T) {
			onDisk(t, t.TempDir(), size, Config{Budget: bud(1 << 20)}, func(p *Path) {
				s := d.opened(p, "here")
				at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: 20, BatchSize: 20}
				d.store.Reset()
				for at.First < plan.Samples() {
					w, err := s.Warm(t.Context(), at)
					must(t, err)
					if w.Full {
						break
					}
					at.First, at.End = w.Next, min(w.Next+20, plan.Samples())
				}
				if got := at.First < plan.Samples(); got != full {
					t.Fatalf("disk of %d bytes: got full %v, want %v", size, got, full)
				}
				if full {
					return
				}
				if got := d.store.Stats().BytesRead; got != d.index.Bytes() {
					t.Errorf("got %d bytes from the store, want the %d of the dataset", got, d.index.Bytes())
				}
				defer d.store.SetFault(nil)
				d.store.SetFault(down)
				d.readEpoch(t, s, plan, 0, 20)
			})
		})
	}
}

// A chunk in memory serves its next use from there, so the disk needs the time of the use after
// that.
func TestChunkInMemoryIsReadAfterItsNextUse(t *testing.T) {
	d := newDataset(t, 71, same(40, 3000), 10, 1<<20) // 4 chunks
	plan := d.plan(t, shuffle.None, 0)
	bubble.Test(t, func(t *testing.T) {
		onDisk(t, t.TempDir(), 1<<20, Config{NoPrefetch: true, Budget: bud(4 << 20)}, func(p *Path) {
			s := d.opened(p, "here")
			if got := p.untilRead(s.ref(2)); got != diskcache.Never {
				t.Errorf("without readers: got %v, want never", got)
			}
			at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: 10, BatchSize: 10}
			body, err := s.Read(t.Context(), at, d.ranges(t, []uint64{0, 1, 2}))
			must(t, err)
			body.Close()
			if first, last := p.untilRead(s.ref(0)), p.untilRead(s.ref(3)); first <= last {
				t.Errorf("chunk 0 in memory: got %v until it is read, want more than the %v of chunk 3", first, last)
			}
			synctest.Wait() // wait until no write is running
			p.cache.Reclaim(p.budget.Total(), chunkcache.AnyDue)
			if first, second := p.untilRead(s.ref(0)), p.untilRead(s.ref(1)); first >= second {
				t.Errorf("chunk 0 not in memory: got %v until it is read, want less than the %v of chunk 1", first, second)
			}
		})
	})
}

// Chunks that are no longer read make room for chunks that are.
func TestDiskFollowsTheReaders(t *testing.T) {
	old, new := newDataset(t, 68, same(200, 3000), 40, 64<<10), newDataset(t, 69, same(200, 3000), 40, 64<<10)
	size := old.index.Bytes() * 11 / 10
	bubble.Test(t, func(t *testing.T) {
		onDisk(t, t.TempDir(), size, Config{Budget: bud(1 << 20)}, func(p *Path) {
			first, second := old.opened(p, "old"), new.opened(p, "new")
			old.readEpoch(t, first, old.plan(t, shuffle.Window, 4), 0, 20)
			synctest.Wait()
			if got := p.Stats().Disk; got.Chunks != int64(old.index.Chunks()) {
				t.Fatalf("got %+v, want the whole dataset on disk", got)
			}
			time.Sleep(time.Hour) // fake time: the reader of the old dataset has ended
			plan := new.plan(t, shuffle.Window, 4)
			new.readEpoch(t, second, plan, 0, 20)
			synctest.Wait()
			new.store.Reset()
			new.readEpoch(t, second, plan, 1, 20)
			if got, most := new.store.Stats().BytesRead, new.index.Bytes()/10; got > most {
				t.Errorf("second epoch: got %d bytes from the store, want at most %d of %d", got, most, new.index.Bytes())
			}
		})
	})
}

// TestDisk_CountsChunksEvictedBeforeTheirWrite evicts all chunks from memory while they wait to be
// written.
func TestDisk_CountsChunksEvictedBeforeTheirWrite(t *testing.T) {
	d := newDataset(t, 74, same(40, 3000), 10, 1<<20) // 4 chunks
	plan := d.plan(t, shuffle.None, 0)
	bubble.Test(t, func(t *testing.T) {
		disk, err := diskcache.Open(diskcache.Config{Dir: t.TempDir(), MaxBytes: 1 << 20, Datasets: []string{"here"}})
		must(t, err)
		defer disk.Close()
		p := newPath(t, Config{NoPrefetch: true, Budget: bud(4 << 20), Disk: disk})
		s := d.opened(p, "here")
		ctx, stop := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		write := func(when string, written, dropped uint64) {
			t.Helper()
			p.disk.run(ctx, &writers)
			synctest.Wait()
			if got := p.Stats(); got.Disk.Writes != written || got.DiskDropped != dropped {
				t.Errorf("%s: got %d chunks written and %d dropped, want %d and %d", when, got.Disk.Writes, got.DiskDropped, written, dropped)
			}
		}
		d.readEpoch(t, s, plan, 0, 10)
		p.cache.Reclaim(p.budget.Total(), chunkcache.AnyDue)
		write("evicted first", 0, 4)
		d.readEpoch(t, s, plan, 1, 10)
		write("written", 4, 4)
		p.cache.Reclaim(p.budget.Total(), chunkcache.AnyDue)
		s.keep(0)
		write("evicted, and on disk already", 4, 4)
		stop()
		writers.Wait()
		s.Close()
	})
}

// TestDisk_ReadAheadWithDamagedFileStaysAhead prefetches a chunk with a damaged file. Its store
// read still counts as a prefetch, not as a request. If requests hold all places of the store, the
// prefetch is given up.
func TestDisk_ReadAheadWithDamagedFileStaysAhead(t *testing.T) {
	d := newDataset(t, 75, same(40, 3000), 10, 1<<20) // 4 chunks
	for _, busy := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			disk, err := diskcache.Open(diskcache.Config{Dir: dir, MaxBytes: 1 << 20, Datasets: []string{"here"}})
			must(t, err)
			defer disk.Close()
			p := newPath(t, Config{NoPrefetch: true, Fetchers: 1, Budget: bud(4 << 20), Disk: disk})
			s := d.opened(p, "here")
			if !s.write(t.Context(), 0, d.packed[d.start[0]:][:d.index.Chunk(0).Length]) {
				t.Fatal("the chunk is not on disk")
			}
			files, err := filepath.Glob(filepath.Join(dir, "chunks", "*", "*"))
			must(t, err)
			must(t, os.Truncate(files[0], 10))
			d.store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Delay: time.Minute} })
			defer d.store.SetFault(nil)
			var started sync.WaitGroup
			if busy {
				started.Go(func() {
					body, err := s.Read(t.Context(), shuffle.Cursor{}, d.ranges(t, []uint64{30}))
					must(t, err)
					body.Close()
				})
				synctest.Wait()
			}
			if !p.disk.gate.enterAhead(policy.DiskReads) {
				t.Fatal("no place at the disk")
			}
			p.start(t.Context(), s, []int{0}, &p.disk.gate, &started)
			synctest.Wait()
			if busy {
				p.gate.check(t, "during a request", 1, 0, 0, 0, 0)
			} else {
				p.gate.check(t, "at the store", 0, 1, 0, 0, 0)
			}
			started.Wait()
			if p.failed.Paused(s.key(0), time.Now()) {
				t.Error("the chunk is paused")
			}
			s.Close()
		})
	}
}

// A disk that is slower than the store is bypassed, and tried again occasionally.
func TestSlowDiskIsPassedOver(t *testing.T) {
	var store rates
	var disk pace
	now := time.Unix(1000, 0)
	const n = 1 << 20
	check := func(when string, want bool) {
		t.Helper()
		if got := disk.slower(&store, chunkindex.Chunk{Length: n, Stored: n}, now); got != want {
			t.Errorf("%s: got slower %v, want %v", when, got, want)
		}
	}
	read := func(d time.Duration) {
		for range 4 * policy.RatedReads {
			disk.tried(true, n, d, now)
		}
	}
	read(time.Second)
	check("store not measured", false)
	for range policy.RatedReads {
		store.note(20*time.Millisecond, n, 80*time.Millisecond)
	}
	check("ten times slower", true)
	now = now.Add(diskProbe)
	check("not tried for a while", false)
	read(110 * time.Millisecond)
	check("slower by chance", false)
	read(150 * time.Millisecond)
	check("slower by half", true)
	read(10 * time.Millisecond)
	check("faster", false)
}

// Disk reads do not wait for store reads, and wait only a limited time for each other.
func TestDiskReadsTakeNoPlaceAtTheStore(t *testing.T) {
	d := newDataset(t, 72, same(80, 3000), 10, 1<<20) // 8 chunks
	plan := d.plan(t, shuffle.None, 0)
	bubble.Test(t, func(t *testing.T) {
		cfg := Config{NoPrefetch: true, Fetchers: 1, Budget: bud(4 << 20)}
		onDisk(t, t.TempDir(), 1<<20, cfg, func(p *Path) {
			s := d.opened(p, "here")
			read := func(samples ...uint64) {
				chunks := d.ranges(t, samples)
				body, err := s.Read(t.Context(), shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: 80, BatchSize: 80}, chunks)
				must(t, err)
				must(t, d.check(chunks, body))
				body.Close()
			}
			read(0, 10)
			synctest.Wait()
			p.cache.Reclaim(p.budget.Total(), chunkcache.AnyDue)
			defer d.store.SetFault(nil)
			d.store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Delay: time.Minute} })
			var slow sync.WaitGroup
			slow.Go(func() { read(20) })
			synctest.Wait()
			begin := time.Now()
			read(0)
			if got := time.Since(begin); got != 0 || p.Stats().Disk.Hits != 1 {
				t.Errorf("got %d reads of the disk after %v, want one at once", p.Stats().Disk.Hits, got)
			}
			for range policy.DiskReads { // all places are taken by reads that do not end
				must(t, p.disk.gate.enter(t.Context(), p.disk))
			}
			read(10)
			if got := time.Since(begin); got < diskcache.Stall || p.Stats().Disk.Hits != 1 {
				t.Errorf("got %d reads of the disk after %v, want the store asked", p.Stats().Disk.Hits, got)
			}
			for range policy.DiskReads {
				p.disk.gate.leave(p.disk)
			}
			slow.Wait()
		})
	})
}
