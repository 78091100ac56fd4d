package cluster

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/cluster/peer"
)

// member is a gateway that has answered with a hello that fits.
type member struct {
	peer.Hello           // its last one
	at         *contact  // where it answers
	state      State     // Alive, Draining, Ejected or Gone; turn changes it
	reason     string    // why it is gone or ejected
	started    time.Time // as it says
	seen       time.Time // it answered last

	until   time.Time   // an ejection lasts until then at least
	strikes int         // ejections in a row
	back    time.Time   // the end of the last ejection or absence
	sick    int         // questions in a row that another gateway answered in its place
	sickAt  time.Time   // the last of them
	probe   *peer.Query // the question by which it is tried before it is let in again; nil: a hello is enough
	poorAt  time.Time   // the last question that it refused or was late for; zero: it has answered one in time since

	latency  time.Duration // of a hello, of late
	rate     float64       // bytes a second of the faster reads of late
	asked    Traffic
	answered Traffic
}

// mostUp is the longest time since its start, in milliseconds, that a member is believed: decades.
const mostUp = 1 << 40

// together is how far apart gateways are started that come together, as after a crash of several.
const together = 2 * time.Second

// newcomer reports whether a member has come with this gateway or after it, so that it held nothing before.
func (c *Cluster) newcomer(m *member) bool { return m.started.After(c.started.Add(-together)) }

// here returns the member whose own address a contact is, nil if there is none.
func (c *Cluster) here(k *contact) *member {
	if m := c.members[k.who]; m != nil && m.at == k {
		return m
	}
	return nil
}

// alive takes the hello of a member, known or new. begun is when we said ours.
func (c *Cluster) alive(k *contact, h peer.Hello, begun time.Time) {
	now := time.Now()
	h.Serves = distinct(h.Serves)
	k.reason, k.who = "", h.ID
	m := c.members[h.ID]
	if m == nil || m.Boot != h.Boot {
		if m != nil {
			c.turn(m, Gone, "it was started again")
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

// turn is where the state of a member changes: it says so in the log, and who owns what is worked out anew.
func (c *Cluster) turn(m *member, to State, why string) {
	from := m.state
	if from == to {
		return
	}
	m.state, m.reason = to, why
	level, words := zerolog.InfoLevel, "has joined"
	switch {
	case to == Ejected:
		level, words = zerolog.WarnLevel, "is not asked for a while"
	case to == Gone && !m.Draining:
		level, words = zerolog.WarnLevel, "is gone"
	case to == Gone:
		words = "is gone"
	case to == Draining:
		words = "goes"
	case from == Ejected:
		words = "is well again"
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

// distinct sorts what a gateway serves, and leaves out what it names twice.
func distinct(serves []peer.DatasetGeneration) []peer.DatasetGeneration {
	serves = slices.Clone(serves)
	slices.SortFunc(serves, func(a, b peer.DatasetGeneration) int {
		return cmp.Or(cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.Generation, b.Generation))
	})
	return slices.Compact(serves)
}
