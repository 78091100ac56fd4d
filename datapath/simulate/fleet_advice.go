package simulate

import (
	"fmt"
	"slices"

	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/shuffle"
)

// fleetAdvice reports, for the largest cluster, the cache size that holds all data, the load of the
// link, and whether locality would help.
func fleetAdvice(d *Data, results []Result) []string {
	most := slices.MaxFunc(results, func(a, b Result) int { return a.Setting.cluster() - b.Setting.cluster() })
	n := most.Setting.cluster()
	if n < 2 {
		return nil
	}
	r := bestOf(results, func(s *Setting) bool { return s.cluster() == n })
	s, e := &r.Setting, r.Later()
	var lines []string
	if need := policy.Budget(s.held(d)); s.CacheSize < need && s.DiskSize < d.Bytes()/int64(n) {
		lines = append(lines, fmt.Sprintf("Fleet: a cache of %s for each of the %d gateways would hold all of the data: no later epoch would read the store.", Bytes(need), n))
	}
	return append(lines, linkAdvice(&r, e)...)
}

// linkAdvice reports whether the link is the bottleneck, and how to reduce its load.
func linkAdvice(r *Result, e *Epoch) []string {
	s := &r.Setting
	if r.Bounds(e)[0].Name != "link" {
		return nil
	}
	line := fmt.Sprintf("Link: it is the bottleneck: %s over the busiest one in an epoch, %s of all bytes delivered between gateways.", Bytes(e.Busiest), percent(e.PeerBytes, e.Served))
	switch {
	case s.Sharing == shuffle.Locality:
		line += " Locality saves transfers only between gateways that share nothing (--no-cluster): a cluster's owners follow no homes."
	case s.homes() < uint64(s.Ranks):
		line += fmt.Sprintf(" Locality would save nearly all of that, but requires a home for each of the %d ranks: a slot order of as many lanes, or as many strata.", s.Ranks)
	default:
		line += " Gateways that share nothing and locality (--no-cluster --share locality) would save nearly all of that."
	}
	return []string{line}
}

func percent(part, of int64) string {
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(max(of, 1)))
}

// homes returns the number of homes of an order: its lanes or its strata. 0 means none.
func (s *Setting) homes() uint64 {
	if s.Order.Shuffle == shuffle.Slot {
		return s.Order.Window
	}
	return s.Order.Strata
}
