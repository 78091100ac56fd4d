package gateway

import (
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
func (g *Gateway) send(x *exchange, d *dataset, at shuffle.Cursor, l *located, etag string) error {
	h := x.w.Header()
	h.Set("Content-Type", d.Index.Framing().ContentType())
	h.Set("Millrace-Crc32c", fmt.Sprintf("%08x", l.crc))
	part, status, err := x.part(etag, l.size)
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
	body := chunkindex.NewBody(nil, nil, nil)
	if lo < hi {
		if body, err = g.read(x, d, at, l, lo, hi); err != nil {
			return err
		}
	}
	defer body.Close()
	h.Set("Server-Timing", x.log.serverTiming())
	x.w.WriteHeader(status)
	g.write(x.w, l, body.Segments, part, begin)
	return nil
}

// read brings the samples lo to hi-1, and checks that what came is what was asked for.
func (g *Gateway) read(x *exchange, d *dataset, at shuffle.Cursor, l *located, lo, hi int) (*chunkindex.Body, error) {
	start := time.Now()
	body, err := d.Source.Read(x.r.Context(), at, l.wanted(lo, hi))
	x.log.read = time.Since(start)
	if err != nil {
		if errors.Is(err, budget.ErrTooLarge) {
			p := g.tooLarge(l)
			p.Cause = err
			return nil, p
		}
		return nil, fmt.Errorf("read %d samples: %w", hi-lo, err)
	}
	x.log.tiers = body.Tiers
	for _, t := range body.Tiers {
		g.metrics.tierBytes.WithLabelValues(t.Tier).Add(float64(t.Bytes))
		g.metrics.tierSeconds.WithLabelValues(t.Tier).Add(t.Wait.Seconds())
	}
	if len(body.Segments) != hi-lo {
		body.Close()
		return nil, fmt.Errorf("read %d samples: %d segments came", hi-lo, len(body.Segments))
	}
	for i, s := range body.Segments {
		if len(s) != int(l.samples[lo+i].length) {
			body.Close()
			return nil, fmt.Errorf("read sample %d: %d bytes came, %d expected", l.samples[lo+i].sample, len(s), l.samples[lo+i].length)
		}
	}
	return body, nil
}

// write sends the part of the body whose samples are in segments, the first of which begins at begin.
func (g *Gateway) write(w *responseWriter, l *located, segments [][]byte, part span, begin int64) {
	l.out = l.out[:0]
	end := part.start + part.length
	put := func(p []byte, at int64) {
		lo, hi := max(part.start-at, 0), min(end-at, int64(len(p)))
		if lo < hi {
			l.out = append(l.out, p[lo:hi])
		}
	}
	put(l.before, 0)
	for _, s := range segments {
		put(s, begin)
		begin += int64(len(s))
	}
	put(l.after, l.size-int64(len(l.after)))
	w.mustSend(l.out)
}
