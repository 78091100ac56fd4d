package datapath

import (
	"context"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/diskcache"
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/seeds"
	"github.com/millrace-data/millrace/shuffle"
)

// usualScenarios is the number of scenarios in an ordinary run: enough for every kind of event to
// happen.
const usualScenarios = 2_000

// A scenario has a store that fails in every way, a budget that is often too small, and sometimes a
// disk with damaged files. Readers of two sources begin, warm, wait, hold and end. Meanwhile other
// sources are opened, read and closed, under a fake clock. Each read must end with the stored bytes
// or an error, at most a second after its deadline, and nothing may leak.
func TestSimulatedScenarios(t *testing.T) {
	lengths := make([]int, 240)
	for i := range lengths {
		lengths[i] = i * 53 % 1500
	}
	var forms []*dataset
	for _, form := range []string{tars, tars, objects, zstds, gzips} {
		perShard := 60
		if form == gzips {
			perShard = 8 // each shard is one chunk
		}
		forms = append(forms, newDatasetOf(t, form, 10, lengths, perShard, 6<<10))
	}
	forms = append(forms, newDatasetOf(t, objects, 11, lengths, 1, 6<<10).straddling(t))
	ended := map[string]int{}
	dir := t.TempDir()
	from, to, few := seeds.Range(t, usualScenarios, 100_000)
	for seed := from; seed < to; seed++ {
		d := forms[seed%uint64(len(forms))]
		bubble.Test(t, func(t *testing.T) {
			if seed%20 < 2 {
				d.simulate(t, seed, damagedDisk(t, dir, seed), ended)
			} else {
				d.simulate(t, seed, nil, ended)
			}
		})
		if t.Failed() {
			t.Fatalf("scenario %d", seed)
		}
	}
	t.Logf("reads ended so: %v", ended)
	if few {
		return
	}
	for _, kind := range []string{"bytes", "warmed", "canceled", "deadline", "corrupt", "store", "overloaded", "too large"} {
		if ended[kind] == 0 {
			t.Errorf("no read ended with %q: %v", kind, ended)
		}
	}
	for _, kind := range []string{"hot hits", "disk hits", "disk writes", "disk evictions", "disk corrupt"} {
		if ended[kind] == 0 {
			t.Errorf("%s: got none: %v", kind, ended)
		}
	}
}

// simulate runs one scenario, with a disk if it is not nil.
func (d *dataset) simulate(t *testing.T, seed uint64, disk *diskcache.Cache, ended map[string]int) {
	rnd := rand.New(rand.NewPCG(seed, 11))
	d.store.Reset()
	d.store.SetFault(script(rnd.Uint64(), rnd.IntN(5)))
	defer d.store.SetFault(nil)
	b := budget.New(10<<10<<rnd.IntN(7), 2*time.Second)
	p := New(Config{
		Budget: b, Fetchers: 1 + rnd.IntN(12), PartSize: 2 << 10 << rnd.IntN(5),
		CheckSHA: rnd.IntN(2) == 0, NoPrefetch: rnd.IntN(2) == 0, Policy: policy.Names()[rnd.IntN(2)], Debug: true, Disk: disk,
	})
	ctx, stop := context.WithCancel(t.Context())
	var run, readers sync.WaitGroup
	run.Go(func() { _ = p.Run(ctx) })
	sources := []*Source{p.Open(d.index, d.store, "set/"), p.Open(d.index, d.store, "set/")}
	names := []string{shuffle.None, shuffle.Window, shuffle.Slot, shuffle.Full}
	var plans []*shuffle.Plan
	for _, s := range sources {
		s.KeepOnDisk("here")
		plans = append(plans, d.plan(t, names[rnd.IntN(4)], 1+rnd.Uint64N(12)))
	}
	var mu sync.Mutex // guards ended
	for range 1 + rnd.IntN(5) {
		r := &simulated{rand.New(rand.NewPCG(rnd.Uint64(), 12)), d, sources[rnd.IntN(2)], plans[rnd.IntN(2)]}
		readers.Go(func() {
			for range 1 + r.rnd.IntN(4) {
				kind := r.read(t)
				mu.Lock()
				ended[kind]++
				mu.Unlock()
			}
		})
	}
	for range rnd.IntN(3) {
		r := &simulated{rnd: rand.New(rand.NewPCG(rnd.Uint64(), 15)), data: d, plan: plans[rnd.IntN(2)]}
		readers.Go(func() { r.comeAndGo(t, p) })
	}
	readers.Wait()
	stop()
	run.Wait()
	finish(t, p)
	ended["hot hits"] += int(p.Stats().HotHits)
	if d.index.Chunk(0).Codec != codec.None && p.Stats().RangeReads > 0 {
		t.Errorf("got %d reads of samples that are compressed, want none", p.Stats().RangeReads)
	}
	if got := d.store.InFlight(); got != 0 {
		t.Errorf("left over: %d store reads, want none", got)
	}
	if disk != nil {
		got := disk.Stats()
		ended["disk hits"] += int(got.Hits)
		ended["disk writes"] += int(got.Writes)
		ended["disk evictions"] += int(got.Evictions)
		ended["disk corrupt"] += int(got.Corrupt)
		disk.Close()
	}
}

// damagedDisk flips a bit in a file of the disk that the scenarios share, and opens the disk.
func damagedDisk(t *testing.T, dir string, seed uint64) *diskcache.Cache {
	rnd := rand.New(rand.NewPCG(seed, 14))
	var files []string
	must(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if strings.Contains(name, "chunks") && !e.IsDir() {
			files = append(files, name)
		}
		return err
	}))
	if len(files) > 0 {
		name := files[rnd.IntN(len(files))]
		b, err := os.ReadFile(name)
		must(t, err)
		b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
		must(t, os.WriteFile(name, b, 0o600))
	}
	disk, err := diskcache.Open(diskcache.Config{Dir: dir, MaxBytes: 96 << 10, Datasets: []string{"here"}})
	must(t, err)
	return disk
}

// script defines the faults of a store: of ten requests level fail, each in one of many ways.
func script(seed uint64, level int) func(memstore.Call) memstore.Fault {
	var mu sync.Mutex // guards rnd
	rnd := rand.New(rand.NewPCG(seed, 13))
	return func(c memstore.Call) memstore.Fault {
		mu.Lock()
		defer mu.Unlock()
		f := memstore.Fault{Delay: time.Duration(rnd.IntN(50)) * time.Millisecond}
		if rnd.IntN(10) >= level {
			return f
		}
		vocabulary := []error{
			objstore.ErrNotFound, objstore.ErrChanged, objstore.ErrDenied, objstore.ErrThrottled,
			objstore.ErrUnavailable, objstore.ErrTimeout, objstore.ErrShort,
		}
		bit := rnd.IntN(1 << 20)
		switch rnd.IntN(5) {
		case 0:
			f.Err = vocabulary[rnd.IntN(len(vocabulary))]
		case 1:
			f.After, f.Err = rnd.Int64N(c.Length+1), vocabulary[rnd.IntN(len(vocabulary))]
		case 2:
			f.After, f.Stall = rnd.Int64N(c.Length+1), true
		case 3:
			f.Delay = time.Duration(rnd.IntN(3000)) * time.Millisecond
		case 4:
			f.Corrupt = func(b []byte) { b[bit/8%len(b)] ^= 1 << (bit % 8) }
		}
		return f
	}
}

// simulated is one reader.
type simulated struct {
	rnd  *rand.Rand
	data *dataset
	s    *Source
	plan *shuffle.Plan
}

// comeAndGo opens the dataset several times, reads it, and closes it.
func (r *simulated) comeAndGo(t *testing.T, p *Path) {
	for range 1 + r.rnd.IntN(3) {
		time.Sleep(time.Duration(r.rnd.IntN(2000)) * time.Millisecond)
		r.s = p.Open(r.data.index, r.data.store, "set/")
		if r.rnd.IntN(2) == 0 {
			r.s.KeepOnDisk("here")
		}
		for range r.rnd.IntN(4) {
			r.read(t)
		}
		r.s.over()
		for _, n := range p.cache.Names() {
			if n.Owner == r.s {
				t.Errorf("chunk %d of a source that is closed is in memory under its name", n.Chunk)
			}
		}
		for _, x := range p.Readers() {
			if x.Dataset == r.s {
				t.Error("got a reader of a source that is closed")
			}
		}
	}
}

// read reads one batch, checks it, and returns the kind of result.
func (r *simulated) read(t *testing.T) string {
	size := 1 + r.rnd.Uint64N(64)
	e := r.plan.Epoch(r.rnd.Uint64N(2))
	lo := r.rnd.Uint64N(r.plan.Samples())
	hi := min(lo+size, r.plan.Samples())
	at := shuffle.Cursor{Plan: r.plan, Epoch: e, First: lo, End: hi, BatchSize: size}
	if r.rnd.IntN(8) == 0 {
		at = shuffle.Cursor{}
	}
	chunks := hotBatch(t, r.data, e.Append(nil, lo, hi), r.plan.Samples()/4)
	limit := time.Duration(1+r.rnd.IntN(5000)) * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if r.rnd.IntN(4) == 0 {
		defer time.AfterFunc(limit/3, cancel).Stop()
	}
	start := time.Now()
	var body *batch.Body
	var err error
	warm := at.Plan != nil && r.rnd.IntN(8) == 0
	if warm {
		_, err = r.s.Warm(ctx, at)
	} else {
		body, err = r.s.Read(ctx, at, chunks)
	}
	if took := time.Since(start); took > limit+time.Second {
		t.Errorf("a read with a limit of %v took %v (%v)", limit, took, err)
	}
	if err == nil && warm {
		return "warmed"
	}
	if err == nil {
		time.Sleep(time.Duration(r.rnd.IntN(3000)) * time.Millisecond) // simulate a slow client, in fake time
		if err := r.data.check(chunks, body); err != nil {
			t.Error(err)
		}
		body.Close()
		return "bytes"
	}
	return readEnd(ctx, t, err)
}
