package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Read asks the gateway at an address, host:port, and fills dst: one slice for each range of the
// query, in order, with the range's length. It does not check the bytes against an index. After an
// error dst may be partly written.
//
// Errors: ErrDown, ErrMalformed, *RefusalError, ErrQuestion, or the context's cause. When Read
// returns, only the goroutines of idle connections are left. Read asks once. net/http repeats the
// request on another connection only if a reused connection was closed before the request was sent.
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
		// Limit dials: in a cold start healthy gateways would be too busy with handshakes
		// to send signs of life.
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
	w.within(floorAfter+time.Duration(float64(total)/floorRate*float64(time.Second)), "send its response")
	if resp.ContentLength != total {
		return fmt.Errorf("response has %d bytes instead of %d: %w", resp.ContentLength, total, ErrMalformed)
	}
	return c.fill(w, resp.Body, dst)
}

// fill reads the ranges into dst, and checks that no further bytes follow.
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
		return fmt.Errorf("more bytes than requested: %w", ErrMalformed)
	}
	if !errors.Is(err, io.EOF) {
		return w.fault(err)
	}
	return nil
}

// Progress has callbacks that report the progress of a Read. They must not block.
type Progress struct {
	Alive func() // the peer has sent a sign of life
	Begun func() // the answer has begun to arrive
}

type progressKey struct{}

// WithProgress returns a context for one Read, which reports its progress to p.
func WithProgress(ctx context.Context, p *Progress) context.Context {
	return context.WithValue(ctx, progressKey{}, p)
}

// ProgressOf returns the Progress of a context, or one that does nothing. It is for types that
// replace a Client.
func ProgressOf(ctx context.Context) *Progress {
	if p, ok := ctx.Value(progressKey{}).(*Progress); ok {
		return p
	}
	return &Progress{Alive: func() {}, Begun: func() {}}
}
