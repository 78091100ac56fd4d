package clustersim

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// network is what lies between the machines of one history. Machines are numbered from 0.
type network struct {
	mu      sync.Mutex    // guards all below but for which cards there are
	changed chan struct{} // closed when anything below changes
	links   map[route]link
	stopped map[int]bool // machines that neither send nor take anything, and whose processes are there
	usual   link
	cards   map[int]*card // of machines; none: it sends and takes as fast as its links can
}

type route struct{ from, to int }

// link is one direction between two machines.
type link struct {
	cut   bool // nothing passes; what is sent waits until it does
	delay time.Duration
	rate  int64 // bytes a second, 0: without limit
}

func newNetwork(usual link) *network {
	return &network{changed: make(chan struct{}), links: map[route]link{}, stopped: map[int]bool{}, usual: usual, cards: map[int]*card{}}
}

// card is the network card of a machine. Everything that the machine sends passes it one piece after the other, whoever takes
// the piece, and so does everything that it takes.
type card struct {
	rate    int64     // bytes a second each way
	out, in time.Time // when the last piece that was handed to it has passed
}

// pass returns when a piece has passed one way of a card: behind the pieces before it, and not before it begins.
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

// leave hands a piece to the sender's card, and returns when its last byte has left.
func (n *network) leave(r route, bytes int64) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.cards[r.from]; c != nil {
		return c.pass(&c.out, time.Now(), bytes)
	}
	return time.Now()
}

// enter hands a piece whose last byte reaches the taker's card at a time to that card, and returns when the piece has
// passed. Its first bytes pass while the last ones are under way.
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

// cross waits as long as the cards at both ends take for so many bytes, piece by piece, so that others pass between them.
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

// cardPiece is how much one connection hands to a card before others have their turn.
const cardPiece = 64 << 10

// set changes one direction.
func (n *network) set(r route, change func(*link)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.link(r)
	change(&l)
	n.links[r] = l
	n.wake()
}

// stop lets a machine stand still, or go on.
func (n *network) stop(machine int, still bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped[machine] = still
	n.wake()
}

// heal makes every link what it was at first, and lets every machine go on.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.links)
	clear(n.stopped)
	n.wake()
}

// wake lets those that wait look again. n.mu is held.
func (n *network) wake() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// link returns one direction as it is. n.mu is held.
func (n *network) link(r route) link {
	if l, ok := n.links[r]; ok {
		return l
	}
	return n.usual
}

// open reports whether something that is sent now would pass, what the link is like, and returns a channel that is
// closed when either changes.
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

// pass waits as long as so many bytes take: until the link is open, and then its delay and what its rate adds.
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

// took returns how long so many bytes are on their way.
func (l link) took(bytes int64) time.Duration {
	d := l.delay
	if l.rate > 0 {
		d += time.Duration(bytes) * time.Second / time.Duration(l.rate)
	}
	return d
}

// dial waits as pass does for something that the kernel answers: a machine that stands still takes connections.
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

// running waits while a machine stands still.
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
