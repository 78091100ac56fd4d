// Package tracingtest records the spans of tests.
package tracingtest

import (
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/millrace-data/millrace/internal/tracing"
)

// Span is a span that has ended. Ids are in hex.
type Span struct {
	Name, Trace, ID string
	Parent          string            // "0000000000000000": none
	Links           []string          // ids of spans
	Said            map[string]string // its attributes
	Failed          string            // reason of the failure; "" without a failure
	Start, End      time.Time
}

// Recorder records spans in the order in which they end.
type Recorder struct{ of *tracetest.SpanRecorder }

// New returns a recorder and a tracer. The recorder records all spans of the tracer, except those
// that a caller's traceparent excludes.
func New() (Recorder, tracing.Tracer) {
	r := Recorder{tracetest.NewSpanRecorder()}
	return r, tracing.New(trace.NewTracerProvider(trace.WithSpanProcessor(r.of), trace.WithSampler(trace.ParentBased(trace.AlwaysSample()))))
}

// Spans returns the spans that have ended.
func (r Recorder) Spans() []Span {
	var all []Span
	for _, s := range r.of.Ended() {
		x := Span{
			Name: s.Name(), Trace: s.SpanContext().TraceID().String(), ID: s.SpanContext().SpanID().String(),
			Parent: s.Parent().SpanID().String(), Said: map[string]string{}, Failed: s.Status().Description, Start: s.StartTime(), End: s.EndTime(),
		}
		for _, l := range s.Links() {
			x.Links = append(x.Links, l.SpanContext.SpanID().String())
		}
		for _, a := range s.Attributes() {
			x.Said[string(a.Key)] = a.Value.String()
		}
		all = append(all, x)
	}
	return all
}

// Named returns the ended spans with this name.
func (r Recorder) Named(name string) []Span {
	var some []Span
	for _, s := range r.Spans() {
		if s.Name == name {
			some = append(some, s)
		}
	}
	return some
}
