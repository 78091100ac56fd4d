package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
)

// A sick member answers hellos, but refuses questions or answers them late. The cause may lie elsewhere:
// with the store down no member can answer. So a question counts against a member only if another gateway
// has answered it in the member's place. Ejection follows
// Envoy's outlier detection: so many in a row, at most a share of the members, longer each time.
const (
	sickAfter  = 3    // questions in a row, one after the other
	hedgeShare = 0.02 // of the questions may be asked of another member too
	hedgeBurst = 8    // of them at a time
	hedgeRate  = 0.5  // of them a second: each may cost the store a chunk

	// A member gives a sign of life 10 ms after a question, sooner where the bytes are in its
	// memory. It is late where nothing is heard for that, some more, and eight times what hellos
	// take of late; the median of all members, since a sick one has slow hellos too.
	promptFloor = 20 * time.Millisecond
	promptTimes = 8

	// A member that has given a sign of life loads the bytes. It is late after twice what the
	// slowest of the last answers of all members took. At first the store may be slow for all: a
	// cold one takes seconds.
	loadFloor = 250 * time.Millisecond
	loadCold  = 2 * time.Second
	loadTimes = 2
	loadFade  = 8 // answers after which a slow one counts for a third

	probeBytes = 1 << 20 // of a sample by which an ejected member is tried
)

// errLate says that another gateway was faster.
var errLate = errors.New("the member is late")

// race asks the member, and when that is late another one beside it. It returns when both have
// ended: nil if the member has answered first.
func (r *asking) race(ctx context.Context, q *peer.Query, dst [][]byte) error {
	c := r.cluster
	if r.instead == nil {
		return c.cfg.Client.Read(ctx, r.address, q, dst)
	}
	asked, giveUp := context.WithCancel(ctx)
	defer giveUp()
	alive, begun := make(chan struct{}, 1), make(chan struct{}, 1)
	done := make(chan error, 1)
	var other chan error
	go func() {
		done <- c.cfg.Client.Read(peer.WithProgress(asked, &peer.Progress{Alive: notify(alive), Begun: notify(begun)}), r.address, q, dst)
	}()
	late := time.NewTimer(r.prompt)
	defer late.Stop()
	loads := false
	for {
		select {
		case err := <-done:
			if err == nil {
				giveUp()
			}
			if other != nil {
				r.outdone = <-other == nil && err != nil
			}
			return err
		case <-alive:
			if !loads && !r.hedged {
				loads = true
				late.Reset(loadFloor)
			}
		case <-begun:
			late.Stop()
		case <-late.C:
			switch more, hedge := c.late(r, loads); {
			case more > 0:
				late.Reset(more)
			case hedge:
				r.hedged, other = true, make(chan error, 1)
				go func() { other <- r.instead(asked, true) }()
			}
		case err := <-other:
			other = nil
			if err == nil {
				r.outdone = true
				giveUp()
				<-done
				return fmt.Errorf("no answer for %v: %w", time.Since(r.begun).Round(time.Millisecond), errLate)
			}
		}
	}
}

// notify returns a function that puts a token into a channel that has room for one.
func notify(to chan struct{}) func() {
	return func() {
		select {
		case to <- struct{}{}:
		default:
		}
	}
}

// late is asked when the time of a member seems to be up. It returns how much more the member has, as
// loads are slow by now; else whether another one may be asked beside it.
func (c *Cluster) late(r *asking, loads bool) (more time.Duration, hedge bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := c.load() - time.Since(r.begun); loads && left > 0 {
		return min(left, loadFloor), false
	}
	r.member.poorAt = time.Now()
	if c.hedges < 1 {
		return 0, false
	}
	c.hedges--
	c.hedged++
	return 0, true
}

// load returns how long a member may take to bring what it does not hold.
func (c *Cluster) load() time.Duration { return max(c.prompt, loadFloor, loadTimes*c.slowest) }

// measured takes how long a hello of a member took, and how long members may take from now on to give
// a sign of life.
func (c *Cluster) measured(m *member, took time.Duration) {
	if m.latency == 0 {
		m.latency = took
	}
	m.latency += (took - m.latency) / 8
	var all []time.Duration
	for _, o := range c.members {
		if o.state != Gone {
			all = append(all, o.latency)
		}
	}
	slices.Sort(all)
	c.prompt = promptFloor + promptTimes*all[len(all)/2]
}

// fault is what a question that has failed says of the member.
type fault int

const (
	none   fault = iota // it is well: it said no in order, or it was we who gave up
	ill                 // it may be sick: it lacks memory, the store fails it, or it is late
	broken              // it is silent, or does not follow the protocol
)

func faultOf(ctx context.Context, err error) fault {
	var no *peer.Refused
	refused := errors.As(err, &no)
	switch {
	case errors.Is(err, errLate), errors.Is(err, peer.ErrNoRoom), refused && (no.Code == peer.CodeStore || no.Code == peer.CodeTimeout):
		return ill
	case errors.Is(err, peer.ErrNotHere), errors.Is(err, peer.ErrNotServed), errors.Is(err, peer.ErrMismatch), errors.Is(err, peer.ErrQuestion):
		return none
	case ctx.Err() == nil || errors.Is(err, peer.ErrDown): // it was silent for too long before we gave up
		return broken
	case errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ill
	}
	return none
}

// blame counts against a member that another gateway has brought what it has not, and ejects it if
// that is too often. Questions of one time are one; and a member that has been ejected of late has
// no second chance.
func (c *Cluster) blame(r *asking, q *peer.Query, err error) {
	c.mu.Lock()
	defer c.unlock()
	m := r.member
	if c.members[m.ID] != m || m.state == Gone || m.state == Ejected || r.begun.Before(m.sickAt) || r.begun.Before(m.back) {
		return
	}
	m.sick++
	m.sickAt = time.Now()
	m.poorAt = m.sickAt
	again := m.strikes > 0 && m.sickAt.Sub(m.back) < forgiven
	if m.sick < sickAfter && !again || c.most(func(o *member) bool { return o.state == Ejected || m.sickAt.Sub(o.poorAt) < forgiven }) {
		return
	}
	m.probe = probe(q)
	c.eject(m, r.begun, 0, fmt.Sprintf("%d questions in a row were answered elsewhere, the last since: %v", m.sick, err))
}

// most reports whether more than half of the gateways are so, this one counted, which is not.
func (c *Cluster) most(are func(*member) bool) bool {
	all, so := 1, 0
	for _, m := range c.members {
		if m.state == Gone {
			continue
		}
		all++
		if are(m) {
			so++
		}
	}
	return 2*so > all
}

// probe makes a small question of one that a member has not answered: its smallest sample, for no
// reader. nil where that is large.
func probe(q *peer.Query) *peer.Query {
	var small *peer.Query
	least := uint32(probeBytes)
	for _, w := range q.Chunks {
		for i, r := range w.Ranges {
			if r.Length > least {
				continue
			}
			least = r.Length
			one := w
			one.Ranges = w.Ranges[i : i+1 : i+1]
			small = &peer.Query{Dataset: q.Dataset, Generation: q.Generation, Chunks: []peer.Wanted{one}}
		}
	}
	return small
}

// try asks a sick member that has been left alone for long enough what it has not answered, beside
// the data path. It is well if the answer comes in time.
func (c *Cluster) try(ctx context.Context, k *contact) {
	c.mu.Lock()
	m := c.here(k)
	if m == nil || m.state != Ejected || m.probe == nil || k.misses > 0 || time.Now().Before(m.until) {
		c.mu.Unlock()
		return
	}
	q := m.probe
	prompt, load := c.prompt, c.load()
	c.mu.Unlock()
	asked, giveUp := context.WithCancel(ctx)
	defer giveUp()
	late := time.AfterFunc(prompt, giveUp)
	defer late.Stop()
	hear := func() { late.Reset(load) }
	err := c.cfg.Client.Read(peer.WithProgress(asked, &peer.Progress{Alive: hear, Begun: hear}), k.address, q, [][]byte{make([]byte, q.Chunks[0].Ranges[0].Length)})
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.unlock()
	if m.state != Ejected || m.probe != q {
		return
	}
	if err != nil || asked.Err() != nil {
		m.until = time.Now().Add(m.cool(0))
		return
	}
	m.probe = nil // the next hello lets it in
	m.until = time.Now()
	k.awake()
}
