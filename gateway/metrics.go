package gateway

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/millrace-data/millrace/gateway/timing"
)

// metrics are the gateway's own, in a registry of their own.
type metrics struct {
	registry    *prometheus.Registry
	scrape      http.Handler
	requests    *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	waited      *prometheus.HistogramVec
	bytes       *prometheus.CounterVec
	phases      *prometheus.CounterVec
	tierBytes   *prometheus.CounterVec
	tierSeconds *prometheus.CounterVec
	panics      prometheus.Counter
	aborted     prometheus.Counter

	mu    sync.Mutex
	named map[string]bool // the datasets that have labels of their own
}

// maxNamed is how many datasets have labels of their own: each has a series for each route, code and bucket.
const maxNamed = 100

func newMetrics(g *Gateway) *metrics {
	const ns = "millrace"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Name: name, Help: help}, labels)
	}
	buckets := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		named:    map[string]bool{},
		requests: counter("http_requests_total", "Requests answered.", "route", "code", "dataset"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ns, Name: "http_request_duration_seconds", Help: "Time from request to last byte.", Buckets: buckets,
		}, []string{"route", "dataset"}),
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ns, Name: "http_first_byte_seconds", Help: "Time from request to first byte.", Buckets: buckets,
		}, []string{"route", "dataset"}),
		bytes:       counter("http_response_bytes_total", "Bytes of response bodies.", "route", "dataset"),
		phases:      counter("http_phase_seconds_total", "Time of requests by what they were doing; all phases together are all the time.", "phase", "dataset"),
		tierBytes:   counter("tier_bytes_total", "Bytes of batches that a tier answered for.", "tier", "dataset"),
		tierSeconds: counter("tier_wait_seconds_total", "Time that requests waited for a tier.", "tier", "dataset"),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: ns, Name: "http_panics_total", Help: "Requests that ended in a panic.",
		}),
		aborted: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: ns, Name: "http_aborted_total", Help: "Responses cut off after their first byte.",
		}),
	}
	m.registry.MustRegister(m.requests, m.seconds, m.waited, m.bytes, m.phases, m.tierBytes, m.tierSeconds,
		m.panics, m.aborted, parts{g},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.scrape = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true}) // for exemplars
	return m
}

func (m *metrics) observe(route string, x *exchange, status int, took time.Duration, abort bool) {
	dataset := m.dataset(x)
	m.requests.WithLabelValues(route, strconv.Itoa(status), dataset).Inc()
	observe(m.seconds.WithLabelValues(route, dataset), took, x.span.Trace())
	if x.w.Wrote {
		observe(m.waited.WithLabelValues(route, dataset), x.w.First, x.span.Trace())
	}
	m.bytes.WithLabelValues(route, dataset).Add(float64(x.w.Bytes))
	x.log.Each(func(p timing.Phase, d time.Duration) { m.phases.WithLabelValues(p.String(), dataset).Add(d.Seconds()) })
	for _, t := range x.log.Tiers {
		m.tierBytes.WithLabelValues(t.Tier, dataset).Add(float64(t.Bytes))
		m.tierSeconds.WithLabelValues(t.Tier, dataset).Add(t.Wait.Seconds())
	}
	if abort && x.w.Wrote {
		m.aborted.Inc()
	}
}

// observe adds a duration to a histogram, with the trace of the request as its example, if there is one.
func observe(h prometheus.Observer, d time.Duration, trace string) {
	if o, ok := h.(prometheus.ExemplarObserver); ok && trace != "" {
		o.ObserveWithExemplar(d.Seconds(), prometheus.Labels{"trace_id": trace})
		return
	}
	h.Observe(d.Seconds())
}

// dataset is the label of the dataset that a request is about; "": of none. Datasets that came after many others share one.
func (m *metrics) dataset(x *exchange) string {
	if x.dataset == nil {
		return ""
	}
	name := x.dataset.Name()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.named[name] && len(m.named) >= maxNamed {
		return "other"
	}
	m.named[name] = true
	return name
}

// parts collects what the parts below report, and the budget. It describes nothing beforehand: the parts decide.
type parts struct{ g *Gateway }

func (p parts) Describe(chan<- *prometheus.Desc) {}

func (p parts) Collect(out chan<- prometheus.Metric) {
	for _, s := range p.g.stats() {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(s.Name, "_total") {
			kind = prometheus.CounterValue
		}
		m, err := prometheus.NewConstMetric(prometheus.NewDesc("millrace_"+s.Name, s.Help, nil, nil), kind, s.Value)
		if err != nil {
			m = prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		}
		out <- m
	}
}

// stats is everything that is not counted by the gateway itself.
func (g *Gateway) stats() []Stat {
	var out []Stat
	if g.cfg.Stats != nil {
		out = append(out, g.cfg.Stats()...)
	}
	if b := g.cfg.Budget; b != nil {
		out = append(out,
			Stat{"budget_bytes", "Memory budget.", float64(b.Total())},
			Stat{"budget_used_bytes", "Memory budget in use.", float64(b.InUse())},
			Stat{"budget_pinned_bytes", "Memory budget in use, without what the cache could let go of.", float64(b.Pinned())})
	}
	if g.cfg.Readers != nil {
		out = append(out, readerStats(g.cfg.Readers())...)
	}
	ready := 1.0
	if begun, _ := g.draining(); begun {
		ready = 0
	}
	return append(out,
		Stat{"http_in_flight_requests", "Requests being answered.", float64(g.active.Load())},
		Stat{"plan_bytes", "Plans and epochs kept in memory, estimated.", float64(g.plans.Bytes())},
		Stat{"ready", "1 until the gateway drains.", ready},
		Stat{"uptime_seconds", "Time since the gateway was built.", time.Since(g.started).Seconds()})
}

func (g *Gateway) getMetrics(x *exchange) error {
	x.w.Header().Set("Cache-Control", "no-store")
	g.metrics.scrape.ServeHTTP(x.w, x.r)
	return nil
}

// getStats answers with every counter and gauge under its name in Prometheus.
func (g *Gateway) getStats(x *exchange) error {
	families, err := g.metrics.registry.Gather()
	if err != nil {
		return fmt.Errorf("gather statistics: %w", err)
	}
	counters := map[string]float64{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "millrace_") {
			continue
		}
		for _, m := range f.GetMetric() {
			name := f.GetName() + labels(m)
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				counters[name] = m.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				counters[name] = m.GetGauge().GetValue()
			case dto.MetricType_HISTOGRAM:
				counters[f.GetName()+"_count"+labels(m)] = float64(m.GetHistogram().GetSampleCount())
				counters[f.GetName()+"_sum"+labels(m)] = m.GetHistogram().GetSampleSum()
			}
		}
	}
	x.w.Header().Set("Cache-Control", "no-store")
	readers := []Reader{}
	if g.cfg.Readers != nil {
		readers = append(readers, g.cfg.Readers()...)
	}
	return sendJSON(x, map[string]any{"version": g.cfg.Version, "counters": counters, "readers": readers})
}

func labels(m *dto.Metric) string {
	pairs := m.GetLabel()
	if len(pairs) == 0 {
		return ""
	}
	out := make([]string, len(pairs))
	for i, p := range pairs {
		out[i] = p.GetName() + "=" + strconv.Quote(p.GetValue())
	}
	return "{" + strings.Join(out, ",") + "}"
}
