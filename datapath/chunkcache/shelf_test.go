package chunkcache

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace-data/millrace/internal/bubble"
	"github.com/millrace-data/millrace/internal/budget"
)

// order takes all away and returns the keys in the order in which they went.
func order(s *Shelf[string]) (keys []string) {
	for {
		k, _, ok := s.Evict(true)
		if !ok {
			return keys
		}
		keys = append(keys, k)
	}
}

func stocked(policy func() Policy[string], keys ...string) *Shelf[string] {
	s := NewShelf(policy, nil)
	for _, k := range keys {
		s.Put(k, 1, 0, false)
	}
	return s
}

// A chunk is as old as its load: leases and readers that come and go make it no younger.
func TestKeepKnowsWhatCameFirst(t *testing.T) {
	s := stocked(NewKeep[string], "a", "b", "c", "d")
	s.Lease("a")
	s.SetWarm(func(k string) bool { return k == "b" })
	s.Release("a")
	s.SetWarm(func(string) bool { return false })
	if k, _, _ := s.Evict(false); k != "d" {
		t.Errorf("got %s evicted, want d", k)
	}
	s.Put("d", 1, 0, false)
	s.Evict(false)
	s.Put("e", 1, 1, false) // used as it comes
	s.Release("e")
	if got, want := order(s), []string{"e", "c", "b", "a"}; !slices.Equal(got, want) {
		t.Errorf("got %v evicted, want %v", got, want)
	}
}

// Chunks that leave a reader's horizon together are as old as their last use, and no map decides.
func TestChunksMoveInOrderOfUse(t *testing.T) {
	keys := strings.Split("the quick brown fox jumps over a lazy dog", " ")
	s := stocked(NewLRU[string], keys...)
	slices.Reverse(keys[2:])
	for _, k := range keys[2:] {
		s.Lease(k)
		s.Release(k)
	}
	s.SetWarm(func(string) bool { return true })
	s.Rewarm(func(string) bool { return false }, slices.Sorted(slices.Values(keys)))
	if got := order(s); !slices.Equal(got, keys) {
		t.Errorf("got %v evicted, want %v", got, keys)
	}
	s = stocked(NewLRU[string], keys...)
	s.SetWarm(func(string) bool { return true })
	if got := order(s); !slices.Equal(got, keys) {
		t.Errorf("got %v evicted, want %v", got, keys)
	}
}

// Where readers come or jump, SetWarm puts both lists in order again.
func TestPlanHearsOfReaders(t *testing.T) {
	next := map[string]int64{"a": 1, "b": 2, "c": 3, "d": 4}
	wanted := func(k string) bool { return k < "c" }
	s := stocked(func() Policy[string] { return NewPlan(func(k string) int64 { return next[k] }) }, "a", "b", "c", "d")
	s.SetWarm(wanted)
	next = map[string]int64{"a": 9, "b": 8, "c": 9, "d": 8}
	s.SetWarm(wanted)
	if got, want := order(s), []string{"c", "d", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("got %v evicted, want %v", got, want)
	}
}

// Whatever the policy, what a reader comes for soon goes after all the others, and what is leased never.
func TestShelfKeepsWhatIsWanted(t *testing.T) {
	for _, c := range contracts() {
		t.Run(c.name, func(t *testing.T) {
			var gone []int
			s := NewShelf(func() Policy[int] { return c.make(func(k int) int64 { return int64(k) }) }, func(k int) { gone = append(gone, k) })
			for k := range 8 {
				s.Put(k, 10, k/7, k%2 == 0)
			}
			if !s.Lease(6) || s.Lease(8) || !s.Has(7) || s.Has(8) || !s.Release(6) {
				t.Fatal("got chunks that are not there, or lost some")
			}
			if s.Idle(false) != 30 || s.Idle(true) != 70 || s.Bytes() != 80 || s.Len() != 8 {
				t.Errorf("got %d and %d of %d bytes idle, want 30 and 70 of 80", s.Idle(false), s.Idle(true), s.Bytes())
			}
			for range 3 {
				if k, size, ok := s.Evict(false); !ok || k%2 == 0 || k == 7 || size != 10 {
					t.Errorf("got %d, %d bytes, %v evicted, want an odd one below 7", k, size, ok)
				}
			}
			if k, _, ok := s.Evict(false); ok {
				t.Errorf("got %d evicted, which a reader comes for", k)
			}
			for range 4 {
				s.Evict(true)
			}
			if _, _, ok := s.Evict(true); ok || !s.Has(7) || s.Len() != 1 || len(gone) != 7 {
				t.Errorf("got %d chunks left and %v evicted, want the leased one left", s.Len(), gone)
			}
			func() {
				defer func() {
					if recover() == nil {
						t.Error("a chunk was put twice without a panic")
					}
				}()
				s.Put(7, 10, 0, false)
			}()
		})
	}
}

// Who keeps something for each key that comes hears of each that is not there in the end, however its load ended.
func TestEvictedHearsOfEveryKey(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		known := map[int]bool{}
		c := New(Config[int]{Budget: budget.New(2*Cost(100), 0), Evicted: func(k int) { delete(known, k) }})
		publish := func(_ context.Context, fills []*Fill[int]) error {
			known[fills[0].Key()] = true
			fills[0].Publish()
			return nil
		}
		get := func(ctx context.Context, k int, load func(context.Context, []*Fill[int]) error) {
			if l, err := c.Acquire(ctx, Request[int]{Wants: []Want[int]{{Key: k, Size: 100}}, Load: load}); err == nil {
				l.Close()
			}
		}
		for k := range 4 {
			get(t.Context(), k, publish)
		}
		if len(known) != 2 || !known[2] || !known[3] {
			t.Errorf("got %v known, want 2 and 3", known)
		}
		failed := errors.New("scripted")
		get(t.Context(), 4, func(_ context.Context, fills []*Fill[int]) error {
			known[4] = true
			return failed
		})
		if known[4] {
			t.Error("a load failed, and nobody heard")
		}
		ctx, leave := context.WithCancel(t.Context())
		end := make(chan struct{})
		go get(ctx, 5, func(context.Context, []*Fill[int]) error { <-end; return failed })
		synctest.Wait()
		leave()
		synctest.Wait()
		get(t.Context(), 5, publish) // while the first load dies
		close(end)
		synctest.Wait()
		if !known[5] || !c.Resident(5) {
			t.Errorf("got key 5 forgotten by a load that nobody waited for, want it known")
		}
		c.Drop()
		if len(known) != 0 {
			t.Errorf("got %v known of an empty cache, want none", known)
		}
	})
}
