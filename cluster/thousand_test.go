package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
)

// BenchmarkThousandMembers measures the cost to one gateway of a cluster with 1,000 others: of a
// snapshot at each change of members, a status at each scrape, and each result of the discovery.
func BenchmarkThousandMembers(b *testing.B) {
	for _, datasets := range []int{1, 16} {
		c, addresses := thousand(datasets)
		b.Run(fmt.Sprintf("rebuild/datasets=%d", datasets), func(b *testing.B) {
			for b.Loop() {
				c.mu.Lock()
				c.stale = true
				c.unlock()
			}
		})
		b.Run(fmt.Sprintf("status/datasets=%d", datasets), func(b *testing.B) {
			for b.Loop() {
				c.Status()
			}
		})
		b.Run(fmt.Sprintf("copied/datasets=%d", datasets), func(b *testing.B) { // the cluster is locked throughout
			for b.Loop() {
				c.copied()
			}
		})
		b.Run(fmt.Sprintf("found/datasets=%d", datasets), func(b *testing.B) {
			for b.Loop() {
				c.found(addresses)
			}
		})
	}
}

// thousand returns a gateway that knows 1,000 others, and their addresses. The others have unequal
// weights, and all serve the same datasets.
func thousand(datasets int) (*Cluster, []string) {
	serves := map[peer.DatasetGeneration]int{}
	var all []peer.DatasetGeneration
	for i := range datasets {
		s := peer.DatasetGeneration{Dataset: fmt.Sprintf("dataset-%d", i), Generation: fmt.Sprintf("%064x", i)}
		serves[s] = 10000
		all = append(all, s)
	}
	c := New(Config{Name: "cluster", ID: "gw", Boot: "boot", Weight: 1 << 30, Serves: serves})
	var addresses []string
	for i := range 1000 {
		address := fmt.Sprintf("10.0.%d.%d:7946", i/250, i%250+1)
		addresses = append(addresses, address)
		h := c.Self()
		h.ID, h.Boot, h.Serves = fmt.Sprintf("gw-%d", i), "boot", all
		h.Weight += uint64(i % 2)
		c.mu.Lock()
		c.list(address)
		c.alive(c.contacts[address], h, time.Now())
		c.unlock()
	}
	return c, addresses
}
