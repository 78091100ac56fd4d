package simulate

import "time"

// line simulates a network link. It transfers bytes in pieces, at a total rate that all transfers
// share; each transfer is also limited to the rate of one stream. Transfers alternate piece by
// piece, so transfers that begin together do not end together.
type line struct {
	clock  *clock
	total  float64 // total bytes per second; 0: no bound
	stream float64 // bytes per second of one transfer; 0: no bound
	pieces int64   // maximum number of pieces of a transfer

	free time.Duration // time when it has sent all pieces scheduled so far
}

const pieceSize = 256 << 10 // minimum

func (l *line) bounded() bool { return l.total > 0 || l.stream > 0 }

// send transfers n bytes, then calls done.
func (l *line) send(n int64, done func()) { l.carry(n, atEnd(n, done)) }

// atEnd returns a function that calls done when all n bytes have arrived.
func atEnd(n int64, done func()) func(total int64) {
	return func(total int64) {
		if total == n {
			done()
		}
	}
}

// carry transfers n bytes, and calls came after each piece with the total so far.
func (l *line) carry(n int64, came func(total int64)) {
	if !l.bounded() || n == 0 {
		l.clock.after(0, func() { came(n) })
		return
	}
	size := max(pieceSize, (n+l.pieces-1)/l.pieces)
	var mine time.Duration // earliest time at which this transfer's own rate allows the next piece to end
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
