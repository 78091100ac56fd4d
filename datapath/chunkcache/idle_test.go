package chunkcache

import (
	"slices"
	"testing"
)

func TestLater_NeverPassesSoon(t *testing.T) {
	for due, want := range map[int64]int64{0: 0, 3: 3 * muchLater, Soon / 2: Soon - 1, Soon - 1: Soon - 1, Soon: Soon, Never: Never} {
		if got := Later(due); got != want {
			t.Errorf("Later(%d): got %d, want %d", due, got, want)
		}
	}
}

// TestQueue_KeepsItsOrderAmongHoles checks that the queue keeps its order, and has at most
// leastHoles more holes than entries.
func TestQueue_KeepsItsOrderAmongHoles(t *testing.T) {
	var q queue[int]
	entries := make([]*entry[int], 100)
	for i := range entries {
		entries[i] = &entry[int]{key: i}
		q.add(entries[i])
	}
	reversed := func() []*entry[int] {
		all := slices.Clone(entries)
		slices.Reverse(all)
		return all
	}
	for i := range 1000 {
		at := i % 3 * 49 // the first entry, one in the middle, or the last but one
		e := entries[at]
		q.remove(e)
		q.add(e)
		entries = append(slices.Delete(entries, at, at+1), e)
		if got := q.oldest(len(entries)); !slices.Equal(got, entries) {
			t.Fatalf("step %d: the entries are out of order", i)
		}
		if got := q.latest(len(entries)); !slices.Equal(got, reversed()) {
			t.Fatalf("step %d: got %d entries from the newest on, want %d in order", i, len(got), len(entries))
		}
		if q.list[q.first] == nil {
			t.Fatalf("step %d: the queue begins with a hole", i)
		}
		if holes := len(q.list) - len(entries); holes > len(entries)+leastHoles {
			t.Fatalf("step %d: got %d holes among %d entries", i, holes, len(entries))
		}
	}
}

// TestObjects_KeepValueThatJustFits checks that a value of exactly the limit is kept, and that
// Reclaim frees no more than requested.
func TestObjects_KeepValueThatJustFits(t *testing.T) {
	_, b := newCache(t, 1<<20)
	o := NewObjects[int](b, 1000, func(v []byte) int64 { return int64(len(v)) }, func(int64) {})
	o.Add(1, make([]byte, 500-objectCost))
	o.Add(2, make([]byte, 500-objectCost))
	if got := o.Bytes(); got != 1000 {
		t.Errorf("two values of half the bytes: got %d bytes, want 1000", got)
	}
	if got := o.Reclaim(500); got != 500 {
		t.Errorf("got %d bytes back, want the 500 of one value", got)
	}
	o.Add(3, make([]byte, 1000-objectCost))
	if _, ok := o.Get(3); !ok || o.Bytes() != 1000 {
		t.Errorf("a value of all bytes is kept: %v, with %d bytes in all", ok, o.Bytes())
	}
	o.Reclaim(1000)
}

// TestObjects_UsedOnesStay checks that a value that was read stays, once, until all others have
// been evicted. Get does not wait while the list is locked.
func TestObjects_UsedOnesStay(t *testing.T) {
	_, b := newCache(t, 1<<20)
	o := NewObjects[int](b, 3000, func(v []byte) int64 { return int64(len(v)) }, func(int64) {})
	add := func(keys ...int) {
		for _, k := range keys {
			o.Add(k, make([]byte, 1000-objectCost))
		}
	}
	has := func(want ...int) {
		t.Helper()
		if got := o.list.Keys(); !slices.Equal(got, want) {
			t.Errorf("got values %v, want %v", got, want)
		}
	}
	add(1, 2, 3)
	o.mu.Lock()
	_, ok := o.Get(1)
	o.mu.Unlock()
	if !ok {
		t.Error("got no value 1, want it")
	}
	add(4)
	has(3, 1, 4)
	add(5, 6)
	has(4, 5, 6)
	for _, k := range []int{4, 5, 6} {
		o.Get(k)
	}
	add(7)
	has(5, 6, 7)
	o.Reclaim(3000)
	if _, ok := o.Get(7); ok || o.Bytes() != 0 {
		t.Errorf("got a value and %d bytes after all were reclaimed, want none", o.Bytes())
	}
}
