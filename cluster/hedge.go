package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/internal/tracing"
)

// A member that is late is not waited for alone: another gateway is asked beside it, or the store, and the first answer counts.
const (
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
)

// errLate says that another gateway was faster.
var errLate = errors.New("the member is late")

// race asks the member, and when that is late another one beside it. It returns when both have
// ended: nil if the member has answered first.
func (r *memberRead) race(ctx context.Context, q *peer.Query, dst [][]byte) error {
	c := r.cluster
	if r.instead == nil {
		return r.ask(ctx, q, dst)
	}
	asked, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	alive, begun := make(chan struct{}, 1), make(chan struct{}, 1)
	done := make(chan error, 1)
	var other chan error
	go func() {
		done <- r.ask(peer.WithProgress(asked, &peer.Progress{Alive: notify(alive), Begun: notify(begun)}), q, dst)
	}()
	late := time.NewTimer(r.prompt)
	defer late.Stop()
	loads := false
	for {
		select {
		case err := <-done:
			if err == nil {
				giveUp(nil)
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
				giveUp(errLate)
				<-done //nolint:errcheck // it was given up, and fails so
				return fmt.Errorf("no answer for %v: %w", time.Since(r.begun).Round(time.Millisecond), errLate)
			}
		}
	}
}

// ask asks the member, as a span of its own: what is asked of others instead is beside it.
func (r *memberRead) ask(ctx context.Context, q *peer.Query, dst [][]byte) error {
	ctx, span := tracing.Call(ctx, "peer question")
	span.Text("millrace.peer.member", r.id)
	span.Number("millrace.chunks", int64(len(q.Chunks)))
	span.Number("millrace.bytes", bytesOf(dst))
	err := r.cluster.cfg.Client.Read(ctx, r.address, q, dst)
	span.Ended(err)
	return err
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
func (c *Cluster) late(r *memberRead, loads bool) (more time.Duration, hedge bool) {
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
	c.prompt = promptFloor + promptTimes*all[(len(all)-1)/2] // of two the quicker one: the other may be sick
}
