package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/gateway/body"
	"github.com/millrace-data/millrace/gateway/timing"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/shuffle"
)

// send answers with a body, or the part of it that Range asks for. All segments are in hand before the first byte is
// written.
func (g *Gateway) send(x *exchange, d *dataset, answer body.Answer, at shuffle.Cursor, b *body.Body) error {
	h := x.w.Header()
	h.Set("Content-Type", answer.ContentType())
	h.Set("Millrace-Crc32c", fmt.Sprintf("%08x", b.CRC))
	span, status, err := x.part(answer.ETag, b.Size, answer.View.Form.Name)
	if err != nil {
		return err
	}
	if x.r.Method == http.MethodHead {
		h.Set("Server-Timing", x.log.ServerTiming())
		x.w.WriteHeader(status)
		return nil
	}
	if err := g.checkFits(b); err != nil {
		return err
	}
	part := b.Part(span)
	read, err := g.read(x.r.Context(), x, d, at, b, part)
	if err != nil {
		return err
	}
	defer read.Close()
	h.Set("Server-Timing", x.log.ServerTiming())
	x.w.WriteHeader(status)
	held := &held{part: part, read: read}
	if x.w.Send(part.Fill(read.Segments), held.settle) != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// held is a part of a body, with its bytes in memory.
type held struct {
	part body.Part
	read *chunkindex.Body
}

// settle makes what is left of the part hold as little memory as it can, once so many bytes of it are sent. It returns
// the bytes to go on with.
func (h *held) settle(sent int64) net.Buffers {
	left := h.part.Left(sent, h.read.Segments)
	h.read.Settle()
	return left.Fill(h.read.Segments)
}

// checkFits refuses a body that the memory budget cannot hold.
func (g *Gateway) checkFits(b *body.Body) error {
	if g.cfg.Budget == nil {
		return nil
	}
	return b.CheckFits(g.cfg.Budget.Total())
}

// read brings the samples that a part of a body needs, and checks that they are those that were asked for.
func (g *Gateway) read(
	ctx context.Context, x *exchange, d *dataset, at shuffle.Cursor, b *body.Body, part body.Part,
) (*chunkindex.Body, error) {
	wanted, n := part.Wanted()
	if n == 0 {
		return chunkindex.NewBody(nil, nil, nil), nil
	}
	release, err := g.holdAnswer(x, part.Size())
	if err != nil {
		return nil, err
	}
	defer func() { release() }() // an error, or a panic
	start := time.Now()
	read, err := d.source.Read(ctx, at, wanted)
	x.log.Spent(timing.Read, start)
	if errors.Is(err, budget.ErrTooLarge) {
		total := int64(0)
		if g.cfg.Budget != nil {
			total = g.cfg.Budget.Total()
		}
		return nil, b.TooLarge(total).Because(err)
	}
	if err != nil {
		return nil, fmt.Errorf("read %d samples: %w", n, err)
	}
	x.log.Came(read.Tiers)
	for _, t := range read.Tiers {
		g.metrics.tierBytes.WithLabelValues(t.Tier).Add(float64(t.Bytes))
		g.metrics.tierSeconds.WithLabelValues(t.Tier).Add(t.Wait.Seconds())
	}
	if err := part.Check(read.Segments); err != nil {
		read.Close()
		return nil, err
	}
	read.OnClose(release)
	release = func() {}
	return read, nil
}
