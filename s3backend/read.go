package s3backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/tracing"
)

// ReadRange implements objstore.RangeReader.
func (b *Backend) ReadRange(ctx context.Context, ref objstore.Ref, offset int64, dst ...[]byte) (err error) {
	ctx, span := tracing.Start(ctx, "store read")
	span.Text("millrace.store.bucket", b.cfg.Bucket)
	span.Text("millrace.store.object", ref.Key)
	span.Number("millrace.store.offset", offset)
	defer func() { span.Ended(err) }()
	defer objstore.Wrap(&err, "read %q at %d", ref.Key, offset)
	n, err := objstore.CheckRange(offset, dst)
	if err != nil {
		return err
	}
	s := scatter{dst: dst, report: objstore.Progress(ctx)}
	err = b.run(ctx, b.policy.header, func(ctx context.Context, a *attempt) error {
		ans, err := b.hedged(ctx, ref, offset+s.filled, n-s.filled)
		if err != nil {
			return err
		}
		defer ans.body.Close()
		a.watchdog.rest()
		ref.ETag = ans.etag // later attempts must read the same version
		before := s.filled
		s.sized = ans.sized
		err = s.fill(b.throttle(ctx, &watchedBody{body: ans.body, watchdog: a.watchdog, policy: &b.policy}))
		a.got = s.filled - before
		if errors.Is(err, errMore) {
			s.filled, a.got = before, 0 // the bytes cannot be the requested ones: discard them, and count no progress
		}
		return err
	})
	_, err = b.pastEnd(ctx, ref, err)
	return err
}

// scatter fills several slices one after another, from several bodies if necessary.
type scatter struct {
	dst    [][]byte
	filled int64
	sized  bool // the length of the current body is known, and equals that of the range
	report func(filled int64)
}

// mostRead is the maximum number of bytes read from a body at a time, so that they are still in the
// processor's cache when they are processed.
const mostRead = 512 << 10

// fillReader counts the bytes read into dst. It reports them unless the body may be too long.
type fillReader struct {
	body io.Reader
	s    *scatter
}

func (f fillReader) Read(p []byte) (int, error) {
	n, err := f.body.Read(p[:min(len(p), mostRead)])
	f.s.filled += int64(n)
	if f.s.sized && n > 0 {
		f.s.report(f.s.filled)
	}
	return n, err
}

var errMore = badAnswer("the body is longer than the range")

// fill reads body into the unfilled part, and expects the body to end there.
func (s *scatter) fill(body io.Reader) error {
	skip := s.filled
	s.report(skip)
	for _, d := range s.dst {
		if skip >= int64(len(d)) {
			skip -= int64(len(d))
			continue
		}
		_, err := io.ReadFull(fillReader{body, s}, d[skip:])
		skip = 0
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return &failure{kind: objstore.ErrShort, detail: fmt.Sprintf("the body ends after %d bytes", s.filled), retry: true}
		}
		if err != nil {
			return err
		}
	}
	// Read one more byte. If there is none, the length is right and the connection can be
	// reused.
	var extra [1]byte
	if n, _ := io.ReadFull(body, extra[:]); n > 0 {
		return errMore
	}
	if !s.sized {
		s.report(s.filled)
	}
	return nil
}

// answer is a response with a checked header.
type answer struct {
	body  io.ReadCloser
	etag  string
	total int64 // size of the object
	sized bool  // the response reports the length of its body
}

// get requests n bytes of ref at from, or all bytes from there if n is negative. It checks the
// response header before it reads the body.
func (b *Backend) get(ctx context.Context, ref objstore.Ref, from, n int64) (answer, error) {
	header := make(http.Header, 8)
	switch {
	case n > 0:
		set(header, "Range", "bytes="+strconv.FormatInt(from, 10)+"-"+strconv.FormatInt(from+n-1, 10))
	case from > 0:
		set(header, "Range", "bytes="+strconv.FormatInt(from, 10)+"-")
	}
	resp, err := b.send(ctx, http.MethodGet, ref, header)
	if err != nil {
		return answer{}, err
	}
	ans, err := checkHead(resp, ref.ETag, from, n)
	if err != nil {
		resp.Body.Close()
	}
	return ans, err
}

// etagOf returns the ETag of a response without its quotes.
func etagOf(resp *http.Response) string {
	return strings.TrimSuffix(strings.TrimPrefix(resp.Header.Get("ETag"), `"`), `"`)
}

// checkHead compares the header of a response with the requested range and version.
func checkHead(resp *http.Response, want string, from, n int64) (answer, error) {
	etag, length := etagOf(resp), resp.ContentLength
	switch {
	case etag == "":
		return answer{}, badAnswer("ETag is missing")
	case want != "" && etag != want:
		return answer{}, changed(etag, want)
	}
	contentRange := resp.Header.Get("Content-Range")
	switch resp.StatusCode {
	case http.StatusPartialContent:
		total, err := checkPartial(contentRange, length, from, n)
		return answer{resp.Body, etag, total, length >= 0}, err
	case http.StatusOK:
		switch {
		case contentRange != "":
			return answer{}, badAnswer("status 200 has a Content-Range")
		case from == 0 && (n < 0 || length == n): // the range is the whole object
			return answer{resp.Body, etag, length, length >= 0}, nil
		case length >= 0 && length < from+max(n, 0):
			return answer{}, short("the object has %d bytes", length)
		}
		return answer{}, badAnswer("status 200 to a request for a range")
	}
	return answer{}, badAnswer("status %d", resp.StatusCode)
}

// checkPartial compares a range of length bytes with the requested range, and returns the object's
// size.
func checkPartial(contentRange string, length, from, n int64) (int64, error) {
	start, end, total, ok := parseContentRange(contentRange)
	last := total - 1
	if n > 0 {
		last = from + n - 1
	}
	if ok && start == from && (length < 0 || length == end-start+1) {
		switch {
		case end == last:
			return total, nil
		case end == total-1 && end < last:
			return 0, short("%d bytes requested, the object has %d", n, max(0, total-from))
		}
	}
	return 0, badAnswer("Content-Range %q and %d bytes for a request of bytes %d to %d", clip(contentRange), length, from, last)
}

// parseContentRange parses "bytes start-end/total".
func parseContentRange(s string) (start, end, total int64, ok bool) {
	rest, ok1 := strings.CutPrefix(s, "bytes ")
	span, size, _ := strings.Cut(rest, "/")
	first, last, _ := strings.Cut(span, "-")
	var n [3]uint64
	for i, digits := range [...]string{first, last, size} {
		var err error
		if n[i], err = strconv.ParseUint(digits, 10, 63); err != nil {
			return 0, 0, 0, false
		}
	}
	start, end, total = int64(n[0]), int64(n[1]), int64(n[2])
	return start, end, total, ok1 && start <= end && end < total
}

// pastEnd finds the cause of the error "no such range", which a service may also return for a
// changed object. It returns the object's size if the range is past its end.
func (b *Backend) pastEnd(ctx context.Context, ref objstore.Ref, err error) (int64, error) {
	f, ok := errors.AsType[*failure](err)
	if !ok || f.code != "InvalidRange" {
		return -1, err
	}
	o, _, serr := b.head(ctx, ref)
	switch {
	case serr != nil:
		return -1, serr
	case ref.ETag != "" && o.ETag != ref.ETag:
		return -1, changed(o.ETag, ref.ETag)
	}
	return o.Size, short("the object has %d bytes", o.Size)
}
