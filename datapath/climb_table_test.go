package datapath

import (
	"sync/atomic"
	"testing"
)

// A trial that does not pay is reverted, the next one goes in the other direction, and the rests
// grow. Trials are compared with the best rate so far.
func TestClimb_Steps(t *testing.T) {
	type round struct {
		rate  float64
		limit int // limit for the next round
	}
	for name, c := range map[string]struct {
		limit  int
		rounds []round
	}{
		"each step pays":            {8, []round{{100, 10}, {125, 12}, {150, 15}, {190, 18}}},
		"none pays":                 {8, []round{{100, 10}, {100, 8}, {100, 7}, {80, 8}, {100, 8}, {100, 10}, {100, 8}, {100, 8}, {100, 8}, {100, 8}, {100, 7}}},
		"fewer cost nothing":        {8, []round{{100, 10}, {100, 8}, {100, 7}, {100, 6}, {100, 5}, {100, 4}, {100, 4}}},
		"slow losses are noticed":   {20, []round{{100, 25}, {100, 20}, {100, 16}, {98, 13}, {95, 16}}},
		"no more than there may be": {48, []round{{100, 48}, {100, 39}}},
	} {
		var came atomic.Int64
		climb := &climb{least: 4, most: 48, came: &came}
		limit := c.limit
		for i, r := range c.rounds {
			if limit = climb.next(limit, r.rate); limit != r.limit {
				t.Errorf("%s, round %d: got a limit of %d, want %d", name, i, limit, r.limit)
				break
			}
		}
	}
	c := &climb{least: 4, most: 48}
	for limit, want := range map[int]int{12: 11, 5: 4, 4: 4, 2: 2} {
		if got := c.less(limit); got != want {
			t.Errorf("throttled at %d: got %d places, want %d", limit, got, want)
		}
	}
	if c.next(8, 100); c.less(10) != 9 || c.from != 0 {
		t.Error("got a step judged though a read was throttled meanwhile")
	}
}
