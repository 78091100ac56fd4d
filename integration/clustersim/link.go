package clustersim

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// network is the network between the machines of one history. Machines are numbered from 0.
type network struct {
	mu      sync.Mutex    // guards the fields below, except the set of cards
	changed chan struct{} // closed when a field below changes
	links   map[route]link
	stopped map[int]bool // machines that neither send nor receive, although their processes still exist
	usual   link
	cards   map[int]*card // by machine; a machine without a card sends and receives as fast as its links
}

type route struct{ from, to int }

// link is one direction between two machines.
type link struct {
	cut   bool // no data passes; sent data waits until the link is restored
	delay time.Duration
	rate  int64 // bytes per second; 0: no limit
}

func newNetwork(usual link) *network {
	return &network{changed: make(chan struct{}), links: map[route]link{}, stopped: map[int]bool{}, usual: usual, cards: map[int]*card{}}
}

// card is the network card of a machine. All data that the machine sends passes through it, one
// piece after another, to all destinations. The same holds for all data that it receives.
type card struct {
	rate    int64     // bytes per second in each direction
	out, in time.Time // time when the last queued piece has passed
}

// pass returns the time when a piece has passed one direction of a card. The piece waits for those
// before it, and does not begin before begins.
func (c *card) pass(way *time.Time, begins time.Time, bytes int64) time.Time {
	if way.After(begins) {
		begins = *way
	}
	*way = begins.Add(c.took(bytes))
	return *way
}

func (c *card) took(bytes int64) time.Duration {
	return time.Duration(bytes) * time.Second / time.Duration(c.rate)
}

// limited reports whether either end of a route has a card.
func (n *network) limited(r route) bool { return n.cards[r.from] != nil || n.cards[r.to] != nil }

// leave queues a piece at the sender's card, and returns the time when its last byte has left.
func (n *network) leave(r route, bytes int64) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.cards[r.from]; c != nil {
		return c.pass(&c.out, time.Now(), bytes)
	}
	return time.Now()
}

// enter queues a piece at the receiver's card, and returns the time when the piece has passed. Its
// last byte reaches the card at time last. Its first bytes pass while the last ones are in transit.
func (n *network) enter(r route, bytes int64, last time.Time) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.cards[r.to]
	if c == nil {
		return last
	}
	if passed := c.pass(&c.in, last.Add(-c.took(bytes)), bytes); passed.After(last) {
		return passed
	}
	return last
}

// cross waits until the cards at both ends have passed the bytes. It passes them piece by piece, so
// that other data can pass between them.
func (n *network) cross(ctx context.Context, r route, bytes int64) error {
	for ; bytes > 0; bytes -= cardPiece {
		piece := min(bytes, cardPiece)
		left := n.leave(r, piece)
		if err := objstore.Sleep(ctx, time.Until(left)); err != nil {
			return err
		}
		if err := objstore.Sleep(ctx, time.Until(n.enter(r, piece, left))); err != nil {
			return err
		}
	}
	return nil
}

// cardPiece is the number of bytes that one connection passes to a card at a time.
const cardPiece = 64 << 10

// set changes one direction of a link.
func (n *network) set(r route, change func(*link)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.link(r)
	change(&l)
	n.links[r] = l
	n.wake()
}

// stop stops a machine, or lets it continue.
func (n *network) stop(machine int, still bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped[machine] = still
	n.wake()
}

// heal restores every link to its initial state, and lets every machine continue.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.links)
	clear(n.stopped)
	n.wake()
}

// wake makes all waiting goroutines check again. n.mu is held.
func (n *network) wake() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// link returns the state of one direction. n.mu is held.
func (n *network) link(r route) link {
	if l, ok := n.links[r]; ok {
		return l
	}
	return n.usual
}

// open reports whether data sent now would pass. It also returns the link, and a channel that is
// closed when the state changes.
func (n *network) open(r route) (bool, link, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.link(r)
	return !l.cut && !n.stopped[r.from] && !n.stopped[r.to], l, n.changed
}

// wait waits until the link is open.
func (n *network) wait(ctx context.Context, r route) (link, error) {
	for {
		open, l, changed := n.open(r)
		if open {
			return l, ctx.Err()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return l, ctx.Err()
		}
	}
}

// pass waits until the link is open, and then for the transit time of the bytes: the link's delay
// and the time at its rate.
func (n *network) pass(ctx context.Context, r route, bytes int64) error {
	l, err := n.wait(ctx, r)
	if err != nil {
		return err
	}
	if err := objstore.Sleep(ctx, l.took(bytes)); err != nil {
		return err
	}
	if err := n.cross(ctx, r, bytes); err != nil {
		return err
	}
	_, err = n.wait(ctx, r)
	return err
}

// took returns the transit time of the bytes.
func (l link) took(bytes int64) time.Duration {
	d := l.delay
	if l.rate > 0 {
		d += time.Duration(bytes) * time.Second / time.Duration(l.rate)
	}
	return d
}

// dial waits like pass, but for a response from the kernel: a stopped machine still accepts
// connections.
func (n *network) dial(ctx context.Context, r route) error {
	for {
		n.mu.Lock()
		l, changed := n.link(r), n.changed
		n.mu.Unlock()
		if !l.cut {
			return objstore.Sleep(ctx, l.delay)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// running waits while a machine is stopped.
func (n *network) running(ctx context.Context, machine int) error {
	for {
		n.mu.Lock()
		still, changed := n.stopped[machine], n.changed
		n.mu.Unlock()
		if !still {
			return ctx.Err()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
