package cluster

import (
	"context"
	"errors"
	"sync"

	"github.com/millrace-data/millrace/cluster/peer"
)

// leavesAtOnce is how many successors are told side by side.
const leavesAtOnce = 16

// Leave tells each member which of the chunks held here, soonest needed first, it owns from now on, so that it can bring them while this
// gateway still answers. Who cannot be told reads them from the store.
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
		l := heirs[id]
		if l == nil {
			l = &peer.Leaving{ID: c.cfg.ID, Boot: c.cfg.Boot}
			heirs[id] = l
		}
		l.Chunks = appendHeld(l.Chunks, key, uint32(ch.Number))
	}
	var all sync.WaitGroup
	var mu sync.Mutex // guards faults
	var faults []error
	turn := make(chan struct{}, leavesAtOnce)
	for id, l := range heirs {
		address, there := c.address(id)
		if !there {
			continue
		}
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			if err := c.cfg.Client.Leave(ctx, address, *l); err != nil {
				mu.Lock()
				defer mu.Unlock()
				faults = append(faults, err)
			}
		})
	}
	all.Wait()
	return errors.Join(faults...)
}

func appendHeld(all []peer.Held, key peer.Served, chunk uint32) []peer.Held {
	for i := range all {
		if all[i].Dataset == key.Dataset && all[i].Generation == key.Generation {
			all[i].Chunks = append(all[i].Chunks, chunk)
			return all
		}
	}
	return append(all, peer.Held{Dataset: key.Dataset, Generation: key.Generation, Chunks: []uint32{chunk}})
}

func (c *Cluster) address(id string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[id]
	if m == nil || m.gone {
		return "", false
	}
	return m.address, true
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
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[id]
	return m != nil && m.boot == boot && !m.gone
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
