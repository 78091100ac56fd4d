package top

import (
	"math"
	"strings"
	"unicode"

	"github.com/millrace-data/millrace/gateway/stats"
)

// Stats is an answer of /v1/stats.
type Stats struct{ stats.Answer }

// Cluster is an answer of /v1/cluster.
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

// sane replaces a negative or infinite number, or NaN, by 0.
func sane(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

// sum adds the series of a metric over all datasets: those with the given label, such as tier="memory", or all.
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

// maxText bounds a text from a gateway, in characters.
const maxText = 1000

// clean makes a text safe for a terminal: one line, without control characters, escape sequences or changes of direction.
func clean(s string) string {
	n := 0
	return strings.Map(func(r rune) rune {
		if n++; n > maxText {
			return -1
		}
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}
