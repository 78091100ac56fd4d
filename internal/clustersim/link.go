package clustersim

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// network is what lies between the machines of one history. Machines are numbered from 0.
type network struct {
	mu      sync.Mutex    // guards all below
	changed chan struct{} // closed when anything below changes
	links   map[route]link
	stopped map[int]bool // machines that neither send nor take anything, and whose processes are there
	usual   link
}

type route struct{ from, to int }

// link is one direction between two machines.
type link struct {
	cut   bool // nothing passes; what is sent waits until it does
	delay time.Duration
	rate  int64 // bytes a second, 0: without limit
}

func newNetwork(usual link) *network {
	return &network{changed: make(chan struct{}), links: map[route]link{}, stopped: map[int]bool{}, usual: usual}
}

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
