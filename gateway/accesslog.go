package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/chunkindex"
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
	plan      time.Duration
	read      time.Duration
	tiers     []chunkindex.TierTime
	stack     string // of a panic
}

func (l *accessLog) setPlan(p planRequest, epoch uint64) {
	l.epoch, l.rank, l.worldSize, l.hasEpoch = epoch, p.rank, p.worldSize, true
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// serverTiming says where the time went before the first byte: the plan, then each tier.
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
	add("plan", l.plan)
	for _, t := range l.tiers {
		add(t.Tier, t.Wait)
	}
	return b.String()
}

// finish writes the access line and counts the request.
func (g *Gateway) finish(x *exchange, route string, cause error, abort bool) {
	took := time.Since(x.start)
	if x.r.Method == http.MethodHead {
		x.w.bytes = 0 // what a handler wrote, net/http has left out
	}
	status := x.w.status
	if status == 0 {
		status = http.StatusOK
	}
	g.metrics.observe(route, x, status, took, abort)
	e := g.cfg.Log.WithLevel(level(status, cause, abort, x.log.stack != ""))
	if e == nil {
		return
	}
	e.Str("request_id", x.id).Str("method", x.r.Method).Str("route", route).Int("status", status).
		Int64("bytes", x.w.bytes).Float64("took_ms", milliseconds(took)).Float64("waited_ms", milliseconds(x.w.first))
	if x.log.dataset != "" {
		e.Str("dataset", x.log.dataset)
	}
	if x.log.hasEpoch {
		e.Uint64("epoch", x.log.epoch).Uint64("rank", x.log.rank).Uint64("world_size", x.log.worldSize).
			Float64("plan_ms", milliseconds(x.log.plan))
	}
	if x.log.hasBatch {
		e.Uint64("batch", x.log.batch)
	}
	if x.log.read > 0 {
		e.Float64("read_ms", milliseconds(x.log.read))
	}
	for _, t := range x.log.tiers {
		e.Float64(t.Tier+"_ms", milliseconds(t.Wait)).Int64(t.Tier+"_bytes", t.Bytes)
	}
	if abort {
		e.Bool("aborted", true)
	}
	if cause != nil {
		var p *problem
		if errors.As(cause, &p) {
			e.Str("code", p.Code)
		} else if status != statusClientGone && x.w.err == nil {
			e.Str("code", problemOf(cause).Code)
		}
		e.Err(cause)
	}
	if x.log.stack != "" {
		e.Str("stack", x.log.stack)
	}
	e.Msg("request")
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

// logWriter turns the lines of net/http's own log into ours.
type logWriter struct{ log zerolog.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.log.Warn().Str("from", "net/http").Msg(strings.TrimSpace(fmt.Sprintf("%.500s", p)))
	return len(p), nil
}
