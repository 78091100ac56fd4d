package chunkcache

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/leaks"
)

// asking is a request, with the descriptions of its chunks.
type asking struct {
	Wants []Chunk[int]
	Request[int]
}

// acquire calls Start, and waits for the loads.
func acquire(ctx context.Context, c *Cache[int], a asking) (*Leases[int], error) {
	t := tableOf(c)
	a.Table, a.Chunks = t.Table, nil
	for _, w := range a.Wants {
		t.chunks.Store(w.Key, w)
		a.Chunks = append(a.Chunks, w.Key)
	}
	wait, err := c.Start(ctx, a.Request)
	if err != nil {
		return nil, err
	}
	return wait()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// needed reports whether a request still waits for a chunk.
func needed(f *Fill[int]) bool {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	return f.entry.refs > 0
}

// content returns the content for a key.
func content(key, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(key)
	}
	if size >= 8 {
		binary.LittleEndian.PutUint64(b, uint64(key))
	}
	return b
}

func load(_ context.Context, fills []*Fill[int]) error {
	for _, f := range fills {
		copy(f.Bytes(), content(f.Key(), len(f.Bytes())))
		f.Publish()
	}
	return nil
}

// tables maps each cache of a test to its table. The keys are the numbers of chunks.
var tables sync.Map

// table is a table of the chunks that requests have described.
type table struct {
	*Table[int]
	chunks sync.Map
}

func tableOf(c *Cache[int]) *table {
	t, _ := tables.Load(c)
	return t.(*table)
}

// ender is a test of any library, with a cleanup function.
type ender interface {
	Helper()
	Cleanup(f func())
	Errorf(format string, args ...any)
}

// opened returns a cache with a table of chunks that have their numbers as keys. At its end the
// test must hold nothing of the cache.
func opened(tb ender, cfg Config, due func(int) int64) *Cache[int] {
	tb.Helper()
	c := New[int](cfg)
	tb.Cleanup(func() { empty(tb, c) })
	t := &table{}
	of := Dataset[int]{Chunk: func(k int) Chunk[int] {
		w, _ := t.chunks.Load(k)
		return w.(Chunk[int])
	}}
	if due != nil {
		of.Due = func(k int, _ int64) int64 { return due(k) }
	}
	t.Table = NewTable(1000, of)
	tables.Store(c, t)
	return c
}

// resident reports whether a chunk of the table is in memory.
func resident(c *Cache[int], chunk int) bool { return tableOf(c).Resident(chunk) }

func newCache(tb testing.TB, total int64) (*Cache[int], *budget.Budget) {
	tb.Helper()
	return newCacheWith(tb, total, Config{Debug: true}, nil)
}

func newCacheWith(tb testing.TB, total int64, cfg Config, due func(int) int64) (*Cache[int], *budget.Budget) {
	tb.Helper()
	leaks.Check(tb)
	b := budget.New(total, 0)
	cfg.Budget = b
	c := opened(tb, cfg, due)
	b.SetReclaim(func(n int64) int64 { return c.Reclaim(n, AnyDue) }, func() int64 { return c.Free() + c.Idle() })
	return c, b
}

// empty drops a cache, and fails the test unless everything that was taken from it has been
// returned.
func empty(tb ender, c *Cache[int]) {
	tb.Helper()
	c.loads.Wait()
	if c.budget.InUse() != c.Free()+c.Idle() {
		tb.Errorf("got %d bytes of the budget held, want %d: those of free slots and idle chunks", c.budget.InUse(), c.Free()+c.Idle())
	}
	c.Drop()
	s := c.Stats()
	for what, got := range map[string]int64{
		"open leases": s.OpenLeases, "active loads": s.LoadsActive, "chunks": s.Chunks, "bytes of chunks": s.Bytes, "free bytes": s.FreeBytes,
		"bytes of the budget": c.budget.InUse(), "waits for memory": int64(c.budget.Waiting()), "slots of the arena": int64(c.arena.used),
		"mappings": int64(len(c.arena.regions)), "entries": int64(len(c.entries)), "idle chunks": int64(c.idle.count()), "idle bytes": c.idle.bytes,
	} {
		if got != 0 {
			tb.Errorf("everything was given back: got %d %s, want none", got, what)
		}
	}
}

func TestClassesWasteLittle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1<<17, 1<<33).Draw(t, "n")
		got := classOf(n)
		if got < n || (got-n)*8 > got {
			t.Fatalf("a slot of %d bytes for %d: want no more than an eighth unused", got, n)
		}
		if classOf(got) != got {
			t.Fatalf("class of %d: got %d, want itself", got, classOf(got))
		}
	})
}

// With many goroutines, leased bytes are always those of the key, no key is loaded twice at the
// same time, and nothing leaks.
func TestConcurrentPrograms(t *testing.T) {
	var soon atomic.Int64 // the keys have three parts: the one that readers need soon; 3: none
	for name, due := range map[string]func(int) int64{"without readers": nil, "with readers": func(k int) int64 {
		if int64(k%3) == soon.Load() {
			return int64(k)
		}
		return Soon + int64(k*7%24)
	}} {
		t.Run(name, func(t *testing.T) {
			concurrently(t, due, &soon)
		})
	}
}

func concurrently(t *testing.T, due func(int) int64, soon *atomic.Int64) {
	t.Helper()
	const keys, workers, steps = 24, 8, 400
	size := func(k int) int64 { return int64(100 + k*900) } // several classes
	c, b := newCacheWith(t, 60_000, Config{Debug: true}, due)
	failure := errors.New("scripted")
	var mu sync.Mutex
	loading := map[int]*Fill[int]{}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 5))
			script := func(ctx context.Context, fills []*Fill[int]) error {
				mu.Lock()
				for _, f := range fills {
					if old := loading[f.Key()]; old != nil && needed(old) && needed(f) { // otherwise all waiters have left one of the loads
						t.Errorf("key %d is loaded twice at a time", f.Key())
					}
					loading[f.Key()] = f
				}
				mu.Unlock()
				defer func() {
					mu.Lock()
					for _, f := range fills {
						if loading[f.Key()] == f {
							delete(loading, f.Key())
						}
					}
					mu.Unlock()
				}()
				switch len(fills) * fills[0].Key() % 7 {
				case 0:
					return failure
				case 1:
					panic("scripted")
				}
				for _, f := range fills {
					copy(f.Bytes(), content(f.Key(), len(f.Bytes())))
				}
				for _, f := range fills {
					mu.Lock()
					if loading[f.Key()] == f {
						delete(loading, f.Key())
					}
					mu.Unlock()
					f.Publish()
				}
				return nil
			}
			for range steps {
				var wants []Chunk[int]
				for _, k := range rnd.Perm(keys)[:1+rnd.IntN(4)] {
					wants = append(wants, Chunk[int]{Key: k, Size: size(k)})
				}
				ctx, cancel := context.WithCancel(t.Context())
				if rnd.IntN(4) == 0 {
					go cancel()
				}
				l, err := acquire(ctx, c, asking{wants, Request[int]{
					Load:  script,
					Group: func(m []int) [][]int { return [][]int{m[:len(m)/2+len(m)%2], m[len(m)/2+len(m)%2:]}[:min(len(m), 2)] },
				}})
				cancel()
				switch {
				case err == nil:
					for i, w := range wants {
						if !bytes.Equal(l.Bytes(i), content(w.Key, int(w.Size))) {
							t.Errorf("key %d: other bytes than its own", w.Key)
						}
					}
					l.Close()
				case errors.Is(err, ErrNoRoom):
					if r, err := b.Reserve(t.Context(), 20_000); err == nil {
						r.Release()
					}
				case !errors.Is(err, failure) && !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "panicked: scripted"):
					t.Errorf("got %v, want a scripted error", err)
				}
				if rnd.IntN(10) == 0 {
					soon.Store(int64(rnd.IntN(4)))
				}
			}
		})
	}
	wg.Wait()
	if got := b.Peak(); got > b.Total() {
		t.Errorf("got a peak of %d, want at most %d", got, b.Total())
	}
}

func TestLoadEndsWithItsLastWaiter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _ := newCache(t, 1<<20)
		ended := make(chan struct{})
		started := 0
		req := asking{[]Chunk[int]{{Key: 1, Size: 100}}, Request[int]{Load: func(ctx context.Context, _ []*Fill[int]) error {
			started++
			<-ctx.Done()
			close(ended)
			return context.Cause(ctx)
		}}}
		ctx1, leave1 := context.WithCancel(t.Context())
		ctx2, leave2 := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, ctx := range []context.Context{ctx1, ctx2} {
			wg.Go(func() {
				if _, err := acquire(ctx, c, req); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want %v", err, context.Canceled)
				}
			})
		}
		synctest.Wait()
		leave1()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("the load ended with its first waiter")
		default:
		}
		leave2()
		wg.Wait()
		<-ended
		if started != 1 {
			t.Errorf("got %d loads, want 1", started)
		}
	})
}

func TestStart_DoesNotJoinCanceledLoad(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _ := newCache(t, 1<<20)
		slow := make(chan struct{})
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			_, _ = acquire(ctx, c, asking{[]Chunk[int]{{Key: 1, Size: 100}}, Request[int]{Load: func(context.Context, []*Fill[int]) error {
				<-slow // ignores its context
				return errors.New("gave up")
			}}})
		}()
		synctest.Wait()
		leave()
		synctest.Wait()
		l, err := acquire(t.Context(), c, asking{[]Chunk[int]{{Key: 1, Size: 100}}, Request[int]{Load: load}})
		if err != nil {
			t.Fatal(err)
		}
		close(slow)
		synctest.Wait()
		if !bytes.Equal(l.Bytes(0), content(1, 100)) {
			t.Error("the dying load wrote into the new one's slot")
		}
		l.Close()
	})
}

func TestFreedSlotsArePoisonedAndLeasesCloseOnce(t *testing.T) {
	c, _ := newCache(t, 1<<20)
	l, err := acquire(t.Context(), c, asking{[]Chunk[int]{{Key: 7, Size: 1000}}, Request[int]{Load: load}})
	if err != nil {
		t.Fatal(err)
	}
	kept := l.Bytes(0) // bytes of a reader that outlives its lease
	l.Close()
	c.Drop()
	if kept[0] != poison || kept[999] != poison {
		t.Errorf("got %x and %x in a freed slot, want %x", kept[0], kept[999], poison)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("leases were closed twice without a panic")
			}
		}()
		l.Close()
	}()
}

// A load evicts no chunk that a reader needs sooner, but a caller that waits for memory may evict
// one.
func TestStart_EvictsNoChunkDueSooner(t *testing.T) {
	c, b := newCacheWith(t, 3*Cost(1000), Config{Debug: true}, func(k int) int64 {
		if k == 2 || k == 5 {
			return Soon + 1
		}
		return int64(k)
	})
	get := func(k int) error {
		l, err := acquire(t.Context(), c, asking{[]Chunk[int]{{Key: k, Size: 1000}}, Request[int]{Due: Soon, Load: load}})
		if err == nil {
			l.Close()
		}
		return err
	}
	for _, err := range []error{get(1), get(2), get(3), get(4)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if resident(c, 2) || !resident(c, 1) {
		t.Error("a chunk that a reader needs was evicted before one without readers")
	}
	if err := get(5); !errors.Is(err, ErrNoRoom) {
		t.Errorf("got %v, want %v", err, ErrNoRoom)
	}
	r, err := b.Reserve(t.Context(), Cost(1000)) // a caller that waits gets the memory
	if err != nil {
		t.Fatal(err)
	}
	r.Release()
}

func TestObjectsStayWithinTheirBytes(t *testing.T) {
	b := budget.New(10_000, 0)
	o := NewObjects[int](b, 2000, func(v []byte) int64 { return int64(len(v)) }, func(int64) {})
	for k := range 20 {
		o.Add(k, make([]byte, 460-objectCost))
		o.Add(k, make([]byte, 660-objectCost))
	}
	if got, want := o.Bytes(), int64(4*460); got != want || b.InUse() != want {
		t.Errorf("got %d bytes, %d of the budget, want %d", got, b.InUse(), want)
	}
	if v, ok := o.Get(19); !ok || len(v) != 460-objectCost {
		t.Errorf("got %d bytes, %v, want %d, true", len(v), ok, 460-objectCost)
	}
	if _, ok := o.Get(15); ok {
		t.Error("the oldest is still there")
	}
	if got := o.Reclaim(1); got != 460 {
		t.Errorf("got %d bytes back, want 460", got)
	}
	o.Reclaim(1 << 20)
	if got := b.InUse(); got != 0 {
		t.Errorf("got %d in use, want 0", got)
	}
}

// Objects use memory that other holders can free, and are not evicted for a value that would not
// fit anyway.
func TestObjectsInAFullBudget(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := budget.New(1000, 0)
		others, _ := b.TryReserve(1000)
		o := NewObjects[int](b, 2000, func(v []byte) int64 { return int64(len(v)) }, func(n int64) { others.Shrink(others.Size() - n) })
		o.Add(1, make([]byte, 460-objectCost))
		if got, want := o.Bytes(), int64(460); got != want || others.Size() != 1000-want {
			t.Errorf("got %d bytes and %d others, want %d and the rest", got, others.Size(), want)
		}
		ctx, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := b.Reserve(ctx, 1000); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want %v", err, context.Canceled)
			}
		})
		synctest.Wait()
		o.Add(2, make([]byte, 460-objectCost))
		if _, ok := o.Get(1); !ok || others.Size() != 540 {
			t.Errorf("got %d bytes and %d others, want both as before while another waits", o.Bytes(), others.Size())
		}
		leave()
		wg.Wait()
		o.room = func(int64) {} // no holder can free memory
		o.Add(3, make([]byte, 460-objectCost))
		if _, ok := o.Get(3); !ok || o.Bytes() != 460 {
			t.Errorf("got %d bytes, want those of the newest instead of the oldest", o.Bytes())
		}
		o.Add(4, make([]byte, 660-objectCost))
		if _, ok := o.Get(3); !ok {
			t.Error("a value went for one that it makes no room for")
		}
		o.Reclaim(1000)
		others.Release()
	})
}

func hit(tb testing.TB, n int, due func(int) int64) func() {
	tb.Helper()
	c, _ := newCacheWith(tb, 64<<20, Config{}, due)
	req := asking{Request: Request[int]{Load: load}}
	for k := range n {
		req.Wants = append(req.Wants, Chunk[int]{Key: k, Size: 100 << 10})
	}
	ctx := context.Background()
	l, err := acquire(ctx, c, req)
	if err != nil {
		tb.Fatal(err)
	}
	l.Close()
	again := Request[int]{Table: tableOf(c).Table}
	for k := range n {
		again.Chunks = append(again.Chunks, k)
	}
	return func() {
		wait, err := c.Start(ctx, again)
		if err != nil {
			tb.Fatal(err)
		}
		l, err := wait()
		if err != nil {
			tb.Fatal(err)
		}
		l.Close()
	}
}

func TestACacheHitAllocatesLittle(t *testing.T) {
	do := hit(t, 1, func(k int) int64 { return int64(k) })
	if got := testing.AllocsPerRun(100, do); got > 8 {
		t.Errorf("got %v allocations for a hit, want at most 8", got)
	}
}

func BenchmarkCacheHit(b *testing.B) {
	for _, n := range []int{1, 32} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			do := hit(b, n, nil)
			b.ReportAllocs()
			for b.Loop() {
				do()
			}
		})
	}
}

// The additional memory of a load is reserved together with the chunk's memory, all or none, and is
// free after the load.
func TestLoad_AdditionalMemory(t *testing.T) {
	const size, extra = 3000, 9000
	c, b := newCache(t, 2*Cost(size)+Cost(extra))
	wants := func(keys ...int) asking {
		r := asking{Request: Request[int]{Load: func(ctx context.Context, fills []*Fill[int]) error {
			for _, f := range fills {
				if len(f.Extra()) != extra {
					t.Errorf("got %d additional bytes, want %d", len(f.Extra()), extra)
				}
				copy(f.Extra(), content(99, extra))
			}
			return load(ctx, fills)
		}}}
		for _, k := range keys {
			r.Wants = append(r.Wants, Chunk[int]{Key: k, Size: size, Extra: extra})
		}
		return r
	}
	if _, err := acquire(t.Context(), c, wants(1, 2)); !errors.Is(err, ErrNoRoom) {
		t.Errorf("two loads with room for the additional bytes of one: got %v, want %v", err, ErrNoRoom)
	}
	for _, k := range []int{1, 2} { // there is memory for both, one after the other
		l, err := acquire(t.Context(), c, wants(k))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(l.Bytes(0), content(k, size)) {
			t.Errorf("chunk %d: got other bytes", k)
		}
		defer l.Close()
	}
	if got, want := b.Pinned(), 2*Cost(size); got != want {
		t.Errorf("got %d bytes pinned after the loads, want %d: those of the chunks", got, want)
	}
	if l, err := acquire(t.Context(), c, wants(1, 2)); err != nil {
		t.Errorf("chunks in memory: got %v, want no need of bytes beside", err)
	} else {
		l.Close()
	}
}
