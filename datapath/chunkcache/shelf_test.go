package chunkcache

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// gone evicts all entries, one after another, and returns the keys in that order.
func gone(s *Shelf[int], keys *[]int) []int {
	*keys = nil
	for s.Evict(1, AnyDue) > 0 {
	}
	return *keys
}

// stocked returns a shelf with chunks from 0 to n-1, of one byte each, and a list to which the keys
// of evicted chunks are appended.
func stocked(n int, due func(int) int64) (s *Shelf[int], went *[]int) {
	went = new([]int)
	s = NewShelf(due, func(k int) { *went = append(*went, k) })
	for k := range n {
		s.Put(k, 1, 0)
	}
	return s, went
}

// Without readers the least recently used chunk is evicted first, for any number of chunks.
func TestShelf_EvictsLeastRecentlyUsed(t *testing.T) {
	const n = 300
	s, went := stocked(n, nil)
	var want []int
	for k := range n {
		if k%3 == 0 {
			s.Lease(k)
		} else {
			want = append(want, k)
		}
	}
	for k := n - 3; k >= 0; k -= 3 {
		s.Release(k)
		want = append(want, k)
	}
	if got := gone(s, went); !slices.Equal(got, want) {
		t.Errorf("got %v evicted, want %v", got, want)
	}
}

// If all chunks are queried, the one due last is evicted first, regardless of due times in earlier
// choices.
func TestShelf_EvictsChunkDueLast(t *testing.T) {
	due := map[int]int64{}
	s, went := stocked(looks, func(k int) int64 { return due[k] })
	for k := range looks {
		due[k] = Soon + 1 + int64(k*7%looks)
	}
	s.Evict(looks/2, AnyDue)
	var want []int
	for k := range looks {
		if s.Has(k) {
			due[k] = Soon + 1 + int64(k*5%looks)
			want = append(want, k)
		}
	}
	slices.SortFunc(want, func(a, b int) int { return int(due[b] - due[a]) })
	if got := gone(s, went); !slices.Equal(got, want) {
		t.Errorf("got %v evicted, want %v", got, want)
	}
}

// If only some of many chunks are queried, the evicted chunk is still among those due last.
func TestShelf_AsksSomeOfManyChunks(t *testing.T) {
	const n = 10_000
	asked := 0
	s, went := stocked(n, func(k int) int64 {
		asked++
		return Soon + 1 + int64(k*7919%n)
	})
	const evicted = 200
	for range evicted {
		s.Evict(1, AnyDue)
	}
	if most := evicted * (looks + again); asked > most {
		t.Errorf("asked %d times for %d chunks, want at most %d", asked, evicted, most)
	}
	var sum int
	for _, k := range *went {
		sum += k * 7919 % n
	}
	if mean := sum / evicted; mean < n*9/10 {
		t.Errorf("the evicted chunks were due %d of %d on average, want the last tenth", mean, n)
	}
}

// For chunks other than the one due last, it is enough to know that they are due sooner: the choice
// is nearly as good.
func TestShelf_SameChoiceWithPartialDueTimes(t *testing.T) {
	const n = 500
	due := func(k int) int64 { return Soon + 1 + int64(k*7919%n) }
	s, went := stocked(n, due)
	other, also := stocked(n, nil)
	lazy := 0
	other.next = func(e *entry[int], _ []place[int], enough int64) int64 {
		if d := due(e.key); d > enough {
			return d
		}
		lazy++
		return enough
	}
	for range n / 2 {
		s.Evict(1, AnyDue)
		other.Evict(1, AnyDue)
	}
	var sum, alike int
	for i := range *went {
		sum += (*went)[i] * 7919 % n
		alike += (*also)[i] * 7919 % n
	}
	if lazy == 0 || alike < sum*98/100 {
		t.Errorf("the evicted chunks were due %d on average when %d were asked up to enough, want %d as when all were asked", alike/(n/2), lazy, sum/(n/2))
	}
}

// A chunk is evicted only for a chunk that is due sooner. If no reader needs the chunk, it is
// evicted for any other chunk.
func TestCache_EvictsForChunkDueSooner(t *testing.T) {
	for _, c := range []struct {
		is, limit int64
		goes      bool
	}{
		{3, 2, true},
		{3, 3, false},
		{3, 4, false},
		{3, Soon, false},
		{3, Never, false},
		{3, AnyDue, true},
		{0, AnyDue, true},
		{Soon + 9, 3, true},
		{Soon + 9, Soon, true},
		{Soon + 9, Soon + 8, true},
		{Soon + 9, Soon + 9, false},
		{Never, Soon + 9, true},
		{Never, Never, true},
	} {
		s, _ := stocked(1, func(int) int64 { return c.is })
		if got := s.Goes(c.limit); got != c.goes {
			t.Errorf("a chunk due at %d goes for one due at %d: got %v, want %v", c.is, c.limit, got, c.goes)
		}
		if got := s.Evict(1, c.limit) > 0; got != c.goes {
			t.Errorf("a chunk due at %d went for one due at %d: got %v, want %v", c.is, c.limit, got, c.goes)
		}
	}
}

// Chunks that readers need soon stay while another chunk can be evicted, even one added meanwhile.
// Once their readers have ended, they are evicted.
func TestShelf_KeepsChunksNeededSoon(t *testing.T) {
	const n = 1000
	soon := true
	s, went := stocked(n, func(k int) int64 {
		if soon && k%2 == 0 {
			return int64(k)
		}
		if k%2 == 0 {
			return Never
		}
		return Soon + 1 + int64(k)
	})
	for range n / 2 {
		if s.Evict(1, AnyDue); (*went)[len(*went)-1]%2 == 0 {
			t.Fatalf("chunk %d went, which a reader comes for soon, and others did not", (*went)[len(*went)-1])
		}
	}
	if got := s.Evict(1, Soon); got != 0 {
		t.Errorf("got %d bytes of chunks that a reader comes for soon, want none", got)
	}
	for k := n + 1; k < 2*n; k += 2 {
		s.Put(k, 1, 0) // a reader needs it, later
	}
	soon, *went = false, nil
	s.Evict(n/4, Soon)
	left := 0
	for _, k := range *went {
		if k%2 == 0 {
			left++
		}
	}
	if left < n/4*9/10 {
		t.Errorf("got %d of %d evicted chunks without a reader, want nearly all", left, n/4)
	}
}

// The due time of a runner-up is queried again in the next choice.
func TestRunnersUpAreAskedAgain(t *testing.T) {
	const n = 10 * looks
	due := map[int]int64{}
	s, went := stocked(n, func(k int) int64 { return due[k] })
	for k := range n {
		due[k] = Soon + 1 + int64(k)
	}
	s.Evict(1, AnyDue)
	for _, r := range s.idle.runners {
		due[r.key] = Soon + 1
	}
	for range runnerUp {
		s.Evict(1, AnyDue)
		if last := (*went)[len(*went)-1]; due[last] == Soon+1 {
			t.Errorf("chunk %d went, which is due first of all now", last)
		}
	}
}

// Evict evicts nothing if that would not free enough, and it never evicts a leased chunk.
func TestShelfEvictsEnoughOrNothing(t *testing.T) {
	var went []int
	s := NewShelf(func(k int) int64 { return Soon + 1 + int64(k) }, func(k int) { went = append(went, k) })
	for k := range 8 {
		s.Put(k, 10, k/7)
	}
	if !s.Lease(6) || s.Lease(8) || !s.Has(7) || s.Has(8) || !s.Release(6) {
		t.Fatal("got chunks that are not there, or lost some")
	}
	if s.idle.bytes != 70 || s.Bytes() != 80 || len(s.entries) != 8 {
		t.Errorf("got %d of %d bytes idle, want 70 of 80", s.idle.bytes, s.Bytes())
	}
	if got := s.Evict(71, AnyDue) + s.Evict(30, Soon+5); got != 0 || s.idle.bytes != 70 || len(s.entries) != 8 {
		t.Errorf("got %d bytes where there are not enough, %d idle, want 0 and 70", got, s.idle.bytes)
	}
	if got := s.EvictSome(30, Soon+6); got != 10 {
		t.Errorf("got %d bytes, want those of the one chunk that goes, 10", got)
	}
	if got := s.Evict(55, AnyDue); got != 60 || !slices.Equal(went, []int{6, 5, 4, 3, 2, 1, 0}) {
		t.Errorf("got %d bytes and %v evicted, want 60 and all but chunk 7", got, went)
	}
	if s.Evict(1, AnyDue) != 0 || !s.Has(7) || len(s.entries) != 1 {
		t.Errorf("got %d chunks left, want the leased one", len(s.entries))
	}
	defer func() {
		if recover() == nil {
			t.Error("a chunk was put twice without a panic")
		}
	}()
	s.Put(7, 10, 0)
}

// TestIdle_AsksFewChunksAtATime: readers need most idle chunks soon. Each call queries at most
// mostAsked chunks, and the calls continue until they find a chunk that readers need later, if
// there is one.
func TestIdle_AsksFewChunksAtATime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 2000).Draw(t, "chunks")
		later := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 0, min(n, 3), rapid.ID[int]).Draw(t, "due later")
		asked := 0
		s, _ := stocked(n, func(k int) int64 {
			asked++
			if slices.Contains(later, k) {
				return Soon + 1 + int64(k)
			}
			return int64(k)
		})
		for {
			asked = 0
			e, more := s.idle.last(Soon, s.next)
			if asked > mostAsked {
				t.Fatalf("got %d of %d chunks asked in one call, want %d at most", asked, n, mostAsked)
			}
			if more {
				continue
			}
			if (e != nil) != (len(later) > 0) || e != nil && !slices.Contains(later, e.key) {
				t.Errorf("got %v of %v that readers come for later", e, later)
			}
			return
		}
	})
}
