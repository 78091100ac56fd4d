package cluster

import (
	"slices"

	"github.com/millrace-data/millrace/cluster/peer"
)

// Drain tells everybody at once that this gateway will be gone soon: it answers, and owns nothing any more. A hello says so. Each
// member then asks this gateway itself, and the answer lists which of the chunks held here, soonest needed first, the member owns
// from now on, so that it can bring them while this gateway still answers.
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

// heirs says which member is to take over which chunks. Of very many for one member, those that are needed last are left out.
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
