package cluster

import (
	"slices"
	"strings"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/cluster/placement"
)

// mostFormers is how many changes of members are remembered.
const mostFormers = 4

// snapshot says who owns what, for as long as nothing changes. It is immutable.
type snapshot struct {
	number  uint64
	owners  map[peer.Served]*ownership
	without map[peer.Served]*ownership // as if this gateway were not there, nor those that came with it
	formers []former                   // the latest last
	there   map[string]bool            // members that can be asked
	leaving map[string]bool            // of these, those that drain
	shares  map[string]float64         // of this gateway, by generation
	self    peer.Hello
}

// ownership of one generation, among those that serve it.
type ownership struct {
	view    *placement.View
	members []placement.Member
}

// former is who owned what before the members changed.
type former struct {
	owners map[peer.Served]*ownership
	at     time.Time // of the change
}

func newOwnership(members []placement.Member) *ownership {
	v := placement.NewView(members)
	return &ownership{view: v, members: v.Members()}
}

// owner returns the ID of whoever is to hold a chunk, "" if nobody.
func (o *ownership) owner(c peer.Chunk, asked ...string) string {
	if o == nil {
		return ""
	}
	var skip func(int) bool
	if len(asked) > 0 {
		skip = func(i int) bool { return slices.Contains(asked, o.members[i].ID) }
	}
	i := o.view.Owner(c.Digest, skip)
	if i < 0 {
		return ""
	}
	return o.members[i].ID
}

// Owner returns the member that is to hold a chunk, the next choice where some have been asked already; "" for this gateway, and if
// nobody is known.
func (c *Cluster) Owner(ch peer.Chunk, asked ...string) string {
	s := c.now.Load()
	id := s.owners[peer.Served{Dataset: ch.Dataset, Generation: ch.Generation}].owner(ch, asked...)
	if id == c.cfg.ID {
		return ""
	}
	return id
}

// Former returns a member that may hold a chunk that has come to this gateway lately: its owner before the members changed, if that one drains
// and still answers; and for some minutes after we came, its owner if we were not there. When others come, nothing comes to us.
func (c *Cluster) Former(ch peer.Chunk) string {
	s := c.now.Load()
	key := peer.Served{Dataset: ch.Dataset, Generation: ch.Generation}
	for _, f := range slices.Backward(s.formers) {
		if time.Since(f.at) > c.cfg.Remember {
			break
		}
		if id := f.owners[key].owner(ch); s.leaving[id] {
			return id
		}
	}
	if time.Since(c.started) < c.cfg.Remember {
		if id := s.without[key].owner(ch); s.there[id] {
			return id
		}
	}
	return ""
}

// Share returns which part of a generation's chunks this gateway is to hold.
func (c *Cluster) Share(generation string) float64 {
	if share := c.now.Load().shares[generation]; share > 0 {
		return share
	}
	return 1
}

// View changes when Owner or Share may answer otherwise than before.
func (c *Cluster) View() uint64 { return c.now.Load().number }

// rebuild makes a new snapshot of who owns what. c.mu is held, or nobody else knows c.
func (c *Cluster) rebuild() {
	before := c.now.Load()
	s := &snapshot{
		self: c.self(), number: 1, owners: map[peer.Served]*ownership{}, without: map[peer.Served]*ownership{},
		there: map[string]bool{}, leaving: map[string]bool{}, shares: map[string]float64{},
	}
	all := map[peer.Served][]placement.Member{}   // without us
	older := map[peer.Served][]placement.Member{} // those of them that were there before us
	var known []string
	for _, m := range c.members {
		s.there[m.id] = !m.gone && !m.ejected
		s.leaving[m.id] = s.there[m.id] && m.draining
		if m.gone || m.draining {
			continue
		}
		known = append(known, m.id+"/"+m.boot)
		p := placement.Member{ID: m.id, Weight: m.weight}
		for _, served := range m.serves {
			if m.owns() && !slices.ContainsFunc(all[served], func(o placement.Member) bool { return o.ID == m.id }) {
				all[served] = append(all[served], p)
				if !c.newcomer(m) {
					older[served] = append(older[served], p)
				}
			}
		}
	}
	self := placement.Member{ID: c.cfg.ID, Weight: c.cfg.Weight}
	for _, serving := range c.cfg.Serves {
		key := peer.Served{Dataset: serving.Dataset, Generation: serving.Generation}
		s.without[key] = newOwnership(older[key])
		if c.draining {
			s.owners[key] = newOwnership(all[key])
		} else {
			s.owners[key] = newOwnership(append(slices.Clone(all[key]), self))
		}
		for i, m := range s.owners[key].members {
			if m.ID == c.cfg.ID {
				s.shares[key.Generation] = max(s.shares[key.Generation], s.owners[key].view.Share(i))
			}
		}
	}
	slices.Sort(known)
	if c.draining {
		known = append(known, "draining")
	}
	if now := strings.Join(known, " "); before == nil {
		c.known = now
	} else {
		s.number = before.number + 1
		if now != c.known {
			c.known = now
			c.formers = append(c.formers, former{owners: before.owners, at: time.Now()})
			c.formers = slices.Clone(c.formers[max(0, len(c.formers)-mostFormers):])
		}
	}
	s.formers = c.formers
	c.now.Store(s)
	c.warn()
}
