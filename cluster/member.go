package cluster

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/cluster/peer"
)

// member is a gateway that has answered with a valid hello.
type member struct {
	peer.Hello           // its most recent hello
	at         *contact  // the address where it answers
	state      State     // Alive, Draining, Ejected or Gone; set only by turn
	reason     string    // why it is gone or ejected
	started    time.Time // start time according to its hello
	seen       time.Time // when it last answered

	until   time.Time   // minimum end of an ejection
	strikes int         // consecutive ejections
	back    time.Time   // when the last ejection or absence ended
	sick    int         // number of consecutive questions that another gateway answered in its place
	sickAt  time.Time   // time of the last of these questions
	probe   *peer.Query // the question that it must answer before it is readmitted; nil: answering a hello is enough
	poorAt  time.Time   // time of the last question that it refused or was late for; zero: it has answered in time since

	latency  time.Duration // recent time of a hello
	rate     float64       // recent bytes per second of the faster reads
	asked    Traffic
	answered Traffic
}

// mostUp is the maximum accepted uptime of a member in milliseconds: decades.
const mostUp = 1 << 40

// together is the maximum difference between the start times of gateways that start together, such
// as after a crash of several.
const together = 2 * time.Second

// newcomer reports whether a member was started together with this gateway or after it. Such a
// member held no chunks before.
func (c *Cluster) newcomer(m *member) bool { return m.started.After(c.started.Add(-together)) }

// here returns the member that is reached at a contact's address, nil if there is none.
func (c *Cluster) here(k *contact) *member {
	if m := c.members[k.who]; m != nil && m.at == k {
		return m
	}
	return nil
}

// alive handles the hello of a member, which may be new. begun is when this gateway's hello was
// sent.
func (c *Cluster) alive(k *contact, h peer.Hello, begun time.Time) {
	now := time.Now()
	h.Serves = distinct(h.Serves)
	k.reason, k.who = "", h.ID
	m := c.members[h.ID]
	if m == nil || m.Boot != h.Boot {
		if m != nil {
			c.turn(m, Gone, "it was restarted")
		}
		up := time.Duration(min(h.UpMS, mostUp)) * time.Millisecond //nolint:gosec // bounded
		m = &member{started: now.Add(-up)}
		c.members[h.ID] = m
	}
	goes := h.Draining && !m.Draining
	change := m.Weight != h.Weight || !slices.Equal(m.Serves, h.Serves)
	m.Hello, m.at, m.seen = h, k, now
	switch {
	case m.probe != nil || begun.Before(m.until):
		c.turn(m, Ejected, m.reason)
	case h.Draining:
		c.turn(m, Draining, "")
	default:
		c.turn(m, Alive, "")
	}
	c.stale = c.stale || change
	c.measured(m, now.Sub(begun))
	if goes && c.start != nil && c.cfg.Inherit != nil && len(h.Held) > 0 {
		c.start(func(ctx context.Context) { c.cfg.Inherit(ctx, h.ID, h.Held) })
	}
}

// turn changes the state of a member: it logs the change and marks the owners as stale.
func (c *Cluster) turn(m *member, to State, why string) {
	from := m.state
	if from == to {
		return
	}
	m.state, m.reason = to, why
	level, words := zerolog.InfoLevel, "has joined"
	switch {
	case to == Ejected:
		level, words = zerolog.WarnLevel, "was ejected"
	case to == Gone && !m.Draining:
		level, words = zerolog.WarnLevel, "is gone"
	case to == Gone:
		words = "is gone"
	case to == Draining:
		words = "is draining"
	case from == Ejected:
		words = "was readmitted"
	case from == Gone:
		words = "is back"
	}
	if from == Ejected || from == Gone {
		m.back = time.Now()
	}
	line := c.cfg.Log.WithLevel(level).Str("member", m.ID).Str("address", m.at.address).Str("boot", m.Boot)
	if why != "" {
		line.Str("why", why)
	}
	if to == Ejected {
		line.Dur("for", time.Until(m.until))
	}
	c.note(line, "member "+words)
	c.stale = true
}

// distinct returns the generations that a gateway serves, sorted and without duplicates.
func distinct(serves []peer.DatasetGeneration) []peer.DatasetGeneration {
	serves = slices.Clone(serves)
	slices.SortFunc(serves, func(a, b peer.DatasetGeneration) int {
		return cmp.Or(cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.Generation, b.Generation))
	})
	return slices.Compact(serves)
}
