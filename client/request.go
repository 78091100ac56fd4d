package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
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

// get sends one request and returns an answer with status 200.
func (c *Client) get(ctx context.Context, gw *url.URL, path string, q url.Values) (*http.Response, error) {
	return c.send(ctx, gw, http.MethodGet, path, q, nil)
}

// send sends one request, without a body if that is nil, and returns an answer with status 200 or 201.
func (c *Client) send(ctx context.Context, gw *url.URL, method, path string, q url.Values, body []byte) (*http.Response, error) {
	target := gw.String() + path
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	var in io.Reader
	if body != nil {
		in = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, in)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	req.Header.Set("Accept-Encoding", "identity") // a transport of the caller's may ask for compression else
	resp, err := c.cfg.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK && (method != http.MethodPost || resp.StatusCode != http.StatusCreated) {
		defer resp.Body.Close()
		return nil, readError(gw.Redacted(), resp)
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
		return nil, contradiction(err, opt, number)
	}
	defer resp.Body.Close()
	b, err := readHeader(resp.Header, opt, number)
	if err == nil && c.cfg.Dataset != "" && b.Dataset != "" && b.Dataset != c.cfg.Dataset {
		err = fmt.Errorf("got dataset %q, want %q: %w", b.Dataset, c.cfg.Dataset, ErrProtocol)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", gw.Redacted(), err)
	}
	switch n := resp.ContentLength; {
	case n < 0:
		return nil, fmt.Errorf("%s: no Content-Length: %w", gw.Redacted(), ErrProtocol)
	case n > c.cfg.MaxBatchBytes:
		return nil, &Error{
			Gateway: gw.Redacted(), Status: http.StatusOK, Code: CodeBatchTooLarge,
			Detail: fmt.Sprintf("a batch of %d bytes, more than the client's limit of %d", n, c.cfg.MaxBatchBytes),
		}
	}
	b.data, err = readBody(resp.Body, resp.ContentLength)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", gw.Redacted(), err)
	}
	if got := crc32.Checksum(b.data, castagnoli()); got != b.CRC {
		return nil, fmt.Errorf("%s: %w: got %08x, want %08x", gw.Redacted(), ErrCRC, got, b.CRC)
	}
	return b, nil
}

// contradiction takes the end of the epoch for a fault of the gateway where the batch must
// exist: the answer itself, or an earlier one under the same generation, says that it does.
func contradiction(err error, opt Options, number uint64) error {
	var e *Error
	if errors.As(err, &e) && e.Code == CodeEndOfEpoch && (e.Batches > number || opt.batches > number) {
		return fmt.Errorf("%w: batch %d of %d: %s", ErrProtocol, number, max(e.Batches, opt.batches), e) //nolint:errorlint // it is not the end of the epoch
	}
	return err
}

// eagerBytes is what a gateway's Content-Length is trusted with before a byte has come.
const eagerBytes = 32 << 20

// readBody reads n bytes. Beyond eagerBytes it takes memory only as bytes arrive, twice
// what has come at most: who announces a vast body must send it.
func readBody(r io.Reader, n int64) ([]byte, error) {
	buf := make([]byte, min(n, eagerBytes))
	got := 0
	for {
		m, err := io.ReadFull(r, buf[got:])
		got += m
		if err != nil {
			return nil, fmt.Errorf("%w after %d of %d bytes: %w", ErrShort, got, n, err)
		}
		if int64(got) == n {
			return buf, nil
		}
		more := make([]byte, min(n, 2*int64(got)))
		copy(more, buf)
		buf = more
	}
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
	switch {
	case number >= b.Batches, opt.batches != 0 && b.Batches != opt.batches:
		return nil, fmt.Errorf("got batch %d of %d batches, before of %d: %w", number, b.Batches, opt.batches, ErrProtocol)
	case b.Padded > uint64(b.count):
		return nil, fmt.Errorf("%d of %d samples are padding: %w", b.Padded, b.count, ErrProtocol)
	}
	if err := b.comparePlan(opt); err != nil {
		return nil, err
	}
	return b, nil
}

// comparePlan holds the canonical address, if there is one, against what was asked for.
func (b *Batch) comparePlan(opt Options) error {
	u, err := url.Parse(b.Location)
	if err != nil {
		return fmt.Errorf("header Content-Location: %q: %w", b.Location, ErrProtocol)
	}
	b.Dataset = datasetOf(u)
	said := u.Query()
	for name, want := range opt.query(opt.Generation) {
		if got := said.Get(name); said.Has(name) && got != want[0] {
			return fmt.Errorf("got a plan with %s %q, want %q: %w", name, got, want[0], ErrProtocol)
		}
	}
	size, err := strconv.ParseUint(said.Get("batch_size"), 10, 64)
	if err != nil {
		return nil
	}
	// A rank's share of a batch is rounded up at most.
	if ranks := max(opt.WorldSize, 1); uint64(b.count) > size/ranks+min(size%ranks, 1) {
		return fmt.Errorf("got %d samples in a share of %d by %d ranks: %w", b.count, size, ranks, ErrProtocol)
	}
	return nil
}

// datasetOf takes the dataset's name out of a canonical address; empty if there is none.
func datasetOf(u *url.URL) string {
	_, rest, ok := strings.Cut(u.EscapedPath(), "/v1/datasets/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	name, err := url.PathUnescape(name)
	if err != nil {
		return ""
	}
	return name
}

// maxJSON bounds every resource but batches.
const maxJSON = 512 << 20

// getJSON is one attempt. It reads no more than limit bytes.
func (c *Client) getJSON(ctx context.Context, gw *url.URL, path string, q url.Values, limit int64, v any) error {
	return c.sendJSON(ctx, gw, http.MethodGet, path, q, nil, limit, v)
}

func (c *Client) sendJSON(ctx context.Context, gw *url.URL, method, path string, q url.Values, in []byte, limit int64, v any) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout)
	defer cancel()
	resp, err := c.send(ctx, gw, method, path, q, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return fmt.Errorf("%s: %w: %w", gw.Redacted(), ErrShort, err)
	}
	if int64(len(body)) > limit {
		return fmt.Errorf("%s: more than %d bytes of JSON: %w", gw.Redacted(), limit, ErrProtocol)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%s: %w: %w", gw.Redacted(), ErrProtocol, err)
	}
	return nil
}

// JSON reads another resource of the gateways, such as /v1/datasets, with the same patience as a batch.
func (c *Client) JSON(ctx context.Context, path string, q url.Values, v any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.Deadline, errDeadline)
	defer cancel()
	_, err := retry(ctx, c, func(ctx context.Context, gw *url.URL) (struct{}, error) {
		return struct{}{}, c.getJSON(ctx, gw, path, q, maxJSON, v)
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// Post sends in as JSON, or nothing if it is nil, and reads the answer into out, with the same patience as a batch. It is
// for requests that may be sent again without harm, as all of a gateway's may.
func (c *Client) Post(ctx context.Context, path string, q url.Values, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("send %s: %w", path, err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.Deadline, errDeadline)
	defer cancel()
	_, err := retry(ctx, c, func(ctx context.Context, gw *url.URL) (struct{}, error) {
		return struct{}{}, c.sendJSON(ctx, gw, http.MethodPost, path, q, body, maxJSON, out)
	})
	if err != nil {
		return fmt.Errorf("send %s: %w", path, err)
	}
	return nil
}
