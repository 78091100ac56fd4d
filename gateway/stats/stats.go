// Package stats is the model of /v1/stats: what a gateway counts, who reads from it, and what limits them. The gateway writes it, and
// millrace top reads it.
package stats

import (
	"math"

	"github.com/millrace-data/millrace/shuffle"
)

// Answer is an answer of /v1/stats. The ranks are in one of two forms: a list of readers, or columns for each job.
type Answer struct {
	Counters map[string]float64 `json:"counters"` // by their names in Prometheus, labels included
	Jobs     []Ranks            `json:"jobs,omitzero"`
	Limits   Finding            `json:"limits"`
	Readers  []Reader           `json:"readers,omitzero"`
	Version  string             `json:"version"`
}

// Limits says what limits the readers. Its text is for people; Code stays the same.
type Limits struct {
	Code     string `json:"code"`
	Sentence string `json:"sentence"`
	Do       string `json:"do,omitempty"` // the setting to touch, or where to look
}

// Finding is what limits the readers between two looks at a gateway.
type Finding struct {
	Limits
	Seconds float64 `json:"seconds"` // between the two looks
}

// Job is a plan that ranks read, and in how many shares.
type Job struct {
	Dataset string `json:"dataset"`
	shuffle.Params
	BatchSize uint64 `json:"batch_size"`
	WorldSize uint64 `json:"world_size"`
}

// Reader is one rank of one job, as its requests show it: where it is, how fast, and how much of its
// time it waits for bytes. Recent figures are of the last half minute or so.
type Reader struct {
	Job
	Rank             uint64    `json:"rank"`
	Epoch            uint64    `json:"epoch"`
	Batch            uint64    `json:"batch"`              // the last one asked for
	BatchesBehind    uint64    `json:"batches_behind"`     // the foremost rank of its plan and world size
	SamplesPerSecond float64   `json:"samples_per_second"` // of this rank, recent
	ThinkMS          float64   `json:"think_ms"`           // from the end of an answer to the next request, recent
	WaitingShare     float64   `json:"waiting_share"`      // of its time, for bytes, 0 to 1
	Spent            RankTimes `json:"-"`
	EpochLeftSeconds float64   `json:"epoch_left_seconds"` // at this rate; 0 while that is not known
	IdleSeconds      float64   `json:"idle_seconds"`       // since it last asked
}

// RankTimes says how a rank has spent its time since its first request, in seconds. It only grows.
type RankTimes struct {
	All      float64
	Planning float64 // of All; the rank waited while the gateway found out what is in the batch, or had no memory to do so
	Bytes    float64 // of All; it waited for bytes
	Sending  float64 // of All; its bytes were on the way
	Pauses   float64 // from the end of an answer to the next request
	Paused   uint64  // number of these pauses
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

// Jobs gathers readers by their jobs, both in the order in which they come. Figures are rounded to
// what people read.
func Jobs(rs []Reader) []Ranks {
	out := []Ranks{}
	of := map[Job]int{} // in out
	for _, r := range rs {
		i, known := of[r.Job]
		if !known {
			i = len(out)
			of[r.Job] = i
			out = append(out, Ranks{Job: r.Job})
		}
		j := &out[i]
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

// All returns the ranks of an answer, whichever form it has. A column that is too short counts as zero from there on.
func (a *Answer) All() []Reader {
	all := a.Readers
	for _, j := range a.Jobs {
		for i, rank := range j.Rank {
			all = append(all, Reader{
				Job: j.Job, Rank: rank, Epoch: entry(j.Epoch, i), Batch: entry(j.Batch, i), BatchesBehind: entry(j.BatchesBehind, i),
				SamplesPerSecond: entry(j.SamplesPerSecond, i), ThinkMS: entry(j.ThinkMS, i), WaitingShare: entry(j.WaitingShare, i),
				EpochLeftSeconds: entry(j.EpochLeftSeconds, i), IdleSeconds: entry(j.IdleSeconds, i),
			})
		}
	}
	return all
}

func entry[T any](column []T, i int) (x T) {
	if i < len(column) {
		x = column[i]
	}
	return x
}
