package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
)

// A sick member answers hellos, but refuses questions or answers them late. The cause may lie elsewhere:
// with the store down no member can answer. So a question counts against a member only if another gateway
// has answered it in the member's place. Ejection follows
// Envoy's outlier detection: so many in a row, at most a share of the members, longer each time.
//
// A member that failed is left alone for coolFirst, twice as long after each failure up to
// coolMost, and for coolLie at least after a lie. It starts anew once it was well for forgiven.
const (
	coolFirst = 2 * time.Second
	coolMost  = 30 * time.Second
	coolLie   = 30 * time.Second
	forgiven  = time.Minute

	sickAfter  = 3       // questions in a row, one after the other
	probeBytes = 1 << 20 // of a sample by which an ejected member is tried
)

// fault is what a question that has failed says of the member.
type fault int

const (
	none   fault = iota // it is well: it said no in order, or it was we who gave up
	ill                 // it may be sick: it lacks memory, the store fails it, or it is late
	broken              // it is silent, or does not follow the protocol
)

func faultOf(ctx context.Context, err error) fault {
	no, refused := errors.AsType[*peer.RefusalError](err)
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

// failed counts a question that a member has not answered. A broken member is ejected, unless more than
// half would be: if most are silent, this machine may be the slow one, and the members left would take the
// chunks of all. Hellos find out which members are gone.
func (c *Cluster) failed(r *memberRead, says fault, err error) {
	c.mu.Lock()
	defer c.unlock()
	m := r.member
	if !errors.Is(err, peer.ErrNotHere) {
		m.asked.Failed++
	}
	if c.members[m.ID] != m || m.state == Gone || says != broken {
		return
	}
	m.at.awake() // a hello says whether it is gone

	// A member that drains owns nothing.
	if m.Draining || !c.most(func(o *member) bool { return o == m || o.state == Ejected }) {
		c.eject(m, r.begun, 0, err.Error())
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

// blame counts against a member that another gateway has brought what it has not, and ejects it if
// that is too often. Questions of one time are one; and a member that has been ejected of late has
// no second chance.
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
	c.eject(m, r.begun, 0, fmt.Sprintf("%d questions in a row were answered elsewhere, the last since: %v", m.sick, err))
}

// pair reports whether there is one other gateway alone. When its answers come late it may be this gateway that is slow, or the way
// between them that is full, and no third one can tell: where their links are full each would eject the other and read everything itself.
func (c *Cluster) pair() bool {
	others := 0
	for _, m := range c.members {
		if m.state != Gone {
			others++
		}
	}
	return others == 1
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
			small = &peer.Query{Dataset: q.Dataset, Generation: q.Generation, Chunks: []peer.ChunkQuery{one}}
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

// eject leaves a member alone, for longer each time that it fails, and for least at least. begun is when the failed
// question began: one that began before the member was let in again does not count once more.
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
	m.at.awake() // the next hello is due when the member may be back
	c.turn(m, Ejected, why)
}

// cool returns for how long a member that has failed is left alone: longer each time.
func (m *member) cool(least time.Duration) time.Duration {
	m.strikes++
	return max(least, min(coolFirst<<min(m.strikes-1, 10), coolMost))
}
