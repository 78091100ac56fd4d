package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/reach"
	"github.com/millrace-data/millrace/gateway/stats"
)

// Report is the state of all gateways at one moment, and the output of --json.
type Report struct {
	At       time.Time       `json:"at"`
	Gateways []GatewayReport `json:"gateways"` // the worst first
	Totals   Figures         `json:"totals"`
	Ranks    []Rank          `json:"ranks"` // the most urgent first
}

// GatewayReport is the state of one gateway.
type GatewayReport struct {
	Gateway string       `json:"gateway"`
	State   string       `json:"state"` // ready, not ready, restarted, late, silent or refuses
	Version string       `json:"version,omitempty"`
	Limits  stats.Limits `json:"limits"`             // of a gateway that does not answer: reason and cure
	LeftOut []Member     `json:"left_out,omitempty"` // other members of its cluster from which it does not read
	Figures Figures      `json:"figures"`
}

// Figures are rates, computed from two polls, and levels. Figures of several gateways can be added.
type Figures struct {
	Seconds          float64            `json:"seconds"` // between the two polls; 0: only one poll, so rates are unknown
	SamplesPerSecond float64            `json:"samples_per_second"`
	BytesPerSecond   float64            `json:"bytes_per_second"`    // sent to readers
	RequestsPS       float64            `json:"requests_per_second"` // for datasets
	FirstByteMS      float64            `json:"first_byte_ms"`       // mean time of these requests to the first byte
	Tiers            map[string]float64 `json:"tier_bytes_per_second"`
	StoreReadsPS     float64            `json:"store_reads_per_second"`
	StoreBytesPS     float64            `json:"store_bytes_per_second"`
	StoreRequestsPS  float64            `json:"store_requests_per_second"` // to S3 services
	StoreErrorsPS    float64            `json:"store_errors_per_second"`
	RefusedPS        float64            `json:"refused_per_second"` // requests that got no memory in time
	MemoryBytes      float64            `json:"memory_bytes"`
	MemoryUsed       float64            `json:"memory_used_bytes"`
	MemoryPinned     float64            `json:"memory_pinned_bytes"`
	CacheBytes       float64            `json:"cache_bytes"`
	DiskBytes        float64            `json:"disk_bytes"`
	DiskUsed         float64            `json:"disk_used_bytes"`
	InFlight         float64            `json:"requests_in_flight"`
	WaitForMemory    float64            `json:"requests_waiting_for_memory"`
}

// tiers returns the sources of bytes, the nearest first.
func tiers() []string { return []string{"memory", "disk", "peer", "store"} }

// Rank is one rank of a job at one gateway.
type Rank struct {
	Gateway string `json:"gateway"`
	State   string `json:"state"` // stopped, slow, waits, reads or idle
	stats.Reader
}

// States of gateways.
const (
	ready     = "ready"
	notReady  = "not ready"
	restarted = "restarted"
	late      = "late"
	silentNow = "silent"
	refuses   = "refuses"
)

// History has the last two polls of each gateway, to compute rates. The zero value has none.
type History struct {
	before, now map[string]Poll
}

// Next adds polls and returns a report of them. A repeated poll is compared with the same earlier one again.
func (h *History) Next(polls []Poll) Report {
	r := Report{Gateways: []GatewayReport{}, Ranks: []Rank{}}
	before, now := map[string]Poll{}, map[string]Poll{}
	for _, l := range polls {
		last, known := h.now[l.Gateway]
		switch {
		case known && last.At.Equal(l.At):
			before[l.Gateway] = h.before[l.Gateway]
		case known && last.Err == nil:
			before[l.Gateway] = last
		}
		now[l.Gateway] = l
		if l.At.After(r.At) {
			r.At = l.At
		}
	}
	h.before, h.now = before, now
	for _, l := range polls {
		g := describe(before[l.Gateway], l)
		r.Gateways = append(r.Gateways, g)
		r.Totals.add(g.Figures)
		for _, x := range l.Stats.All() {
			r.Ranks = append(r.Ranks, Rank{Gateway: l.Gateway, Reader: x})
		}
	}
	judge(r.Ranks)
	slices.SortStableFunc(r.Ranks, compareUrgency)
	slices.SortStableFunc(r.Gateways, func(a, b GatewayReport) int { return cmp.Compare(severity(a), severity(b)) })
	return r
}

// describe reports the changes from one poll to the next; the first may be empty.
func describe(before, now Poll) GatewayReport {
	g := GatewayReport{Gateway: now.Gateway, State: ready, Version: now.Stats.Version, Limits: now.Stats.Limits.Limits}
	if now.Err != nil {
		g.State, g.Limits = fault(now.Err)
		return g
	}
	again := before.Stats.Counters != nil && now.Stats.value("uptime_seconds") < before.Stats.value("uptime_seconds")
	if again {
		before = Poll{} // counters restarted, so rates are unknown
	}
	g.Figures = compare(before, now)
	switch {
	case now.Stats.value("ready") == 0:
		g.State = notReady
		g.Limits = stats.Limits{Code: "not-ready", Sentence: "It accepts no new jobs: it is starting or draining.", Do: "wait; if this persists, read its log and GET /readyz"}
	case again:
		g.State = restarted
	}
	if now.Cluster != nil {
		for _, m := range now.Cluster.Members {
			if m.State != "alive" && m.State != "suspect" { // a suspect is still read from
				g.LeftOut = append(g.LeftOut, m)
			}
		}
	}
	return g
}

// fault returns the reason why a gateway does not answer, and the cure.
func fault(err error) (state string, l stats.Limits) {
	var answer *client.Error
	l = stats.Limits{Code: "silent", Sentence: "It does not answer: " + cause(err) + ".", Do: reach.Cure(err)}
	switch {
	case errors.Is(err, errLate):
		return late, stats.Limits{Code: "late", Sentence: "It has not answered yet."}
	case errors.As(err, &answer) && answer.Status == http.StatusNotFound && answer.Code != "":
		l = stats.Limits{Code: "refuses", Sentence: "It shows no statistics at this address.", Do: "give the address of its admin port (--admin-listen of millrace serve)"}
	case errors.As(err, &answer) && answer.Status == http.StatusUnauthorized:
		l = stats.Limits{Code: "refuses", Sentence: "It requires a valid token.", Do: answer.Cure()}
	case errors.As(err, &answer) && answer.Status == http.StatusForbidden:
		l = stats.Limits{Code: "refuses", Sentence: "Statistics require the right admin, which this token lacks.", Do: answer.Cure()}
	case errors.As(err, &answer) && answer.Code != "":
		l = stats.Limits{Code: "refuses", Sentence: "It answers with an error: " + answer.Code + ": " + cmp.Or(answer.Detail, answer.Title), Do: answer.Cure()}
	case errors.Is(err, client.ErrProtocol), errors.As(err, &answer):
		return silentNow, stats.Limits{Code: "silent", Sentence: "The server at this address is not a gateway: " + cause(err) + ".", Do: "correct the address; a private certificate authority requires SSL_CERT_FILE"}
	default:
		return silentNow, l
	}
	return refuses, l
}

// cause returns the error without resource and gateway, which the line already has.
func cause(err error) string {
	var network *net.OpError
	var call *os.SyscallError
	var name *net.DNSError
	switch {
	case errors.As(err, &name):
		return "look up " + name.Name + ": " + name.Err
	case errors.As(err, &call):
		return call.Err.Error()
	case errors.As(err, &network) && network.Err != nil:
		return network.Err.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer in %v", attemptTime)
	}
	return strings.TrimPrefix(err.Error(), "read /v1/stats: ")
}

// severity orders gateways: 0 is the most urgent.
func severity(g GatewayReport) int {
	switch g.State {
	case silentNow, refuses:
		return 0
	case notReady:
		return 1
	case late:
		return 2
	}
	at := slices.Index([]string{"memory", "store-fails", "peers", "cache", "store", "disk", "peer", "rank", "planning", "network"}, g.Limits.Code)
	switch g.Limits.Code {
	case "gateway", "readers", "nobody":
		return readersLimit
	}
	return at + 4 // an unknown code sorts before them
}

// readersLimit is the severity of a gateway that could do more.
const readersLimit = 100

// compare computes figures from two polls.
func compare(before, now Poll) Figures {
	s := &now.Stats
	f := Figures{
		SamplesPerSecond: s.value("readers_samples_per_second"),
		MemoryBytes:      s.value("budget_bytes"), MemoryUsed: s.value("budget_used_bytes"), MemoryPinned: s.value("budget_pinned_bytes"),
		CacheBytes: s.value("cache_bytes"), DiskBytes: s.value("disk_limit_bytes"), DiskUsed: s.value("disk_bytes"),
		InFlight:      max(0, s.value("http_in_flight_requests")-1), // without this request
		WaitForMemory: s.value("budget_waiting"), Tiers: map[string]float64{},
	}
	if before.Stats.Counters == nil {
		return f
	}
	f.Seconds = now.At.Sub(before.At).Seconds()
	rate := func(of func(*Stats) float64) float64 {
		if f.Seconds <= 0 {
			return 0
		}
		return max(0, of(s)-of(&before.Stats)) / f.Seconds
	}
	counter := func(name string) float64 { return rate(func(s *Stats) float64 { return s.value(name) }) }
	series := func(name, label string) float64 { return rate(func(s *Stats) float64 { return s.sum(name, label) }) }
	f.BytesPerSecond = series("http_response_bytes_total", "")
	f.RequestsPS = series("http_requests_total", "")
	if asked := series("http_first_byte_seconds_count", ""); asked > 0 {
		f.FirstByteMS = 1000 * series("http_first_byte_seconds_sum", "") / asked
	}
	_, member := s.Counters["millrace_cluster_members"]
	for _, tier := range tiers() {
		if tier == "disk" && f.DiskBytes == 0 || tier == "peer" && !member {
			continue // no such tier
		}
		f.Tiers[tier] = series("tier_bytes_total", fmt.Sprintf("tier=%q", tier))
	}
	f.StoreReadsPS, f.StoreBytesPS = series("store_reads_total", ""), series("store_read_bytes_total", "")
	f.StoreRequestsPS, f.RefusedPS = counter("store_requests_total"), counter("budget_refused_total")
	for _, kind := range []string{"throttled", "denied", "unavailable", "timeout", "short", "not_found", "changed"} {
		f.StoreErrorsPS += counter("store_errors_" + kind + "_total")
	}
	return f
}

// add adds the figures of another gateway. The mean of the first bytes is weighted by the requests.
func (f *Figures) add(o Figures) {
	if all := f.RequestsPS + o.RequestsPS; all > 0 {
		f.FirstByteMS = (f.FirstByteMS*f.RequestsPS + o.FirstByteMS*o.RequestsPS) / all
	}
	if f.Tiers == nil {
		f.Tiers = map[string]float64{}
	}
	for tier, x := range o.Tiers {
		f.Tiers[tier] += x
	}
	f.Seconds = max(f.Seconds, o.Seconds)
	sums, more := f.summed(), o.summed()
	for i := range sums {
		*sums[i] += *more[i]
	}
}

// summed returns the figures whose total is their sum.
func (f *Figures) summed() []*float64 {
	return []*float64{
		&f.SamplesPerSecond, &f.BytesPerSecond, &f.RequestsPS, &f.StoreReadsPS, &f.StoreBytesPS, &f.StoreRequestsPS, &f.StoreErrorsPS, &f.RefusedPS,
		&f.MemoryBytes, &f.MemoryUsed, &f.MemoryPinned, &f.CacheBytes, &f.DiskBytes, &f.DiskUsed, &f.InFlight, &f.WaitForMemory,
	}
}
