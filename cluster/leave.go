package cluster

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/cluster/peer"
)

// leavesAtOnce is how many successors are told side by side.
const leavesAtOnce = 16

// Leave tells each member which of the chunks held here, soonest needed first, it owns from now on, so that it can bring them while this
// gateway still answers. A member that cannot be told, the first of which is the error, reads them from the store.
func (c *Cluster) Leave(ctx context.Context, held []peer.Chunk) error {
	c.Draining()
	s := c.now.Load()
	heirs := map[string]*peer.Leaving{}
	for _, ch := range held {
		key := peer.Served{Dataset: ch.Dataset, Generation: ch.Generation}
		id := ownerIn(s.owners[key], ch)
		if id == "" || ch.Number < 0 {
			continue
		}
		if heirs[id] == nil {
			heirs[id] = &peer.Leaving{ID: c.cfg.ID, Boot: c.cfg.Boot}
		}
		all := &heirs[id].Chunks
		i := slices.IndexFunc(*all, func(h peer.Held) bool { return h.Dataset == key.Dataset && h.Generation == key.Generation })
		if i < 0 {
			i, *all = len(*all), append(*all, peer.Held{Dataset: key.Dataset, Generation: key.Generation})
		}
		(*all)[i].Chunks = append((*all)[i].Chunks, uint32(ch.Number))
	}
	var telling errgroup.Group
	telling.SetLimit(leavesAtOnce)
	for id, l := range heirs {
		c.mu.Lock()
		m := c.members[id]
		there, address := m != nil && !m.gone, ""
		if there {
			address = m.address
		}
		c.mu.Unlock()
		if there {
			telling.Go(func() error { return c.cfg.Client.Leave(ctx, address, *l) })
		}
	}
	return telling.Wait()
}

// Left takes the last word of a gateway that goes, and reports whether it is a member and says so itself where it is known to be:
// what it holds may be brought from there. That takes a hello.
func (c *Cluster) Left(ctx context.Context, l peer.Leaving) bool {
	k, goes := c.going(l)
	if k == nil || goes {
		return goes
	}
	c.greet(ctx, k)
	_, goes = c.going(l)
	return goes
}

// Member reports whether a gateway is a member now, by its name and boot.
func (c *Cluster) Member(id, boot string) bool {
	k, _ := c.going(peer.Leaving{ID: id, Boot: boot})
	return k != nil
}

// going returns where the member is met that a last word is about, nil if it is of none; and whether it is known to go.
func (c *Cluster) going(l peer.Leaving) (*contact, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[l.ID]
	if m == nil || m.boot != l.Boot || m.gone {
		return nil, false
	}
	return c.contacts[m.address], m.draining
}
