// Package tracing records work in the program as OpenTelemetry spans: a request, its phases, each
// attempt at the store, each request to another gateway. The context holds the current span. By
// default there are no traces: nothing is recorded, and a span costs one lookup in the context.
// Package export sends the recorded spans.
package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const library = "github.com/millrace-data/millrace"

// Tracer begins traces. The zero value begins none.
type Tracer struct{ of trace.Tracer }

// New returns the tracer of a provider.
func New(p trace.TracerProvider) Tracer { return Tracer{p.Tracer(library)} }

// Request begins the span of a request with this header. A traceparent in the header makes the span
// a part of the caller's trace, and decides whether it is recorded.
func (t Tracer) Request(ctx context.Context, header map[string][]string, name string) (context.Context, Span) {
	if t.of == nil {
		return ctx, Span{}
	}
	ctx = propagation.TraceContext{}.Extract(ctx, carrier(header))
	return started(t.of.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer)))
}

// Root begins a trace for work that belongs to no request.
func (t Tracer) Root(ctx context.Context, name string) (context.Context, Span) {
	if t.of == nil {
		return ctx, Span{}
	}
	return started(t.of.Start(ctx, name, trace.WithNewRoot()))
}

// Start begins a span within the span of ctx.
func Start(ctx context.Context, name string) (context.Context, Span) { return within(ctx, name) }

// Call does the same as Start, for a request to another machine.
func Call(ctx context.Context, name string) (context.Context, Span) {
	return within(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
}

// Apart begins a new trace for work that the request of ctx starts, and that other requests may
// wait for too. The trace is linked to that request. It is recorded if the request is.
func Apart(ctx context.Context, name string) (context.Context, Span) {
	if !trace.SpanFromContext(ctx).IsRecording() { // checked first, since a link costs memory
		return ctx, Span{}
	}
	return within(ctx, name, trace.WithNewRoot(), trace.WithLinks(trace.LinkFromContext(ctx)))
}

func within(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, Span) {
	above := trace.SpanFromContext(ctx)
	if !above.IsRecording() {
		return ctx, Span{}
	}
	return started(above.TracerProvider().Tracer(library).Start(ctx, name, opts...))
}

func started(ctx context.Context, s trace.Span) (context.Context, Span) {
	if !s.IsRecording() {
		return ctx, Span{}
	}
	return ctx, Span{s}
}

// Inject adds the traceparent of ctx's span to the header of a request to another machine, if the
// span is recorded.
func Inject(ctx context.Context, header map[string][]string) {
	if trace.SpanFromContext(ctx).IsRecording() {
		propagation.TraceContext{}.Inject(ctx, carrier(header))
	}
}

// Of returns the span of ctx, for Link.
func Of(ctx context.Context) Span {
	_, s := started(ctx, trace.SpanFromContext(ctx))
	return s
}

// Span is a piece of work, from its start to End. The zero value records nothing.
type Span struct{ of trace.Span }

// Recorded reports whether the span is recorded. Callers whose attributes are expensive check it
// first.
func (s Span) Recorded() bool { return s.of != nil }

// Text sets a text attribute of the span.
func (s Span) Text(key, value string) {
	if s.of != nil {
		s.of.SetAttributes(attribute.String(key, value))
	}
}

// Number sets a number attribute of the span.
func (s Span) Number(key string, n int64) {
	if s.of != nil {
		s.of.SetAttributes(attribute.Int64(key, n))
	}
}

// Link records that the work waited for other work, which has its own trace.
func (s Span) Link(other Span) {
	if s.of != nil && other.of != nil {
		s.of.AddLink(trace.Link{SpanContext: other.of.SpanContext()})
	}
}

// Stretch records a finished part of the work as a span of its own.
func (s Span) Stretch(name string, from, to time.Time) {
	if s.of == nil {
		return
	}
	ctx := trace.ContextWithSpan(context.Background(), s.of)
	_, part := s.of.TracerProvider().Tracer(library).Start(ctx, name, trace.WithTimestamp(from))
	part.End(trace.WithTimestamp(to))
}

// Trace returns the id of the trace in hex; "": nothing is recorded.
func (s Span) Trace() string {
	if s.of == nil {
		return ""
	}
	return s.of.SpanContext().TraceID().String()
}

// Fail marks the work as failed.
func (s Span) Fail(why string) {
	if s.of != nil {
		s.of.SetStatus(codes.Error, why)
	}
}

// End ends the span.
func (s Span) End() {
	if s.of != nil {
		s.of.End()
	}
}

// Ended ends the span, and marks it as failed if err is not nil.
func (s Span) Ended(err error) {
	if err != nil && s.of != nil {
		s.Fail(err.Error())
	}
	s.End()
}

// carrier is the header of a request, with canonical keys as in net/http.
type carrier map[string][]string

// spelled maps the two headers of W3C Trace Context to their canonical form in net/http.
var spelled = map[string]string{"traceparent": "Traceparent", "tracestate": "Tracestate"}

// Get returns the value of a header that occurs once. Several values are ambiguous and count as
// absent.
func (c carrier) Get(key string) string {
	if v := c[spelled[key]]; len(v) == 1 {
		return v[0]
	}
	return ""
}

// Set sets a header.
func (c carrier) Set(key, value string) { c[spelled[key]] = []string{value} }

// Keys returns the names of the headers that Set may set.
func (c carrier) Keys() []string { return []string{"traceparent", "tracestate"} }
