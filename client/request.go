package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Batch reads one batch: whole and checked, or an error.
func (c *Client) Batch(ctx context.Context, opt Options, number uint64) (*Batch, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.Deadline, errDeadline)
	defer cancel()
	b, err := retry(ctx, c, func(ctx context.Context, gw *url.URL) (*Batch, error) {
		return c.getBatch(ctx, gw, opt, number)
	})
	if err == nil && opt.Manifest {
		err = c.addManifest(ctx, opt, b)
	}
	if err != nil {
		return nil, fmt.Errorf("read epoch %d batch %d: %w", opt.Epoch, number, err)
	}
	return b, nil
}

var errDeadline = errors.New("deadline of the batch is over")

// addManifest fetches the manifest from the batch's canonical address.
func (c *Client) addManifest(ctx context.Context, opt Options, b *Batch) error {
	name := c.cfg.Dataset
	if name == "" {
		name = b.Dataset
	}
	if name == "" {
		return fmt.Errorf("manifest: no Content-Location names the dataset: %w", ErrProtocol)
	}
	path := fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches/%d/manifest", url.PathEscape(name), opt.Epoch, b.Number)
	samples, err := retry(ctx, c, func(ctx context.Context, gw *url.URL) ([]Sample, error) {
		var m struct {
			Samples []Sample `json:"samples"`
		}
		err := c.getJSON(ctx, gw, path, opt.query(b.Generation), &m)
		return m.Samples, err
	})
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	return b.setManifest(samples)
}

// wrongBodies is how often a body may arrive damaged before that is the answer.
const wrongBodies = 4

// retry asks one gateway after another until one answers. It tries at once while there is a gateway that has not been asked in this round, and waits
// between rounds.
func retry[T any](ctx context.Context, c *Client, try func(context.Context, *url.URL) (T, error)) (T, error) {
	var zero T
	n := int64(len(c.gateways))
	start := c.preferred.Load() % n
	var wrong, internal int
	var pause time.Duration // the shortest wait that any gateway of this round asked for
	for attempt := int64(0); ; attempt++ {
		at := (start + attempt) % n
		v, err := try(ctx, c.gateways[at])
		if err == nil {
			c.preferred.Store(at)
			return v, nil
		}
		if ctx.Err() != nil {
			return zero, giveUp(ctx, err)
		}
		wait, again := wantsRetry(err, &wrong, &internal)
		if !again {
			return zero, err
		}
		if attempt%n == 0 || wait < pause {
			pause = wait
		}
		if attempt%n != n-1 {
			continue
		}
		if !sleep(ctx, max(pause, backoff(attempt/n))) {
			return zero, giveUp(ctx, err)
		}
	}
}

// giveUp prefers the fault that was met over the bare fact that time is over.
func giveUp(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil {
		cause = errDeadline // the next wait would have passed it
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w: last fault: %w", cause, err)
}

// wantsRetry decides whether err may go away, and how long the gateway asks to be left alone.
func wantsRetry(err error, wrong, internal *int) (time.Duration, bool) {
	var e *Error
	switch {
	case errors.As(err, &e):
		if e.Code == CodeInternal {
			*internal++
			return e.RetryAfter, *internal == 1
		}
		return e.RetryAfter, e.Retryable
	case errors.Is(err, ErrCRC), errors.Is(err, ErrProtocol):
		*wrong++
		return 0, *wrong < wrongBodies
	}
	return 0, true // the connection: refused, reset, ended early, too slow
}

// backoff is exponential with full jitter, between 0 and at most 5 s.
func backoff(round int64) time.Duration {
	top := 100 * time.Millisecond << min(round, 6)
	return time.Duration(rand.Int64N(int64(min(top, 5*time.Second)))) + time.Millisecond
}

func sleep(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		// Waiting longer than there is time would only hide the fault.
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// get sends one request and returns an answer with status 200.
func (c *Client) get(ctx context.Context, gw *url.URL, path string, q url.Values) (*http.Response, error) {
	target := gw.String() + path
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	resp, err := c.cfg.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, readError(gw.String(), resp)
	}
	return resp, nil
}

// getBatch is one attempt.
func (c *Client) getBatch(ctx context.Context, gw *url.URL, opt Options, number uint64) (*Batch, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout)
	defer cancel()
	path := fmt.Sprintf("/epoch/%d/batch/%d", opt.Epoch, number)
	if c.cfg.Dataset != "" {
		path = fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches/%d", url.PathEscape(c.cfg.Dataset), opt.Epoch, number)
	}
	resp, err := c.get(ctx, gw, path, opt.query(opt.Generation))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := readHeader(resp.Header, opt, number)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", gw, err)
	}
	switch n := resp.ContentLength; {
	case n < 0:
		return nil, fmt.Errorf("%s: no Content-Length: %w", gw, ErrProtocol)
	case n > c.cfg.MaxBatchBytes:
		return nil, &Error{Gateway: gw.String(), Status: http.StatusOK, Code: CodeBatchTooLarge,
			Detail: fmt.Sprintf("a batch of %d bytes, more than the client's limit of %d", n, c.cfg.MaxBatchBytes)}
	default:
		b.data = make([]byte, n)
	}
	if got, err := io.ReadFull(resp.Body, b.data); err != nil {
		return nil, fmt.Errorf("%s: %w after %d of %d bytes: %w", gw, ErrShort, got, len(b.data), err)
	}
	if got := crc32.Checksum(b.data, castagnoli()); got != b.CRC {
		return nil, fmt.Errorf("%s: %w: got %08x, want %08x", gw, ErrCRC, got, b.CRC)
	}
	return b, nil
}

// readHeader takes what a batch's header says and compares it with what was asked for.
func readHeader(h http.Header, opt Options, number uint64) (*Batch, error) {
	var errs []error
	num := func(name string, base, bits int) uint64 {
		n, err := strconv.ParseUint(h.Get(name), base, bits)
		if err != nil {
			errs = append(errs, fmt.Errorf("header %s: %q: %w", name, h.Get(name), ErrProtocol))
		}
		return n
	}
	b := &Batch{
		Epoch:       num("Millrace-Epoch", 10, 64),
		Number:      num("Millrace-Batch", 10, 64),
		Batches:     num("Millrace-Batches", 10, 64),
		CRC:         uint32(num("Millrace-Crc32c", 16, 32)),
		count:       int(num("Millrace-Samples", 10, 31)),
		Generation:  h.Get("Millrace-Generation"),
		Location:    h.Get("Content-Location"),
		ContentType: h.Get("Content-Type"),
	}
	if h.Get("Millrace-Padded") != "" {
		b.Padded = num("Millrace-Padded", 10, 64)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if b.Epoch != opt.Epoch || b.Number != number {
		return nil, fmt.Errorf("got epoch %d batch %d: %w", b.Epoch, b.Number, ErrProtocol)
	}
	if b.Generation == "" || (opt.Generation != "" && b.Generation != opt.Generation) {
		return nil, fmt.Errorf("got generation %q, want %q: %w", b.Generation, opt.Generation, ErrProtocol)
	}
	b.Dataset = datasetOf(b.Location)
	return b, nil
}

// datasetOf takes the dataset's name out of a canonical address; empty if there is none.
func datasetOf(location string) string {
	u, err := url.Parse(location)
	if err != nil {
		return ""
	}
	_, rest, ok := strings.Cut(u.EscapedPath(), "/v1/datasets/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	name, err = url.PathUnescape(name)
	if err != nil {
		return ""
	}
	return name
}

// maxJSON bounds a manifest: about a million samples.
const maxJSON = 512 << 20

func (c *Client) getJSON(ctx context.Context, gw *url.URL, path string, q url.Values, v any) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout)
	defer cancel()
	resp, err := c.get(ctx, gw, path, q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxJSON))
	if err != nil {
		return fmt.Errorf("%s: %w: %w", gw, ErrShort, err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%s: %w: %w", gw, ErrProtocol, err)
	}
	return nil
}

// JSON reads another resource of the gateways, such as /v1/datasets, with the same patience as a batch.
func (c *Client) JSON(ctx context.Context, path string, q url.Values, v any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.Deadline, errDeadline)
	defer cancel()
	_, err := retry(ctx, c, func(ctx context.Context, gw *url.URL) (struct{}, error) {
		return struct{}{}, c.getJSON(ctx, gw, path, q, v)
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
