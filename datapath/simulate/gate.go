package simulate

// gate limits the number of concurrent store reads, as the data path's gate does. A request's read
// waits only for other requests' reads. A prefetch starts only while fewer reads than the limit run
// in total.
type gate struct {
	limit  int
	demand int
	ahead  int
	queue  []func()
	idle   func() // called when a place is free and no request waits for it
}

// enter calls start when there is a place for a request's read.
func (g *gate) enter(start func()) {
	if g.demand < g.limit {
		g.demand++
		start()
		return
	}
	g.queue = append(g.queue, start)
}

func (g *gate) leave() {
	if len(g.queue) > 0 {
		start := g.queue[0]
		g.queue = g.queue[1:]
		start()
		return
	}
	g.demand--
	g.idle()
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
