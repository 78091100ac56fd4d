package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
)

// rateBytes is the least that a read must bring to say how fast the link is.
const rateBytes = 256 << 10

// Read asks a member once. A member that is silent is ejected at once, one that refuses or is late
// after some questions (blame); an ejected member is not asked. instead, unless nil, brings the same
// from elsewhere: beside the member while its answer is late, or after it has failed.
// peer.ErrOutdone says that instead has brought the bytes.
func (c *Cluster) Read(ctx context.Context, id string, q *peer.Query, dst [][]byte, instead func(ctx context.Context, beside bool) error) error {
	r, err := c.begin(id, instead)
	if err == nil {
		if err = r.race(ctx, q, dst); err == nil {
			c.answered(r, dst)
			return nil
		}
		r.fault = faultOf(ctx, err)
		c.failed(r, err)
	}
	if instead != nil && !r.hedged && !errors.Is(ctx.Err(), context.Canceled) {
		r.outdone = instead(ctx, false) == nil
	}
	if !r.outdone {
		return fmt.Errorf("ask member %s: %w", id, err)
	}
	if r.fault == ill {
		c.blame(r, q, err)
	}
	return fmt.Errorf("ask member %s: %w: %w", id, peer.ErrOutdone, err)
}

// asking is one read of a member.
type asking struct {
	cluster *Cluster
	member  *member // nil: it could not be asked
	address string
	begun   time.Time
	prompt  time.Duration // within which it gives a sign of life
	instead func(ctx context.Context, beside bool) error
	fault   fault // what an error says of the member
	hedged  bool  // instead was tried beside the member
	outdone bool  // instead has brought the bytes
}

// begin looks up a member, and counts the question.
func (c *Cluster) begin(id string, instead func(ctx context.Context, beside bool) error) (*asking, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &asking{cluster: c, begun: time.Now(), instead: instead}
	m := c.members[id]
	if m == nil || m.state == Gone {
		return r, fmt.Errorf("it is gone: %w", peer.ErrDown)
	}
	if m.state == Ejected {
		return r, errEjected
	}
	m.asked.Requests++
	c.hedges = min(c.hedges+min(hedgeShare, hedgeRate*r.begun.Sub(c.earned).Seconds()), hedgeBurst)
	c.earned = r.begun
	r.member, r.address, r.prompt = m, m.Address, c.prompt
	return r, nil
}

// answered counts what a member has sent.
func (c *Cluster) answered(r *asking, dst [][]byte) {
	var n uint64
	for _, d := range dst {
		n += uint64(len(d))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m, took := r.member, time.Since(r.begun)
	m.asked.Bytes += n
	m.measure(n, took)
	if r.instead != nil {
		c.slowest = max(took, c.slowest-c.slowest/loadFade)
	}
	if !m.poorAt.After(r.begun) { // it was not late this time
		m.sick, m.poorAt = 0, time.Time{}
	}
}

// failed counts a question that a member has not answered. A broken member is ejected, unless more than
// half would be: if most are silent, this machine may be the slow one, and the members left would take the
// chunks of all. Hellos find out which members are gone.
func (c *Cluster) failed(r *asking, err error) {
	c.mu.Lock()
	defer c.unlock()
	m := r.member
	if !errors.Is(err, peer.ErrNotHere) {
		m.asked.Failed++
	}
	if c.members[m.ID] != m || m.state == Gone || r.fault != broken {
		return
	}
	m.at.awake() // a hello says whether it is gone

	// A member that drains owns nothing.
	if m.Draining || !c.most(func(o *member) bool { return o == m || o.state == Ejected }) {
		c.eject(m, r.begun, 0, err.Error())
	}
}

// measure follows the link's rate: at once upwards, slowly downwards, for a read also waits for
// what has to be fetched first.
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

// Lied says that what a member sent was not what the index says. It is not asked for half a minute
// at least.
func (c *Cluster) Lied(id string) {
	c.mu.Lock()
	defer c.unlock()
	m := c.members[id]
	if m == nil || m.state == Gone {
		return
	}
	m.asked.Failed++
	c.eject(m, time.Now(), coolLie, "what it sent was not what the index says")
}

// Answered counts what a member was sent.
func (c *Cluster) Answered(id string, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[id]; m != nil {
		m.answered.Requests++
		m.answered.Bytes += uint64(max(bytes, 0))
	}
}
