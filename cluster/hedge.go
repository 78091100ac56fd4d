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

// If a member is late, the question is hedged: another gateway or the store gets it concurrently,
// and the first answer is used.
const (
	hedgeShare = 0.02 // maximum share of hedged questions
	hedgeBurst = 8    // maximum burst of hedged questions
	hedgeRate  = 0.5  // maximum hedged questions per second; each may cost the store a read of a chunk

	// Within 10 ms of a question a member sends a sign of life, or the answer if the bytes are
	// in its memory. It is late if neither arrives within that time, a margin, and eight times
	// the recent time of a hello. The time of a hello is the median of all members, since the
	// hellos of a sick member are slow too.
	promptFloor = 20 * time.Millisecond
	promptTimes = 8

	// After a sign of life the member loads the bytes. It is late if this takes more than twice
	// as long as the slowest recent answer of all members. The initial value allows for a cold
	// store, which takes seconds.
	loadFloor = 250 * time.Millisecond
	loadCold  = 2 * time.Second
	loadTimes = 2
	loadFade  = 8 // number of answers after which a slow one has decayed to a third
)

// errLate reports that another gateway was faster.
var errLate = errors.New("the member is late")

// race sends the question to the member, and concurrently to another gateway if the member is late.
// It returns when both have ended: nil if the member answered first.
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
				<-done //nolint:errcheck // it was canceled, so it fails
				return fmt.Errorf("no answer for %v: %w", time.Since(r.begun).Round(time.Millisecond), errLate)
			}
		}
	}
}

// ask sends the question to the member, in a span of its own that excludes the hedge.
func (r *memberRead) ask(ctx context.Context, q *peer.Query, dst [][]byte) error {
	ctx, span := tracing.Call(ctx, "peer question")
	span.Text("millrace.peer.member", r.id)
	span.Number("millrace.chunks", int64(len(q.Chunks)))
	span.Number("millrace.bytes", bytesOf(dst))
	err := r.cluster.cfg.Client.Read(ctx, r.address, q, dst)
	span.Ended(err)
	return err
}

// notify returns a function that sends a token to a channel with a buffer of one.
func notify(to chan struct{}) func() {
	return func() {
		select {
		case to <- struct{}{}:
		default:
		}
	}
}

// late is called when the timeout of a member has expired. It returns more time if loads are
// currently slow; otherwise it reports whether to hedge the question.
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

// load returns the timeout of a member that loads bytes.
func (c *Cluster) load() time.Duration { return max(c.prompt, loadFloor, loadTimes*c.slowest) }

// measured records the time of a member's hello, and updates the timeout for signs of life.
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
	c.prompt = promptFloor + promptTimes*all[(len(all)-1)/2] // of two members the faster one's time, since the other may be sick
}
