package simulate

import "time"

// line carries bytes, piece by piece in turn, at a rate that all transfers share, none faster than its own bound: what a
// link does to streams that are alike. Pieces take their places behind one another, so that transfers that begin
// together do not end together.
type line struct {
	clock  *clock
	total  float64 // bytes per second of all together; 0: no bound
	stream float64 // of one; 0: no bound
	pieces int64   // that a transfer is cut into at most

	free time.Duration // when it has sent what was asked so far
}

const pieceSize = 256 << 10 // where there are few

func (l *line) bounded() bool { return l.total > 0 || l.stream > 0 }

// send carries n bytes, then calls done.
func (l *line) send(n int64, done func()) { l.carry(n, atEnd(n, done)) }

// atEnd returns a function that calls done when all of n bytes have come.
func atEnd(n int64, done func()) func(total int64) {
	return func(total int64) {
		if total == n {
			done()
		}
	}
}

// carry carries n bytes, and calls came after each piece with how many have come.
func (l *line) carry(n int64, came func(total int64)) {
	if !l.bounded() || n == 0 {
		l.clock.after(0, func() { came(n) })
		return
	}
	size := max(pieceSize, (n+l.pieces-1)/l.pieces)
	var mine time.Duration // when this transfer's own bound lets the next piece end
	var sent int64
	var next func()
	next = func() {
		if sent > 0 {
			came(sent)
		}
		if sent == n {
			return
		}
		piece := min(n-sent, size)
		sent += piece
		until := l.clock.now
		if l.stream > 0 {
			mine = max(mine, l.clock.now) + seconds(float64(piece)/l.stream)
			until = mine
		}
		if l.total > 0 {
			l.free = max(l.free, l.clock.now) + seconds(float64(piece)/l.total)
			until = max(until, l.free)
		}
		l.clock.after(until-l.clock.now, next)
	}
	next()
}
