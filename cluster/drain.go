package cluster

import (
	"slices"

	"github.com/millrace-data/millrace/cluster/peer"
)

// Drain announces at once, in a hello, that this gateway will soon be gone: it still answers, but
// no longer owns chunks. Each member then sends a hello to this gateway. The answer lists those
// chunks of held that the member owns from now on, soonest needed first. So the member can load
// them while this gateway still answers.
func (c *Cluster) Drain(held []peer.Chunk) {
	after := c.membership()
	after.draining = true
	heirs := c.snapshot(after).heirs(held)
	c.mu.Lock()
	defer c.unlock()
	if c.draining {
		return
	}
	c.draining, c.heirs, c.stale = true, heirs, true
	for _, k := range c.contacts {
		k.awake()
	}
}

// heirs returns the chunks that each member takes over, by the member's ID. If there are too many
// for one member, the chunks needed last are omitted.
func (s *snapshot) heirs(held []peer.Chunk) map[string][]peer.ChunkList {
	all, count := map[string][]peer.ChunkList{}, map[string]int{}
	for _, ch := range held {
		id := ownerIn(s.owners[ch.DatasetGeneration], ch)
		if id == "" || ch.Number < 0 || count[id] == peer.MostHeld {
			continue
		}
		count[id]++
		i := slices.IndexFunc(all[id], func(h peer.ChunkList) bool { return h.DatasetGeneration == ch.DatasetGeneration })
		if i < 0 {
			i = len(all[id])
			all[id] = append(all[id], peer.ChunkList{DatasetGeneration: ch.DatasetGeneration})
		}
		all[id][i].Chunks = append(all[id][i].Chunks, uint32(ch.Number))
	}
	return all
}
