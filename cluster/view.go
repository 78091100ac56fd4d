package cluster

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/cluster/placement"
)

// snapshot holds the owners of chunks until the next change. It is immutable.
type snapshot struct {
	number uint64                                     // increases when a chunk may have another owner
	owners map[peer.DatasetGeneration]*placement.View // members that serve a generation, by generation
	before map[peer.DatasetGeneration]*placement.View // the owners before a change, by generation: see Cluster.snapshot
	recent bool                                       // this gateway was started recently
}

// ownerIn returns the ID of the member that owns a chunk, "" if there is none. Members in asked are
// skipped.
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

// Owner returns the ID of the member that owns a chunk. Members in asked are skipped, so it then
// returns the next choice. It returns "" for this gateway, and if no owner is known.
func (c *Cluster) Owner(ch peer.Chunk, asked ...string) string {
	id := ownerIn(c.now.Load().owners[ch.DatasetGeneration], ch, asked...)
	if id == c.cfg.ID {
		return ""
	}
	return id
}

// Former returns a member that may hold a chunk that this gateway has owned only for a short time.
// That is the previous owner if it is draining and still answers. If this gateway was started some
// minutes ago, it is the owner before the start. When other gateways join, this gateway gets no
// additional chunks.
func (c *Cluster) Former(ch peer.Chunk) string {
	id := ownerIn(c.now.Load().before[ch.DatasetGeneration], ch)
	if id == c.cfg.ID {
		return ""
	}
	return id
}

// recent reports whether this gateway was started so recently that other members may hold chunks
// that it owns.
func (c *Cluster) recent() bool { return time.Since(c.started) < remember }

// Share returns this gateway's share of a generation's chunks.
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

// View returns a number that changes when Owner or Share may return other results.
func (c *Cluster) View() uint64 { return c.now.Load().number }

// membership is a copy of the state that a snapshot is built from, so that building needs no lock.
type membership struct {
	serves   map[peer.DatasetGeneration]int
	draining bool
	address  string   // of this gateway
	members  []member // by ID
}

// membership returns the members by ID. A member that has not answered the last hello has the state
// Suspect there.
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

// rebuild builds the snapshot if it is stale, unless another goroutine has done so. The caller does
// not hold c.mu.
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

// due reports whether the snapshot is stale, and marks it as current: the caller rebuilds it.
func (c *Cluster) due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	stale := c.stale
	c.stale = false
	return stale
}

// snapshot computes the owners. The previous owners include the draining members. For some minutes
// after this gateway was started, they exclude this gateway and the gateways that were started with
// it.
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
				continue // this gateway does not serve the generation
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
	var made []*placement.View // most datasets have the same members, so one view serves them all
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
