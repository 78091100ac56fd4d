package chunkcache

import (
	"context"
	"testing"
)

// A chunk belongs to the list that the last word on the readers says, whether it was in memory then or came later.
func TestChunksThatComeLaterAreWarmToo(t *testing.T) {
	c, b := newCache(t, 3*Cost(1000))
	wanted := map[int]bool{1: true, 2: true}
	c.SetWarm(func(k int) bool { return wanted[k] })
	bring := func(k int) {
		wait, err := c.Start(t.Context(), Request[int]{Wants: []Want[int]{{Key: k, Size: 1000}}, Load: func(_ context.Context, fills []*Fill[int]) error {
			fills[0].Publish()
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		l, err := wait()
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	for _, k := range []int{1, 2, 3} {
		bring(k)
	}
	c.Reclaim(3*Cost(1000), false)
	if got := []bool{c.Resident(1), c.Resident(2), c.Resident(3)}; !got[0] || !got[1] || got[2] {
		t.Errorf("got chunks 1, 2, 3 in memory: %v, want those that a reader comes for", got)
	}
	later := map[int]bool{2: true, 4: true}
	c.Rewarm(func(k int) bool { return later[k] }, []int{1})
	c.Reclaim(3*Cost(1000), false)
	if c.Resident(1) || !c.Resident(2) {
		t.Errorf("got chunks 1, 2 in memory: %v, %v, want the second alone", c.Resident(1), c.Resident(2))
	}
	bring(4)
	c.Reclaim(3*Cost(1000), false)
	if !c.Resident(4) {
		t.Error("a chunk that came after the last word on the readers went before it was needed")
	}
	empty(t, c, b)
}
