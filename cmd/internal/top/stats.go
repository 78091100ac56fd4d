package top

import (
	"encoding/json"
	"math"
	"strings"
	"unicode"
)

// Stats is an answer of /v1/stats.
type Stats struct {
	Version  string             `json:"version"`
	Counters map[string]float64 `json:"counters"`
	Limits   Limits             `json:"limits"`
	Readers  []Reader           `json:"readers"` // of an older gateway
	Jobs     []Ranks            `json:"jobs"`
}

// Limits is what limits the readers of a gateway now.
type Limits struct {
	Code     string `json:"code"`
	Sentence string `json:"sentence"`
	Do       string `json:"do,omitempty"`
}

// Job is a plan that ranks read, in so many shares.
type Job struct {
	Dataset    string      `json:"dataset"`
	Shuffle    string      `json:"shuffle"`
	Window     uint64      `json:"window,omitempty"`
	Strata     uint64      `json:"strata,omitempty"`
	Seed       json.Number `json:"seed"`
	Importance string      `json:"importance,omitempty"`
	Subset     string      `json:"subset,omitempty"`
	BatchSize  uint64      `json:"batch_size"`
	WorldSize  uint64      `json:"world_size"`
}

// Reader is one rank of a job. Of late means the last half minute or so.
type Reader struct {
	Job
	Rank             uint64  `json:"rank"`
	Epoch            uint64  `json:"epoch"`
	Batch            uint64  `json:"batch"`
	BatchesBehind    uint64  `json:"batches_behind"`
	SamplesPerSecond float64 `json:"samples_per_second"`
	ThinkMS          float64 `json:"think_ms"`
	WaitingShare     float64 `json:"waiting_share"`
	EpochLeftSeconds float64 `json:"epoch_left_seconds"`
	IdleSeconds      float64 `json:"idle_seconds"`
}

// Ranks are the readers of one job as columns: entry i of each column is of one rank.
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

// Cluster is what /v1/cluster says of the other members.
type Cluster struct {
	Cluster string   `json:"cluster"`
	Members []Member `json:"members"`
}

// Member is another gateway of a cluster.
type Member struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	State   string `json:"state"`
	Reason  string `json:"reason"`
}

// entry returns an entry of a column; zero where the column is too short.
func entry[T any](column []T, i int) (x T) {
	if i < len(column) {
		x = column[i]
	}
	return x
}

// readers returns all ranks, whichever form the answer has.
func (s *Stats) readers() []Reader {
	all := s.Readers
	for _, j := range s.Jobs {
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

// value returns a counter or gauge without labels: a finite number from 0.
func (s *Stats) value(name string) float64 { return sane(s.Counters["millrace_"+name]) }

// sane takes a number that makes no sense for zero.
func sane(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

// sum adds up the series of a metric that are of datasets, those of a value of a label alone where one is given: tier="memory".
func (s *Stats) sum(name, label string) float64 {
	all := 0.0
	for key, x := range s.Counters {
		labels, ok := strings.CutPrefix(key, "millrace_"+name+"{")
		if ok && strings.Contains(labels, label) && strings.Contains(labels, `dataset="`) && !strings.Contains(labels, `dataset=""`) {
			all += sane(x)
		}
	}
	return all
}

// mostText bounds a text that a gateway sends, in characters.
const mostText = 1000

// clean makes a text fit for a terminal: one line, without control characters, escape sequences, or characters that turn the direction of others.
func clean(s string) string {
	n := 0
	return strings.Map(func(r rune) rune {
		if n++; n > mostText {
			return -1
		}
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}
