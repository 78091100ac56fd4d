package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/audit"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/gateway/timing"
)

// accessLog collects the fields of the access log line and of Server-Timing.
type accessLog struct {
	dataset  string
	batch    address.Batch // its fields are valid as far as hasEpoch and hasBatch are set
	hasEpoch bool
	hasBatch bool
	stack    string // stack trace of a panic

	timing.Record
}

// Maximum lengths of the caller's values in the access log line.
const (
	maxUserAgent = 200
	maxMethod    = 16
	maxName      = 128 // of a dataset name
)

func cutTo(s string, most int) string { return s[:min(len(s), most)] }

// finish writes the access log line and counts the request.
func (g *Gateway) finish(x *exchange, route string, cause error, abort bool) {
	took := x.log.End()
	if x.r.Method == http.MethodHead {
		x.w.Bytes = 0 // net/http discards the body of a response to HEAD
	}
	status := x.w.Status
	if status == 0 {
		status = http.StatusOK
	}
	g.observe(route, x, status, took, abort)
	x.span.ends(x, status, cause, abort)
	g.audit(x, route, status)
	e := g.cfg.Log.WithLevel(level(status, cause, abort, x.log.stack != ""))
	if e == nil {
		return
	}
	e.Str("request_id", x.id).Str("remote", x.r.RemoteAddr).Str("user_agent", cutTo(auth.Conceal(x.r.UserAgent()), maxUserAgent)).
		Str("method", cutTo(x.r.Method, maxMethod)).Str("route", route).Int("status", status).Int64("bytes", x.w.Bytes).
		Float64("took_ms", timing.Milliseconds(took)).Float64("waited_ms", timing.Milliseconds(x.w.First))
	if id := x.span.Trace(); id != "" {
		e.Str("trace_id", id)
	}
	if x.principal.Name != "" && !x.principal.Anonymous() {
		e.Str("principal", x.principal.Name)
	}
	if x.log.dataset != "" {
		e.Str("dataset", x.log.dataset)
	}
	if x.log.hasEpoch {
		e.Uint64("epoch", x.log.batch.Epoch).Uint64("rank", x.log.batch.Rank).Uint64("world_size", x.log.batch.WorldSize)
	}
	if x.log.hasBatch {
		e.Uint64("batch", x.log.batch.Number)
	}
	x.log.Each(func(p timing.Phase, d time.Duration) { e.Float64(p.String()+"_ms", timing.Milliseconds(d)) })
	for _, t := range x.log.Tiers {
		e.Float64(t.Tier+"_ms", timing.Milliseconds(t.Wait)).Int64(t.Tier+"_bytes", t.Bytes)
	}
	if abort {
		e.Bool("aborted", true)
	}
	if cause != nil {
		x.logCause(e, status, cause)
	}
	if x.log.stack != "" {
		e.Str("stack", x.log.stack)
	}
	e.Msg("request")
}

// logCause adds the cause of a failed request. Request details of a refused caller go only to the
// audit log.
func (x *exchange) logCause(e *zerolog.Event, status int, cause error) {
	p, known := errors.AsType[*problem](cause)
	if !known {
		p = problemOf(cause)
	}
	gone := status == statusClientGone || x.w.Err != nil || x.w.Wrote && errors.Is(cause, context.Canceled)
	if known || !gone {
		e.Str("code", p.Code.name)
	}
	switch {
	case !x.refused:
		e.Str("error", auth.Conceal(cause.Error()))
	case p.Cause != nil:
		e.Str("error", p.Cause.Error())
	}
}

// audit records a request that changes something, that the caller has no right to make, or that exceeds
// a limit of the caller.
func (g *Gateway) audit(x *exchange, route string, status int) {
	refused := x.refused || status == http.StatusTooManyRequests
	if g.cfg.Audit == nil || !refused && !x.changes() {
		return
	}
	address := g.origin.Caller(x.r)
	if refused && (x.principal.Name == "" || x.principal.Anonymous()) {
		g.cfg.Audit.Stranger(address)
		return
	}
	e := audit.Entry{
		Time: x.start, Event: audit.Write, Principal: x.principal.Name, Address: address, Method: x.r.Method, Route: route,
		Right: x.route.right.String(), Status: status, Bytes: x.w.Bytes, RequestID: x.id,
	}
	name, _ := g.datasetName(x)
	if e.Dataset = cutTo(auth.Conceal(name), maxName); refused {
		e.Event = audit.Refusal
	}
	if caller := x.r.Header.Get("X-Request-Id"); caller == x.id { // a caller may send the ID of another caller's request
		e.RequestID, e.CallerRequestID = rand.Text(), caller
	}
	g.cfg.Audit.Add(e)
}

// level is error if an operator must act, warn if the gateway failed to serve a request, otherwise
// info.
func level(status int, cause error, abort, panicked bool) zerolog.Level {
	switch {
	case panicked || status == http.StatusInternalServerError || status == http.StatusBadGateway:
		return zerolog.ErrorLevel
	case status == statusClientGone || errors.Is(cause, context.Canceled):
		return zerolog.InfoLevel
	case abort || status >= 500:
		return zerolog.WarnLevel
	}
	return zerolog.InfoLevel
}
