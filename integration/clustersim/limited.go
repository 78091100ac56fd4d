package clustersim

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// Limited is a job on machines whose network cards are the bottleneck. This package simulates it,
// and integration/limited runs it with processes in network namespaces, so that the results can be
// compared.
type Limited struct {
	Samples, SampleBytes int
	Shard, Chunk         int64 // in bytes
	Lanes, Batch         uint64
	Ranks, Ahead         int           // number of ranks, and of batches that a rank requests at a time
	Card, StoreCard      int64         // bytes per second in each direction
	FirstByte            time.Duration // of a store read
	Limit                time.Duration // deadline of one request of a rank, if a gateway is lost
	Rounds               int           // rounds with real processes
	Ways                 []Way
}

// Way is one configuration of the job: an arm of an experiment.
type Way struct {
	Name     string
	Gateways int
	Peers    bool // the gateways are one cluster
	Locality bool // share=locality, with as many homes as gateways
	Epochs   uint64
	Share    float64       // fraction of the data that fits in a gateway's memory; 0: all
	Think    time.Duration // pause of all ranks after each batch
	Trouble  Trouble       // fault of gateway 1: Kill or Stop at TroubleAt, or StoreCut from the start
}

// Memory returns the memory budget of one gateway in bytes.
func (w Way) Memory(stored int64) int64 {
	if w.Share > 0 {
		return int64(w.Share * float64(stored))
	}
	return 8 * stored
}

// TroubleAt is the time at which a gateway of a limited job is killed or stopped. It is in the
// first epoch.
const TroubleAt = time.Second

// Outcome is the result of one configuration, simulated or run with processes.
type Outcome struct {
	Way    Way
	Epochs []EpochOutcome
	CPU    float64 // average number of busy processors, over all processes; 0 in a simulation
}

// EpochOutcome is the result of one epoch.
type EpochOutcome struct {
	Seconds          float64
	P50, P99, Most   float64 // durations of a step of all ranks, in seconds
	Store, Exchanged float64 // bytes from the store and between gateways, as fractions of the data
}

// NewLimited returns the job and its configurations, which are small unless the environment
// requests the full form.
func NewLimited() Limited {
	l := Limited{
		Samples: 1024, SampleBytes: 12 << 10, Shard: 1 << 20, Chunk: 64 << 10, Lanes: 32, Batch: 32, Ranks: 8, Ahead: 2,
		Card: 10e6, StoreCard: 40e6, FirstByte: 5 * time.Millisecond, Limit: 2 * time.Second, Rounds: 1,
		Ways: append(speedWays([]int{2}), Way{Name: "plain, sick", Gateways: 2, Locality: true, Epochs: 1, Think: 10 * time.Millisecond, Trouble: StoreCut}),
	}
	if os.Getenv("MILLRACE_LIMITED") == "full" {
		l.Samples, l.Card, l.StoreCard, l.Rounds = 2048, 4e6, 16e6, 3
		l.Ways = append(speedWays([]int{2, 4, 8}), lossWays()...)
	}
	return l
}

// speedWays returns the configurations whose epochs are timed. Ranks do not pause, so the network
// cards are the bottleneck.
func speedWays(gateways []int) []Way {
	ways := []Way{{Name: "one", Gateways: 1, Epochs: 2}}
	for _, n := range gateways {
		ways = append(ways,
			Way{Name: "plain, by rank", Gateways: n, Locality: true, Epochs: 2},
			Way{Name: "plain", Gateways: n, Epochs: 2},
			Way{Name: "peers", Gateways: n, Peers: true, Epochs: 2})
	}
	for _, w := range slices.Clone(ways) {
		if w.Gateways <= 2 && w.Name != "plain" {
			w.Share = 0.65
			ways = append(ways, w)
		}
	}
	return ways
}

// lossWays returns configurations that lose one gateway of eight. The pause of the ranks is longer
// than a healthy cluster takes for a batch.
func lossWays() (ways []Way) {
	for _, peers := range []bool{false, true} {
		for _, t := range []Trouble{"", Kill, Stop, StoreCut} {
			w := Way{Name: "plain, by rank", Gateways: 8, Peers: peers, Locality: !peers, Epochs: 2, Think: 40 * time.Millisecond, Trouble: t}
			if peers {
				w.Name = "peers"
			}
			ways = append(ways, w)
		}
	}
	return ways
}

// NewData creates the job's data for the simulation.
func (l Limited) NewData(ctx context.Context, dir string) (*Data, error) {
	packed := l.SampleBytes + 512 // including the tar header
	s := Shape{Lengths: make([]int, l.Samples), PerShard: int(l.Shard) / packed, ChunkSize: l.Chunk}
	for i := range s.Lengths {
		s.Lengths[i] = l.SampleBytes
	}
	return NewData(ctx, dir, "limited", 1, s)
}

// History returns the simulated history of one configuration.
func (l Limited) History(d *Data, w Way) *History {
	h := &History{
		Seed: 1, Cluster: "job-a", Kind: Wild, Data: d, Old: d, Epochs: w.Epochs, Batch: l.Batch,
		Params: shuffle.Params{Shuffle: shuffle.Slot, Window: l.Lanes}, Locality: w.Locality, Homes: uint64(w.Gateways), Apart: !w.Peers,
		Link: link{delay: 200 * time.Microsecond}, Card: payload(l.Card), StoreCard: payload(l.StoreCard), Room: 2 * cardPiece,
		Store: l.FirstByte, Even: true, Heal: time.Hour, InStep: true,
	}
	for range w.Gateways {
		h.Gateways = append(h.Gateways, Gateway{Budget: w.Memory(d.stored()), Fetchers: 12, PartSize: 16 << 20})
	}
	limit := time.Minute
	if w.Trouble != "" {
		limit = l.Limit
	}
	for i := range l.Ranks {
		h.Ranks = append(h.Ranks, Rank{Near: i * w.Gateways / l.Ranks, Think: w.Think, Ahead: l.Ahead, Limit: limit})
	}
	switch w.Trouble {
	case Kill, Stop:
		return h.After(TroubleAt, w.Trouble)
	case StoreCut:
		return h.After(0, StoreCut)
	}
	return h
}

// payload returns TCP's payload rate on a network card: 1,448 of the 1,514 bytes of a frame.
func payload(rate int64) int64 { return rate * 1448 / 1514 }

// Outcome summarizes a report.
func (l Limited) Outcome(d *Data, w Way, r *Report) Outcome {
	o := Outcome{Way: w}
	steps := len(r.Steps) / max(1, len(r.Passed))
	var before Passed
	for e, p := range r.Passed {
		epoch := EpochOf(r.Steps[e*steps : (e+1)*steps])
		epoch.Store = float64(p.Store-before.Store) / float64(d.stored())
		epoch.Exchanged = float64(p.Peers-before.Peers) / float64(d.stored())
		o.Epochs, before = append(o.Epochs, epoch), p
	}
	return o
}

// EpochOf returns the outcome of an epoch with the given durations of steps.
func EpochOf(steps []time.Duration) (e EpochOutcome) {
	sorted := slices.Sorted(slices.Values(steps))
	at := func(share float64) float64 { return sorted[int(share*float64(len(sorted)-1))].Seconds() }
	for _, s := range steps {
		e.Seconds += s.Seconds()
	}
	e.P50, e.P99, e.Most = at(.5), at(.99), at(1)
	return e
}
