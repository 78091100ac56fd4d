package simulate

import "time"

// line carries bytes at a rate that all transfers share evenly, none faster than its own bound: what a link does
// to streams that are alike.
type line struct {
	clock  *clock
	total  float64 // bytes per second of all together; 0: no bound
	stream float64 // of one; 0: no bound

	served  float64 // bytes that each transfer under way since the line was last idle would have got
	since   time.Duration
	active  pile[transfer]
	planned uint64 // the wake-up that counts: the rate has changed since the others were set
}

type transfer struct {
	end  float64 // of served, when it is done
	set  uint64
	done func()
}

func (t transfer) before(o transfer) bool { return t.end < o.end || t.end == o.end && t.set < o.set }

// send carries n bytes, then calls done.
func (l *line) send(n int64, done func()) {
	if l.rate(1) == 0 || n <= 0 {
		l.clock.after(0, done)
		return
	}
	l.advance()
	l.clock.set++
	l.active.push(transfer{l.served + float64(n), l.clock.set, done})
	l.plan()
}

// rate is what each of n transfers gets; 0: as much as it likes.
func (l *line) rate(n int) float64 {
	switch share := l.total / float64(n); {
	case l.total == 0:
		return l.stream
	case l.stream == 0:
		return share
	default:
		return min(share, l.stream)
	}
}

// advance brings served up to now.
func (l *line) advance() {
	if n := len(l.active); n > 0 {
		l.served += l.rate(n) * (l.clock.now - l.since).Seconds()
	} else {
		l.served = 0
	}
	l.since = l.clock.now
}

// plan sets the wake-up for the transfer that ends first.
func (l *line) plan() {
	l.planned++
	if len(l.active) == 0 {
		return
	}
	mine := l.planned
	left := max(l.active[0].end-l.served, 0) / l.rate(len(l.active))
	l.clock.after(seconds(left)+1, func() { // a nanosecond late rather than early: seconds rounds down
		if mine == l.planned {
			l.finish()
		}
	})
}

// finish ends what is done.
func (l *line) finish() {
	l.advance()
	var done []func()
	for len(l.active) > 0 && l.active[0].end <= l.served {
		done = append(done, l.active.pop().done)
	}
	l.plan()
	for _, do := range done {
		do()
	}
}
