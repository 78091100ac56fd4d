package simulate

import "time"

// clock runs events in order of time. Events at the same time run in the order in which they were
// scheduled.
type clock struct {
	now    time.Duration
	set    uint64
	events pile
}

type event struct {
	at  time.Duration
	set uint64
	do  func()
}

func (e event) before(o event) bool { return e.at < o.at || e.at == o.at && e.set < o.set }

// after schedules an event after a delay.
func (c *clock) after(d time.Duration, do func()) {
	c.set++
	c.events.push(event{c.now + max(d, 0), c.set, do})
}

// step runs the next event and reports whether there was one.
func (c *clock) step() bool {
	if len(c.events) == 0 {
		return false
	}
	e := c.events.pop()
	c.now = e.at
	e.do()
	return true
}

// instant returns the simulated time as a time.Time, for package lookahead.
func (c *clock) instant() time.Time { return time.Unix(0, 0).Add(c.now) }

// seconds converts seconds to a duration, limited to the longest one.
func seconds(s float64) time.Duration {
	return time.Duration(min(s*float64(time.Second), float64(1<<62)))
}

// pile is a binary heap of events with the next event on top. It is typed, unlike container/heap,
// since most of the run time is spent in it.
type pile []event

func (p *pile) push(x event) {
	h := append(*p, x)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !h[i].before(h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	*p = h
}

func (p *pile) pop() event {
	h := *p
	top := h[0]
	n := len(h) - 1
	h[0] = h[n]
	h[n] = event{}
	h = h[:n]
	for i := 0; ; {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && h[down+1].before(h[down]) {
			down++
		}
		if !h[down].before(h[i]) {
			break
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
	*p = h
	return top
}
