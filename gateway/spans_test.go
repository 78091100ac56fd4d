package gateway_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/testing/tracingtest"
	"github.com/millrace-data/millrace/internal/tracing"
)

// traced returns a rig whose requests are traced.
func traced(t *testing.T, samples int) (*rig, tracingtest.Recorder) {
	recorder, tracer := tracingtest.New()
	return newRig(t, samples, 800, func(c *gateway.Config) { c.Trace = tracer }), recorder
}

const (
	callersTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callersSpan  = "00f067aa0ba902b7"
	traceparent  = "Traceparent: 00-" + callersTrace + "-" + callersSpan + "-0"
)

// TestRequestsAreTraced: a request is a span of its caller's trace, and its phases are spans below
// it. If the caller does not record its trace, the request has no span.
func TestRequestsAreTraced(t *testing.T) {
	r, recorder := traced(t, 20)
	r.source.before = func(ctx context.Context) error {
		_, s := tracing.Start(ctx, "store")
		s.End()
		return nil
	}
	r.do("GET", "/epoch/5/batch/1?rank=1&world_size=2", traceparent+"1")
	r.do("GET", "/epoch/5/batch/1", traceparent+"0")
	r.server.Close()
	spans := recorder.Spans()
	root, below := spans[len(spans)-1], spans[:len(spans)-1]
	if want := "GET /epoch/{epoch}/batch/{batch}"; root.Name != want || root.Parent != callersSpan {
		t.Errorf("got span %s below %s, want %s below the caller's", root.Name, root.Parent, want)
	}
	slices.SortFunc(below, func(a, b tracingtest.Span) int { return a.Start.Compare(b.Start) })
	for _, s := range below {
		if s.Name != "store" && s.Parent != root.ID || s.Trace != callersTrace {
			t.Errorf("%s is below %s in trace %s, want it below the request", s.Name, s.Parent, s.Trace)
		}
	}
	first, last := below[0], below[len(below)-1] // any names, because a short phase is merged into an adjacent one
	if len(recorder.Named("read")) != 1 || len(recorder.Named("store")) != 1 || first.Name == "read" || last.Name == "read" || last.Parent != root.ID {
		t.Errorf("got spans %+v, want one read with what is below it, and phases before and after it", below)
	}
	for key, want := range map[string]string{
		"millrace.dataset": "photos", "millrace.epoch": "5", "millrace.batch": "1", "millrace.rank": "1", "http.response.status_code": "200",
	} {
		if got := root.Said[key]; got != want {
			t.Errorf("got %s %q, want %s", key, got, want)
		}
	}
	if !strings.Contains(r.log.String(), `"trace_id":"`+callersTrace+`"`) {
		t.Errorf("got log %s, want the trace in it", r.log)
	}
}

// TestPhasesOfATraceHaveNoGaps: the spans below a request's span add up to its time. Other programs
// may delay single requests between two reads of the clock, so one request without a gap is enough.
func TestPhasesOfATraceHaveNoGaps(t *testing.T) {
	r, recorder := traced(t, 20)
	for range 10 {
		r.do("GET", "/epoch/5/batch/1")
	}
	r.server.Close()
	least := time.Hour // minimum over the requests of the time outside any phase
	for _, root := range recorder.Named("GET /epoch/{epoch}/batch/{batch}") {
		missing := root.End.Sub(root.Start)
		for _, s := range recorder.Spans() {
			if s.Parent == root.ID {
				missing -= s.End.Sub(s.Start)
			}
		}
		least = min(least, missing.Abs())
	}
	if least > time.Millisecond {
		t.Errorf("phases and request differ by %v or more, want at most 1 ms", least)
	}
}

// TestManyBatchesAreTraced: reads that run while a batch is sent belong to the request too.
func TestManyBatchesAreTraced(t *testing.T) {
	r, recorder := traced(t, 60)
	r.do("GET", "/epoch/5/batches?count=3")
	r.server.Close()
	if got := len(recorder.Named("read")); got != 3 {
		t.Errorf("got %d reads in the trace, want 3", got)
	}
}

// TestFailuresAreTold: the span of a request that the gateway fails to serve contains the reason.
func TestFailuresAreTold(t *testing.T) {
	r, recorder := traced(t, 20)
	r.source.before = func(context.Context) error { panic("a bug") }
	r.do("GET", "/epoch/0/batch/0")
	r.do("GET", "/epoch/0/batch/99")
	r.server.Close()
	var failed []string
	for _, s := range recorder.Named("GET /epoch/{epoch}/batch/{batch}") {
		failed = append(failed, s.Failed)
	}
	if want := []string{"panic: a bug", ""}; !slices.Equal(failed, want) {
		t.Errorf("got failures %q, want %q", failed, want)
	}
}

// TestExemplarsNameTraces: a scrape that accepts OpenMetrics gets the trace ID of a slow request.
func TestExemplarsNameTraces(t *testing.T) {
	r, _ := traced(t, 20)
	r.do("GET", "/epoch/5/batch/1", traceparent+"1")
	got := string(r.do("GET", "/metrics", "Accept: application/openmetrics-text;version=1.0.0").body)
	if want := `# {trace_id="` + callersTrace + `"}`; !strings.Contains(got, want) {
		t.Errorf("the metrics lack %s", want)
	}
}
