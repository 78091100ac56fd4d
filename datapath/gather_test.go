package datapath

import (
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/bubble"
	"github.com/millrace-data/millrace/internal/budget"
)

// Those who wait for peers hold half the memory at most, and nobody waits for his turn for ever.
func TestThoseWhoWaitForPeersHoldHalf(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := newAsking(200)
		took := func(n int64) (time.Duration, func()) {
			begun := time.Now()
			leave := a.enter(t.Context(), n)
			return time.Since(begun), leave
		}
		first, leave := took(60)
		second, leaveToo := took(40)
		time.AfterFunc(time.Second, leave)
		third, leaveAsWell := took(1000) // waits for all the others: they leave too late for it
		if first != 0 || second != 0 || third != budget.DefaultWait {
			t.Errorf("got turns after %v, %v and %v; want 0, 0 and %v", first, second, third, budget.DefaultWait)
		}
		leaveAsWell()
		fourth, leaveIt := took(60)
		time.AfterFunc(time.Second, leaveToo)
		fifth, leaveLast := took(40) // there is room for it then
		if fourth != 0 || fifth != time.Second {
			t.Errorf("got turns after %v and %v, want 0 and a second", fourth, fifth)
		}
		leaveIt()
		leaveLast()
		if last, leave := took(100); last != 0 {
			t.Errorf("got a turn after %v, want it at once: all have left", last)
		} else {
			leave()
		}
	})
}
