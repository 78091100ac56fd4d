package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
)

// rateBytes is the minimum size of a read that is used to measure the link.
const rateBytes = 256 << 10

// Read sends a question to a member once. A silent member is ejected at once. A member that refuses
// or is late is ejected after several such questions (blame). An ejected member gets no question.
// instead, unless nil, gets the bytes elsewhere: concurrently while the member is late, or after
// the member has failed. peer.ErrOutdone reports that instead has the bytes.
func (c *Cluster) Read(ctx context.Context, id string, q *peer.Query, dst [][]byte, instead func(ctx context.Context, concurrent bool) error) error {
	r, err := c.begin(id, instead)
	says := none
	if err == nil {
		if err = r.race(ctx, q, dst); err == nil {
			c.answered(r, dst)
			return nil
		}
		says = faultOf(ctx, err)
		c.failed(r, says, err)
	}
	if instead != nil && !r.hedged && !errors.Is(ctx.Err(), context.Canceled) {
		r.outdone = instead(ctx, false) == nil
	}
	if !r.outdone {
		return fmt.Errorf("ask member %s: %w", id, err)
	}
	if says == ill {
		c.blame(r, q, err)
	}
	return fmt.Errorf("ask member %s: %w: %w", id, peer.ErrOutdone, err)
}

// memberRead is one read from a member.
type memberRead struct {
	cluster *Cluster
	id      string  // of the member
	member  *member // nil: the member cannot get a question
	address string
	begun   time.Time
	prompt  time.Duration // timeout for the member's first sign of life
	instead func(ctx context.Context, concurrent bool) error
	hedged  bool // instead was called while the member was late
	outdone bool // instead has the bytes
}

// begin looks up a member and counts the question.
func (c *Cluster) begin(id string, instead func(ctx context.Context, concurrent bool) error) (*memberRead, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &memberRead{cluster: c, id: id, begun: time.Now(), instead: instead}
	m := c.members[id]
	if m == nil || m.state == Gone {
		return r, fmt.Errorf("it left the cluster: %w", peer.ErrDown)
	}
	if m.state == Ejected {
		return r, errEjected
	}
	m.asked.Requests++
	c.hedges = min(c.hedges+min(hedgeShare, hedgeRate*r.begun.Sub(c.earned).Seconds()), hedgeBurst)
	c.earned = r.begun
	r.member, r.address, r.prompt = m, m.at.address, c.prompt
	return r, nil
}

// answered counts the bytes that a member sent.
func (c *Cluster) answered(r *memberRead, dst [][]byte) {
	n := uint64(bytesOf(dst))
	c.mu.Lock()
	defer c.mu.Unlock()
	m, took := r.member, time.Since(r.begun)
	m.asked.Bytes += n
	m.measure(n, took)
	if r.instead != nil {
		c.slowest = max(took, c.slowest-c.slowest/loadFade)
	}
	if !m.poorAt.After(r.begun) { // it was not late for this read
		m.sick, m.poorAt = 0, time.Time{}
	}
}

func bytesOf(dst [][]byte) (n int64) {
	for _, d := range dst {
		n += int64(len(d))
	}
	return n
}

// measure updates the measured rate of the link: upwards at once, downwards slowly, since a read
// may include the time to load the bytes.
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

// Answered counts the bytes sent to a member.
func (c *Cluster) Answered(id string, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[id]; m != nil {
		m.answered.Requests++
		m.answered.Bytes += uint64(max(bytes, 0))
	}
}
