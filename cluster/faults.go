package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/cluster/peer"
)

// mostNames is how many members one fault names, and how many generations are told of.
const mostNames = 8

// faults says in words what is wrong with the members together, though each of them is well.
func (n membership) faults() []string {
	ours := map[string]string{} // a generation of each dataset that is served here
	for s := range n.serves {
		ours[s.Dataset] = max(ours[s.Dataset], s.Generation)
	}
	others := map[peer.DatasetGeneration][]string{} // generations that are not ours, of datasets that are
	for _, m := range n.members {
		if m.state == Gone || m.Draining {
			continue
		}
		shared := map[string]bool{}
		for _, s := range m.Serves {
			if _, both := n.serves[s]; both {
				shared[s.Dataset] = true
			}
		}
		for _, s := range m.Serves {
			if ours[s.Dataset] != "" && !shared[s.Dataset] {
				others[s] = append(others[s], m.ID)
			}
		}
	}
	var apart []string
	for s, ids := range others {
		slices.Sort(ids)
		if more := len(ids) - mostNames; more > 0 {
			ids = append(ids[:mostNames:mostNames], fmt.Sprintf("and %d more", more))
		}
		apart = append(apart, fmt.Sprintf("dataset %s has generation %.12s here and %.12q at %s: they share nothing of it, and each side reads the store for itself",
			s.Dataset, ours[s.Dataset], s.Generation, strings.Join(ids, ", ")))
	}
	slices.Sort(apart)
	return apart[:min(len(apart), mostNames)]
}

// warn has the faults logged, each time that they are others than before. c.building is held.
func (c *Cluster) warn(faults []string) {
	if slices.Equal(faults, c.troubles) {
		return
	}
	c.troubles = faults
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range faults {
		c.note(c.cfg.Log.Warn(), f)
	}
}
