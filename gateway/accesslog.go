package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/audit"
	"github.com/millrace-data/millrace/gateway/auth"
)

// accessLog is what the access line and Server-Timing say of a request, besides its status.
type accessLog struct {
	dataset   string
	epoch     uint64
	batch     uint64
	rank      uint64
	worldSize uint64
	hasEpoch  bool
	hasBatch  bool
	phases    [phases]time.Duration
	tiers     []chunkindex.TierTime
	stack     string // of a panic
}

// phase is a part of the work on a request, up to the first byte. An answer of many batches goes on after it, and has
// the sums over its batches.
type phase int

const (
	phaseResolve phase = iota // what the address means: subsets, names of parts, keys
	phaseWait                 // for memory
	phasePlan                 // which samples they are, and where they lie
	phaseLay                  // what their body looks like
	phaseRead                 // their bytes; tiers say where those came from
	phases
)

func (p phase) String() string { return [...]string{"resolve", "wait", "plan", "lay", "read"}[p] }

// spent adds the time since start to a phase. At no time do two goroutines of a request work: the one that reads the next
// batch has ended when the other goes on.
func (l *accessLog) spent(p phase, start time.Time) { l.phases[p] += time.Since(start) }

// came adds what tiers have brought.
func (l *accessLog) came(tiers []chunkindex.TierTime) {
	for _, t := range tiers {
		i := slices.IndexFunc(l.tiers, func(have chunkindex.TierTime) bool { return have.Tier == t.Tier })
		if i < 0 {
			l.tiers = append(l.tiers, t)
			continue
		}
		l.tiers[i].Bytes += t.Bytes
		l.tiers[i].Wait += t.Wait
	}
}

func (l *accessLog) setPlan(b address.Batch) {
	l.epoch, l.rank, l.worldSize, l.hasEpoch = b.Epoch, b.Rank, b.WorldSize, true
}

func (l *accessLog) setBatch(n uint64) { l.batch, l.hasBatch = n, true }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// serverTiming says where the time went before the first byte: each phase, the last of them by tiers.
func (l *accessLog) serverTiming() string {
	var b strings.Builder
	add := func(name string, d time.Duration) {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name)
		b.WriteString(";dur=")
		b.WriteString(strconv.FormatFloat(milliseconds(d), 'f', -1, 64))
	}
	for p := range phaseRead {
		if l.phases[p] > 0 || p == phasePlan {
			add(p.String(), l.phases[p])
		}
	}
	for _, t := range l.tiers {
		add(t.Tier, t.Wait)
	}
	return b.String()
}

// What a caller may make the access line longer by.
const (
	maxUserAgent = 200
	maxMethod    = 16
	maxName      = 128 // of a dataset
)

func cutTo(s string, most int) string { return s[:min(len(s), most)] }

// finish writes the access line and counts the request.
func (g *Gateway) finish(x *exchange, route string, cause error, abort bool) {
	took := time.Since(x.start)
	if x.r.Method == http.MethodHead {
		x.w.Bytes = 0 // what a handler wrote, net/http has left out
	}
	status := x.w.Status
	if status == 0 {
		status = http.StatusOK
	}
	g.metrics.observe(route, x, status, took, abort)
	g.audit(x, route, status)
	e := g.cfg.Log.WithLevel(level(status, cause, abort, x.log.stack != ""))
	if e == nil {
		return
	}
	e.Str("request_id", x.id).Str("remote", x.r.RemoteAddr).Str("user_agent", cutTo(auth.Conceal(x.r.UserAgent()), maxUserAgent)).
		Str("method", cutTo(x.r.Method, maxMethod)).Str("route", route).Int("status", status).Int64("bytes", x.w.Bytes).
		Float64("took_ms", milliseconds(took)).Float64("waited_ms", milliseconds(x.w.First))
	if x.principal.Name != "" && !x.principal.Anonymous() {
		e.Str("principal", x.principal.Name)
	}
	if x.log.dataset != "" {
		e.Str("dataset", x.log.dataset)
	}
	if x.log.hasEpoch {
		e.Uint64("epoch", x.log.epoch).Uint64("rank", x.log.rank).Uint64("world_size", x.log.worldSize)
	}
	if x.log.hasBatch {
		e.Uint64("batch", x.log.batch)
	}
	for p := range phases {
		if x.log.phases[p] > 0 {
			e.Float64(p.String()+"_ms", milliseconds(x.log.phases[p]))
		}
	}
	for _, t := range x.log.tiers {
		e.Float64(t.Tier+"_ms", milliseconds(t.Wait)).Int64(t.Tier+"_bytes", t.Bytes)
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

// logCause adds why a request was not served. What a caller that was refused has asked for stands in the audit log alone.
func (x *exchange) logCause(e *zerolog.Event, status int, cause error) {
	var p *problem
	known := errors.As(cause, &p)
	if !known {
		p = problemOf(cause)
	}
	if known || status != statusClientGone && x.w.Err == nil {
		e.Str("code", p.Code)
	}
	switch {
	case !x.refused:
		e.Str("error", auth.Conceal(cause.Error()))
	case p.Cause != nil:
		e.Str("error", p.Cause.Error())
	}
}

// audit keeps a record of a request that changed something, or that its caller may not make.
func (g *Gateway) audit(x *exchange, route string, status int) {
	if g.cfg.Audit == nil || !x.refused && (x.dataset == nil || !x.changes()) {
		return
	}
	address := g.origin.Caller(x.r)
	if x.refused && (x.principal.Name == "" || x.principal.Anonymous()) {
		g.cfg.Audit.Stranger(address)
		return
	}
	e := audit.Entry{
		Time: x.start, Event: audit.Write, Principal: x.principal.Name, Address: address, Method: x.r.Method, Route: route,
		Right: x.route.right.String(), Status: status, Bytes: x.w.Bytes, RequestID: x.id,
	}
	name, _ := g.datasetName(x)
	if e.Dataset = cutTo(auth.Conceal(name), maxName); x.refused {
		e.Event = audit.Refusal
	}
	if caller := x.r.Header.Get("X-Request-Id"); caller == x.id { // a caller may send the id of another's request
		e.RequestID, e.CallerRequestID = rand.Text(), caller
	}
	g.cfg.Audit.Add(e)
}

// level is error where a human must look, warn where a request was not served as it should be, info else.
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
