package simulate

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/shuffle"
)

// Formula predicts the epoch time on p nodes according to Yang and Cong (Accelerating Data Loading
// in Deep Neural Network Training, HiPC 2019). A node is a gateway with its ranks; rates are in
// samples per second. The formula includes only the slowest part, and no waiting, so it complements
// the simulation and does not replace it.
type Formula struct {
	Samples float64 // D
	Nodes   float64 // p
	Train   float64 // V: training rate of one node
	Storage float64 // R: rate of the store; 0: no bound
	Prepare float64 // U: throughput of one node; 0: no bound
	Link    float64 // rate of one node's link, each way; 0: no bound
	Cached  float64 // part of the data that all caches together hold
	Moved   float64 // with locality, the part that a node receives from other nodes
}

// Formula returns the formula for the setting and the result.
func (r *Result) Formula() Formula {
	s := &r.Setting
	each := float64(r.Bytes) / float64(r.Samples)
	p := float64(s.Gateways)
	f := Formula{
		Samples: float64(r.Samples), Nodes: p, Train: s.Rate / p, Storage: s.StoreRate / each, Prepare: s.ServeRate / each,
		Link: s.LinkRate / each, Cached: min(float64(policy.Ahead(s.CacheSize)+s.DiskSize)*float64(s.apart())/float64(r.Bytes), 1), Moved: r.Moved,
	}
	if s.Sharing != shuffle.Locality {
		f.Moved = 0
	}
	return f
}

// per returns n/rate in seconds, or 0 if there is no bound.
func per(n, rate float64) float64 {
	if rate <= 0 {
		return 0
	}
	return n / rate
}

func (f Formula) epoch(rest float64) time.Duration {
	return seconds(max(f.Samples/(f.Nodes*f.Train), rest+per(f.Samples, f.Nodes*f.Prepare)))
}

// Stored returns the time of an epoch read from the store: max(D/(pV), D/R + D/(pU)).
func (f Formula) Stored() time.Duration { return f.epoch(per(f.Samples, f.Storage)) }

// Distributed returns the time of an epoch read from a cache that all nodes share: (p-1)/p of the
// cached part crosses the links.
func (f Formula) Distributed() time.Duration {
	return f.epoch((1-f.Cached)*per(f.Samples, f.Storage) + f.link((f.Nodes-1)/f.Nodes))
}

// Local returns the time of an epoch in which nodes read the samples that they hold. Only moved
// samples cross the links.
func (f Formula) Local() time.Duration {
	return f.epoch((1-f.Cached)*per(f.Samples, f.Storage) + f.link(f.Moved))
}

func (f Formula) link(part float64) float64 {
	return per(f.Cached*f.Samples*part, f.Nodes*f.Link)
}

// Knee returns the number of nodes above which the store is the bottleneck: p = R/V. 0 means none.
func (f Formula) Knee() float64 { return f.Storage / f.Train }

// Enough returns the rate of a node's link, in samples per second, above which locality does not
// pay. Below it the transfers over the link take longer than the node computes. +Inf: no rate is
// enough, since the other parts already take longer.
func (f Formula) Enough() float64 {
	left := f.Samples/(f.Nodes*f.Train) - (1-f.Cached)*per(f.Samples, f.Storage) - per(f.Samples, f.Nodes*f.Prepare)
	if left <= 0 {
		return math.Inf(1)
	}
	return f.Cached * f.Samples * (f.Nodes - 1) / f.Nodes / f.Nodes / left
}

// lines describes the formula in sentences. each is the number of bytes of a sample.
func (f Formula) lines(each float64) []string {
	if f.Nodes < 2 {
		return nil
	}
	rate := func(x float64) string {
		if x <= 0 {
			return "no bound"
		}
		return fmt.Sprintf("%.3g/s", x)
	}
	line := fmt.Sprintf("Yang and Cong's model, which adds times that overlap here, D = %.6g samples, p = %.0f, V = %s, R = %s, U = %s, link %s: an epoch takes %s from the store, %s from a shared cache that holds %.0f %%, %s with locality.",
		f.Samples, f.Nodes, rate(f.Train), rate(f.Storage), rate(f.Prepare), rate(f.Link), Span(f.Stored()), Span(f.Distributed()), 100*f.Cached, Span(f.Local()))
	var more []string
	if f.Storage > 0 {
		more = append(more, fmt.Sprintf("the store alone feeds p = R/V = %.3g gateways", f.Knee()))
	}
	switch enough := f.Enough(); {
	case math.IsInf(enough, 1):
		more = append(more, "the store or the line to the ranks is the bottleneck, and transfers over the links add to its time: locality saves that time")
	case enough > 0:
		more = append(more, fmt.Sprintf("locality pays with links below %s/s", Bytes(int64(enough*each))))
	}
	if len(more) > 0 {
		text := strings.Join(more, "; ")
		line += " " + strings.ToUpper(text[:1]) + text[1:] + "."
	}
	return []string{line}
}
