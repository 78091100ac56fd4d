package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
)

// A sick member answers hellos, but refuses questions or answers them late. The cause may be
// elsewhere: with the store down, no member can answer. So a question counts against a member only
// if another gateway has answered it in the member's place. Ejection follows Envoy's outlier
// detection: consecutive failures eject a member, at most a share of the members is ejected, and
// each ejection is longer than the last one.
//
// A failed member is ejected for coolFirst. The time doubles with each failure, up to coolMost, and
// is at least coolLie after wrong bytes. It starts at coolFirst again after the member was healthy
// for the time forgiven.
const (
	coolFirst = 2 * time.Second
	coolMost  = 30 * time.Second
	coolLie   = 30 * time.Second
	forgiven  = time.Minute

	sickAfter  = 3       // consecutive questions
	probeBytes = 1 << 20 // maximum size of the sample for testing an ejected member
)

// fault states how a failed question counts against the member.
type fault int

const (
	none   fault = iota // healthy: the refusal was legitimate or concerns one dataset, or the asking side canceled the question
	ill                 // possibly sick: it lacks memory, its store fails, or it is late
	broken              // it is silent, or breaks the protocol
)

func faultOf(ctx context.Context, err error) fault {
	no, refused := errors.AsType[*peer.RefusalError](err)
	switch {
	case errors.Is(err, errLate), errors.Is(err, peer.ErrNoRoom), refused && (no.Code == peer.CodeStore || no.Code == peer.CodeTimeout):
		return ill
	case errors.Is(err, peer.ErrNotHere), errors.Is(err, peer.ErrNotServed), errors.Is(err, peer.ErrMismatch), errors.Is(err, peer.ErrQuestion), errors.Is(err, peer.ErrQuota):
		return none
	case ctx.Err() == nil || errors.Is(err, peer.ErrDown): // the member was already silent for too long when the question was canceled
		return broken
	case errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ill
	}
	return none
}

// failed counts an unanswered question. A broken member is ejected, unless more than half of the
// members would be. If most members are silent, this machine may be the slow one; ejecting them all
// would give their chunks to the few that remain. Hellos find out which members are gone.
func (c *Cluster) failed(r *memberRead, says fault, err error) {
	c.mu.Lock()
	defer c.unlock()
	m := r.member
	if !errors.Is(err, peer.ErrNotHere) && !errors.Is(err, peer.ErrQuota) {
		m.asked.Failed++
	}
	if c.members[m.ID] != m || m.state == Gone || says != broken {
		return
	}
	m.at.awake() // the next hello shows whether the member is gone

	// A draining member owns nothing.
	if m.Draining || !c.most(func(o *member) bool { return o == m || o.state == Ejected }) {
		c.eject(m, r.begun, 0, err.Error())
	}
}

// Lied records that a member sent bytes that differ from the index. It is ejected for at least half
// a minute.
func (c *Cluster) Lied(id string) {
	c.mu.Lock()
	defer c.unlock()
	m := c.members[id]
	if m == nil || m.state == Gone {
		return
	}
	m.asked.Failed++
	c.eject(m, time.Now(), coolLie, "its bytes differ from the index")
}

// blame counts a question that another gateway answered in the member's place. After too many the
// member is ejected. Concurrent questions count as one. A recently ejected member is ejected after
// the first such question.
func (c *Cluster) blame(r *memberRead, q *peer.Query, err error) {
	c.mu.Lock()
	defer c.unlock()
	m := r.member
	if c.members[m.ID] != m || m.state == Gone || m.state == Ejected || r.begun.Before(m.sickAt) || r.begun.Before(m.back) {
		return
	}
	if errors.Is(err, errLate) && c.pair() {
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
	c.eject(m, r.begun, 0, fmt.Sprintf("it failed %d consecutive requests, which other gateways answered; last error: %v", m.sick, err))
}

// pair reports whether there is exactly one other gateway. If that gateway's answers are late, this
// gateway may be the slow one, or the link between them may be full. No third gateway can tell.
// With a full link each gateway would eject the other and read everything itself.
func (c *Cluster) pair() bool {
	others := 0
	for _, m := range c.members {
		if m.state != Gone {
			others++
		}
	}
	return others == 1
}

// most reports whether a condition holds for more than half of the gateways. This gateway is
// counted among them, and the condition is taken as false for it.
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

// probe returns a small question made from an unanswered one: its smallest sample, without the
// reader. It returns nil if that sample is large.
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
			small = &peer.Query{Dataset: q.Dataset, Generation: q.Generation, Chunks: []peer.ChunkQuery{one}}
		}
	}
	return small
}

// try sends the probe to a sick member when its ejection time is over, independently of the data
// path. The member is healthy if the answer arrives in time.
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
	m.probe = nil // the next hello readmits it
	m.until = time.Now()
	k.awake()
}

// eject ejects a member, for longer after each failure, and for at least the time least. begun is
// when the failed question began. A question that began before the member was readmitted does not
// count again.
func (c *Cluster) eject(m *member, begun time.Time, least time.Duration, why string) {
	now := time.Now()
	if m.state == Ejected {
		if until := now.Add(least); until.After(m.until) {
			m.until, m.reason = until, why
		}
		return
	}
	if begun.Before(m.back) {
		return
	}
	if now.Sub(m.back) > forgiven {
		m.strikes = 0
	}
	m.until, m.sick = now.Add(m.cool(least)), 0
	m.at.awake() // so that the next hello is scheduled for the end of the ejection
	c.turn(m, Ejected, why)
}

// cool returns how long a failed member is ejected. Each ejection is longer than the last one.
func (m *member) cool(least time.Duration) time.Duration {
	m.strikes++
	return max(least, min(coolFirst<<min(m.strikes-1, 10), coolMost))
}
