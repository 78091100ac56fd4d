package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// answerer is a transport that sends the same response each time, and records which bodies are
// open.
type answerer struct {
	answer func(r *http.Request) (status int, header http.Header, body io.Reader)

	mu   sync.Mutex
	open map[*countedBody]string
	read int64
}

type countedBody struct {
	io.Reader
	of *answerer
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	b.of.read += int64(n)
	return n, err
}

func (b *countedBody) Close() error {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	delete(b.of.open, b)
	return nil
}

func (a *answerer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body.Close()
	}
	status, header, body := a.answer(r)
	if header == nil {
		header = http.Header{}
	}
	length, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
	if err != nil {
		length = -1
	}
	b := &countedBody{body, a}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open[b] = r.Method + " " + r.URL.Path
	return &http.Response{StatusCode: status, Header: header, Body: b, ContentLength: length, Request: r}, nil
}

func answering(t *testing.T, cfg Config, answer func(r *http.Request) (int, http.Header, io.Reader)) (*Client, *answerer) {
	t.Helper()
	a := &answerer{answer: answer, open: map[*countedBody]string{}}
	cfg.HTTP = &http.Client{Transport: a}
	if cfg.Gateways == nil {
		cfg.Gateways = []string{"https://a"}
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, what := range a.open {
			t.Errorf("the body of the answer to %s is open", what)
		}
	})
	return c, a
}

// batchHeader returns the header of batch 0 of 2, which has two samples.
func batchHeader(body string) http.Header {
	return http.Header{
		"Millrace-Epoch": {"0"}, "Millrace-Batch": {"0"}, "Millrace-Batches": {"2"}, "Millrace-Samples": {"2"}, "Millrace-Generation": {"g"},
		"Millrace-Crc32c": {fmt.Sprintf("%08x", crc32.Checksum([]byte(body), castagnoli()))}, "Content-Length": {strconv.Itoa(len(body))}, "Etag": {`"e"`},
	}
}

// TestClient_ClosesEveryBody checks that the client closes the body of every kind of response.
func TestClient_ClosesEveryBody(t *testing.T) {
	const body = "two samples"
	problem := func(status int, code string) func(*http.Request) (int, http.Header, io.Reader) {
		return func(*http.Request) (int, http.Header, io.Reader) {
			return status, http.Header{"Content-Type": {"application/problem+json"}}, strings.NewReader(fmt.Sprintf(`{"code":%q}`, code))
		}
	}
	sent := func(change func(http.Header), body io.Reader) func(*http.Request) (int, http.Header, io.Reader) {
		return func(r *http.Request) (int, http.Header, io.Reader) {
			h := batchHeader("two samples")
			change(h)
			if r.Method == http.MethodHead {
				return 200, h, http.NoBody
			}
			return 200, h, body
		}
	}
	same := func(http.Header) {}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "batch-000000.tar"), []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		answer func(*http.Request) (int, http.Header, io.Reader)
		dir    folder
		want   error
	}{
		"a batch":         {sent(same, strings.NewReader(body)), "", nil},
		"a batch kept":    {sent(same, nil), folder(dir), nil},
		"another in file": {sent(func(h http.Header) { h.Set("Millrace-Samples", "3") }, strings.NewReader(body)), folder(dir), nil},
		"wrong head":      {sent(func(h http.Header) { h.Del("Millrace-Epoch") }, strings.NewReader(body)), "", ErrProtocol},
		"wrong head kept": {sent(func(h http.Header) { h.Del("Millrace-Epoch") }, nil), folder(dir), ErrProtocol},
		"broken":          {sent(same, iotest.ErrReader(io.ErrUnexpectedEOF)), "", context.DeadlineExceeded},
		"wrong bytes":     {sent(same, iotest.OneByteReader(endless{})), "", ErrCRC},
		"too large":       {sent(func(h http.Header) { h.Set("Content-Length", "999999") }, endless{}), "", &Error{Code: CodeBatchTooLarge}},
		"refused":         {problem(400, CodeInvalidArgument), "", &Error{Code: CodeInvalidArgument}},
		"refused of kept": {problem(400, CodeInvalidArgument), folder(dir), &Error{Code: CodeInvalidArgument}},
		"internal":        {problem(500, CodeInternal), "", &Error{Code: CodeInternal}},
		"no such rest":    {problem(416, ""), "", ErrProtocol},
		"part unasked": {func(*http.Request) (int, http.Header, io.Reader) {
			return 206, batchHeader(body), strings.NewReader(body)
		}, "", &Error{Status: 206}},
		"created unasked": {func(*http.Request) (int, http.Header, io.Reader) {
			return 201, batchHeader(body), strings.NewReader(body)
		}, "", &Error{Status: 201}},
	} {
		bubble.Test(t, func(t *testing.T) {
			cfg := Config{MaxBatchBytes: 1000, Token: "x"}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if errors.Is(c.want, context.DeadlineExceeded) {
				cfg.Retrying = func(error) { cancel() }
				c.want = context.Canceled
			}
			client, _ := answering(t, cfg, c.answer)
			b, err := client.Batch(ctx, Options{folder: c.dir}, 0)
			var e, want *Error
			if errors.As(c.want, &want) && want.Code == "" {
				if !errors.As(err, &e) || e.Status != want.Status {
					t.Errorf("%s: got %v, want status %d", name, err, want.Status)
				}
			} else if !errors.Is(err, c.want) || err == nil && string(b.Bytes()) != body {
				t.Errorf("%s: got %v, want %v", name, err, c.want)
			}
		})
	}
}

// endless is a body that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestClient_ReadsNoMoreJSONThanItsLimit checks that the client accepts a document of exactly the
// limit, and stops reading a longer one.
func TestClient_ReadsNoMoreJSONThanItsLimit(t *testing.T) {
	const limit = 10
	for _, c := range []struct {
		body io.Reader
		want error
	}{
		{strings.NewReader(`"12345678"`), nil}, {strings.NewReader(`"123456789"`), ErrProtocol}, {endless{}, ErrProtocol}, {strings.NewReader(`"1`), ErrProtocol}, {strings.NewReader(""), ErrProtocol},
		{io.MultiReader(strings.NewReader("1"), iotest.ErrReader(io.ErrUnexpectedEOF)), ErrShort},
	} {
		client, a := answering(t, Config{}, func(*http.Request) (int, http.Header, io.Reader) { return 200, nil, c.body })
		if err := client.fleet.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		var v any
		err := client.askJSON(t.Context(), client.fleet.gateways[0], request{method: http.MethodGet, path: "/x"}, limit, &v, new(atomic.Int64))
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || err != nil && !strings.HasPrefix(err.Error(), "https://a: ") || a.read > 10*limit {
			t.Errorf("got %v, %v after %d bytes, want %v", v, err, a.read, c.want)
		}
	}
}

// TestClient_SendsATokenAgain: after a refusal the client closes the response and sends the request
// once more, with its body and the new token.
func TestClient_SendsATokenAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for name, c := range map[string]struct {
		then string // content of the file after the first refusal; empty: no file
		sent string
		text string
	}{
		"another": {"b", "Bearer a, Bearer b", ""},
		"same":    {"a", "Bearer a", "401 unauthenticated"},
		"refused": {"c", "Bearer a, Bearer c", "401 unauthenticated"},
		"gone":    {"", "Bearer a", "401 unauthenticated: the token is refused, and cannot be read again: token file: open " + file},
	} {
		if err := os.WriteFile(file, []byte("a"), 0o600); err != nil {
			t.Fatal(err)
		}
		var sent []string
		client, _ := answering(t, Config{TokenFile: file}, func(r *http.Request) (int, http.Header, io.Reader) {
			sent = append(sent, r.Header.Get("Authorization"))
			if r.Header.Get("Authorization") == "Bearer b" {
				return http.StatusCreated, nil, strings.NewReader("{}")
			}
			if c.then == "" {
				os.Remove(file)
			} else if err := os.WriteFile(file, []byte(c.then), 0o600); err != nil {
				t.Error(err)
			}
			return 401, http.Header{"Content-Type": {"application/problem+json"}}, strings.NewReader(`{"code":"unauthenticated"}`)
		})
		err := client.Post(t.Context(), "/x", nil, 1, new(any))
		if (err == nil) != (c.text == "") || err != nil && !strings.Contains(err.Error(), c.text) || strings.Join(sent, ", ") != c.sent {
			t.Errorf("%s: got %v after %q, want %s", name, err, sent, c.text)
		}
	}
}

// TestClient_TakesOnlyARefusalForNotReady: only status 503 means that a gateway is not ready. With
// any other status it is up.
func TestClient_TakesOnlyARefusalForNotReady(t *testing.T) {
	for status, want := range map[int]error{200: nil, 503: errNotReady, 401: nil, 404: nil, 500: nil, 502: nil} {
		client, a := answering(t, Config{}, func(r *http.Request) (int, http.Header, io.Reader) {
			if r.Host != "gw:80" || r.URL.String() != "http://10.0.0.1:80/readyz" || r.Header.Get("Authorization") != "" {
				t.Errorf("got %s of %s", r.URL, r.Host)
			}
			return status, nil, endless{}
		})
		s, err := parseSource("http://10.0.0.1:80", false)
		if err != nil {
			t.Fatal(err)
		}
		if err := client.ready(t.Context(), &gateway{base: s.base, host: "gw:80"}); !errors.Is(err, want) || a.read > 1<<20 {
			t.Errorf("status %d: got %v after %d bytes, want %v", status, err, a.read, want)
		}
	}
}

// TestReadHeader_Bounds checks the smallest and the largest valid number of each field, and the
// next invalid one.
func TestReadHeader_Bounds(t *testing.T) {
	for _, c := range []struct {
		name, value string
		batches     uint64
		ok          bool
	}{
		{"Millrace-Padded", "2", 0, true}, {"Millrace-Padded", "3", 0, false}, {"Millrace-Padded", "", 0, true}, {"Millrace-Batches", "1", 0, true}, {"Millrace-Batches", "0", 0, false},
		{"Millrace-Batches", "2", 2, true}, {"Millrace-Batches", "2", 3, false}, {"Millrace-Crc32c", "ffffffff", 0, true}, {"Millrace-Crc32c", "100000000", 0, false},
		{"Millrace-Batch-Samples", "2", 0, true}, {"Millrace-Batch-Samples", "1", 0, false}, {"Millrace-Batch-Cost", "-1", 0, false},
		{"Millrace-Micro", "0,2", 0, true}, {"Millrace-Micro", "1,2", 0, false}, {"Millrace-Micro", "1,-1,2", 0, false}, {"Millrace-Micro", "1,,1", 0, false},
		{"Millrace-Samples", "2147483647", 0, true}, {"Millrace-Samples", "2147483648", 0, false}, {"Millrace-Generation", "h", 0, true},
		{"Content-Location", "/v1/datasets/a%2Fb/epochs/0?batch_size=2", 0, true}, {"Content-Location", "/v1/datasets/a%2Fb/epochs/0?batch_size=1", 0, false}, {"Content-Location", "%zz", 0, false},
	} {
		h := batchHeader("")
		h.Set(c.name, c.value)
		b, err := readHeader(h, Options{batches: c.batches}, 0)
		if (err == nil) != c.ok || err != nil && (!errors.Is(err, ErrProtocol) || b != nil) {
			t.Errorf("%s %q, %d before: got %+v, %v, want it taken: %t", c.name, c.value, c.batches, b, err, c.ok)
		}
		if c.ok && c.name == "Content-Location" && b.Dataset != "a/b" {
			t.Errorf("got the dataset %q", b.Dataset)
		}
	}
}

// TestTransfer_TrustsNoLengthBeforeItsBytes: the buffer grows beyond a bound only as bytes arrive,
// and finally contains the whole body.
func TestTransfer_TrustsNoLengthBeforeItsBytes(t *testing.T) {
	for _, size := range []int64{0, 1, eagerBytes, eagerBytes + 1} {
		tr := &transfer{size: size}
		if err := tr.read(io.LimitReader(endless{}, size)); err != nil || int64(len(tr.data)) != size || int64(cap(tr.data)) > max(2*size, 1) {
			t.Errorf("%d bytes: got %d in %d, %v", size, len(tr.data), cap(tr.data), err)
		}
	}
	tr := &transfer{size: 1 << 50, etag: `"e"`}
	if err := tr.read(bytes.NewReader(make([]byte, eagerBytes+9))); !errors.Is(err, ErrShort) || len(tr.data) != eagerBytes+9 || cap(tr.data) > 2*eagerBytes {
		t.Errorf("got %d bytes in %d, %v", len(tr.data), cap(tr.data), err)
	}
}

// TestBatch_IsAtMostMaxBatchBytes checks that the client accepts a batch of exactly MaxBatchBytes,
// and an empty one.
func TestBatch_IsAtMostMaxBatchBytes(t *testing.T) {
	for _, body := range []string{"", "two samples"} {
		for most, want := range map[int64]error{11: nil, 10: &Error{Code: CodeBatchTooLarge}} {
			if body == "" {
				want = nil
			}
			client, _ := answering(t, Config{MaxBatchBytes: most}, func(*http.Request) (int, http.Header, io.Reader) {
				return 200, batchHeader(body), strings.NewReader(body)
			})
			b, err := client.Batch(t.Context(), Options{}, 0)
			if !errors.Is(err, want) || want == nil && (err != nil || string(b.Bytes()) != body) {
				t.Errorf("%q of %d bytes at most: got %v, want %v", body, most, err, want)
			}
		}
	}
}
