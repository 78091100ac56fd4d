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

// Job returns a history in which nothing goes wrong: so many gateways with a rank each that keeps
// to its own, room for all the data, a store that takes 30 ms, links that take 1 ms.
func Job(d *Data, params shuffle.Params, gateways int, epochs uint64) *History {
	h := &History{
		Seed: 1, Cluster: "job-a", Kind: Healthy, Data: d, Old: d, Params: params, Epochs: epochs, Batch: uint64(2 * gateways),
		Link: link{delay: time.Millisecond}, Room: 4 << 20, Store: 30 * time.Millisecond, Even: true, Heal: time.Hour,
		InStep: true,
	}
	for i := range gateways {
		h.Gateways = append(h.Gateways, Gateway{Budget: h.ample(), Fetchers: 12, PartSize: 16 << 20})
		h.Ranks = append(h.Ranks, Rank{Near: i, Think: 20 * time.Millisecond, Limit: time.Second})
	}
	return h
}

// Sickness is a fault of a gateway that lives on, and how long the ranks wait for a batch
// meanwhile.
type Sickness struct {
	Name   string
	What   Trouble
	Amount time.Duration
	Limit  time.Duration
}

// Sicknesses are those that a cluster must bear like the death of a gateway.
func Sicknesses() []Sickness {
	return []Sickness{
		{"without store, 60 s to wait", StoreCut, 0, time.Minute},
		{"without store, 2 s to wait", StoreCut, 0, 2 * time.Second},
		{"overloaded", Full, 0, time.Minute},
		{"300 ms late", Late, 300 * time.Millisecond, time.Minute},
		{"450 ms late", Late, 450 * time.Millisecond, time.Minute},
	}
}

// Sick returns a history in which the gateway with number 1 is sick from a time to the end.
func (h *History) Sick(at time.Duration, s Sickness) *History {
	with := h.After(at, s.What)
	with.Ranks = slices.Clone(h.Ranks)
	for i := range with.Ranks {
		with.Ranks[i].Limit = s.Limit
	}
	for i := range with.Faults {
		with.Faults[i].Amount = s.Amount
	}
	return with
}

// After returns a history in which the gateway with number 1 is hit by one fault, from a time to
// the end.
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

// Times are how long batches took, and steps: batches of all ranks, where they keep in step.
type Times struct {
	P50, P99, P999, Most time.Duration
	Batches              int
	Steps                time.Duration // all of them
	Step                 time.Duration // the slowest
}

// Times returns how long batches took, from the first request to the answer that was whole.
func (r *Report) Times() Times {
	took := slices.Sorted(slices.Values(r.Took))
	n := len(took)
	if n == 0 {
		return Times{}
	}
	t := Times{P50: took[n/2], P99: took[n*99/100], P999: took[n*999/1000], Most: took[n-1], Batches: n}
	for _, s := range r.Steps {
		t.Steps, t.Step = t.Steps+s, max(t.Step, s)
	}
	return t
}

func (t Times) String() string {
	s := fmt.Sprintf("%d batches, median %v, p99 %v, p99.9 %v, longest %v", t.Batches, t.P50, t.P99, t.P999, t.Most)
	if t.Steps > 0 {
		s += fmt.Sprintf("; %v for all steps, %v for the slowest", t.Steps, t.Step)
	}
	return s
}

// Requests returns how many requests have reached the store.
func (r *Report) Requests() (sum int) {
	for _, n := range r.Asked {
		sum += n
	}
	return sum
}
