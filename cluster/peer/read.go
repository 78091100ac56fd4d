package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Read asks the gateway at an address, host:port, and fills dst: one slice for each range of the query, in order, whose
// length is the range's. Nothing of it is checked against an index. After an error dst may be partly written.
//
// Errors: ErrDown, ErrMalformed, *Refused, ErrQuestion, or the context's cause. No goroutine outlives the call but those that keep
// connections. Read asks once; net/http sends the question again, on another connection, only if the kept one was closed
// before it.
func (c *Client) Read(ctx context.Context, address string, q *Query, dst [][]byte) error {
	if err := c.read(ctx, address, q, dst); err != nil {
		return fmt.Errorf("read %d chunks from %s: %w", len(q.Chunks), address, err)
	}
	return nil
}

func (c *Client) read(ctx context.Context, address string, q *Query, dst [][]byte) error {
	total, err := q.fits(dst)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrQuestion, err)
	}
	question, err := q.AppendBinary(nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrQuestion, err)
	}
	give, err := c.reads.take(ctx, address, c.share())
	if err != nil {
		return err
	}
	defer give()
	connected := func() {}
	if c.dials != nil {
		// A cold start would be a storm of handshakes, in which gateways that are well are too busy to show it.
		if connected, err = c.dials.take(ctx, address, 1); err != nil {
			return err
		}
		defer connected()
	}
	wait := longestWait
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end))
	}
	watched, w := startWatchdog(ctx, c.cfg.Dial, c.cfg.Silence, longestWait)
	defer w.finish()
	resp, err := c.post(watched, w, address, readPath, wait, question, connected)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	ProgressOf(ctx).Begun()
	w.within(floorAfter+time.Duration(float64(total)/floorRate*float64(time.Second)), "send its answer")
	if resp.ContentLength != total {
		return fmt.Errorf("an answer of %d bytes, %d were asked for: %w", resp.ContentLength, total, ErrMalformed)
	}
	return c.fill(w, resp.Body, dst)
}

// fill reads the ranges to where they belong, and makes sure that nothing follows them.
func (c *Client) fill(w *watchdog, body io.Reader, dst [][]byte) error {
	in, _ := c.buffers.Get().(*bufio.Reader)
	if in == nil {
		in = bufio.NewReaderSize(nil, readBuffer)
	}
	in.Reset(&activityReader{Reader: body, watch: w})
	defer func() {
		in.Reset(nil)
		c.buffers.Put(in)
	}()
	for _, p := range dst {
		if _, err := io.ReadFull(in, p); err != nil {
			return w.fault(err)
		}
	}
	var extra [1]byte
	n, err := io.ReadFull(in, extra[:])
	if n > 0 {
		return fmt.Errorf("more bytes than were asked for: %w", ErrMalformed)
	}
	if !errors.Is(err, io.EOF) {
		return w.fault(err)
	}
	return nil
}

// Progress is told how far a Read has come. Its functions must not block.
type Progress struct {
	Alive func() // the peer has said that it brings the answer
	Begun func() // the answer has begun to arrive
}

type progressKey struct{}

// WithProgress returns a context for one Read that tells p.
func WithProgress(ctx context.Context, p *Progress) context.Context {
	return context.WithValue(ctx, progressKey{}, p)
}

// ProgressOf returns whom a Read tells, nobody if the context names nobody: for what stands in a Client's place.
func ProgressOf(ctx context.Context) *Progress {
	if p, ok := ctx.Value(progressKey{}).(*Progress); ok {
		return p
	}
	return &Progress{Alive: func() {}, Begun: func() {}}
}
