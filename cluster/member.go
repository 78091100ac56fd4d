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
	id, boot, address string
	weight            uint64
	serves            []peer.Served
	draining          bool

	gone    bool
	misses  int       // hellos without an answer
	reason  string    // why it is gone or ejected
	started time.Time // as it says
	seen    time.Time // it answered last

	ejected bool        // this gateway does not ask it, and takes its chunks for those of others
	until   time.Time   // the ejection lasts until then at least
	strikes int         // ejections in a row
	back    time.Time   // it was let in again
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

// alive takes the hello of a member, known or new. begun is when we said ours.
func (c *Cluster) alive(k *contact, h peer.Hello, begun time.Time) {
	now := time.Now()
	h.Serves = distinct(h.Serves)
	k.reason, k.who = "", h.ID
	m := c.members[h.ID]
	change := m == nil || m.boot != h.Boot || m.gone
	if change {
		c.joined(m, h)
	}
	if m == nil || m.boot != h.Boot {
		up := time.Duration(min(h.UpMS, mostUp)) * time.Millisecond //nolint:gosec // bounded
		m = &member{id: h.ID, boot: h.Boot, address: h.Address, started: now.Add(-up)}
		c.members[h.ID] = m
	}
	if m.gone {
		m.gone, m.reason = false, ""
	}
	if h.Draining {
		c.goes(m, h.Held)
	}
	if m.address != h.Address || m.draining != h.Draining || m.weight != h.Weight || !slices.Equal(m.serves, h.Serves) {
		change = true
	}
	m.address, m.draining, m.weight, m.serves = h.Address, h.Draining, h.Weight, h.Serves
	m.misses, m.seen = 0, now
	c.measured(m, now.Sub(begun))
	if m.ejected && m.probe == nil && !begun.Before(m.until) {
		m.ejected, m.back, m.reason = false, now, ""
		change = true
		c.note(func() { c.cfg.Log.Info().Str("member", h.ID).Msg("cluster: member is well again") })
	}
	if change {
		c.rebuild()
	}
}

// distinct sorts what a member serves, and leaves out what it names twice.
func distinct(serves []peer.Served) []peer.Served {
	serves = slices.Clone(serves)
	slices.SortFunc(serves, func(a, b peer.Served) int {
		return cmp.Or(cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.Generation, b.Generation))
	})
	return slices.Compact(serves)
}

// joined logs who comes, and as what.
func (c *Cluster) joined(before *member, h peer.Hello) {
	word := "has joined"
	switch {
	case before != nil && before.boot == h.Boot:
		word = "is back"
	case before != nil:
		word = "was started again"
	}
	c.note(func() {
		c.cfg.Log.Info().Str("member", h.ID).Str("address", h.Address).Str("boot", h.Boot).Msg("cluster: member " + word)
	})
}

// goes notes that a member drains: it answers, but owns nothing any more. held is what it holds that is this gateway's now.
func (c *Cluster) goes(m *member, held []peer.Held) {
	if m.draining {
		return
	}
	m.draining = true
	id := m.id
	c.note(func() { c.cfg.Log.Info().Str("member", id).Msg("cluster: member goes") })
	c.rebuild()
	if c.start != nil && c.cfg.Inherit != nil && len(held) > 0 {
		c.start(func(ctx context.Context) { c.cfg.Inherit(ctx, id, held) })
	}
}

// leave takes a member out that does not answer, or is none any more.
func (c *Cluster) leave(m *member, why string) {
	if m.gone {
		return
	}
	m.gone, m.reason = true, why
	drained, id, address := m.draining, m.id, m.address
	c.note(func() {
		level := zerolog.WarnLevel
		if drained {
			level = zerolog.InfoLevel
		}
		c.cfg.Log.WithLevel(level).Str("member", id).Str("address", address).Str("why", why).Msg("cluster: member is gone")
	})
	c.rebuild()
}

// eject leaves a member alone, for longer each time that it fails, and for least at least. begun is when the failed
// question began: one that began before the member was let in again does not count once more.
func (c *Cluster) eject(m *member, begun time.Time, least time.Duration, why string) {
	now := time.Now()
	if m.ejected {
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
	cool := m.cool(least)
	m.ejected, m.until, m.reason, m.sick = true, now.Add(cool), why, 0
	if k := c.contacts[m.address]; k != nil {
		k.awake() // the next hello is due when the member may be back
	}
	id, address := m.id, m.address
	c.note(func() {
		c.cfg.Log.Warn().Str("member", id).Str("address", address).Dur("for", cool).Str("why", why).Msg("cluster: member is not asked for a while")
	})
	c.rebuild()
}

// cool returns for how long a member that has failed is left alone: longer each time.
func (m *member) cool(least time.Duration) time.Duration {
	m.strikes++
	return max(least, min(coolFirst<<min(m.strikes-1, 10), coolMost))
}
