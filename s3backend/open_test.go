package s3backend

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/millrace-data/millrace/internal/objstore"
)

// TestOpen_EndsAfterLastBytes lets a transfer fail together with its last bytes, after the last
// attempt. The bytes are delivered, then the error, and nothing more is requested.
func TestOpen_EndsAfterLastBytes(t *testing.T) {
	s := serve(t, func(c net.Conn, r request) bool { return sound(c, r, sample(30)) })
	policy := quick()
	policy.attempts = 1
	r := &reader{
		ctx: t.Context(), backend: backend(t, s, policy), ref: ref, total: 30,
		body:     iotest.DataErrReader(io.MultiReader(strings.NewReader("ten bytes."), iotest.ErrReader(io.ErrUnexpectedEOF))),
		end:      func() {},
		transfer: t.Context(),
	}
	got, err := io.ReadAll(r)
	if string(got) != "ten bytes." || !errors.Is(err, objstore.ErrShort) {
		t.Errorf("got %q, %v, want ten bytes and %v", got, err, objstore.ErrShort)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n != 0 {
		t.Errorf("got %d requests, want none", s.n)
	}
}

// TestReads_TellABodyThatEndsFromOneThatBreaks checks that a body that ends early is reported as a
// short response, and a broken connection as a network error.
func TestReads_TellABodyThatEndsFromOneThatBreaks(t *testing.T) {
	broken := &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	policy := quick()
	policy.attempts = 1
	b := opened(t, Config{Bucket: "train", Endpoint: "http://store"}, policy)
	for _, c := range []struct {
		with  error
		class error
		open  string
		text  string
	}{
		{io.EOF, objstore.ErrShort, `read "a/shard.tar" at 10: short: the body ends 20 bytes early`, "short: the body ends after 10 bytes"},
		{io.ErrUnexpectedEOF, objstore.ErrShort, `read "a/shard.tar" at 10: short: the body ends 20 bytes early`, "short: the body ends after 10 bytes"},
		{broken, objstore.ErrUnavailable, `read "a/shard.tar" at 10: unavailable: read: read: connection reset by peer`, "unavailable: read: read: connection reset by peer"},
	} {
		body := func() io.Reader { return io.MultiReader(strings.NewReader("ten bytes."), iotest.ErrReader(c.with)) }
		ends := 0
		r := &reader{ctx: t.Context(), backend: b, ref: ref, total: 30, body: body(), end: func() { ends++ }, transfer: t.Context()}
		got, err := io.ReadAll(r)
		if !errors.Is(err, c.class) || !strings.HasPrefix(err.Error(), c.open) || string(got) != "ten bytes." || ends != 1 {
			t.Errorf("open: got %q, %v after %d ends of the transfer, want %s", got, err, ends, c.open)
		}
		s := scatter{dst: [][]byte{make([]byte, 4), make([]byte, 26)}, report: func(int64) {}}
		if f := classify(s.fill(body())); !errors.Is(f, c.class) || f.Error() != c.text || !f.retry || s.filled != 10 {
			t.Errorf("range: got %v, retry: %t, %d bytes, want %s", f, f.retry, s.filled, c.text)
		}
	}
}
