package cluster

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/cluster/placement"
)

// snapshot says who owns what, for as long as nothing changes. It is immutable.
type snapshot struct {
	number uint64                                     // grows when a chunk may have another owner
	owners map[peer.DatasetGeneration]*placement.View // of one generation, among those that serve it
	before map[peer.DatasetGeneration]*placement.View // who may hold what has come to others: see Cluster.snapshot
	recent bool                                       // this gateway has come of late
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
	id := ownerIn(c.now.Load().owners[ch.DatasetGeneration], ch, asked...)
	if id == c.cfg.ID {
		return ""
	}
	return id
}

// Former returns a member that may hold a chunk of this gateway's, if the chunk has come to it lately: the owner of before, if that
// drains and still answers, or if this gateway came some minutes ago and the owner was there before it. When others come nothing
// comes to us.
func (c *Cluster) Former(ch peer.Chunk) string {
	id := ownerIn(c.now.Load().before[ch.DatasetGeneration], ch)
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

// membership is a copy of what a snapshot is made of, so that nothing waits for the lock meanwhile.
type membership struct {
	serves   map[peer.DatasetGeneration]int
	draining bool
	address  string   // of this gateway
	members  []member // by ID
}

// membership returns the members by ID. A member that has not answered the last hello is Suspect
// here.
func (c *Cluster) membership() membership {
	n := c.copied()
	slices.SortFunc(n.members, func(a, b member) int { return cmp.Compare(a.ID, b.ID) })
	return n
}

func (c *Cluster) copied() membership {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := membership{serves: c.cfg.Serves, draining: c.draining, address: c.address, members: make([]member, 0, len(c.members))}
	for _, m := range c.members {
		one := *m
		if m.state == Alive && m.at.misses > 0 {
			one.state = Suspect
		}
		n.members = append(n.members, one)
	}
	return n
}

// rebuild makes the snapshot that is due, unless another goroutine has made it since. c.mu is not held.
func (c *Cluster) rebuild() {
	c.building.Lock()
	defer c.building.Unlock()
	if !c.due() {
		return
	}
	n := c.membership()
	c.cfg.Client.Expect(len(n.members))
	s := c.snapshot(n)
	if is := c.now.Load(); is != nil {
		s.number = is.number
		if !maps.EqualFunc(s.owners, is.owners, sameMembers) {
			s.number++
		}
	}
	c.now.Store(s)
	c.warn(n.faults())
}

// sameMembers reports whether two views give every chunk the same owner.
func sameMembers(a, b *placement.View) bool { return slices.Equal(a.Members(), b.Members()) }

// due reports whether a new snapshot is due; the caller makes it.
func (c *Cluster) due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	stale := c.stale
	c.stale = false
	return stale
}

// snapshot says who owns what. The owners of before are those that would own if nobody drained; and, for some
// minutes after this gateway came, as if it were not there, nor those that came with it.
func (c *Cluster) snapshot(n membership) *snapshot {
	s := &snapshot{
		number: 1, recent: c.recent(), owners: map[peer.DatasetGeneration]*placement.View{}, before: map[peer.DatasetGeneration]*placement.View{},
	}
	type lists struct{ now, before []placement.Member }
	all := map[peer.DatasetGeneration]*lists{}
	for key := range n.serves {
		all[key] = &lists{}
	}
	for _, m := range n.members {
		if m.state == Gone || m.state == Ejected {
			continue
		}
		p := placement.Member{ID: m.ID, Weight: m.Weight}
		for _, served := range m.Serves {
			of := all[served]
			if of == nil {
				continue // not ours
			}
			if !m.Draining {
				of.now = append(of.now, p)
			}
			if m.Draining || !s.recent || !c.newcomer(&m) {
				of.before = append(of.before, p)
			}
		}
	}
	self := placement.Member{ID: c.cfg.ID, Weight: c.cfg.Weight}
	var made []*placement.View // most datasets have the same members: one view serves them all
	view := func(of []placement.Member, ours bool) *placement.View {
		if ours {
			of = append(of, self)
		}
		slices.SortFunc(of, func(a, b placement.Member) int { return cmp.Compare(a.ID, b.ID) })
		for _, v := range made {
			if slices.Equal(v.Members(), of) {
				return v
			}
		}
		made = append(made, placement.NewView(of))
		return made[len(made)-1]
	}
	for key, of := range all {
		s.owners[key], s.before[key] = view(of.now, !n.draining), view(of.before, !s.recent)
	}
	return s
}
