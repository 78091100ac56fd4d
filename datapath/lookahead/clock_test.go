package lookahead

import (
	"math"
	"testing"
	"time"
)

// happening is one call of a clock's method.
type happening struct {
	at    float64 // seconds
	what  string  // asked, ahead, jumped, any of these with planned (arrived a second earlier), answered or ended
	spent Spent   // total by then
}

// TestClock_CountsWaitsByTheirCause checks that a rank's waits are counted by their cause, and that
// the time in which it has a batch is not counted as a wait.
func TestClock_CountsWaitsByTheirCause(t *testing.T) {
	for name, story := range map[string][]happening{
		"one request at a time": {
			{0, "asked", Spent{}},
			{2, "answered", Spent{All: 2, Bytes: 2}},
			{5, "ended", Spent{All: 5, Bytes: 2, Sending: 3}},
			{9, "planned", Spent{All: 9, Bytes: 2, Sending: 3, Planning: 1}}, // arrived at 8: the rank had its batch for three seconds
			{10, "answered", Spent{All: 10, Bytes: 3, Sending: 3, Planning: 1}},
			{9, "ended", Spent{All: 10, Bytes: 3, Sending: 3, Planning: 1}}, // the time was read before the last call
		},
		"one at a time, the next one before the last one is noted to have ended": {
			{0, "asked", Spent{}},
			{10, "answered", Spent{All: 10, Bytes: 10}},
			{19.875, "asked", Spent{All: 19.875, Bytes: 10, Sending: 9.875}},
			{20, "ended", Spent{All: 20, Bytes: 10.125, Sending: 9.875}},
			{25, "answered", Spent{All: 25, Bytes: 15.125, Sending: 9.875}}, // the rank still has one request at a time
			{26, "ended", Spent{All: 26, Bytes: 15.125, Sending: 10.875}},
		},
		"one at a time, and ten minutes later two": {
			{0, "asked", Spent{}},
			{10, "answered", Spent{All: 10, Bytes: 10}},
			{10, "ended", Spent{All: 10, Bytes: 10}},
			{610, "asked", Spent{All: 610, Bytes: 10}},
			{610.5, "asked", Spent{All: 610.5, Bytes: 10.5}},
			{611, "answered", Spent{All: 611, Bytes: 11}},
			{611, "ended", Spent{All: 611, Bytes: 11}},
			{612, "answered", Spent{All: 612, Bytes: 11}}, // old values hardly count any more
			{612, "ended", Spent{All: 612, Bytes: 11}},
		},
		"two for a moment, and ten minutes later again": {
			{0, "asked", Spent{}},
			{10, "answered", Spent{All: 10, Bytes: 10}},
			{19.75, "asked", Spent{All: 19.75, Bytes: 10, Sending: 9.75}},
			{20, "ended", Spent{All: 20, Bytes: 10.25, Sending: 9.75}},
			{21, "answered", Spent{All: 21, Bytes: 11.25, Sending: 9.75}},
			{21, "ended", Spent{All: 21, Bytes: 11.25, Sending: 9.75}},
			{621, "asked", Spent{All: 621, Bytes: 11.25, Sending: 9.75}},
			{641, "answered", Spent{All: 641, Bytes: 31.25, Sending: 9.75}},
			{641, "asked", Spent{All: 641, Bytes: 31.25, Sending: 9.75}},
			{641.125, "ended", Spent{All: 641.125, Bytes: 31.375, Sending: 9.75}},
			{645, "answered", Spent{All: 645, Bytes: 35.25, Sending: 9.75}},
			{645, "ended", Spent{All: 645, Bytes: 35.25, Sending: 9.75}},
		},
		"two for a moment, and soon again": {
			{0, "asked", Spent{}},
			{10, "answered", Spent{All: 10, Bytes: 10}},
			{19.6875, "asked", Spent{All: 19.6875, Bytes: 10, Sending: 9.6875}},
			{20, "ended", Spent{All: 20, Bytes: 10.3125, Sending: 9.6875}},
			{21, "answered", Spent{All: 21, Bytes: 11.3125, Sending: 9.6875}},
			{30.6875, "asked", Spent{All: 30.6875, Bytes: 11.3125, Sending: 19.375}},
			{31, "ended", Spent{All: 31, Bytes: 11.625, Sending: 19.375}},
			{32, "answered", Spent{All: 32, Bytes: 11.625, Sending: 19.375}}, // the rank has two requests at a time
			{32, "ended", Spent{All: 32, Bytes: 11.625, Sending: 19.375}},
		},
		"one in a minute, and then two": {
			{0, "asked", Spent{}},
			{1, "answered", Spent{All: 1, Bytes: 1}},
			{1, "ended", Spent{All: 1, Bytes: 1}},
			{60, "asked", Spent{All: 60, Bytes: 1}},
			{61, "answered", Spent{All: 61, Bytes: 2}},
			{61, "ended", Spent{All: 61, Bytes: 2}},
			{120, "asked", Spent{All: 120, Bytes: 2}},
			{120.5, "asked", Spent{All: 120.5, Bytes: 2.5}},
			{121, "answered", Spent{All: 121, Bytes: 3}},
			{121, "ended", Spent{All: 121, Bytes: 3}},
			{122, "answered", Spent{All: 122, Bytes: 3}},
			{122, "ended", Spent{All: 122, Bytes: 3}},
		},
		"two at a time": {
			{0, "asked", Spent{}},
			{0, "asked", Spent{}},
			{1, "answered", Spent{All: 1, Bytes: 1}},
			{2, "answered", Spent{All: 2, Bytes: 2}},
			{3, "ended", Spent{All: 3, Bytes: 2, Sending: 1}},
			{5, "planned", Spent{All: 5, Bytes: 2, Sending: 1, Planning: 1}}, // the batch that was sent at 3 lasts until 4
			{6, "ended", Spent{All: 6, Bytes: 3, Sending: 1, Planning: 1}},
			{7, "answered", Spent{All: 7, Bytes: 3, Sending: 1, Planning: 1}}, // with one of two requests open, the rank has a batch
			{8, "ended", Spent{All: 8, Bytes: 3, Sending: 1, Planning: 1}},
			{9, "jumped planned", Spent{All: 9, Bytes: 3, Sending: 1, Planning: 2}}, // the rank has one request at a time now
			{11, "answered", Spent{All: 11, Bytes: 5, Sending: 1, Planning: 2}},
			{11, "ended", Spent{All: 11, Bytes: 5, Sending: 1, Planning: 2}},
		},
		"jumped with an open request": {
			{0, "asked", Spent{}},
			{0, "asked", Spent{}},
			{1, "answered", Spent{All: 1, Bytes: 1}},
			{1, "ended", Spent{All: 1, Bytes: 1}},
			{2, "answered", Spent{All: 2, Bytes: 1}},
			{2, "jumped", Spent{All: 2, Bytes: 1}}, // two again
			{3, "ended", Spent{All: 3, Bytes: 2}},
			{5, "answered", Spent{All: 5, Bytes: 2}},
			{5, "ended", Spent{All: 5, Bytes: 2}},
		},
		"one of two for a while": {
			{0, "asked", Spent{}},
			{0, "asked", Spent{}},
			{1, "answered", Spent{All: 1, Bytes: 1}},
			{1, "answered", Spent{All: 1, Bytes: 1}},
			{1, "ended", Spent{All: 1, Bytes: 1}},
			{1, "ended", Spent{All: 1, Bytes: 1}},
			{3, "planned", Spent{All: 3, Bytes: 1}}, // the rank continues at its position, so another request will follow
			{5, "answered", Spent{All: 5, Bytes: 1}},
			{6, "ahead planned", Spent{All: 6, Bytes: 1, Sending: 1}}, // the rank waits only for the batch being sent, not yet for this one
			{8, "answered", Spent{All: 8, Bytes: 1, Sending: 3}},
			{9, "ended", Spent{All: 9, Bytes: 1, Sending: 4}},
			{10, "ended", Spent{All: 10, Bytes: 1, Sending: 5}},
		},
		"jumped with two of three open": {
			{0, "asked", Spent{}},
			{0, "asked", Spent{}},
			{0, "asked", Spent{}},
			{1, "answered", Spent{All: 1, Bytes: 1}},
			{1, "ended", Spent{All: 1, Bytes: 1}},
			{2, "answered", Spent{All: 2, Bytes: 1}},
			{2, "ended", Spent{All: 2, Bytes: 1}},
			{3, "jumped", Spent{All: 3, Bytes: 1}}, // the rank's usual number is still three
			{5, "answered", Spent{All: 5, Bytes: 1}},
			{5, "answered", Spent{All: 5, Bytes: 1}},
			{6, "ended", Spent{All: 6, Bytes: 1}},
			{7, "ended", Spent{All: 7, Bytes: 1}},
		},
		"an answer of many batches": {
			{0, "asked", Spent{}},
			{1, "answered", Spent{All: 1, Bytes: 1}},
			{2, "ahead", Spent{All: 2, Bytes: 1, Sending: 1}},
			{4, "ended", Spent{All: 4, Bytes: 1, Sending: 3}}, // the next batch's bytes are missing, and the previous batch has been sent
			{5, "answered", Spent{All: 5, Bytes: 2, Sending: 3}},
			{7, "ended", Spent{All: 7, Bytes: 2, Sending: 5}},
		},
	} {
		var c clock
		second := func(s float64) time.Time { return begin().Add(time.Duration(s * float64(time.Second))) }
		for i, h := range story {
			now := second(h.at)
			switch h.what {
			case "asked", "ahead", "jumped":
				c.asked(now, now, h.what == "ahead", h.what == "jumped")
			case "planned", "ahead planned", "jumped planned":
				c.asked(second(h.at-1), now, h.what == "ahead planned", h.what == "jumped planned")
			case "answered":
				c.answered(now)
			case "ended":
				c.ended(now)
			}
			if c.spent != h.spent {
				t.Fatalf("%s, step %d, %s at %v s: got %+v, want %+v", name, i, h.what, h.at, c.spent, h.spent)
			}
		}
		if c.open != 0 || c.missing != 0 {
			t.Errorf("%s: got %d open and %d missing in the end, want none", name, c.open, c.missing)
		}
	}
}

// TestClock_WaitsFade checks that the share of waiting covers recent time: old values hardly count.
func TestClock_WaitsFade(t *testing.T) {
	var c clock
	if got := c.waits(begin()); got != 0 {
		t.Errorf("before any request: got %v, want nothing", got)
	}
	now := begin()
	wait := func(ask, answer, end time.Duration, want float64) {
		t.Helper()
		came := now
		now = now.Add(ask)
		c.asked(came, now, false, false)
		now = now.Add(answer)
		c.answered(now)
		now = now.Add(end)
		c.ended(now)
		if got := c.waits(now); math.Abs(got-want) > .01 {
			t.Errorf("got a share of %.3f, want %.3f", got, want)
		}
	}
	wait(0, time.Second, 3*time.Second, .232)
	wait(10*ofLate, 0, 0, 0) // planning
	wait(0, 0, 10*ofLate, 0) // sending
	wait(0, 10*ofLate, 0, 1)
	now = now.Add(ofLate) // the rank processes its batch; of the wait, which was 10 times as long, a part remains
	if got, want := c.waits(now), 10/math.E/(10/math.E+1); math.Abs(got-want) > .01 {
		t.Errorf("after a pause: got a share of %.3f, want %.3f", got, want)
	}
}

// TestArrival_From checks that a request counts from its arrival time, if that is known and not in
// the future.
func TestArrival_From(t *testing.T) {
	now := begin()
	for name, c := range map[string]struct {
		since, want time.Time
	}{
		"not known":     {time.Time{}, now},
		"before":        {now.Add(-time.Second), now.Add(-time.Second)},
		"in the future": {now.Add(time.Second), now},
	} {
		if got := (Arrival{Since: c.since}).from(now); !got.Equal(c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
