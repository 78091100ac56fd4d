package clustersim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// Even returns a dataset of so many chunks, each of so many samples.
func Even(ctx context.Context, dir string, chunks, samples int) (*Data, error) {
	s := Shape{Lengths: make([]int, chunks*samples), PerShard: samples, ChunkSize: 1 << 30}
	for i := range s.Lengths {
		s.Lengths[i] = 500
	}
	return NewData(ctx, dir, "even", 1, s)
}

// Job returns a history in which nothing goes wrong: so many gateways with a rank each that keeps to its own, room for all the
// data, a store that takes 30 ms, links that take 1 ms.
func Job(d *Data, params shuffle.Params, gateways int, epochs uint64) *History {
	h := &History{
		Seed: 1, Cluster: "job-a", Kind: Healthy, Data: d, Old: d, Params: params, Epochs: epochs, Batch: uint64(2 * gateways),
		Link: link{delay: time.Millisecond}, Room: 4 << 20, Store: 30 * time.Millisecond, Even: true, Heal: time.Hour,
	}
	for i := range gateways {
		h.Gateways = append(h.Gateways, Gateway{Budget: h.ample(), Fetchers: 12, PartSize: 16 << 20, Policy: 0, Ordinal: i, Of: gateways})
		h.Ranks = append(h.Ranks, Rank{Near: i, Think: 20 * time.Millisecond, Limit: time.Second})
	}
	return h
}

// After returns a history in which the gateway with number 1 is hit by one fault, from a time to the end.
func (h *History) After(at time.Duration, what Trouble) *History {
	with := *h
	with.Kind = Wild
	switch what {
	case Partition: // it reaches its clients and the store, but no other gateway
		for other := range h.Gateways {
			if other != 1 {
				with.Faults = append(with.Faults,
					Fault{What: Cut, At: at, For: time.Hour, Machine: 1, Other: other}, Fault{What: Cut, At: at, For: time.Hour, Machine: other, Other: 1})
			}
		}
	default:
		with.Faults = []Fault{{What: what, At: at, For: time.Hour, Machine: 1}}
	}
	return &with
}

// Times are how long batches took.
type Times struct {
	P50, P99, P999, Most time.Duration
	Batches              int
}

// Times returns how long batches took, from the first request to the answer that was whole.
func (r *Report) Times() Times {
	took := slices.Sorted(slices.Values(r.Took))
	n := len(took)
	if n == 0 {
		return Times{}
	}
	return Times{P50: took[n/2], P99: took[n*99/100], P999: took[n*999/1000], Most: took[n-1], Batches: n}
}

func (t Times) String() string {
	return fmt.Sprintf("%d batches, median %v, p99 %v, p99.9 %v, longest %v", t.Batches, t.P50, t.P99, t.P999, t.Most)
}
