package clustersim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// Even returns a dataset with the given number of chunks, and of samples in each chunk.
func Even(ctx context.Context, dir string, chunks, samples int) (*Data, error) {
	s := Shape{Lengths: make([]int, chunks*samples), PerShard: samples, ChunkSize: 1 << 30}
	for i := range s.Lengths {
		s.Lengths[i] = 500
	}
	return NewData(ctx, dir, "even", 1, s)
}

// Job returns a history without faults. Each gateway has memory for all data, and one rank, which
// reads only from it. A store read takes 30 ms, and a link 1 ms.
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

// Sickness is a fault of a gateway that stays alive, with the time that ranks wait for a batch
// during it.
type Sickness struct {
	Name   string
	What   Trouble
	Amount time.Duration
	Limit  time.Duration
}

// Sicknesses returns the faults that a cluster must tolerate like the death of a gateway.
func Sicknesses() []Sickness {
	return []Sickness{
		{"without store, 60 s to wait", StoreCut, 0, time.Minute},
		{"without store, 2 s to wait", StoreCut, 0, 2 * time.Second},
		{"overloaded", Full, 0, time.Minute},
		{"300 ms late", Late, 300 * time.Millisecond, time.Minute},
		{"450 ms late", Late, 450 * time.Millisecond, time.Minute},
	}
}

// Sick returns a history in which gateway 1 has a fault from the given time to the end.
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

// After returns a history in which gateway 1 has the given fault from the given time to the end.
func (h *History) After(at time.Duration, what Trouble) *History {
	with := *h
	with.Kind = Wild
	switch what {
	case Partition: // the gateway reaches its clients and the store, but no other gateway
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

// Times holds the durations of batches and, if ranks are in step, of steps. A step is one batch of
// all ranks.
type Times struct {
	P50, P99, P999, Most time.Duration
	Batches              int
	Steps                time.Duration // sum of all steps
	Step                 time.Duration // slowest step
}

// Times returns the durations of batches, from the first request to the complete response.
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

// Requests returns the number of requests that reached the store.
func (r *Report) Requests() (sum int) {
	for _, n := range r.Asked {
		sum += n
	}
	return sum
}
