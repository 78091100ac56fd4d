package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"sync"
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
	question, err := q.AppendBinary(make([]byte, 0, q.sizeHint()))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrQuestion, err)
	}
	give, err := c.turns.take(ctx, address)
	if err != nil {
		return err
	}
	defer give()
	connected, err := c.connecting(ctx, address)
	if err != nil {
		return err
	}
	defer connected()
	wait := c.cfg.Wait
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end))
	}
	watched, w := watch(ctx, c.cfg.Dial+c.cfg.Silence, c.cfg.Wait)
	defer w.finish()
	req, err := c.request(c.trace(watched, w, connected), address, readPath, contentQuery, question)
	if err != nil {
		return err
	}
	req.Header.Set(DeadlineHeader, strconv.FormatInt(max(1, wait.Milliseconds()), 10))
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		if errors.Is(err, ErrMalformed) {
			return err
		}
		return w.fault(err)
	}
	defer resp.Body.Close()
	ProgressOf(ctx).Begun()
	w.within(floorAfter+time.Duration(float64(total)/float64(c.cfg.Floor)*float64(time.Second)), "send its answer", c.cfg.Silence)
	if resp.StatusCode != http.StatusOK {
		return c.refusal(w, resp)
	}
	if resp.ContentLength != total {
		return fmt.Errorf("an answer of %d bytes, %d were asked for: %w", resp.ContentLength, total, ErrMalformed)
	}
	return c.fill(w, resp.Body, dst)
}

// trace tells w of what net/http, or a transport in its place, hears from the peer before the answer.
func (c *Client) trace(ctx context.Context, w *lifeWatch, connected func()) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			connected()
			w.heard(c.cfg.Silence)
		},
		WroteRequest: func(httptrace.WroteRequestInfo) { w.heard(c.cfg.Silence) },
		Got1xxResponse: func(int, textproto.MIMEHeader) error {
			ProgressOf(ctx).Alive()
			return w.sign(c.cfg.Silence)
		},
	})
}

// connecting waits until few enough others are about to get a connection to an address, and returns what is to be called when this one
// has its own. Without it a cold start is a storm of handshakes, in which gateways that are well are too busy to show it.
func (c *Client) connecting(ctx context.Context, address string) (connected func(), err error) {
	if c.dials == nil {
		return func() {}, nil
	}
	give, err := c.dials.take(ctx, address)
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(give), nil
}

// fill reads the ranges to where they belong, and makes sure that nothing follows them.
func (c *Client) fill(w *lifeWatch, body io.Reader, dst [][]byte) error {
	in := &lively{Reader: body, watch: w}
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

// turns bounds the requests to each address.
type turns struct {
	perAddress int

	mu   sync.Mutex // guards what follows
	open map[string]*turn
}

type turn struct {
	tokens chan struct{}
	users  int // who has a token or waits for one; the last one forgets the address
}

func newTurns(perAddress int) *turns {
	return &turns{perAddress: perAddress, open: map[string]*turn{}}
}

// take waits for a turn. The function that it returns gives it back.
func (t *turns) take(ctx context.Context, address string) (func(), error) {
	at := t.enter(address)
	select {
	case at.tokens <- struct{}{}:
		return func() {
			<-at.tokens
			t.leave(address, at)
		}, nil
	case <-ctx.Done():
		t.leave(address, at)
		return nil, context.Cause(ctx)
	}
}

func (t *turns) enter(address string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.open[address]
	if at == nil {
		at = &turn{tokens: make(chan struct{}, t.perAddress)}
		t.open[address] = at
	}
	at.users++
	return at
}

func (t *turns) leave(address string, at *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.users--; at.users == 0 {
		delete(t.open, address)
	}
}
