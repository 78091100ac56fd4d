package gateway

import (
	"math"
	"time"

	"github.com/millrace-data/millrace/gateway/bottleneck"
)

// Job is a plan that ranks read, and in how many shares.
type Job = bottleneck.Job

// RankTimes says how a rank spent its time.
type RankTimes = bottleneck.RankTimes

// Reader is one rank of one job, as its requests show it: where it is, how fast, and how much of its
// time it waits for bytes. Of late means the last half minute or so.
type Reader struct {
	Job
	Rank             uint64    `json:"rank"`
	Epoch            uint64    `json:"epoch"`
	Batch            uint64    `json:"batch"`              // the last one asked for
	BatchesBehind    uint64    `json:"batches_behind"`     // the foremost rank of its plan and world size
	SamplesPerSecond float64   `json:"samples_per_second"` // of this rank, of late
	ThinkMS          float64   `json:"think_ms"`           // from the end of an answer to the next request, of late
	WaitingShare     float64   `json:"waiting_share"`      // of its time, for bytes, 0 to 1
	Spent            RankTimes `json:"-"`
	EpochLeftSeconds float64   `json:"epoch_left_seconds"` // at this rate; 0 while that is not known
	IdleSeconds      float64   `json:"idle_seconds"`       // since it last asked
}

// Ranks are the readers of one job as columns: entry i of each column is of one rank. As a list of
// readers, 10,000 ranks take ten times the bytes, most of them names.
type Ranks struct {
	Job
	Rank             []uint64  `json:"rank"`
	Epoch            []uint64  `json:"epoch"`
	Batch            []uint64  `json:"batch"`
	BatchesBehind    []uint64  `json:"batches_behind"`
	SamplesPerSecond []float64 `json:"samples_per_second"`
	ThinkMS          []float64 `json:"think_ms"`
	WaitingShare     []float64 `json:"waiting_share"`
	EpochLeftSeconds []float64 `json:"epoch_left_seconds"`
	IdleSeconds      []float64 `json:"idle_seconds"`
}

// jobs gathers readers by their jobs, both in the order in which they come. Figures are rounded to
// what people read.
func jobs(rs []Reader) []*Ranks {
	out := []*Ranks{}
	of := map[Job]*Ranks{}
	for _, r := range rs {
		j := of[r.Job]
		if j == nil {
			j = &Ranks{Job: r.Job}
			of[r.Job] = j
			out = append(out, j)
		}
		j.Rank, j.Epoch, j.Batch = append(j.Rank, r.Rank), append(j.Epoch, r.Epoch), append(j.Batch, r.Batch)
		j.BatchesBehind = append(j.BatchesBehind, r.BatchesBehind)
		j.SamplesPerSecond = append(j.SamplesPerSecond, rounded(r.SamplesPerSecond, 3))
		j.ThinkMS = append(j.ThinkMS, rounded(r.ThinkMS, 1))
		j.WaitingShare = append(j.WaitingShare, rounded(r.WaitingShare, 3))
		j.EpochLeftSeconds = append(j.EpochLeftSeconds, rounded(r.EpochLeftSeconds, 0))
		j.IdleSeconds = append(j.IdleSeconds, rounded(r.IdleSeconds, 1))
	}
	return out
}

// rounded leaves a number so many decimals.
func rounded(x float64, decimals int) float64 {
	unit := math.Pow10(decimals)
	return math.Round(x*unit) / unit
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
			Job: r.Job, Rank: r.Rank, Spent: r.Spent, Think: duration(r.ThinkMS / 1000), Rate: r.SamplesPerSecond,
			Behind: r.BatchesBehind, Idle: duration(r.IdleSeconds),
		}
	}
	return out
}
