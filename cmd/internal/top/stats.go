package top

import (
	"math"
	"strings"
	"unicode"

	"github.com/millrace-data/millrace/gateway/stats"
)

// Stats is an answer of /v1/stats.
type Stats struct{ stats.Answer }

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
