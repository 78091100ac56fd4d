package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/cluster/peer"
)

// mostNames is the maximum number of members in one fault, and of generations in the list.
const mostNames = 8

// faults describes problems that the members have only together, while each one is healthy.
func (n membership) faults() []string {
	ours := map[string]string{} // one generation of each dataset that this gateway serves
	for s := range n.serves {
		ours[s.Dataset] = max(ours[s.Dataset], s.Generation)
	}
	others := map[peer.DatasetGeneration][]string{} // generations that this gateway does not serve, of datasets that it serves
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
		apart = append(apart, fmt.Sprintf("dataset %s has generation %.12s here, but %.12q at %s: these gateways do not share its data, and each side reads the store by itself",
			s.Dataset, ours[s.Dataset], s.Generation, strings.Join(ids, ", ")))
	}
	slices.Sort(apart)
	return apart[:min(len(apart), mostNames)]
}

// warn logs the faults after each change. The caller holds c.building.
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
