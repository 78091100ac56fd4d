package lookahead

import (
	"math"
	"time"
)

// clock measures how a rank spends its time. Many clients have several requests open, so that a
// batch is ready when the previous one is used up. Such a rank waits while its usual number of
// requests is open; with fewer open requests, it has a batch to process. The sums decay.
//
// A client with one request at a time may send the next one over another pooled connection before
// the gateway has recorded the end of the previous one. So a larger number of open requests counts
// as usual only if it is reached for a minimum share of the time.
type clock struct {
	until   time.Time // time up to which the sums are computed
	open    int       // answers not completely sent yet
	missing int       // of these, answers whose bytes have not arrived
	most    int       // usual number of open answers
	streams bool      // the rank reads many batches in one answer: the next batch is read while one is sent, so the rank does not wait for it yet

	busy, over float64 // seconds with an open answer, and seconds with more than most open

	seconds, bytes float64 // seconds since the rank was first seen, and seconds that it waited for bytes

	spent Spent // does not decay
}

// overlap is the threshold for raising most: the share of the time with open answers in which more
// than most of them were open.
const overlap = 0.02

// Arrival describes the arrival of a request before its read. The zero value means that the request
// arrived when its read began.
type Arrival struct {
	Since time.Time // when the request arrived
	Ahead bool      // the batch continues an answer in progress: the reader does not wait for it yet
}

// from returns the arrival time of a request whose read begins now.
func (a Arrival) from(now time.Time) time.Time {
	if a.Since.IsZero() || a.Since.After(now) {
		return now
	}
	return a.Since
}

// Spent is a rank's time since it was first seen, in seconds by activity. It only grows, so the
// difference of two values is exact.
type Spent struct {
	All      float64
	Planning float64 // part of All: the rank waited while the gateway planned the batch, or waited for memory to do so
	Bytes    float64 // part of All: the rank waited for bytes
	Sending  float64 // part of All: the bytes were being sent
	Pauses   float64 // total time from the end of an answer to the next request
	Paused   uint64  // number of pauses in Pauses
}

// pass adds the time until now to the sums.
func (c *clock) pass(now time.Time) {
	since := now.Sub(c.until).Seconds()
	if c.until.IsZero() || since <= 0 {
		if c.until.IsZero() {
			c.until = now
		}
		return
	}
	c.until = now
	fade := math.Exp(-since / ofLate.Seconds())
	c.spent.All += since
	c.seconds, c.bytes = c.seconds*fade+since, c.bytes*fade
	c.busy, c.over = c.busy*fade, c.over*fade
	if c.open > 0 {
		c.busy += since
	}
	if c.open > c.most {
		if c.over += since; c.over > overlap*c.busy {
			c.most, c.over = c.open, 0
		}
	}
	switch {
	case c.open == 0 || !c.streams && c.open < c.most:
	case c.missing == c.open || !c.streams && c.missing > 0:
		c.bytes += since
		c.spent.Bytes += since
	default:
		c.spent.Sending += since
	}
}

// asked records a request that arrived at came, before now. ahead reports that the gateway itself
// reads the next batch of an answer in progress. jumped reports that the rank has jumped, so its
// number of open requests may differ from now on.
func (c *clock) asked(came, now time.Time, ahead, jumped bool) {
	c.pass(came)
	if jumped && c.open == 0 {
		c.most, c.over = 0, 0
	}
	if c.streams = ahead; !ahead {
		c.most = max(c.most, 1)
	}
	waits := !ahead && c.open+1 >= c.most
	before, spent := c.until, c.spent
	c.pass(now)
	if since := c.until.Sub(before).Seconds(); waits && since > 0 && c.spent.Bytes == spent.Bytes && c.spent.Sending == spent.Sending {
		c.spent.Planning += since
	}
	c.open++
	c.missing++
}

// answered records that the bytes of a request have arrived, or that the read failed.
func (c *clock) answered(now time.Time) {
	c.pass(now)
	c.missing--
}

// ended records that an answer was sent.
func (c *clock) ended(now time.Time) {
	c.pass(now)
	c.open--
}

// waits returns the share of the recent time until now in which the rank waited for bytes.
func (c *clock) waits(now time.Time) float64 {
	if c.pass(now); c.seconds == 0 {
		return 0
	}
	return min(c.bytes/c.seconds, 1)
}
