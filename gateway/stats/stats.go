// Package stats is the data model of /v1/stats: counters, readers and bottlenecks. The gateway
// writes it, and millrace top reads it.
package stats

import (
	"math"

	"github.com/millrace-data/millrace/shuffle"
)

// Answer is a response of /v1/stats. Ranks are either a list of readers, or columns per job.
type Answer struct {
	Counters map[string]float64 `json:"counters"` // by Prometheus metric name, with labels
	Jobs     []Ranks            `json:"jobs,omitzero"`
	Limits   Finding            `json:"limits"`
	Readers  []Reader           `json:"readers,omitzero"`
	Version  string             `json:"version"`
}

// Limits describes the bottleneck of the readers. The text is for people; Code is stable.
type Limits struct {
	Code     string `json:"code"`
	Sentence string `json:"sentence"`
	Do       string `json:"do,omitempty"` // setting to change, or where to look
}

// Finding is the bottleneck between two snapshots.
type Finding struct {
	Limits
	Seconds float64 `json:"seconds"` // time between the snapshots
}

// Job is a plan that ranks read, with the number of ranks.
type Job struct {
	Dataset string `json:"dataset"`
	shuffle.Params
	BatchSize uint64 `json:"batch_size"`
	WorldSize uint64 `json:"world_size"`
}

// Reader is the state of one rank of one job, derived from its requests. Recent values cover about
// the last half minute.
type Reader struct {
	Job
	Rank             uint64    `json:"rank"`
	Epoch            uint64    `json:"epoch"`
	Batch            uint64    `json:"batch"`              // last requested batch
	BatchesBehind    uint64    `json:"batches_behind"`     // batches behind the fastest rank of the same plan and world size
	SamplesPerSecond float64   `json:"samples_per_second"` // recent rate of this rank
	ThinkMS          float64   `json:"think_ms"`           // mean time from the end of a response to the next request; in an Answer, over Finding.Seconds
	WaitingShare     float64   `json:"waiting_share"`      // share of its time waiting for bytes, 0 to 1; in an Answer, over Finding.Seconds
	Spent            RankTimes `json:"-"`
	EpochLeftSeconds float64   `json:"epoch_left_seconds"` // estimate at the current rate; 0: unknown
	IdleSeconds      float64   `json:"idle_seconds"`       // time since the last request
}

// RankTimes divides the time of a rank since its first request into categories, in seconds. The
// values only increase.
type RankTimes struct {
	All      float64
	Planning float64 // part of All: the gateway planned the batch, or waited for memory to plan it
	Bytes    float64 // part of All: the rank waited for bytes
	Sending  float64 // part of All: the gateway sent the response
	Pauses   float64 // time from the end of a response to the next request
	Paused   uint64  // number of pauses
}

// Ranks are the readers of one job in columns: entry i of each column belongs to one rank. A list
// of readers is ten times as large for 10,000 ranks, mostly because of names.
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

// Jobs groups readers by job, in the order of the list. It rounds values for display.
func Jobs(rs []Reader) []Ranks {
	out := []Ranks{}
	of := map[Job]int{} // index in out
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

// rounded rounds a number to the given number of decimals.
func rounded(x float64, decimals int) float64 {
	unit := math.Pow10(decimals)
	return math.Round(x*unit) / unit
}

// All returns the ranks of an answer in either form. Missing entries of a column are zero.
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
