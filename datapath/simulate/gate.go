package simulate

// gate limits the number of concurrent store reads, as the data path's gate does. A request's read
// waits only for other requests' reads. A prefetch starts only while fewer reads than the limit run
// in total.
type gate struct {
	limit  int
	demand int
	ahead  int
	queue  queue
	idle   func() // called when a place is free and no request waits for it
}

func newGate(c *clock, limit int, idle func()) *gate {
	g := &gate{limit: limit, idle: idle}
	g.queue = queue{clock: c, take: func(int64) bool {
		free := g.demand < g.limit
		if free {
			g.demand++
		}
		return free
	}}
	return g
}

// enter waits for a place for a request's read.
func (g *gate) enter() { g.queue.enter(1) }

func (g *gate) leave() {
	g.demand--
	waits := len(g.queue.waiters) > 0
	g.queue.next()
	if !waits {
		g.idle()
	}
}

// enterAhead takes a place for a prefetch if one is free now, and fewer than most prefetches are
// running.
func (g *gate) enterAhead(most int) bool {
	if g.ahead >= most || g.demand+g.ahead >= g.limit {
		return false
	}
	g.ahead++
	return true
}

func (g *gate) leaveAhead() {
	g.ahead--
	g.idle()
}
