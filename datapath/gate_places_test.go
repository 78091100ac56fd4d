package datapath

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// check compares the counters of a gate. The number of waiting reads and the shares of stores are
// derived from the requests.
func (g *gate) check(t *testing.T, when string, demand, ahead, warm, queue, later int) {
	t.Helper()
	got := g.holdings()
	if got["places of requests"] != demand || got["places of reads ahead"] != ahead || got["places of warming reads"] != warm ||
		got["waiting requests"] != queue || got["waiting warming reads"] != later {
		t.Errorf("%s: got %v, want %d places of requests, %d ahead, %d of these warming, and %d and %d waiting", when, got, demand, ahead, warm, queue, later)
	}
}

// A read that leaves a gate admits the next one: first requests, then warming reads. If no request
// waits, Run is woken.
func TestGate_GivesPlacesOn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		told := 0
		g := &gate{limit: 2, idle: func() { told++ }}
		entered := make(chan string, 10)
		wait := func(name string, enter func(context.Context) error) {
			go func() {
				if enter(t.Context()) == nil {
					entered <- name
				}
			}()
			synctest.Wait()
		}
		next := func(want string) {
			t.Helper()
			synctest.Wait()
			select {
			case got := <-entered:
				if got != want {
					t.Errorf("got %s entered, want %s", got, want)
				}
			default:
				t.Errorf("got no read admitted, want %s", want)
			}
		}
		request := func(ctx context.Context) error { return g.enter(ctx, "store") }
		if !g.enterAhead(1) || g.enterAhead(1) {
			t.Error("got another number of places ahead than one of at most one")
		}
		if !g.enterAhead(2) || g.enterAhead(3) || !g.full() {
			t.Error("got a place ahead beyond the limit")
		}
		wait("warm", g.enterWarm)
		must(t, request(t.Context()))
		must(t, request(t.Context()))
		wait("request", request)
		g.check(t, "all waiting", 2, 2, 0, 1, 1)
		g.leave("store")
		next("request")
		if told != 0 {
			t.Error("Run was told of a place that a request took")
		}
		g.leaveAhead(true)
		if told != 0 {
			t.Error("Run was told of a place after a read that failed")
		}
		g.leave("store")
		g.leaveAhead(false)
		next("warm") // the request has one of the two places, and the warming read the other
		if told != 2 {
			t.Errorf("got Run told %d times, want twice: of a request's place, and of one ahead", told)
		}
		g.check(t, "one of each", 1, 1, 1, 0, 0)
		if g.full() {
			t.Error("got a gate full with a place that who warms would leave")
		}
		g.starve(true)
		if !g.full() {
			t.Error("got a gate with room, though it starves")
		}
		g.leave("store")
		wait("second", g.enterWarm) // at most half of two places, which is one, is for warming reads
		g.check(t, "starved", 0, 1, 1, 0, 1)
		g.starve(false)
		next("second")
		g.leaveWarm(false)
		g.leaveWarm(true)
		g.check(t, "left", 0, 0, 0, 0, 0)
		if told != 4 {
			t.Errorf("got Run told %d times, want four times", told)
		}
	})
}

// A wait that ends leaves no trace. A place granted at the same moment goes to the next waiter.
func TestGate_WaitsEndWithTheirContext(t *testing.T) {
	gone := errors.New("the client has gone")
	for name, c := range map[string]struct {
		enter func(g *gate, ctx context.Context) error
		leave func(g *gate)
		free  func(g *gate) // like leave, for a caller that holds mu
	}{
		"request": {
			func(g *gate, ctx context.Context) error { return g.enter(ctx, "store") },
			func(g *gate) { g.leave("store") },
			func(g *gate) { g.demand--; g.count("store", share{running: -1}) },
		},
		"warming": {
			func(g *gate, ctx context.Context) error { return g.enterWarm(ctx) },
			func(g *gate) { g.leaveWarm(false) },
			func(g *gate) { g.ahead--; g.warm-- },
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				g := &gate{limit: 1, idle: func() {}}
				must(t, c.enter(g, t.Context()))
				for _, moment := range []bool{false, true} {
					for range 50 {
						ctx, leave := context.WithCancelCause(t.Context())
						ended := make(chan error)
						go func() { ended <- c.enter(g, ctx) }()
						synctest.Wait()
						if moment {
							g.mu.Lock()
							leave(gone)
							c.free(g)
							g.admit()
							g.mu.Unlock()
						} else {
							leave(gone)
						}
						switch err := <-ended; {
						case err == nil && moment:
						case !errors.Is(err, gone):
							t.Fatalf("got %v, want %v", err, gone)
						case moment:
							g.check(t, "the place came too late", 0, 0, 0, 0, 0)
							must(t, c.enter(g, t.Context()))
						}
					}
				}
				c.leave(g)
				for what, n := range g.holdings() {
					if n != 0 {
						t.Errorf("got %d %s in the end, want none", n, what)
					}
				}
			})
		})
	}
}

// TestGate_FullOnlyForReadsAhead checks that a gate is full if all places are taken and no warming
// read would give its place up.
func TestGate_FullOnlyForReadsAhead(t *testing.T) {
	for _, c := range []struct {
		demand, ahead, warm int
		starved, full       bool
	}{
		{0, 0, 0, false, false}, {3, 0, 0, true, false}, {1, 2, 2, true, false}, {4, 0, 0, false, true}, {2, 2, 0, false, true},
		{0, 5, 0, true, true}, {2, 2, 1, false, false}, {2, 2, 1, true, true}, {6, 0, 0, false, true},
	} {
		g := &gate{limit: 4, demand: c.demand, ahead: c.ahead, warm: c.warm, starved: c.starved}
		if got := g.full(); got != c.full {
			t.Errorf("%+v: got full: %v", c, got)
		}
		more := c.demand+c.ahead < 4
		if got := g.enterAhead(c.ahead); got {
			t.Errorf("%+v: got a place beyond the most", c)
		}
		if got := g.enterAhead(c.ahead + 1); got != more {
			t.Errorf("%+v: got a place ahead: %v, want %v", c, got, more)
		}
	}
}

// TestGate_HoldsAndSlowsDown checks that a round counts as paced if a store delays a read in it,
// even a read that began in an earlier round. A store that throttles reduces the limit of this gate
// and of the gate below it.
func TestGate_HoldsAndSlowsDown(t *testing.T) {
	below := &gate{}
	g := &gate{below: below}
	g.resize(6)
	g.slower()
	if g.limit != 6 || below.limit != 5 {
		t.Errorf("got %d and %d places of a gate that does not climb, want 6 and 5", g.limit, below.limit)
	}
	g.climb = &climb{least: 4, most: 8, came: new(atomic.Int64)}
	for _, want := range []int{5, 4, 4} {
		if g.slower(); g.limit != want || below.limit != want-1 {
			t.Errorf("got %d and %d places, want %d and one less", g.limit, below.limit, want)
		}
	}
	if g.resize(1); below.limit != 1 {
		t.Errorf("got %d places below one, want 1", below.limit)
	}
	for _, begins := range []bool{true, true, false} {
		g.hold(begins)
	}
	if g.resize(4); !g.round.paced || g.paced != 1 {
		t.Errorf("got %d reads held back and a round paced: %v, want 1 and so", g.paced, g.round.paced)
	}
	if g.hold(false); !g.round.paced {
		t.Error("got a round not paced in which a read was held back")
	}
	if g.resize(4); g.round.paced {
		t.Error("got a round paced in which no read was held back")
	}
}
