package cluster

import (
	"slices"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/cluster/placement"
)

// snapshot says who owns what, for as long as nothing changes. It is immutable.
type snapshot struct {
	number uint64
	owners map[peer.Served]*placement.View // of one generation, among those that serve it
	before map[peer.Served]*placement.View // who may hold what has come to others: see rebuild
	recent bool                            // this gateway has come of late
}

// ownerIn returns the ID of the member that is to hold a chunk, "" if nobody is.
func ownerIn(view *placement.View, c peer.Chunk, asked ...string) string {
	if view == nil {
		return ""
	}
	var skip func(int) bool
	if len(asked) > 0 {
		skip = func(i int) bool { return slices.Contains(asked, view.Members()[i].ID) }
	}
	i := view.Owner(c.Digest, skip)
	if i < 0 {
		return ""
	}
	return view.Members()[i].ID
}

// Owner returns the member that is to hold a chunk, the next choice where some have been asked already; "" for this gateway, and if
// nobody is known.
func (c *Cluster) Owner(ch peer.Chunk, asked ...string) string {
	id := ownerIn(c.now.Load().owners[ch.Served], ch, asked...)
	if id == c.cfg.ID {
		return ""
	}
	return id
}

// Former returns a member that may hold a chunk of this gateway's, if the chunk has come to it lately: the owner of before, if that
// drains and still answers, or if this gateway came some minutes ago and the owner was there before it. When others come nothing
// comes to us.
func (c *Cluster) Former(ch peer.Chunk) string {
	id := ownerIn(c.now.Load().before[ch.Served], ch)
	if id == c.cfg.ID {
		return ""
	}
	return id
}

// recent reports whether this gateway has come so lately that other members may hold what it owns.
func (c *Cluster) recent() bool { return time.Since(c.started) < remember }

// Share returns which part of a generation's chunks this gateway is to hold.
func (c *Cluster) Share(generation string) float64 {
	most := 0.0
	for served, view := range c.now.Load().owners {
		if served.Generation == generation {
			most = max(most, view.Share(c.cfg.ID))
		}
	}
	if most == 0 {
		return 1
	}
	return most
}

// View changes when Owner or Share may answer otherwise than before.
func (c *Cluster) View() uint64 { return c.now.Load().number }

// rebuild makes a new snapshot of who owns what. The owners of before are those that would own if nobody drained; and, for some
// minutes after this gateway came, as if it were not there, nor those that came with it. c.mu is held, or nobody else knows c.
func (c *Cluster) rebuild() {
	s := &snapshot{
		number: 1, recent: c.recent(), owners: map[peer.Served]*placement.View{}, before: map[peer.Served]*placement.View{},
	}
	if is := c.now.Load(); is != nil {
		s.number = is.number + 1
	}
	now, before := map[peer.Served][]placement.Member{}, map[peer.Served][]placement.Member{}
	for _, m := range c.members {
		if m.state == Gone || m.state == Ejected {
			continue
		}
		p := placement.Member{ID: m.ID, Weight: m.Weight}
		for _, served := range m.Serves {
			if !m.Draining {
				now[served] = append(now[served], p)
			}
			if m.Draining || !s.recent || !c.newcomer(m) {
				before[served] = append(before[served], p)
			}
		}
	}
	self := placement.Member{ID: c.cfg.ID, Weight: c.cfg.Weight}
	for key := range c.cfg.Serves {
		if !c.draining {
			now[key] = append(now[key], self)
		}
		if !s.recent {
			before[key] = append(before[key], self)
		}
		s.owners[key], s.before[key] = placement.NewView(now[key]), placement.NewView(before[key])
	}
	c.now.Store(s)
	c.warn()
}
