package gateway

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/bottleneck"
	"github.com/millrace-data/millrace/gateway/stats"
	"github.com/millrace-data/millrace/gateway/timing"
)

// metrics are the gateway's own metrics, in a separate registry.
type metrics struct {
	registry *prometheus.Registry
	scrape   http.Handler
	requests *timing.Metrics
	panics   prometheus.Counter
	aborted  prometheus.Counter
	looks    bottleneck.History
}

func newMetrics(g *Gateway) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "millrace", Name: name, Help: help})
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		panics:   counter("http_panics_total", "Requests that ended in a panic; above 0 is a bug."),
		aborted:  counter("http_aborted_total", "Responses cut off after their first byte, by the reader or a failure."),
	}
	m.requests = timing.NewMetrics(m.registry)
	m.registry.MustRegister(m.panics, m.aborted, statsCollector{g},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.scrape = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true}) // required for exemplars
	return m
}

// observe counts a request. One that is refused before its dataset is acquired counts for it too.
func (g *Gateway) observe(route string, x *exchange, status int, took time.Duration, abort bool) {
	r := timing.Request{Route: route, Status: status, Bytes: x.w.Bytes, Took: took, Trace: x.span.Trace()}
	r.Dataset, _ = g.datasetName(x)
	if _, ok := g.datasets.Current(r.Dataset); x.dataset != nil {
		r.Dataset = x.dataset.Name()
	} else if !ok {
		r.Dataset = "" // a caller may send any name
	}
	if address.IsMixture(r.Dataset) {
		r.Dataset = "mix:" // one label for all mixtures, since URLs can define any number
	}
	if x.w.Wrote {
		r.Waited = x.w.First
	}
	g.metrics.requests.Observe(r, &x.log.Record)
	if abort && x.w.Wrote {
		g.metrics.aborted.Inc()
	}
}

// statsCollector exports Config.Stats and the memory budget to Prometheus. It describes no metrics
// in advance.
type statsCollector struct{ g *Gateway }

func (p statsCollector) Describe(chan<- *prometheus.Desc) {}

func (p statsCollector) Collect(out chan<- prometheus.Metric) {
	for _, s := range p.g.stats() {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(s.Name, "_total") {
			kind = prometheus.CounterValue
		}
		m, err := prometheus.NewConstMetric(prometheus.NewDesc("millrace_"+s.Name, s.Help, nil, s.Labels), kind, s.Value)
		if err != nil {
			m = prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		}
		out <- m
	}
}

// stats returns all values that the gateway does not count itself.
func (g *Gateway) stats() []Stat {
	var out []Stat
	if g.cfg.Stats != nil {
		out = append(out, g.cfg.Stats()...)
	}
	b := g.cfg.Budget
	out = append(out,
		Stat{Name: "budget_bytes", Help: "Memory budget.", Value: float64(b.Total())},
		Stat{Name: "budget_used_bytes", Help: "Memory budget in use.", Value: float64(b.InUse())},
		Stat{Name: "budget_pinned_bytes", Help: "Memory budget in use that the cache cannot free.", Value: float64(b.Pinned())},
		Stat{Name: "budget_waiting", Help: "Requests that wait for memory.", Value: float64(b.Waiting())},
		Stat{Name: "budget_refused_total", Help: "Requests refused after waiting for memory.", Value: float64(b.Refused())})
	if g.cfg.Readers != nil {
		out = append(out, readerStats(g.cfg.Readers())...)
	}
	ready := 1.0
	if g.notReady() != nil {
		ready = 0
	}
	return append(out,
		Stat{Name: "build_info", Help: "1, with the version of the gateway as a label.", Value: 1, Labels: map[string]string{"version": g.cfg.Version}},
		Stat{Name: "http_in_flight_requests", Help: "Requests in progress.", Value: float64(g.active.Load())},
		Stat{Name: "plan_bytes", Help: "Estimated memory for plans and epochs.", Value: float64(g.plans.Bytes())},
		Stat{Name: "ready", Help: "1 while /readyz answers 200; 0 while the gateway starts or drains.", Value: ready},
		Stat{Name: "uptime_seconds", Help: "Time since the gateway started.", Value: time.Since(g.started).Seconds()})
}

func (g *Gateway) getMetrics(x *exchange) error {
	x.w.Header().Set("Cache-Control", "no-store")
	g.metrics.scrape.ServeHTTP(x.w, x.r)
	return nil
}

// getStats sends every counter and gauge by its Prometheus name, the readers, and their
// bottlenecks. The parameter readers=jobs selects the readers in columns, per job.
func (g *Gateway) getStats(x *exchange) error {
	q := address.ParseQuery(x.r.URL.RawQuery, "readers")
	form := q.Word("readers", "list", "list", "jobs")
	if err := q.Err(); err != nil {
		return err
	}
	counters, err := g.counters()
	if err != nil {
		return err
	}
	readers := []stats.Reader{}
	if g.cfg.Readers != nil {
		readers = append(readers, g.cfg.Readers()...)
	}
	look := bottleneck.Snapshot{At: time.Now(), Counters: counters, Ranks: readers, Address: g.addressOf}
	finding := g.metrics.looks.Find(look, g.started)
	answer := stats.Answer{Version: g.cfg.Version, Counters: counters, Limits: finding}
	if form == "jobs" {
		answer.Jobs = stats.Jobs(readers)
	} else {
		answer.Readers = readers
	}
	return sendJSON(x, answer)
}

// addressOf returns the address of a dataset in the form of the command line, or "" for a mixture.
func (g *Gateway) addressOf(name string) string {
	for _, d := range g.datasets.All() {
		if d.Name() == name {
			return d.address
		}
	}
	return ""
}

// counters returns all counters and gauges, and the processor time of the process. A histogram is
// returned as its count and sum.
func (g *Gateway) counters() (map[string]float64, error) {
	families, err := g.metrics.registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather statistics: %w", err)
	}
	counters := map[string]float64{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "millrace_") && f.GetName() != bottleneck.Processor {
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
	return counters, nil
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
