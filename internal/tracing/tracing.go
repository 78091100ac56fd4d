// Package tracing follows work through the program as spans of OpenTelemetry: a request, its phases, each attempt at the
// store, each question to another gateway. The span that work belongs to travels in the context. Where no traces are wanted,
// which is the default, nothing is recorded, and a span costs one look-up in the context. Package export sends what is recorded.
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

// Request begins the span of a request. header is that of the request: a traceparent in it makes the span a part of the
// caller's trace, with the caller's word on whether it is recorded.
func (t Tracer) Request(ctx context.Context, header map[string][]string, name string) (context.Context, Span) {
	if t.of == nil {
		return ctx, Span{}
	}
	ctx = propagation.TraceContext{}.Extract(ctx, carrier(header))
	return started(t.of.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer)))
}

// Root begins a trace of work that no request has asked for.
func (t Tracer) Root(ctx context.Context, name string) (context.Context, Span) {
	if t.of == nil {
		return ctx, Span{}
	}
	return started(t.of.Start(ctx, name, trace.WithNewRoot()))
}

// Start begins a span within that of ctx.
func Start(ctx context.Context, name string) (context.Context, Span) { return within(ctx, name) }

// Call is Start for a request to another machine.
func Call(ctx context.Context, name string) (context.Context, Span) {
	return within(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
}

// Apart begins a trace of its own for work that is begun for the request of ctx, and that others may come to wait for too. It is
// linked to that request, and recorded if that one is.
func Apart(ctx context.Context, name string) (context.Context, Span) {
	if !trace.SpanFromContext(ctx).IsRecording() { // before the link is made
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

// Inject adds the traceparent of ctx's span to the header of a request to another machine, if it is recorded.
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

// Span is a stretch of work, from where it was begun to its End. The zero value records nothing.
type Span struct{ of trace.Span }

// Recorded reports whether anything is recorded: a caller whose notes take time to make asks first.
func (s Span) Recorded() bool { return s.of != nil }

// Text notes something about the work.
func (s Span) Text(key, value string) {
	if s.of != nil {
		s.of.SetAttributes(attribute.String(key, value))
	}
}

// Number notes a count or size.
func (s Span) Number(key string, n int64) {
	if s.of != nil {
		s.of.SetAttributes(attribute.Int64(key, n))
	}
}

// Link says that the work waited for other work, of a trace of its own.
func (s Span) Link(other Span) {
	if s.of != nil && other.of != nil {
		s.of.AddLink(trace.Link{SpanContext: other.of.SpanContext()})
	}
}

// Stretch records a part of the work that is over.
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

// Fail says that the work has not come to its purpose.
func (s Span) Fail(why string) {
	if s.of != nil {
		s.of.SetStatus(codes.Error, why)
	}
}

// End ends the work.
func (s Span) End() {
	if s.of != nil {
		s.of.End()
	}
}

// Ended ends the work, which has failed unless err is nil.
func (s Span) Ended(err error) {
	if err != nil && s.of != nil {
		s.Fail(err.Error())
	}
	s.End()
}

// carrier is the header of a request, with keys as net/http has them.
type carrier map[string][]string

// The two headers of W3C Trace Context, as net/http spells them.
var spelled = map[string]string{"traceparent": "Traceparent", "tracestate": "Tracestate"}

// Get returns the one value of a header. Several are none: nobody can say which one is meant.
func (c carrier) Get(key string) string {
	if v := c[spelled[key]]; len(v) == 1 {
		return v[0]
	}
	return ""
}

// Set sets a header.
func (c carrier) Set(key, value string) { c[spelled[key]] = []string{value} }

// Keys returns the headers that there may be.
func (c carrier) Keys() []string { return []string{"traceparent", "tracestate"} }
