package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/shuffle"
)

// send answers with the body that l describes, or the part of it that Range asks for. All
// segments are in hand before the first byte is written.
func (g *Gateway) send(x *exchange, a *answering, at shuffle.Cursor, l *located) error {
	h := x.w.Header()
	h.Set("Content-Type", a.contentType())
	h.Set("Millrace-Crc32c", fmt.Sprintf("%08x", l.crc))
	part, status, err := x.part(a.etag, l.size)
	if err != nil {
		return err
	}
	if x.r.Method == http.MethodHead {
		h.Set("Server-Timing", x.log.serverTiming())
		x.w.WriteHeader(status)
		return nil
	}
	if err := g.checkFits(l); err != nil {
		return err
	}
	lo, hi, begin := l.overlap(part)
	body, err := g.read(x.r.Context(), x, a.dataset, at, l, lo, hi)
	if err != nil {
		return err
	}
	defer body.Close()
	h.Set("Server-Timing", x.log.serverTiming())
	x.w.WriteHeader(status)
	x.w.mustSend(l.fill(body.Segments, lo, hi, part, begin))
	return nil
}

// read brings the samples of the pieces lo to hi-1, and checks that what came is what was asked for.
func (g *Gateway) read(ctx context.Context, x *exchange, d *dataset, at shuffle.Cursor, l *located, lo, hi int) (*chunkindex.Body, error) {
	chunks, n := l.wanted(lo, hi)
	if n == 0 {
		return chunkindex.NewBody(nil, nil, nil), nil
	}
	start := time.Now()
	body, err := d.Source.Read(ctx, at, chunks)
	x.log.spent(phaseRead, start)
	if err != nil {
		if errors.Is(err, budget.ErrTooLarge) {
			p := g.tooLarge(l)
			p.Cause = err
			return nil, p
		}
		return nil, fmt.Errorf("read %d samples: %w", n, err)
	}
	x.log.came(body.Tiers)
	for _, t := range body.Tiers {
		g.metrics.tierBytes.WithLabelValues(t.Tier).Add(float64(t.Bytes))
		g.metrics.tierSeconds.WithLabelValues(t.Tier).Add(t.Wait.Seconds())
	}
	if len(body.Segments) != n {
		body.Close()
		return nil, fmt.Errorf("read %d samples: %d segments came", n, len(body.Segments))
	}
	for i, seq := range l.seqs {
		if seq == unread {
			continue
		}
		s := &l.samples[i]
		if got := len(body.Segments[seq]); got != int(s.length) {
			body.Close()
			return nil, fmt.Errorf("read sample %d: %d bytes came, %d expected", s.sample, got, s.length)
		}
	}
	return body, nil
}
