package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/client/ledger"
)

// Batch reads one batch completely and checks it.
func (c *Client) Batch(ctx context.Context, opt Options, number uint64) (*Batch, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.Deadline, ErrDeadline)
	defer cancel()
	start := time.Now()
	if number != opt.From {
		opt.skip = 0
	}
	t := transfer{client: c, opt: opt, number: number}
	var b *Batch
	err := c.agree(ctx, opt)
	if err == nil && opt.folder != "" && opt.skip == 0 && opt.folder.has(number, opt) {
		b, err = retry(ctx, c, opt.reader(), t.kept)
	}
	if err == nil && b == nil {
		b, err = retry(ctx, c, opt.reader(), t.ask)
	}
	if err == nil && opt.Format == framedForm && b.frame == nil {
		err = b.readFrame()
	}
	if err == nil && opt.Manifest {
		err = c.addManifest(ctx, opt, b)
	}
	if errors.Is(err, errNoSign) {
		err = fmt.Errorf("%w, after %d of %d bytes", err, len(t.data), t.size)
	}
	if err != nil {
		return nil, fmt.Errorf("read epoch %d batch %d: %w", opt.Epoch, number, err)
	}
	b.took = time.Since(start)
	return b, nil
}

// request is the HTTP request of one attempt.
type request struct {
	method string
	path   string
	query  url.Values
	body   []byte // JSON; nil: no body
	header map[string]string
	shares bool // the response may use shared memory
}

// send sends a request. It returns a response with status 200, with 201 after a POST, or with 206
// after a request with Range. Other responses become errors.
func (c *Client) send(ctx context.Context, gw *gateway, r request) (*http.Response, error) {
	resp, _, err := c.sendTo(ctx, gw, r)
	return resp, err
}

// sendTo is like send. If the connection can receive shared memory, sendTo returns it too.
func (c *Client) sendTo(ctx context.Context, gw *gateway, r request) (resp *http.Response, from *localConn, err error) {
	if c.cfg.SharedMemory {
		ctx = watchNeighbour(ctx, r.shares, &from)
	}
	target := gw.base.String() + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var in io.Reader
	if r.body != nil {
		in = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, in)
	if err != nil {
		return nil, nil, err
	}
	if gw.host != "" {
		req.Host = gw.host
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	req.Header.Set("Accept-Encoding", "identity") // otherwise the caller's transport might request compression
	resp, err = c.authorize(req, gw)
	if at := (*url.Error)(nil); errors.As(err, &at) {
		err = fmt.Errorf("%s: %w", gw.name(), at.Err) // without the whole URL, which is long and known to the caller
	}
	if untrusted := (*tls.CertificateVerificationError)(nil); errors.As(err, &untrusted) {
		err = fmt.Errorf("%w: %w; set SSL_CERT_FILE to a file of the certificate authorities to trust", ErrProtocol, err)
	}
	if err != nil {
		return nil, nil, err
	}
	switch s := resp.StatusCode; {
	case s == http.StatusOK, s == http.StatusCreated && r.method == http.MethodPost, s == http.StatusPartialContent && r.header["Range"] != "":
		return resp, from, nil
	}
	defer resp.Body.Close()
	return nil, nil, readError(gw.name(), resp)
}

// contradiction converts an end of epoch into a protocol error if the batch must exist, according
// to the number of batches in this response or in an earlier one of the same generation.
func contradiction(err error, opt Options, number uint64) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Code == CodeEndOfEpoch && (e.Batches > number || opt.batches > number) {
		return fmt.Errorf("%w: batch %d of %d: %s", ErrProtocol, number, max(e.Batches, opt.batches), e) //nolint:errorlint // it is not the end of the epoch
	}
	return err
}

// readHeader parses the header of a batch and compares it with the request.
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
		skip:        opt.skip,
	}
	b.BatchSamples = uint64(b.count)
	for name, field := range map[string]*uint64{
		"Millrace-Padded": &b.Padded, "Millrace-Batch-Samples": &b.BatchSamples, "Millrace-Batch-Cost": &b.BatchCost,
	} {
		if h.Get(name) != "" {
			*field = num(name, 10, 64)
		}
	}
	if text := h.Get("Millrace-Micro"); text != "" {
		if err := json.Unmarshal([]byte("["+text+"]"), &b.Micro); err != nil {
			errs = append(errs, fmt.Errorf("header Millrace-Micro: %.100q: %w", text, ErrProtocol))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if b.Epoch != opt.Epoch || b.Number != number {
		return nil, fmt.Errorf("got epoch %d batch %d: %w", b.Epoch, b.Number, ErrProtocol)
	}
	if b.Generation == "" || (opt.Generation != "" && b.Generation != opt.Generation && ledger.Brief(b.Generation) != opt.Generation) {
		return nil, fmt.Errorf("got generation %q, want %q: %w", b.Generation, opt.Generation, ErrProtocol)
	}
	switch {
	case number >= b.Batches, opt.batches != 0 && b.Batches != opt.batches:
		return nil, fmt.Errorf("got batch %d of %d batches, but earlier responses had %d: %w", number, b.Batches, opt.batches, ErrProtocol)
	case b.Padded > uint64(b.count):
		return nil, fmt.Errorf("%d of %d samples are padding: %w", b.Padded, b.count, ErrProtocol)
	case uint64(b.count) > b.BatchSamples || (b.Micro != nil && sum(b.Micro) != uint64(b.count)):
		return nil, fmt.Errorf("got %d samples of %d, in micro-batches of %d: %w", b.count, b.BatchSamples, b.Micro, ErrProtocol)
	}
	if err := b.comparePlan(opt); err != nil {
		return nil, err
	}
	return b, nil
}

func sum(counts []uint64) (n uint64) {
	for _, count := range counts {
		n += count
	}
	return n
}

// comparePlan compares the canonical address with the request, if the response has one.
func (b *Batch) comparePlan(opt Options) error {
	u, err := url.Parse(b.Location)
	if err != nil {
		return fmt.Errorf("header Content-Location: %q: %w", b.Location, ErrProtocol)
	}
	b.Dataset = datasetOf(u)
	said := u.Query()
	for name, want := range opt.query(b.Generation) {
		got := said.Get(name)
		if name == "subset" && strings.HasSuffix(got, ":"+want[0]) {
			continue // the response replaces a subset of a default split by its digest
		}
		if name == "balance" && strings.HasPrefix(want[0], "cost:") && strings.HasPrefix(got, "cost:") {
			continue // and the name of a cost table
		}
		if said.Has(name) && got != want[0] {
			return fmt.Errorf("got a plan with %s %q, want %q: %w", name, got, want[0], ErrProtocol)
		}
	}
	size, err := strconv.ParseUint(said.Get("batch_size"), 10, 64)
	if err != nil {
		return nil
	}
	ranks := max(opt.WorldSize, 1)
	if said.Has("balance") {
		ranks = 1 // a rank may get nearly all samples, if another one gets the most expensive
	}
	// A rank's share of a batch is the quotient, rounded up, at most.
	if uint64(b.count) > size/ranks+min(size%ranks, 1) {
		return fmt.Errorf("got %d samples, which cannot be one rank's share of a batch of %d for %d ranks: %w", b.count, size, ranks, ErrProtocol)
	}
	return nil
}

// datasetOf returns the dataset name in a canonical address, or "" if there is none.
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

// maxJSON bounds the size of every resource except batches.
const maxJSON = 512 << 20

// askJSON sends the request of an attempt and decodes the response, of at most limit bytes.
func (c *Client) askJSON(ctx context.Context, gw *gateway, r request, limit int64, v any, came *atomic.Int64) error {
	resp, err := c.send(ctx, gw, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(activityReader{resp.Body, came}, limit+1))
	if err != nil {
		return fmt.Errorf("%s: %w: %w", gw.name(), ErrShort, err)
	}
	if int64(len(body)) > limit {
		return fmt.Errorf("%s: more than %d bytes of JSON: %w", gw.name(), limit, ErrProtocol)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%s: %w: %w", gw.name(), ErrProtocol, err)
	}
	return nil
}

// JSON reads a resource of the gateways, such as /v1/datasets, with the same retries as a batch.
func (c *Client) JSON(ctx context.Context, path string, q url.Values, v any) error {
	return c.ask(ctx, "read", request{method: http.MethodGet, path: path, query: q}, v)
}

// Post sends in as JSON, or no body if in is nil, and decodes the response into out. It retries
// like a batch, so requests must be idempotent, as all requests of a gateway are.
func (c *Client) Post(ctx context.Context, path string, q url.Values, in, out any) error {
	r := request{method: http.MethodPost, path: path, query: q}
	if in != nil {
		var err error
		if r.body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("send %s: %w", path, err)
		}
	}
	return c.ask(ctx, "send", r, out)
}

// ask sends a request until a gateway responds, and decodes the response. verb names the action in
// errors.
func (c *Client) ask(ctx context.Context, verb string, r request, v any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.Deadline, ErrDeadline)
	defer cancel()
	_, err := retry(ctx, c, reader{}, func(ctx context.Context, gw *gateway, came *atomic.Int64) (struct{}, error) {
		return struct{}{}, c.askJSON(ctx, gw, r, maxJSON, v, came)
	})
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, r.path, err)
	}
	return nil
}
