package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-data/millrace/peer"
)

// rateBytes is the least that a read must bring to say how fast the link is.
const rateBytes = 256 << 10

// A member that lets mostStuck questions of stuckAfter or more run out of time, one after the other, is ejected.
const (
	mostStuck  = 3
	stuckAfter = 2 * time.Second
)

// Read asks a member once. One that fails is not asked, and owns nothing, until it has been left alone for a while and has answered a
// hello after that; meanwhile its chunks belong to others.
func (c *Cluster) Read(ctx context.Context, id string, q *peer.Query, dst [][]byte) error {
	c.mu.Lock()
	m := c.members[id]
	if m == nil || m.gone || m.ejected {
		c.mu.Unlock()
		if m == nil || m.gone {
			return fmt.Errorf("ask member %s: it is gone: %w", id, peer.ErrDown)
		}
		return fmt.Errorf("ask member %s: %w", id, errEjected)
	}
	address, ejection := m.address, m.ejection
	m.asked.requests++
	c.mu.Unlock()

	begun := time.Now()
	err := c.cfg.Client.Read(ctx, address, q, dst)
	took := time.Since(begun)

	if err == nil {
		var n uint64
		for _, d := range dst {
			n += uint64(len(d))
		}
		c.mu.Lock()
		m.asked.bytes += n
		m.stuck = 0
		m.measure(n, took)
		c.mu.Unlock()
		return nil
	}
	defer c.say()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !errors.Is(err, peer.ErrNotHere) {
		m.asked.failed++
	}
	if c.members[id] == m && !m.gone {
		switch {
		case faulty(ctx, err):
			c.eject(m, ejection, 0, err.Error())
		case m.outOfTime(err, begun, took):
			c.eject(m, ejection, 0, fmt.Sprintf("it shows signs of life, but %d questions in a row ran out of time: look at its store and its disk", m.stuck))
		}
	}
	return fmt.Errorf("ask member %s: %w", id, err)
}

// outOfTime counts questions that a member did not answer in a time that was long, though it shows signs of life, and reports
// whether they are too many. One or two may be the store's fault. Questions of one time are one; and a member that has been
// ejected of late has no second chance.
func (m *member) outOfTime(err error, begun time.Time, took time.Duration) bool {
	var no *peer.Refused
	late := errors.Is(err, context.DeadlineExceeded) || errors.As(err, &no) && no.Code == peer.CodeTimeout
	if !late || took < stuckAfter || begun.Before(m.stuckAt) {
		return false
	}
	m.stuck++
	m.stuckAt = begun.Add(took)
	return m.stuck >= mostStuck || m.strikes > 0 && m.stuckAt.Sub(m.back) < forgiven
}

// measure follows the link's rate: at once upwards, slowly downwards, for a read also waits for what has to be fetched first.
func (m *member) measure(n uint64, took time.Duration) {
	if n < rateBytes || took <= 0 {
		return
	}
	if rate := float64(n) / took.Seconds(); rate > m.rate {
		m.rate = rate
	} else {
		m.rate += (rate - m.rate) / 16
	}
}

// faulty reports whether a failed read says something of the member. One that says no in order, or whose store is slow or down, is
// well; and nothing is known if it was we who gave up, unless it had been silent for too long by then.
func faulty(ctx context.Context, err error) bool {
	if ctx.Err() != nil && !errors.Is(err, peer.ErrDown) {
		return false
	}
	for _, fine := range []error{peer.ErrNotHere, peer.ErrNotServed, peer.ErrMismatch, peer.ErrNoRoom, peer.ErrQuestion} {
		if errors.Is(err, fine) {
			return false
		}
	}
	var no *peer.Refused
	return !errors.As(err, &no) || no.Code != peer.CodeTimeout && no.Code != peer.CodeStore
}

// Lied says that what a member sent was not what the index says. It is not asked for half a minute at least.
func (c *Cluster) Lied(id string) {
	defer c.say()
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[id]
	if m == nil || m.gone {
		return
	}
	m.asked.failed++
	c.eject(m, m.ejection, coolLie, "what it sent was not what the index says")
}

// Answered counts what a member was sent.
func (c *Cluster) Answered(id string, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[id]; m != nil {
		m.answered.requests++
		m.answered.bytes += uint64(max(bytes, 0))
	}
}
