package chunkcache

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// A table finds a chunk from the time its load begins until it is evicted or its load has failed in
// any way.
func TestTable_FindsLoadedChunks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := opened(t, Config{Budget: budget.New(2*Cost(100), 0)}, nil)
		table := tableOf(c)
		publish := func(_ context.Context, fills []*Fill[int]) error {
			k := fills[0].Key()
			if !table.Contains(k) || table.Resident(k) {
				t.Errorf("chunk %d on its way: got contained %v, resident %v; want yes, no", k, table.Contains(k), table.Resident(k))
			}
			fills[0].Publish()
			return nil
		}
		get := func(ctx context.Context, k int, load func(context.Context, []*Fill[int]) error) {
			if l, err := acquire(ctx, c, asking{[]Chunk[int]{{Key: k, Size: 100}}, Request[int]{Load: load}}); err == nil {
				l.Close()
			}
		}
		for k := range 4 {
			get(t.Context(), k, publish)
		}
		for k := range 4 {
			if got, want := table.Resident(k), k > 1; got != want || table.Contains(k) != want {
				t.Errorf("chunk %d: got resident %v, want %v", k, got, want)
			}
		}
		failed := errors.New("scripted")
		get(t.Context(), 4, func(context.Context, []*Fill[int]) error { return failed })
		if table.Contains(4) {
			t.Error("the table finds a chunk whose load failed")
		}
		ctx, leave := context.WithCancel(t.Context())
		end := make(chan struct{})
		go get(ctx, 5, func(context.Context, []*Fill[int]) error { <-end; return failed })
		synctest.Wait()
		leave()
		synctest.Wait()
		if table.Contains(5) {
			t.Error("the table finds a chunk whose load was abandoned")
		}
		get(t.Context(), 5, publish) // while the abandoned load is still running
		close(end)
		synctest.Wait()
		if !table.Resident(5) {
			t.Error("the chunk of an abandoned load is lost")
		}
		c.Drop()
		if table.Contains(5) || len(c.Names()) != 0 {
			t.Error("the table of an empty cache finds a chunk")
		}
	})
}

// A chunk of one key is in memory once, for all tables and numbers. It is loaded once, and each
// table finds it from its first use on. It is due when the first reader of any table needs it, and
// it is removed from all tables together.
func TestChunksOfOneKeyAreOne(t *testing.T) {
	c := New[string](Config{Budget: budget.New(1<<20, 0), Debug: true})
	var gone []int
	same := func(int) Chunk[string] { return Chunk[string]{Key: "same", Size: 100} }
	old, grown := NewTable(2, Dataset[string]{Chunk: same}), NewTable(3, Dataset[string]{
		Chunk: func(k int) Chunk[string] {
			if k == 0 {
				return Chunk[string]{Key: "other", Size: 100}
			}
			return same(k)
		},
		Due: func(k int, _ int64) int64 { return int64(k) },
		Gone: func(k int, soon bool) {
			if soon {
				gone = append(gone, k)
			}
		},
	})
	loads := 0
	get := func(table *Table[string], chunks ...int) *Leases[string] {
		wait, err := c.Start(t.Context(), Request[string]{Table: table, Chunks: chunks, Load: func(_ context.Context, fills []*Fill[string]) error {
			loads++
			for _, f := range fills {
				copy(f.Bytes(), "bytes")
				f.Publish()
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		l, err := wait()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first := get(old, 0, 1)
	if string(first.Bytes(0)[:5]) != "bytes" || &first.Bytes(0)[0] != &first.Bytes(1)[0] {
		t.Error("two numbers of one key got other bytes, or bytes of their own")
	}
	first.Close()
	if grown.Contains(2) {
		t.Error("a table finds a chunk that was not requested from it")
	}
	if c.Find(grown, 0, 2); !grown.Resident(2) || grown.Contains(0) {
		t.Error("a chunk that another table loaded is not shared, or one that was not loaded is")
	}
	get(grown, 1).Close()
	if loads != 1 || !old.Resident(0) || !old.Resident(1) || !grown.Resident(1) || grown.Contains(0) {
		t.Errorf("got %d loads, and in memory %v %v %v, want one load and all three", loads, old.Resident(0), old.Resident(1), grown.Resident(1))
	}
	if c.Goes(Soon) || !c.Goes(0) {
		t.Error("the chunk is not due when the first reader of any table comes for it")
	}
	if got := c.Reclaim(1, AnyDue); got == 0 || old.Contains(0) || old.Contains(1) || grown.Contains(1) || grown.Contains(2) {
		t.Error("a table finds a chunk that has gone")
	}
	wait, err := c.Start(t.Context(), Request[string]{
		Table: grown, Chunks: []int{0},
		Load: func(context.Context, []*Fill[string]) error { return errors.New("scripted") },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wait(); err == nil || grown.Contains(0) {
		t.Errorf("got %v, and the chunk found: %v; want the load's error, and no", err, grown.Contains(0))
	}
	if !slices.Equal(gone, []int{2, 1, 0}) {
		t.Errorf("the data set heard of %v, want of chunks 2 and 1 that went and of chunk 0 that did not come", gone)
	}
	c.Drop()
}

// A closed table frees its chunks under all their numbers, but no chunks of other tables. This
// includes the chunk of a load that all requests have left and that ends later. Close waits for the
// loads that the table's requests have started.
func TestTable_CloseFreesItsChunks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := budget.New(1<<20, 0)
		c := New[int](Config{Budget: b, Debug: true})
		of := Dataset[int]{Chunk: func(k int) Chunk[int] { return Chunk[int]{Key: k / 2, Size: 100} }} // each key has two numbers
		stays, goes := NewTable(10, of), NewTable(10, of)
		load := func(ctx context.Context, table *Table[int], took time.Duration, chunks ...int) {
			wait, err := c.Start(ctx, Request[int]{Table: table, Chunks: chunks, Load: func(_ context.Context, fills []*Fill[int]) error {
				time.Sleep(took)
				fills[0].Publish()
				return nil
			}})
			if err != nil {
				t.Error(err)
				return
			}
			if l, err := wait(); err == nil {
				l.Close()
			}
		}
		load(t.Context(), stays, 0, 0, 1)
		load(t.Context(), goes, 0, 0, 2, 3, 4)
		ctx, leave := context.WithCancel(t.Context())
		go load(ctx, stays, time.Hour, 6)
		synctest.Wait()
		go load(ctx, goes, 0, 6) // joins
		go load(ctx, goes, time.Minute, 8)
		synctest.Wait()
		leave()
		synctest.Wait()
		begun := time.Now()
		c.Close(goes)
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("close took %v, want 1m: until the load is there that was under way", took)
		}
		if names := c.Names(); len(names) != 1 || !stays.Resident(0) || !stays.Resident(1) || c.Stats().Chunks != 1 {
			t.Errorf("got %d names and %+v, want the chunk of the other table", len(names), c.Stats())
		}
		for k := range 10 {
			if goes.Contains(k) {
				t.Errorf("a table that is closed finds chunk %d", k)
			}
		}
		time.Sleep(time.Hour)
		if goes.Contains(6) || !stays.Resident(6) {
			t.Errorf("a load that all had left has brought a chunk: closed table %v, other table %v, want no, yes", goes.Contains(6), stays.Resident(6))
		}
		c.Close(stays)
		if got := b.InUse() - c.Free(); got != 0 || c.Stats().Chunks != 0 {
			t.Errorf("all tables are closed: got %d bytes that are not free, %+v", got, c.Stats())
		}
		c.Drop()
	})
}

// The last choice of a chunk to evict still references evicted chunks. They must not keep a closed
// table in memory.
func TestAnEvictedChunkHoldsNoTable(t *testing.T) {
	c := opened(t, Config{Budget: budget.New(3*Cost(100), 0)}, nil)
	for k := range 6 {
		l, err := acquire(t.Context(), c, asking{[]Chunk[int]{{Key: k, Size: 100}}, Request[int]{Load: load}})
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	table := tableOf(c)
	c.Close(table.Table)
	for _, e := range c.idle.runners {
		if len(e.places) > 0 {
			t.Errorf("chunk %d is not in memory any more, and holds a table that is closed", e.key)
		}
	}
	if len(c.idle.runners) == 0 {
		t.Error("got no choice remembered")
	}
	c.Drop()
}
