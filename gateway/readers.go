package gateway

import (
	"time"

	"github.com/millrace-data/millrace/gateway/bottleneck"
)

// Reader is one rank of one job, as its requests show it: who reads which plan, where, how fast, and how much of its
// time it waits for bytes. Of late means the last half minute or so.
type Reader struct {
	Dataset          string  `json:"dataset"`
	Shuffle          string  `json:"shuffle"`
	Window           uint64  `json:"window,omitempty"`
	Strata           uint64  `json:"strata,omitempty"`
	Seed             uint64  `json:"seed,string"`
	Importance       string  `json:"importance,omitempty"` // snapshot that its plan draws by
	BatchSize        uint64  `json:"batch_size"`
	WorldSize        uint64  `json:"world_size"`
	Rank             uint64  `json:"rank"`
	Epoch            uint64  `json:"epoch"`
	Batch            uint64  `json:"batch"`              // the last one asked for
	BatchesBehind    uint64  `json:"batches_behind"`     // the foremost rank of its plan and world size
	SamplesPerSecond float64 `json:"samples_per_second"` // of this rank, of late
	ThinkMS          float64 `json:"think_ms"`           // from the end of an answer to the next request, of late
	WaitingShare     float64 `json:"waiting_share"`      // of its time, for bytes, 0 to 1
	EpochLeftSeconds float64 `json:"epoch_left_seconds"` // at this rate; 0 while that is not known
	IdleSeconds      float64 `json:"idle_seconds"`       // since it last asked
}

// readerStats sums the readers up: a metric for each rank of each job would be too many.
func readerStats(rs []Reader) []Stat {
	var rate, behind, waiting float64
	for _, r := range rs {
		rate += r.SamplesPerSecond
		behind = max(behind, float64(r.BatchesBehind))
		waiting = max(waiting, r.WaitingShare)
	}
	return []Stat{
		{"readers", "Ranks heard of in the last five minutes.", float64(len(rs))},
		{"readers_samples_per_second", "Samples a second that they read of late, together.", rate},
		{"readers_most_batches_behind", "Batches that the slowest of them is behind the foremost rank of its job.", behind},
		{"readers_most_waiting_share", "Largest share of its time that one of them waited for bytes of late.", waiting},
	}
}

// ranks are what is looked at to find what limits the readers.
func ranks(rs []Reader) []bottleneck.Rank {
	duration := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	out := make([]bottleneck.Rank, len(rs))
	for i, r := range rs {
		out[i] = bottleneck.Rank{
			Dataset: r.Dataset, Rank: r.Rank, WorldSize: r.WorldSize, Waiting: r.WaitingShare,
			Think: duration(r.ThinkMS / 1000), Behind: r.BatchesBehind, Idle: duration(r.IdleSeconds),
		}
	}
	return out
}
