package simulate

import "time"

// line simulates a network link, with a total rate that all transfers share. Each transfer is also
// limited to the rate of one stream.
type line struct {
	total  float64 // total bytes per second; 0: no bound
	stream float64 // bytes per second of one transfer; 0: no bound

	free time.Duration // time when it has sent all pieces scheduled so far
}

const pieceSize = 256 << 10 // minimum

func (l *line) bounded() bool { return l.total > 0 || l.stream > 0 }

// transfer sends n bytes through lines in series, in pieces. Transfers alternate piece by piece, so
// transfers that begin together do not end together. came, unless nil, is called after each piece
// with the total so far.
func (c *clock) transfer(n int64, came func(total int64), lines ...*line) {
	size := n
	for _, l := range lines {
		if l.bounded() {
			size = max(pieceSize, (n+c.pieces-1)/c.pieces)
		}
	}
	var mine time.Duration // earliest time at which the rate of a stream allows the next piece to end
	for sent := int64(0); sent < n; {
		piece := min(n-sent, size)
		sent += piece
		until := c.now
		for _, l := range lines {
			if l.stream > 0 {
				mine = max(mine, c.now) + seconds(float64(piece)/l.stream)
				until = max(until, mine)
			}
			if l.total > 0 {
				l.free = max(l.free, c.now) + seconds(float64(piece)/l.total)
				until = max(until, l.free)
			}
		}
		c.sleep(until - c.now)
		if came != nil {
			came(sent)
		}
	}
}
