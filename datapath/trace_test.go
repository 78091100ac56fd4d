package datapath

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/tracingtest"
	"github.com/millrace-data/millrace/internal/tracing"
	"github.com/millrace-data/millrace/shuffle"
)

// tracedStore records a span for each read, as s3backend does.
type tracedStore struct{ objstore.RangeReader }

func (s tracedStore) ReadRange(ctx context.Context, ref objstore.Ref, offset int64, dst ...[]byte) error {
	ctx, span := tracing.Start(ctx, "store read")
	err := s.RangeReader.ReadRange(ctx, ref, offset, dst...)
	span.Ended(err)
	return err
}

// requests are the reads of a test. Each has a span with the read's name, which begins a trace.
type requests struct {
	*dataset
	source *Source
	plan   *shuffle.Plan
	spans  tracingtest.Recorder
	tracer tracing.Tracer
	open   sync.WaitGroup
}

// ask requests samples from a position of the plan on. It returns when the request waits for
// something or has ended.
func (r *requests) ask(t *testing.T, name string, first, samples uint64, deadline time.Duration) {
	t.Helper()
	e := r.plan.Epoch(0)
	chunks := r.ranges(t, e.Append(nil, first, first+samples))
	at := shuffle.Cursor{Plan: r.plan, Epoch: e, First: first, End: first + samples, BatchSize: samples}
	r.open.Go(func() {
		ctx, span := r.tracer.Root(t.Context(), name)
		defer span.End()
		ctx, cancel := context.WithTimeout(ctx, deadline)
		defer cancel()
		body, err := r.source.Read(ctx, at, chunks)
		if err != nil {
			if context.Cause(ctx) == nil {
				t.Errorf("%s: %v", name, err)
			}
			return
		}
		must(t, r.check(chunks, body))
		body.Close()
	})
	synctest.Wait()
}

// ended waits until all requests and their background work have ended.
func (r *requests) ended() {
	r.open.Wait()
	synctest.Wait()
}

// one returns the only span with the given name.
func (r *requests) one(t *testing.T, name string) tracingtest.Span {
	t.Helper()
	some := r.spans.Named(name)
	if len(some) != 1 {
		t.Fatalf("got %d spans %q among %v, want one", len(some), name, r.names())
	}
	return some[0]
}

func (r *requests) names() (all []string) {
	for _, s := range r.spans.Spans() {
		all = append(all, s.Name)
	}
	return all
}

// none is the parent ID of a span without a parent.
const none = "0000000000000000"

// TestTrace_LinksWaiterToLoad checks that a load is a trace of its own, linked to the request that
// began it. Each request that waits for the load is linked to it, even one that gives up.
func TestTrace_LinksWaiterToLoad(t *testing.T) {
	d := oneToAShard(t, 1)
	bubble.Test(t, func(t *testing.T) {
		defer d.slowly(20 * time.Millisecond)()
		spans, tracer := tracingtest.New()
		p := newPath(t, Config{Budget: bud(4 << 20), NoPrefetch: true, Trace: tracer})
		r := &requests{dataset: d, source: p.Open(d.index, tracedStore{d.store}, "set/"), plan: d.plan(t, shuffle.None, 0), spans: spans, tracer: tracer}
		r.ask(t, "first", 0, perChunk, time.Minute)
		r.ask(t, "second", 0, perChunk, time.Minute)
		r.ask(t, "hurried", 0, perChunk, 5*time.Millisecond)
		r.ended()
		load, read, first := r.one(t, "chunk load"), r.one(t, "store read"), r.one(t, "first")
		if load.Parent != none || !slices.Equal(load.Links, []string{first.ID}) || load.Trace == first.Trace {
			t.Errorf("the load is below %s in trace %s and linked to %v, want a trace of its own that is linked to %s", load.Parent, load.Trace, load.Links, first.ID)
		}
		if read.Parent != load.ID || load.Said["millrace.chunks"] != "1" {
			t.Errorf("the store's read is below %s, want it below the load of one chunk, %s: %v", read.Parent, load.ID, load.Said)
		}
		var parents []string
		for _, w := range spans.Named("wait for chunks") {
			parents = append(parents, w.Parent)
			if !slices.Equal(w.Links, []string{load.ID}) {
				t.Errorf("got a wait that is linked to %v, want the load %s", w.Links, load.ID)
			}
			if failed := w.Parent == r.one(t, "hurried").ID; (w.Failed != "") != failed || (w.End.Sub(w.Start) == 20*time.Millisecond) == failed {
				t.Errorf("got a wait of %v with failure %q", w.End.Sub(w.Start), w.Failed)
			}
		}
		want := []string{first.ID, r.one(t, "second").ID, r.one(t, "hurried").ID}
		slices.Sort(parents)
		slices.Sort(want)
		if !slices.Equal(parents, want) {
			t.Errorf("got waits below %v, want one below each request: %v", parents, want)
		}
	})
}

// TestTrace_PrefetchIsOwnTrace checks that a prefetch or a warming read begins a trace. A request
// that arrives before it ends is linked to it.
func TestTrace_PrefetchIsOwnTrace(t *testing.T) {
	d := oneToAShard(t, 8)
	for name, begin := range map[string]func(t *testing.T, r *requests){
		"fetched ahead": func(t *testing.T, r *requests) {
			r.open.Go(func() {
				e := r.plan.Epoch(0)
				body, err := r.source.Read(t.Context(), shuffle.Cursor{Plan: r.plan, Epoch: e, End: perChunk, BatchSize: perChunk}, r.ranges(t, e.Append(nil, 0, perChunk)))
				must(t, err)
				body.Close()
			})
		},
		"warmed": func(t *testing.T, r *requests) {
			r.open.Go(func() {
				_, err := r.source.Warm(t.Context(), shuffle.Cursor{Plan: r.plan, Epoch: r.plan.Epoch(0), First: perChunk, End: 2 * perChunk, BatchSize: perChunk})
				must(t, err)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				defer d.slowly(100 * time.Millisecond)()
				spans, tracer := tracingtest.New()
				x := d.trialOf(t, 20, Config{Trace: tracer, NoPrefetch: name == "warmed"})
				r := &requests{dataset: d, source: x.source, plan: d.plan(t, shuffle.None, 0), spans: spans, tracer: tracer}
				begin(t, r)
				time.Sleep(10 * time.Millisecond)
				r.ask(t, "request", perChunk, perChunk, time.Minute)
				r.ended()
				x.stop()
				links := r.one(t, "wait for chunks").Links
				i := slices.IndexFunc(spans.Named("chunk load ahead"), func(s tracingtest.Span) bool { return slices.Equal(links, []string{s.ID}) })
				if i < 0 {
					t.Fatalf("the request waits for %v, want one of the loads ahead: %v", links, spans.Named("chunk load ahead"))
				}
				if load := spans.Named("chunk load ahead")[i]; load.Parent != none || len(load.Links) != 0 || load.Said["millrace.chunk"] != "1" {
					t.Errorf("got a load of chunk %s below %s with links %v, want one of chunk 1 with none", load.Said["millrace.chunk"], load.Parent, load.Links)
				}
			})
		})
	}
}

// TestWaitsForMemoryAndPlacesAreSpans checks that the trace of a request contains its waits before
// the store is read.
func TestWaitsForMemoryAndPlacesAreSpans(t *testing.T) {
	d := newDataset(t, 92, same(60, 900), 60, 256<<10) // one chunk, which never fits into memory
	open := func(t *testing.T) (*Path, *requests) {
		spans, tracer := tracingtest.New()
		p := newPath(t, Config{Budget: bud(32 << 10), Fetchers: 1, NoPrefetch: true})
		return p, &requests{dataset: d, source: p.Open(d.index, tracedStore{d.store}, "set/"), plan: d.plan(t, shuffle.None, 0), spans: spans, tracer: tracer}
	}
	t.Run("memory", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) {
			p, r := open(t)
			held, ok := p.cache.TryBuffer(28 << 10)
			if !ok {
				t.Fatal("no memory")
			}
			r.ask(t, "request", 0, 4, time.Minute)
			time.Sleep(50 * time.Millisecond)
			held.Close()
			r.ended()
			wait, read := r.one(t, "wait for memory"), r.one(t, "store read")
			if got := wait.End.Sub(wait.Start); got != 50*time.Millisecond || wait.Parent != r.one(t, "request").ID || wait.Failed != "" {
				t.Errorf("got a wait of %v below %s with failure %q, want 50ms below the request", got, wait.Parent, wait.Failed)
			}
			if read.Parent != r.one(t, "request").ID {
				t.Errorf("the read of the request's own samples is below %s, want it below the request", read.Parent)
			}
		})
	})
	t.Run("place", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) {
			_, r := open(t)
			defer d.slowly(20 * time.Millisecond)()
			r.ask(t, "first", 0, 4, time.Minute)
			r.ask(t, "second", 8, 4, time.Minute)
			r.ended()
			wait := r.one(t, "wait for a place")
			if got := wait.End.Sub(wait.Start); got != 20*time.Millisecond || wait.Parent != r.one(t, "second").ID {
				t.Errorf("got a wait of %v below %s, want 20ms below the second request", got, wait.Parent)
			}
		})
	})
	t.Run("samples of another request", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) {
			_, r := open(t)
			defer d.slowly(20 * time.Millisecond)()
			r.ask(t, "first", 0, 4, time.Minute)
			r.ask(t, "second", 0, 4, time.Minute)
			r.ended()
			wait := r.one(t, "wait for samples")
			if got := wait.End.Sub(wait.Start); got != 20*time.Millisecond || wait.Parent != r.one(t, "second").ID ||
				!slices.Equal(wait.Links, []string{r.one(t, "first").ID}) {
				t.Errorf("got a wait of %v below %s with links %v, want 20ms below the second request with one to the first", got, wait.Parent, wait.Links)
			}
		})
	})
	t.Run("turn", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) {
			r := &requests{}
			r.spans, r.tracer = tracingtest.New()
			ctx, _ := r.tracer.Root(t.Context(), "request")
			limit := newAskLimit(100)
			leave := limit.enter(ctx, 50)
			time.AfterFunc(30*time.Millisecond, leave)
			limit.enter(ctx, 50)()
			if wait := r.one(t, "wait for a turn"); wait.End.Sub(wait.Start) != 30*time.Millisecond {
				t.Errorf("got a wait of %v, want 30ms", wait.End.Sub(wait.Start))
			}
		})
	})
}

// TestDiskReadsAreSpans checks that successful and failed disk reads are in the trace.
func TestDiskReadsAreSpans(t *testing.T) {
	d := oneToAShard(t, 2)
	dir := t.TempDir()
	bubble.Test(t, func(t *testing.T) {
		r := &requests{dataset: d, plan: d.plan(t, shuffle.None, 0)}
		r.spans, r.tracer = tracingtest.New()
		onDisk(t, dir, 1<<20, Config{NoPrefetch: true, Budget: bud(4 << 20)}, func(p *Path) {
			r.source = d.opened(p, "here")
			r.ask(t, "cold", 0, 2*perChunk, time.Minute)
			r.ended()
		})
		if got := r.spans.Named("disk read"); len(got) != 0 {
			t.Errorf("got %v before anything was on disk", got)
		}
		damaged := false
		must(t, filepath.Walk(filepath.Join(dir, "chunks"), func(name string, info os.FileInfo, err error) error {
			if err != nil || info.IsDir() || damaged {
				return err
			}
			damaged = true
			b, err := os.ReadFile(name)
			must(t, err)
			b[100] ^= 1
			return os.WriteFile(name, b, 0o600)
		}))
		onDisk(t, dir, 1<<20, Config{NoPrefetch: true, Budget: bud(4 << 20)}, func(p *Path) {
			r.source = d.opened(p, "here")
			r.ask(t, "warm", 0, 2*perChunk, time.Minute)
			r.ended()
		})
		loads := map[string]bool{}
		for _, load := range r.spans.Named("chunk load") {
			loads[load.ID] = true
		}
		var came, failed int
		for _, s := range r.spans.Named("disk read") {
			if s.Failed == "" {
				came++
			} else {
				failed++
			}
			if !loads[s.Parent] {
				t.Errorf("got a read of the disk below %s, want it below a load", s.Parent)
			}
		}
		if came != 1 || failed != 1 {
			t.Errorf("got %d reads of the disk and %d that failed, want one of each", came, failed)
		}
	})
}

// TestFormerOwnersAreSpans checks that the query to the former owner is a part of the load's trace.
func TestFormerOwnersAreSpans(t *testing.T) {
	d := newDataset(t, 93, same(480, 900), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, d, d.plan(t, shuffle.Window, 6), 2, Config{NoPrefetch: true}, 2<<20)
		fresh, old := f.members[0], f.members[1]
		old.lose(0)
		must(t, f.readRank(t.Context(), t, old, 0, 48, 0, 1))
		fresh.mu.Lock()
		fresh.former = func(peer.Chunk) string { return name(1) }
		fresh.mu.Unlock()
		r := &requests{dataset: d, source: fresh.source, plan: f.plan}
		r.spans, r.tracer = tracingtest.New()
		r.ask(t, "request", 0, 48, time.Minute)
		r.ended()
		loads := map[string]bool{}
		for _, load := range r.spans.Named("chunk load") {
			loads[load.ID] = true
		}
		asked := r.spans.Named("former owner")
		if len(asked) == 0 || slices.ContainsFunc(asked, func(s tracingtest.Span) bool { return !loads[s.Parent] }) {
			t.Errorf("got questions to former owners %v, want some, all below loads %v", asked, r.names())
		}
	})
}

// TestTrace_ReadAheadIsOwnTrace checks that read-ahead from peers begins a trace, and that the
// batch is linked to it.
func TestTrace_ReadAheadIsOwnTrace(t *testing.T) {
	d := newDataset(t, 94, same(960, 900), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		r := &requests{dataset: d, plan: d.plan(t, shuffle.Window, 16)}
		r.spans, r.tracer = tracingtest.New()
		f := newFleet(t, d, r.plan, 2, Config{Trace: r.tracer}, 8<<20)
		r.source = f.members[0].source
		r.ask(t, "first", 0, 8, time.Minute)
		r.ended()
		r.ask(t, "second", 8, 8, time.Minute)
		r.ended()
		wait := r.one(t, "wait for samples")
		ahead := r.spans.Named("peer read-ahead")
		i := slices.IndexFunc(ahead, func(s tracingtest.Span) bool { return slices.Equal(wait.Links, []string{s.ID}) })
		if i < 0 || ahead[i].Parent != none || wait.Parent != r.one(t, "second").ID {
			t.Errorf("the second batch waits below %s for %v, want a trace of read-ahead: %v", wait.Parent, wait.Links, ahead)
		}
		if names := strings.Join(r.names(), " "); !strings.Contains(names, "chunk load") {
			t.Errorf("got %s, want the loads of the gateway that was asked", names)
		}
	})
}
