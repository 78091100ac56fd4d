package simulate

// gate lets a fixed number of store reads run, as the data path's does: a request's read waits only for other
// requests' reads; one made ahead starts only while there is room beside all of them.
type gate struct {
	limit  int
	demand int
	ahead  int
	queue  []func()
	idle   func() // a place is free that no request waits for
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

// enterAhead takes a place for a read made ahead, if there is one now and fewer than most are under way.
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
