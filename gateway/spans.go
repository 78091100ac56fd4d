package gateway

import (
	"net/http"
	"time"

	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/gateway/timing"
	"github.com/millrace-data/millrace/internal/tracing"
)

// requestSpan is the span of a request.
type requestSpan struct{ tracing.Span }

// begin starts the record of a request. If the request is traced, it also starts a span and adds it
// to the context.
func (g *Gateway) begin(x *exchange, r *http.Request) {
	var left func(timing.Phase, time.Time, time.Time)
	if g.cfg.Trace != (tracing.Tracer{}) {
		ctx, span := g.cfg.Trace.Request(r.Context(), r.Header, cutTo(r.Method, maxMethod)+" "+x.route.name())
		if x.span = (requestSpan{span}); span.Recorded() {
			r, left = r.WithContext(ctx), x.span.stretch
		}
	}
	x.r, x.whole = r, r
	x.log.Begin(x.start, left)
}

// stretch records a finished phase. Reads have open spans instead, as parents of the spans below
// them.
func (s requestSpan) stretch(p timing.Phase, from, to time.Time) {
	if p != timing.Read {
		s.Stretch(p.String(), from, to)
	}
}

// ends ends the span of a request, with the fields of the access line.
func (s requestSpan) ends(x *exchange, status int, cause error, abort bool) {
	if !s.Recorded() {
		return
	}
	s.Text("http.request.method", cutTo(x.r.Method, maxMethod))
	s.Text("http.route", x.route.name())
	s.Number("http.response.status_code", int64(status))
	s.Number("http.response.body.size", x.w.Bytes)
	s.Text("millrace.request_id", x.id)
	if x.log.dataset != "" {
		s.Text("millrace.dataset", x.log.dataset)
	}
	if b := x.log.batch; x.log.hasEpoch {
		s.Text("millrace.generation", b.Generation)
		s.Number("millrace.epoch", int64(b.Epoch))
		s.Number("millrace.rank", int64(b.Rank))
		s.Number("millrace.world_size", int64(b.WorldSize))
		s.Text("millrace.format", b.View.Form.Name)
	}
	if x.log.hasBatch {
		s.Number("millrace.batch", int64(x.log.batch.Number))
	}
	if cause != nil && (abort || status >= http.StatusInternalServerError) {
		s.Fail(auth.Conceal(cause.Error()))
	}
	s.End()
}
