package chunkcache

import (
	"testing"
)

// TestCache_ServesWhileTablesAreAsked: a dataset takes long to return when a chunk is due.
// Meanwhile requests can lease chunks, a chunk leased meanwhile is not evicted, and closing a table
// waits for the result.
func TestCache_ServesWhileTablesAreAsked(t *testing.T) {
	asked, answer := make(chan int, 100), make(chan struct{})
	slow := false
	c, _ := newCacheWith(t, 4*Cost(100), Config{}, func(k int) int64 {
		if slow {
			asked <- k
			<-answer
		}
		return Soon + 1 + int64(k) // chunk 3 is evicted first
	})
	for k := range 4 {
		l, err := acquire(t.Context(), c, asking{[]Chunk[int]{{Key: k, Size: 100}}, Request[int]{Load: load}})
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	slow = true
	reclaimed := make(chan int64, 1)
	go func() { reclaimed <- c.Reclaim(1, AnyDue) }()
	<-asked
	l, ok := c.Lease(tableOf(c).Table, 1, true, func(int) int { return 3 })
	if !ok {
		t.Fatal("got no lease of a chunk in memory")
	}
	if c.asking.TryLock() {
		t.Fatal("got a table closed that is still asked")
	}
	close(answer)
	if got := <-reclaimed; got != Cost(100) || !resident(c, 3) || resident(c, 2) {
		t.Errorf("got %d bytes back, chunk 3 in memory: %v, and chunk 2: %v; want the chunk gone that is due last of those without a lease", got, resident(c, 3), resident(c, 2))
	}
	l.Close()
}
