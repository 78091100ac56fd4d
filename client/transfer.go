package client

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
)

// transfer is the transfer of one batch over one or more attempts. It retains the bytes of a
// truncated body: the ETag identifies the same bytes on any gateway.
type transfer struct {
	client *Client
	opt    Options
	number uint64

	batch *Batch // header of the batch whose first bytes are in data; nil: none
	etag  string
	size  int64
	data  []byte
}

// ask requests the batch, or its missing bytes, from one gateway.
func (t *transfer) ask(ctx context.Context, gw *gateway, came *atomic.Int64) (*Batch, error) {
	r := request{method: http.MethodGet, path: t.path(), query: t.opt.query(t.opt.Generation), header: t.rest()}
	if r.shares = t.shares(gw); r.shares {
		r.header = map[string]string{"Accept": sharedType + ", " + framedType}
	}
	resp, from, err := t.client.sendTo(ctx, gw, r)
	if err != nil {
		if e := (*Error)(nil); errors.As(err, &e) && e.Status == http.StatusRequestedRangeNotSatisfiable {
			t.drop()                                         // the body does not have the announced length
			return nil, fmt.Errorf("%w: %s", ErrProtocol, e) //nolint:errorlint // it is not a refusal of the request
		}
		return nil, contradiction(err, t.opt, t.number)
	}
	defer resp.Body.Close()
	came.Add(1)
	if r.shares && from != nil && resp.Header.Get("Content-Type") == sharedType {
		b, err := t.takeShared(gw, resp, from, came)
		if ctx.Err() != nil && errors.Is(err, net.ErrClosed) {
			err = ctx.Err() // ctx has closed the connection
		}
		if e := (*Error)(nil); err != nil && !errors.As(err, &e) {
			err = fmt.Errorf("%s: %w", gw.name(), err)
		}
		return b, err
	}
	if err := t.begin(resp); err != nil {
		return nil, fmt.Errorf("%s: %w", gw.name(), err)
	}
	if t.size > t.client.cfg.MaxBatchBytes {
		return nil, t.tooLarge(gw)
	}
	if err := t.read(activityReader{resp.Body, came}); err != nil {
		return nil, fmt.Errorf("%s: %w", gw.name(), err)
	}
	b := t.batch
	b.data = t.data
	if got := crc32.Checksum(b.data, castagnoli()); got != b.CRC {
		t.drop()
		return nil, fmt.Errorf("%s: %w: got %08x, want %08x", gw.name(), ErrCRC, got, b.CRC)
	}
	return b, nil
}

// tooLarge drops the received bytes of a body that exceeds the client's limit, and returns the
// error.
func (t *transfer) tooLarge(gw *gateway) error {
	size := t.size
	t.drop()
	return &Error{
		Gateway: gw.name(), Status: http.StatusOK, Code: CodeBatchTooLarge,
		Detail: fmt.Sprintf("the batch has %d bytes, more than the client's limit of %d", size, t.client.cfg.MaxBatchBytes),
	}
}

func (t *transfer) path() string {
	if name := t.client.cfg.Dataset; name != "" {
		return fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches/%d", url.PathEscape(name), t.opt.Epoch, t.number)
	}
	return fmt.Sprintf("/epoch/%d/batch/%d", t.opt.Epoch, t.number)
}

// rest returns the header that requests the missing bytes, or all bytes if the ETag has changed.
func (t *transfer) rest() map[string]string {
	if len(t.data) == 0 {
		return nil
	}
	return map[string]string{"Range": fmt.Sprintf("bytes=%d-", len(t.data)), "If-Range": t.etag}
}

func (t *transfer) drop() { t.batch, t.etag, t.size, t.data = nil, "", 0, nil }

// header parses the header of a response.
func (t *transfer) header(resp *http.Response) (*Batch, error) {
	b, err := readHeader(resp.Header, t.opt, t.number)
	if name := t.client.cfg.Dataset; err == nil && name != "" && b.Dataset != "" && b.Dataset != name {
		err = fmt.Errorf("got dataset %q, want %q: %w", b.Dataset, name, ErrProtocol)
	}
	if err == nil && resp.ContentLength < 0 {
		err = fmt.Errorf("the response has no Content-Length: %w", ErrProtocol)
	}
	return b, err
}

// begin accepts a response: a whole body, which replaces the earlier bytes, or the missing bytes.
func (t *transfer) begin(resp *http.Response) error {
	b, err := t.header(resp)
	if resp.StatusCode == http.StatusPartialContent {
		if err == nil {
			err = t.goOn(resp, b)
		}
		if err != nil {
			t.drop() // either the earlier bytes or these are wrong
		}
		return err
	}
	if err != nil {
		return err
	}
	t.batch, t.etag, t.size, t.data = b, "", resp.ContentLength, nil
	if tag := resp.Header.Get("ETag"); strings.HasPrefix(tag, `"`) {
		t.etag = tag // a strong ETag, which identifies the bytes
	}
	return nil
}

// goOn checks a response that should contain the missing bytes.
func (t *transfer) goOn(resp *http.Response, b *Batch) error {
	have := int64(len(t.data))
	want := fmt.Sprintf("bytes %d-%d/%d", have, t.size-1, t.size)
	if got := resp.Header.Get("Content-Range"); have == 0 || got != want || resp.ContentLength != t.size-have {
		return fmt.Errorf("got the part %q with %d bytes, want %q: %w", got, resp.ContentLength, want, ErrProtocol)
	}
	if got := resp.Header.Get("ETag"); got != t.etag {
		return fmt.Errorf("got the rest of the body %s instead of %s: %w", got, t.etag, ErrProtocol)
	}
	if b.CRC != t.batch.CRC || b.Generation != t.batch.Generation || b.count != t.batch.count || b.Batches != t.batch.Batches {
		return fmt.Errorf("got the rest of another batch under the ETag %s: %w", t.etag, ErrProtocol)
	}
	return nil
}

// eagerBytes is the maximum buffer allocated because of Content-Length alone, before any byte
// arrives.
const eagerBytes = 32 << 20

// read reads the body or its missing bytes. Beyond eagerBytes the buffer grows only as bytes
// arrive, to at most twice their number, so that a huge Content-Length costs no memory. After a
// fault read keeps the bytes if an ETag identifies them.
func (t *transfer) read(r io.Reader) error {
	got, n := len(t.data), t.size
	buf := t.data[:got:cap(t.data)]
	if int64(cap(buf)) < min(n, eagerBytes) {
		buf = append(make([]byte, 0, min(n, eagerBytes)), buf...)
	}
	for {
		buf = buf[:min(int64(cap(buf)), n)]
		m, err := io.ReadFull(r, buf[got:])
		got += m
		if err != nil {
			if t.data = buf[:got]; t.etag == "" {
				t.drop()
			}
			return fmt.Errorf("%w after %d of %d bytes: %w", ErrShort, got, n, err)
		}
		if int64(got) == n {
			t.data = buf
			return nil
		}
		more := make([]byte, got, min(n, 2*int64(got)))
		copy(more, buf)
		buf = more
	}
}
