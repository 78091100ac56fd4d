package lookahead

import (
	"math"
	"time"
)

// clock says where the time of one rank goes. Many clients have several requests under way, so that a batch is at hand when the last one is
// used up. Such a rank waits while all of its requests are under way: as many as it has at once. With fewer, it has a batch.
// Its sums fade.
//
// A client with one request at a time may send the next one before the gateway has noted the end of the last one, on another connection of its
// pool. So more requests count as at once only if they are for a part of the time.
type clock struct {
	until   time.Time // the sums count to this moment
	open    int       // answers that are not sent yet
	missing int       // of these, answers whose bytes are not there yet
	most    int       // answers that are open at once
	streams bool      // the rank reads answers of many batches: the next batch is read while one is sent, and nothing waits for it yet

	busy, over float64 // seconds with an open answer, and of these with more than most

	seconds, planning, bytes, sending float64 // since the rank came, and of these those that it waited, by the cause

	spent Spent // does not fade
}

// overlap is the part of the time with open answers for which more of them than before have to be open to count.
const overlap = 0.02

// Arrival is how a request has come to its read. The zero value says nothing: it comes as its read begins.
type Arrival struct {
	Since time.Time // when the request came
	Ahead bool      // the answer under way goes on with this batch: the reader does not wait for it yet
}

// from is when a request has come that is read now.
func (a Arrival) from(now time.Time) time.Time {
	if a.Since.IsZero() || a.Since.After(now) {
		return now
	}
	return a.Since
}

// Shares are parts of a rank's time of late that it waited, by what the gateway was doing meanwhile.
type Shares struct {
	Planning float64 // finding out what is in the batch, and waiting for memory to do so
	Bytes    float64
	Sending  float64
}

// Spent is where the time of a rank went since it came, in seconds. It only grows: the difference of two is exact.
type Spent struct {
	All      float64
	Planning float64 // of All; the rank waited while the gateway found out what is in the batch, or had no memory to do so
	Bytes    float64 // of All; it waited for bytes
	Sending  float64 // of All; its bytes were on the way
	Pauses   float64 // from the end of an answer to the next request
	Paused   uint64  // number of these pauses
}

// pass counts the time until now.
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
	c.seconds, c.planning, c.bytes, c.sending = c.seconds*fade+since, c.planning*fade, c.bytes*fade, c.sending*fade
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
		c.sending += since
		c.spent.Sending += since
	}
}

// asked begins a request that came at some time, and is known by now. ahead says that the gateway asks by itself, for the batch that an
// answer under way goes on with. anew says that the rank does not go on where it was: it may have another number of requests now.
func (c *clock) asked(came, now time.Time, ahead, anew bool) {
	c.pass(came)
	if anew && c.open == 0 {
		c.most, c.over = 0, 0
	}
	if c.streams = ahead; !ahead {
		c.most = max(c.most, 1)
	}
	waits := !ahead && c.open+1 >= c.most
	before, bytes, sending := c.until, c.bytes, c.sending
	c.pass(now)
	if since := c.until.Sub(before).Seconds(); waits && since > 0 && c.bytes <= bytes && c.sending <= sending {
		c.planning += since
		c.spent.Planning += since
	}
	c.open++
	c.missing++
}

// answered notes that the bytes of a request are there, or that they will not come.
func (c *clock) answered(now time.Time) {
	c.pass(now)
	c.missing--
}

// ended notes that an answer is sent.
func (c *clock) ended(now time.Time) {
	c.pass(now)
	c.open--
}

// shares returns the parts of the time until now.
func (c *clock) shares(now time.Time) Shares {
	c.pass(now)
	if c.seconds == 0 {
		return Shares{}
	}
	return Shares{Planning: min(c.planning/c.seconds, 1), Bytes: min(c.bytes/c.seconds, 1), Sending: min(c.sending/c.seconds, 1)}
}
