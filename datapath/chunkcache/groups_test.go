package chunkcache

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"

	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// running is a load of chunks 1 and 2 together, with its waiters. The test controls it.
type running struct {
	*testing.T
	cache *Cache[int]
	ctx   context.Context
	fills map[int]*Fill[int]
	end   chan error
}

// startBoth starts the load for a request of both chunks. The request waits until leave is called;
// got receives its result.
func startBoth(t *testing.T, c *Cache[int]) (r *running, leave func(), got chan error) {
	t.Helper()
	r = &running{T: t, cache: c, fills: map[int]*Fill[int]{}, end: make(chan error)}
	ctx, cancel := context.WithCancel(t.Context())
	got = make(chan error, 1)
	req := Request[int]{
		Group: func(missing []int) [][]int { return [][]int{missing} },
		Load: func(ctx context.Context, fills []*Fill[int]) error {
			r.ctx = ctx
			for _, f := range fills {
				copy(f.Bytes(), content(f.Key(), len(f.Bytes())))
				r.fills[f.Key()] = f
			}
			return <-r.end
		},
	}
	go func() {
		l, err := acquire(ctx, c, asking{[]Chunk[int]{{Key: 1, Size: 100}, {Key: 2, Size: 100}}, req})
		if err == nil {
			l.Close()
		}
		got <- err
	}()
	synctest.Wait()
	return r, cancel, got
}

// join waits for one of the chunks, and fails the test if that starts a load.
func (r *running) join(k int) (got chan error, leave func()) {
	r.Helper()
	got = make(chan error, 1)
	ctx, cancel := context.WithCancel(r.Context())
	loads := r.cache.Stats().Loads
	go func() {
		l, err := acquire(ctx, r.cache, asking{[]Chunk[int]{{Key: k, Size: 100}}, Request[int]{Load: load}})
		if err == nil {
			if !bytes.Equal(l.Bytes(0), content(k, 100)) {
				err = errors.New("other bytes")
			}
			l.Close()
		}
		got <- err
	}()
	synctest.Wait()
	if r.cache.Stats().Loads != loads {
		r.Errorf("chunk %d: got a load of its own, want the one under way joined", k)
	}
	return got, cancel
}

// A load is canceled as soon as no request waits for its open chunks any more, and not earlier.
func TestLoad_EndsWhenItsOpenChunksAreLeft(t *testing.T) {
	for name, story := range map[string]func(t *testing.T, r *running, leave func(), got chan error){
		"one is there, and the other is left": func(t *testing.T, r *running, leave func(), got chan error) {
			r.fills[1].Publish()
			if synctest.Wait(); r.ctx.Err() != nil {
				t.Error("the load ended with a chunk still waited for")
			}
			leave()
			if err := <-got; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want %v", err, context.Canceled)
			}
			if synctest.Wait(); r.ctx.Err() == nil {
				t.Error("the load continues although no request waits for the missing chunk")
			}
			r.end <- r.ctx.Err()
		},
		"one is left and fails, and the other is joined": func(t *testing.T, r *running, leave func(), got chan error) {
			joined, _ := r.join(2)
			leave()
			<-got
			r.fills[1].Fail(errAborted)
			if synctest.Wait(); r.ctx.Err() != nil {
				t.Error("the load ended with a chunk still waited for")
			}
			r.fills[2].Publish()
			if err := <-joined; err != nil {
				t.Errorf("got %v for the one who joined, want the chunk", err)
			}
			r.end <- nil
		},
		"all leave, one after another": func(t *testing.T, r *running, leave func(), got chan error) {
			joined, leaveToo := r.join(1)
			leave()
			<-got
			if synctest.Wait(); r.ctx.Err() != nil {
				t.Error("the load ended with a chunk still waited for")
			}
			leaveToo()
			<-joined
			if synctest.Wait(); r.ctx.Err() == nil {
				t.Error("the load continues although no request waits for it")
			}
			r.end <- r.ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, _ := newCache(t, 1<<20)
				r, leave, got := startBoth(t, c)
				defer leave()
				story(t, r, leave, got)
			})
		})
	}
}

// A load that all requests have left does not disturb a later load of the same chunk, however the
// two end.
func TestLoad_LeftBehindDoesNotDisturbTheNextOne(t *testing.T) {
	for name, c := range map[string]struct {
		publishes bool // the abandoned load publishes its chunks
		before    bool // the abandoned load ends before the later one
	}{"fails before": {false, true}, "publishes before": {true, true}, "fails after": {false, false}, "publishes after": {true, false}} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				cache, _ := newCache(t, 1<<20)
				old, leave, got := startBoth(t, cache)
				leave()
				<-got
				next, leaveNext, gotNext := startBoth(t, cache)
				defer leaveNext()
				endOld := func() {
					for _, k := range []int{1, 2} {
						if c.publishes {
							old.fills[k].Publish()
						}
					}
					old.end <- errAborted
					synctest.Wait()
				}
				if c.before {
					endOld()
				}
				third, _ := next.join(1)
				for _, k := range []int{1, 2} {
					next.fills[k].Publish()
				}
				next.end <- nil
				if err := <-gotNext; err != nil {
					t.Errorf("got %v, want the chunks", err)
				}
				if err := <-third; err != nil {
					t.Errorf("got %v for the one who joined, want the chunk", err)
				}
				if !c.before {
					endOld()
				}
				if s := cache.Stats(); s.Chunks != 2 || !resident(cache, 1) || !resident(cache, 2) || len(cache.Names()) != 2 {
					t.Errorf("got %d chunks with %d names, want both", s.Chunks, len(cache.Names()))
				}
			})
		})
	}
}

// A chunk that arrives after all waiters have left is kept, and later requests find it.
func TestLoad_LeftBehindKeepsItsChunk(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _ := newCache(t, 1<<20)
		r, leave, got := startBoth(t, c)
		leave()
		<-got
		r.fills[1].Publish()
		r.end <- errAborted
		synctest.Wait()
		if !resident(c, 1) || resident(c, 2) || len(c.Names()) != 1 || c.Idle() != Cost(100) {
			t.Errorf("got chunk 1 there %v, chunk 2 %v, %d names and %d idle bytes; want the first one idle", resident(c, 1), resident(c, 2), len(c.Names()), c.Idle())
		}
		other := NewTable(2, Dataset[int]{Chunk: func(k int) Chunk[int] { return Chunk[int]{Key: k, Size: 100} }})
		if c.Find(other, 0, 1); !other.Resident(1) || other.Contains(0) {
			t.Error("got another table without the chunk of the same key")
		}
	})
}

// A request may contain a chunk twice, or two chunks with one key: one load reads them.
func TestStart_LoadsAKeyOnce(t *testing.T) {
	c, _ := newCache(t, 1<<20)
	of := Dataset[int]{Chunk: func(k int) Chunk[int] { return Chunk[int]{Key: k / 2, Size: 100} }}
	wait, err := c.Start(t.Context(), Request[int]{Table: NewTable(10, of), Chunks: []int{2, 3, 2, 4}, Load: load})
	if err != nil {
		t.Fatal(err)
	}
	l, err := wait()
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range []int{1, 1, 1, 2} {
		if !bytes.Equal(l.Bytes(i), content(k, 100)) {
			t.Errorf("place %d: got other bytes than those of key %d", i, k)
		}
	}
	if s := c.Stats(); s.Loads != 2 || s.Chunks != 2 || s.OpenLeases != 4 {
		t.Errorf("got %d loads, %d chunks, %d leases; want 2, 2 and 4", s.Loads, s.Chunks, s.OpenLeases)
	}
	l.Close()
}

// Chunks are leased together or not at all, and only chunks in memory. Lookups for readers count as
// hits and misses.
func TestLease_TakesWhatIsInMemory(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _ := newCache(t, 1<<20)
		table := tableOf(c).Table
		own := func(i int) int { return i + 1 }
		if _, ok := c.Lease(table, 1, true, own); ok {
			t.Error("got a lease of a chunk that is not there")
		}
		r, leave, got := startBoth(t, c)
		defer leave()
		r.fills[1].Publish()
		if _, ok := c.Lease(table, 2, true, own); ok || table.Resident(2) {
			t.Error("got a lease of a chunk that is on its way")
		}
		before := c.Stats()
		if before.Hits != 0 || before.Misses != 2 || before.OpenLeases != 1 {
			t.Errorf("got %d hits, %d misses and %d leases; want none, 2 and 1", before.Hits, before.Misses, before.OpenLeases)
		}
		for _, reader := range []bool{true, false} {
			l, ok := c.Lease(table, 1, reader, own)
			if !ok {
				t.Fatal("got no lease of a chunk in memory")
			}
			l.Close()
		}
		if s := c.Stats(); s.Hits != 1 {
			t.Errorf("got %d hits, want the one of the reader", s.Hits)
		}
		r.fills[2].Publish()
		r.end <- nil
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		ahead := asking{[]Chunk[int]{{Key: 1, Size: 100}, {Key: 3, Size: 100}}, Request[int]{Load: load, Ahead: true}}
		l, err := acquire(t.Context(), c, ahead)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if s := c.Stats(); s.Hits != 1 || s.Misses != 2 || s.Loads != 3 {
			t.Errorf("ahead of readers: got %d hits, %d misses, %d loads; want 1 and 2 as before, and 3", s.Hits, s.Misses, s.Loads)
		}
	})
}

// A value larger than the limit is not stored, and evicts nothing.
func TestObjects_RefuseValueThatNeverFits(t *testing.T) {
	b := budget.New(10_000, 0)
	asked := 0
	o := NewObjects[int](b, 1000, func(v []byte) int64 { return int64(len(v)) }, func(int64) { asked++ })
	o.Add(1, make([]byte, 500))
	o.Add(2, make([]byte, 1000))
	if _, ok := o.Get(2); ok || asked != 0 || o.Bytes() != 500+objectCost {
		t.Errorf("got the large one kept: %v, %d bytes in all; want the small one's", ok, o.Bytes())
	}
	if _, ok := o.Get(1); !ok {
		t.Error("the small one is gone")
	}
	o.Reclaim(1 << 20)
}

// A chunk with several names is due when the first reader of any of its names needs it.
func TestEntry_IsDueByItsFirstReader(t *testing.T) {
	for _, soonest := range []int{0, 1, 2} {
		c, _ := newCache(t, 1<<20)
		var tables []*Table[int]
		for i := range 3 {
			tables = append(tables, NewTable(10, Dataset[int]{
				Chunk: func(k int) Chunk[int] { return Chunk[int]{Key: k, Size: 100} },
				Due: func(k int, _ int64) int64 {
					if k == 1 && i != soonest {
						return Never
					}
					return Soon + 10*int64(k)
				},
			}))
			for k := range 3 {
				wait, err := c.Start(t.Context(), Request[int]{Table: tables[i], Chunks: []int{k}, Load: load})
				if err != nil {
					t.Fatal(err)
				}
				l, err := wait()
				if err != nil {
					t.Fatal(err)
				}
				l.Close()
			}
		}
		for _, goes := range []int{2, 1, 0} {
			c.Reclaim(1, AnyDue)
			for k := range 3 {
				if got := tables[0].Resident(k); got != (k < goes) {
					t.Errorf("soonest reader %d, chunk %d is to go: got chunk %d there: %v", soonest, goes, k, got)
				}
			}
		}
		for _, table := range tables {
			c.Close(table)
		}
	}
}

// Slots are large enough for their content. Small classes increase in steps, large ones by whole
// pages.
func TestClassOf_Boundaries(t *testing.T) {
	page := int64(os.Getpagesize())
	for n, want := range map[int64]int64{
		0: 64, 1: 64, 64: 64, 65: 72, 128: 128, 129: 144, heapClass: heapClass, heapClass + 1: heapClass + max(heapClass/8, page),
	} {
		if got := classOf(n); got != want {
			t.Errorf("class of %d: got %d, want %d", n, got, want)
		}
	}
	for n := int64(heapClass + 1); n < 4<<20; n += 4097 {
		if got := classOf(n); got%page != 0 || got < n {
			t.Fatalf("class of %d: got %d, want whole pages", n, got)
		}
	}
}
