package top

import (
	"cmp"
	"slices"

	"github.com/millrace-data/millrace/gateway/stats"
)

// Thresholds of the states of ranks, the same as those of gateways for slow ranks.
const (
	readsSeconds = 60  // a rank without requests for so long has stopped
	waitsShare   = 0.2 // a rank that waits for a larger share of its time is limited by data
	farBehind    = 10  // batches
	muchLonger   = 4   // a slow rank takes this many times the median gap of its job
)

// States of ranks, the most urgent first.
const (
	stopped = "stopped" // sends no requests, while other ranks of its job do
	slow    = "slow"    // far behind, but not waiting for data
	waits   = "waits"   // for data
	reads   = "reads"
	idle    = "idle" // no rank of its job sends requests
)

func states() []string { return []string{stopped, slow, waits, reads, idle} }

// judge finds the state of each rank.
func judge(ranks []Rank) {
	live := map[stats.Job][]float64{} // gaps between batches of its ranks that read
	for _, r := range ranks {
		if r.IdleSeconds < readsSeconds {
			live[r.Job] = append(live[r.Job], r.ThinkMS)
		}
	}
	usual := map[stats.Job]float64{}
	for job, all := range live {
		slices.Sort(all)
		usual[job] = all[(len(all)-1)/2]
	}
	for i := range ranks {
		r := &ranks[i]
		switch {
		case live[r.Job] == nil:
			r.State = idle
		case r.IdleSeconds >= readsSeconds:
			r.State = stopped
		case r.BatchesBehind >= farBehind && r.WaitingShare <= waitsShare && r.ThinkMS > muchLonger*usual[r.Job]:
			r.State = slow
		case r.WaitingShare > waitsShare:
			r.State = waits
		default:
			r.State = reads
		}
	}
}

// compareUrgency orders ranks: the most urgent first.
func compareUrgency(a, b Rank) int {
	c := cmp.Compare(slices.Index(states(), a.State), slices.Index(states(), b.State))
	if a.State == waits {
		c = cmp.Or(c, cmp.Compare(b.WaitingShare, a.WaitingShare))
	}
	return cmp.Or(c, cmp.Compare(b.BatchesBehind, a.BatchesBehind), cmp.Compare(b.WaitingShare, a.WaitingShare),
		cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.WorldSize, b.WorldSize), cmp.Compare(a.Rank, b.Rank), compareNames(a.Gateway, b.Gateway))
}
