package timing

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	namespace = "millrace"

	// maxNamed is the maximum number of datasets with their own labels. Each has a series per
	// route, code and bucket.
	maxNamed = 100
)

// Metrics are the metrics of requests: their number, and the duration of each phase.
type Metrics struct {
	requests, bytes, phases, tierBytes, tierSeconds *prometheus.CounterVec
	seconds, waited                                 *prometheus.HistogramVec

	mu     sync.RWMutex // guards the fields below
	series map[seriesKey]*series
	labels map[string]bool // datasets with their own labels
}

type seriesKey struct {
	route, dataset string
	status         int
}

// series caches the series of one route, dataset and status. Looking up a series by its labels
// takes longer than counting.
type series struct {
	requests, bytes prometheus.Counter
	seconds, waited prometheus.Observer
	phases          [count]prometheus.Counter
	tiers           map[string]tierSeries
}

type tierSeries struct{ bytes, seconds prometheus.Counter }

// NewMetrics creates the metrics and registers them.
func NewMetrics(registry *prometheus.Registry) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
		registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: name, Help: help, Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, labels)
		registry.MustRegister(h)
		return h
	}
	return &Metrics{
		requests:    counter("http_requests_total", "HTTP requests.", "route", "code", "dataset"),
		seconds:     histogram("http_request_duration_seconds", "Time from the request to the last byte of the answer.", "route", "dataset"),
		waited:      histogram("http_first_byte_seconds", "Time from the request to the first byte of the answer.", "route", "dataset"),
		bytes:       counter("http_response_bytes_total", "Bytes of response bodies.", "route", "dataset"),
		phases:      counter("http_phase_seconds_total", "Time of requests by phase; the phases add up to the whole time.", "phase", "dataset"),
		tierBytes:   counter("tier_bytes_total", "Bytes of batches by the tier that provided them.", "tier", "dataset"),
		tierSeconds: counter("tier_wait_seconds_total", "Time that requests waited for each tier.", "tier", "dataset"),
		series:      map[seriesKey]*series{},
		labels:      map[string]bool{},
	}
}

// Request is a finished request.
type Request struct {
	Route   string
	Dataset string // "": no dataset
	Status  int
	Bytes   int64
	Waited  time.Duration // time until the first byte; 0: no byte was sent
	Took    time.Duration
	Trace   string // trace ID; "": not traced
}

// Observe counts a request.
func (m *Metrics) Observe(r Request, record *Record) {
	s := m.of(seriesKey{r.Route, r.Dataset, r.Status})
	s.requests.Inc()
	observe(s.seconds, r.Took, r.Trace)
	if r.Waited > 0 {
		observe(s.waited, r.Waited, r.Trace)
	}
	s.bytes.Add(float64(r.Bytes))
	record.Each(func(p Phase, d time.Duration) { s.phases[p].Add(d.Seconds()) })
	for _, t := range record.Tiers {
		if tier, ok := s.tiers[t.Tier]; ok {
			tier.bytes.Add(float64(t.Bytes))
			tier.seconds.Add(t.Wait.Seconds())
		}
	}
}

// observe adds a duration to a histogram, with the request's trace as exemplar, if any.
func observe(h prometheus.Observer, d time.Duration, trace string) {
	if o, ok := h.(prometheus.ExemplarObserver); ok && trace != "" {
		o.ObserveWithExemplar(d.Seconds(), prometheus.Labels{"trace_id": trace})
		return
	}
	h.Observe(d.Seconds())
}

// of returns the series of a key. Datasets beyond maxNamed share the label "other".
func (m *Metrics) of(key seriesKey) *series {
	m.mu.RLock()
	s := m.series[key]
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	name := key.dataset
	if !m.labels[name] && len(m.labels) >= maxNamed {
		name = "other"
	}
	m.labels[name] = true
	s = &series{
		requests: m.requests.WithLabelValues(key.route, strconv.Itoa(key.status), name),
		bytes:    m.bytes.WithLabelValues(key.route, name),
		seconds:  m.seconds.WithLabelValues(key.route, name),
		waited:   m.waited.WithLabelValues(key.route, name),
		tiers:    map[string]tierSeries{},
	}
	for p := range count {
		s.phases[p] = m.phases.WithLabelValues(p.String(), name)
	}
	for _, tier := range []string{"memory", "disk", "peer", "store"} {
		s.tiers[tier] = tierSeries{m.tierBytes.WithLabelValues(tier, name), m.tierSeconds.WithLabelValues(tier, name)}
	}
	m.series[key] = s
	return s
}
