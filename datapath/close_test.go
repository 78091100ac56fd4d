package datapath

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/diskcache"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// reopen opens the dataset once more, with a new index and source.
func (d *dataset) reopen(tb testing.TB, p *Path) (*dataset, *Source) {
	tb.Helper()
	own := *d
	var err error
	own.index, err = chunkindex.Open(context.Background(), d.store, "set/", chunkindex.OpenOptions{Tables: p.Tables()})
	must(tb, err)
	return &own, p.Open(own.index, d.store, "set/")
}

// first returns a cursor at the first batch of an epoch.
func first(plan *shuffle.Plan, epoch, batch uint64) shuffle.Cursor {
	return shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(epoch), End: batch, BatchSize: batch}
}

// openedOnce has weak pointers to a source and its index, which must be freed after both are
// closed.
type openedOnce struct {
	source weak.Pointer[Source]
	index  weak.Pointer[chunkindex.Index]
}

// empty fails the test unless a path without sources holds no resources.
func (p *Path) empty(tb testing.TB, was ...openedOnce) {
	tb.Helper()
	counts := map[string]int64{
		"readers": int64(len(p.Readers())), "bytes of tables": p.tables.Bytes(), "bytes of hot samples": p.hot.held(),
		"chunks": p.cache.Stats().Chunks, "names of chunks": int64(len(p.cache.Names())),
		"bytes to decode in": p.decoding.size.Load(), "bytes of the budget that are not free": p.budget.InUse() - p.cache.Free(),
	}
	p.mu.Lock()
	counts["sources"] = int64(len(p.open))
	p.mu.Unlock()
	p.ahead.mu.Lock()
	counts["ranks read ahead for"], counts["bytes that runs hold"] = int64(len(p.ahead.ranks)), p.ahead.held
	p.ahead.mu.Unlock()
	counts["samples of extracts"] = p.extracted()
	for what, got := range counts {
		if got != 0 {
			tb.Errorf("all sources are closed: got %d %s, want none", got, what)
		}
	}
	for _, o := range was {
		for range 100 {
			if runtime.GC(); o.source.Value() == nil && o.index.Value() == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if s, x := o.source.Value(), o.index.Value(); s != nil || x != nil {
			tb.Errorf("got source %t and index %t in memory after they were closed, want neither", s != nil, x != nil)
		}
	}
}

// over closes a source, and replaces state that the path must not use any more, so that later use
// panics or is reported as a race.
func (s *Source) over() {
	s.Close()
	s.index, s.chunks, s.store = nil, nil, nil
}

// use opens the dataset, reads it in every way, and closes it.
func (d *dataset) use(t *testing.T, p *Path) openedOnce {
	t.Helper()
	d, s := d.reopen(t, p)
	s.KeepOnDisk("here")
	s.Share("set")
	plan := d.plan(t, shuffle.Window, 4)
	readHot(t, p, d, s, []uint64{1, 50, 99}, 1000)
	_, err := s.Warm(t.Context(), first(plan, 1, 20))
	must(t, err)
	d.readEpoch(t, s, plan, 0, 20)
	_, err = d.index.Names(t.Context(), 0)
	must(t, err)
	chunks := d.ranges(t, []uint64{3, 70})
	body, err := p.answer(t.Context(), d.query(chunks))
	must(t, err)
	must(t, d.check(chunks, body))
	body.Close()
	p.Heard("set", d.index.Generation(), first(plan, 3, 20), time.Second)
	was := openedOnce{weak.Make(s), weak.Make(d.index)}
	s.over()
	must(t, d.index.Close())
	return was
}

// alone is a cluster without other gateways.
type alone struct{ Peers }

func (alone) Owner(peer.Chunk, ...string) string { return "" }
func (alone) Former(peer.Chunk) string           { return "" }
func (alone) Share(string) float64               { return 1 }
func (alone) View() uint64                       { return 1 }

// A closed source leaves nothing behind in a path that continues, with any form of its dataset.
// Other sources keep their chunks.
func TestClose_FreesEverything(t *testing.T) {
	for _, form := range forms() {
		for _, checked := range []bool{false, true} {
			d := newDatasetOf(t, form, 200, same(100, 3000), 10, 16<<10)
			other := newDataset(t, 201, same(60, 3000), 10, 16<<10)
			disk, err := diskcache.Open(diskcache.Config{Dir: t.TempDir(), MaxBytes: 1 << 20})
			must(t, err)
			p := newPath(t, Config{Budget: bud(8 << 20), CheckSHA: checked, Disk: disk, Peers: alone{}})
			ctx, stop := context.WithCancel(t.Context())
			var run sync.WaitGroup
			run.Go(func() { _ = p.Run(ctx) })
			stays := p.Open(other.index, other.store, "set/")
			plan := other.plan(t, shuffle.None, 0)
			other.readEpoch(t, stays, plan, 0, 20)
			var was []openedOnce
			for range 3 {
				was = append(was, d.use(t, p))
			}
			before := p.Stats().StoreReads
			other.readEpoch(t, stays, plan, 0, 20)
			if got := p.Stats().StoreReads - before; got != 0 {
				t.Errorf("%s: got %d store reads for a source that stays open and was in memory, want none", form, got)
			}
			stays.Close()
			p.empty(t, was...)
			stop()
			run.Wait()
			disk.Close()
		}
	}
}

// When the older generation of a grown dataset is closed, the new generation takes over its chunks
// in memory and on disk. Chunks that only the older one has are freed.
func TestClose_HandsChunksToNextGeneration(t *testing.T) {
	old, grown := newDataset(t, 202, same(60, 3000), 20, 16<<10), newDataset(t, 202, same(80, 3000), 20, 16<<10)
	for _, checked := range []bool{false, true} {
		disk, err := diskcache.Open(diskcache.Config{Dir: t.TempDir(), MaxBytes: 4 << 20})
		must(t, err)
		p := newPath(t, Config{Budget: bud(8 << 20), CheckSHA: checked, Disk: disk})
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = p.Run(ctx) })
		before := p.Open(old.index, old.store, "set/")
		before.KeepOnDisk("here")
		old.readEpoch(t, before, old.plan(t, shuffle.None, 0), 0, 20)
		for disk.Stats().Chunks < int64(old.index.Chunks()) {
			time.Sleep(time.Millisecond)
		}
		after := p.Open(grown.index, grown.store, "set/")
		after.KeepOnDisk("here")
		before.over()
		got := map[string]int{}
		for i := range grown.index.Chunks() {
			if after.chunks.Resident(i) {
				got["in memory"]++
			}
			if disk.Disown(after.diskKey(i), after.ref(i)) {
				got["on disk"]++
			}
		}
		want := 0
		if checked {
			want = old.index.Chunks()
		}
		if got["in memory"] != want || got["on disk"] != want || p.cache.Stats().Chunks != int64(want) {
			t.Errorf("SHA-256 checked %v: got %v of the next generation and %d chunks in all, want %d", checked, got, p.cache.Stats().Chunks, want)
		}
		old.store.SetFault(down)
		grown.readEpoch(t, after, grown.plan(t, shuffle.None, 0), 0, 20)
		old.store.SetFault(nil)
		after.Close()
		p.empty(t)
		stop()
		run.Wait()
		disk.Close()
	}
}

// Close cancels the path's own work for a source and its answers to peers, and waits for nothing
// else.
func TestClose_CancelsRunningWork(t *testing.T) {
	d := newDataset(t, 203, same(400, 3000), 20, 64<<10)
	bubble.Test(t, func(t *testing.T) {
		p := newPath(t, Config{Budget: bud(8 << 20), Peers: alone{}, Fetchers: 4})
		ctx, stop := context.WithCancel(t.Context())
		var run, calls sync.WaitGroup
		run.Go(func() { _ = p.Run(ctx) })
		s := p.Open(d.index, d.store, "set/")
		s.Share("set")
		plan := d.plan(t, shuffle.None, 0)
		d.store.SetFault(func(c memstore.Call) memstore.Fault { return memstore.Fault{Stall: c.Key > "set/s00000.tar"} })
		defer d.store.SetFault(nil)
		chunks := d.ranges(t, plan.Epoch(0).Append(nil, 0, 20))
		body, err := s.Read(t.Context(), first(plan, 0, 20), chunks)
		must(t, err)
		body.Close()
		synctest.Wait()
		flights := 0
		p.flights.Range(func(any, any) bool { flights++; return true })
		if flights == 0 {
			t.Fatal("nothing is read ahead, want some reads")
		}
		calls.Go(func() {
			_, err := s.Warm(context.Background(), first(plan, 0, 20))
			if !errors.Is(err, ErrClosed) {
				t.Errorf("warm: got %v, want %v", err, ErrClosed)
			}
		})
		calls.Go(func() {
			_, err := p.answer(context.Background(), d.query(d.ranges(t, []uint64{399})))
			if !errors.Is(err, peer.ErrNotServed) {
				t.Errorf("answer: got %v, want %v", err, peer.ErrNotServed)
			}
		})
		synctest.Wait()
		if got := d.store.InFlight(); got < 4 {
			t.Fatalf("got %d hanging store reads, want those of the reader, of Warm and of the peer", got)
		}
		begun := time.Now()
		s.over()
		if took := time.Since(begun); took > 0 || d.store.InFlight() != 0 {
			t.Errorf("close took %v and left %d store reads, want no time and none", took, d.store.InFlight())
		}
		calls.Wait()
		p.empty(t)
		stop()
		run.Wait()
	})
}

// A load that another source waits for completes normally, and Close waits for it. Close also waits
// for a body that is being sent.
func TestCloseWaitsForOthers(t *testing.T) {
	d := newDataset(t, 204, same(40, 3000), 20, 64<<10)
	bubble.Test(t, func(t *testing.T) {
		d.store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Delay: time.Second} })
		defer d.store.SetFault(nil)
		p := newPath(t, Config{Budget: bud(8 << 20), CheckSHA: true, Peers: alone{}})
		a, b := p.Open(d.index, d.store, "set/"), p.Open(d.index, d.store, "set/")
		a.Share("set")
		plan := d.plan(t, shuffle.None, 0)
		chunks := d.ranges(t, plan.Epoch(0).Append(nil, 0, 20))
		var calls sync.WaitGroup
		calls.Go(func() {
			q := d.query(chunks)
			q.Reader = &peer.Reader{Params: plan.Params()}
			_, err := p.answer(context.Background(), q)
			if !errors.Is(err, peer.ErrNotServed) {
				t.Errorf("answer: got %v, want %v", err, peer.ErrNotServed)
			}
		})
		synctest.Wait()
		calls.Go(func() {
			body, err := b.Read(context.Background(), first(plan, 0, 20), chunks)
			must(t, err)
			must(t, d.check(chunks, body))
			time.Sleep(time.Minute)
			must(t, d.compare(chunks, body))
			body.Close()
		})
		synctest.Wait()
		begun := time.Now()
		a.Close()
		if took := time.Since(begun); took != time.Second {
			t.Errorf("close took %v, want 1s: until the load is there that the other source waits for", took)
		}
		if got := p.Stats().Loads; got != uint64(len(chunks)) {
			t.Errorf("got %d loads of %d chunks, want one of each", got, len(chunks))
		}
		begun = time.Now()
		b.Close()
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("close took %v, want 1m: until the body is closed", took)
		}
		calls.Wait()
		p.empty(t)
	})
}

// Failed reads do not leave a use of the source open.
func TestCloseAfterFailures(t *testing.T) {
	d := newDataset(t, 209, same(40, 3000), 20, 64<<10)
	d.store.SetFault(down)
	defer d.store.SetFault(nil)
	p := newPath(t, Config{Budget: bud(8 << 20), Peers: alone{}})
	s, other := p.Open(d.index, d.store, "set/"), p.Open(d.index, d.store, "set/")
	s.Share("set")
	chunks := d.ranges(t, []uint64{1})
	for what, read := range map[string]func() (*batch.Body, error){
		"read":   func() (*batch.Body, error) { return s.Read(t.Context(), shuffle.Cursor{}, chunks) },
		"answer": func() (*batch.Body, error) { return p.answer(t.Context(), d.query(chunks)) },
		"mixture": func() (*batch.Body, error) {
			return Mix([]*Path{p}, []Part{{"a", s}, {"b", other}}).Read(t.Context(), shuffle.Cursor{}, chunks)
		},
		"warm": func() (*batch.Body, error) {
			plan := d.plan(t, shuffle.None, 0)
			_, err := s.Warm(t.Context(), first(plan, 0, 20))
			return nil, err
		},
	} {
		if _, err := read(); !errors.Is(err, errDown) {
			t.Errorf("%s: got %v, want %v", what, err, errDown)
		}
	}
	s.over()
	other.over()
	p.empty(t)
}

// Calls after Close return an error.
func TestCallsAfterClose(t *testing.T) {
	d := newDataset(t, 205, same(40, 3000), 20, 64<<10)
	disk, err := diskcache.Open(diskcache.Config{Dir: t.TempDir(), MaxBytes: 4 << 20})
	must(t, err)
	defer disk.Close()
	p := newPath(t, Config{Budget: bud(8 << 20), Peers: alone{}, Disk: disk})
	stays, s := p.Open(d.index, d.store, "set/"), p.Open(d.index, d.store, "set/")
	s.KeepOnDisk("here")
	s.Share("set")
	plan := d.plan(t, shuffle.None, 0)
	d.readEpoch(t, s, plan, 0, 20)
	waits := len(p.disk.queue)
	mixed := Mix([]*Path{p}, []Part{{"stays", stays}, {"goes", s}})
	s.over()
	s.Close()
	chunks := d.ranges(t, []uint64{1})
	if _, err := s.Read(t.Context(), shuffle.Cursor{}, chunks); !errors.Is(err, ErrClosed) {
		t.Errorf("read: got %v, want %v", err, ErrClosed)
	}
	if _, err := mixed.Read(t.Context(), shuffle.Cursor{}, chunks); !errors.Is(err, ErrClosed) {
		t.Errorf("read of a mixture: got %v, want %v", err, ErrClosed)
	}
	if _, err := s.Warm(t.Context(), first(plan, 0, 20)); !errors.Is(err, ErrClosed) {
		t.Errorf("warm: got %v, want %v", err, ErrClosed)
	}
	if _, err := p.answer(t.Context(), d.query(chunks)); !errors.Is(err, peer.ErrNotServed) {
		t.Errorf("answer: got %v, want %v", err, peer.ErrNotServed)
	}
	p.Heard("set", d.index.Generation(), first(plan, 0, 20), 0)
	p.Pull(t.Context(), "waiter", peer.ChunkList{DatasetGeneration: peer.DatasetGeneration{Dataset: "set", Generation: d.index.Generation()}, Chunks: []uint32{0}})
	if other, _ := p.find(s.ref(0)); other != nil {
		t.Errorf("found source %d for a chunk of source %d, which is closed", other.place, s.place)
		other.leave()
	}
	if got := p.untilRead(s.ref(0)); got != diskcache.Never {
		t.Errorf("chunk of a closed source: got %v until it is read, want never", got)
	}
	if got := p.Held(); len(got) != 0 {
		t.Errorf("got %v held for peers, want nothing", got)
	}
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = p.Run(ctx) })
	for len(p.disk.queue) > 0 {
		time.Sleep(time.Millisecond)
	}
	stop()
	run.Wait()
	if got := disk.Stats().Writes; waits == 0 || got != 0 {
		t.Errorf("got %d writes of %d chunks that waited to be written, want none of several", got, waits)
	}
	stays.Close() // one part of a mixture, whose other part is already closed
	p.empty(t)
}

// The memory to decode in is as large as the largest chunk of the open sources needs. Close does
// not wait for it while a batch uses it.
func TestCloseGivesMemoryToDecodeInBack(t *testing.T) {
	small, large := newDatasetOf(t, gzips, 206, same(20, 10000), 10, 64<<10), newDatasetOf(t, gzips, 207, same(20, 30000), 10, 64<<10)
	p := newPath(t, Config{Budget: bud(8 << 20)})
	a, b := p.Open(small.index, small.store, "set/"), p.Open(large.index, large.store, "set/")
	was := p.budget.InUse()
	kept := <-p.decoding.kept // a batch uses the decoding memory
	b.Close()
	if got := p.budget.InUse(); got != was {
		t.Errorf("got %d bytes of the budget in use while a batch decodes, want %d still", got, was)
	}
	p.decoding.putBack(kept)
	if got, want := p.decoding.size.Load(), a.decodes; got != want || p.budget.InUse() > was-(b.decodes-a.decodes)/2 {
		t.Errorf("got %d bytes to decode in and %d of the budget, want %d and much less than %d", got, p.budget.InUse(), want, was)
	}
	a.Close()
	p.empty(t)
}

// A gateway of a cluster closes a source and opens it again during reads. The chunks that it held
// for other gateways are freed too.
func TestCloseAmongPeers(t *testing.T) {
	d := newDataset(t, 208, same(480, 900), 60, 8<<10)
	f := newFleet(t, d, d.plan(t, shuffle.Window, 16), 3, Config{}, 8<<20)
	m := f.members[0]
	m.source.Close()
	was := f.rejoin(t, m)
	if got := m.path.Stats(); got.PeerServedReads == 0 || got.PeerReads == 0 {
		t.Errorf("got %d questions and %d answers of a gateway that came later, want some", got.PeerReads, got.PeerServedReads)
	}
	for range 100 { // until other gateways have noticed from failed queries
		if m.path.budget.InUse() == m.path.cache.Free() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	m.path.empty(t, was)
}

// Hot samples are freed with their source, and those of other sources stay.
func TestCloseDropsHotSamples(t *testing.T) {
	d := newDataset(t, 1, same(1000, 3000), 1000, 64<<10)
	p := newPath(t, Config{Budget: bud(2 << 20)})
	goes, stays := p.Open(d.index, d.store, "set/"), p.Open(d.index, d.store, "set/")
	readHot(t, p, d, goes, []uint64{5, 905}, 1000)
	readHot(t, p, d, stays, []uint64{7}, 1000)
	goes.over()
	if got := p.extracted(); got != 1 {
		t.Errorf("got %d hot samples, want that of the source that stays", got)
	}
	if got := readHot(t, p, d, stays, []uint64{7}, 1000); got != 0 {
		t.Errorf("got %d bytes from the store for a hot sample of the source that stays, want none", got)
	}
	stays.over()
	p.empty(t)
}

// Read-ahead for a rank is freed immediately, even if nothing else expires.
func TestCloseForgetsRanks(t *testing.T) {
	d := newDataset(t, 71, same(960, 900), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, d, d.plan(t, shuffle.Window, 16), 2, Config{}, 8<<20)
		m := &member{fleet: f, number: 2, gone: map[int]bool{}} // owns nothing
		m.path = newPath(t, Config{Budget: bud(8 << 20), Peers: m})
		m.source = m.path.Open(d.index, d.store, "set/")
		m.source.Share("set")
		f.read(t, m, 0)
		if got := m.carriedBytes(); got == 0 || len(m.path.ahead.ranks) == 0 {
			t.Fatalf("got %d bytes read ahead for %d ranks, want some", got, len(m.path.ahead.ranks))
		}
		m.source.over()
		m.path.empty(t)
	})
}

// rejoin opens the dataset at one member, reads an epoch with all ranks, and closes it.
func (f *fleet) rejoin(t *testing.T, m *member) openedOnce {
	var d *dataset
	d, m.source = f.reopen(t, m.path)
	m.source.Share("set")
	f.readEpoch(t, 0, 60)
	was := openedOnce{weak.Make(m.source), weak.Make(d.index)}
	m.source.over()
	must(t, d.index.Close())
	m.source = nil
	return was
}

// TestSource_UsesEndOnce checks that no use begins after Close, that the context of a use reports
// that the dataset is closed, and that Close waits for each use.
func TestSource_UsesEndOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDataset(t, 1, same(4, 900), 4, 8<<10)
		p := newPath(t, Config{Budget: bud(1 << 20)})
		s := p.Open(d.index, d.store, "set/")
		for range 2 {
			if !s.enter() {
				t.Fatal("got no use of an open dataset")
			}
		}
		ctx, end := s.until(t.Context())
		other, endOther := s.until(t.Context())
		endOther()
		if !errors.Is(context.Cause(other), context.Canceled) || ctx.Err() != nil {
			t.Errorf("got %v and %v, want only the second one ended", context.Cause(other), ctx.Err())
		}
		closed := make(chan struct{})
		go func() {
			s.Close()
			close(closed)
		}()
		<-ctx.Done()
		if got := context.Cause(ctx); !errors.Is(got, ErrClosed) {
			t.Errorf("got %v for a use of a dataset that closes, want %v", got, ErrClosed)
		}
		end()
		if s.enter() {
			t.Error("got a use of a dataset that closes")
		}
		failed := errors.New("scripted")
		if _, err := leaveAfter(s.leave, nil, failed); !errors.Is(err, failed) {
			t.Errorf("got %v, want %v", err, failed)
		}
		select {
		case <-closed:
			t.Error("got the dataset closed during a use")
		default:
		}
		body, err := leaveAfter(s.leave, batch.NewBody(nil, nil, func() {}), nil)
		must(t, err)
		body.Close()
		<-closed
		s.Close()
		if s.enter() {
			t.Error("got a use of a closed dataset")
		}
	})
}
