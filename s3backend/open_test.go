package s3backend

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millrace-data/millrace/internal/objstore"
)

// TestOpenEndsBehindTheLastBytes lets a transfer end together with its last bytes, when there is no use in another: the
// bytes are delivered, then the error, and nothing more is asked for.
func TestOpenEndsBehindTheLastBytes(t *testing.T) {
	s := serve(t, func(c net.Conn, r request) bool { return sound(c, r, sample(30)) })
	lim := quick()
	lim.attempts = 1
	r := &reader{
		ctx: t.Context(), backend: backend(t, s, lim), ref: ref, total: 30,
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
