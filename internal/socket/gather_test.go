package socket

import (
	"bytes"
	"math/rand/v2"
	"net"
	"testing"
)

// sink records written bytes, as the kernel would receive them.
type sink struct {
	net.Conn
	got    bytes.Buffer
	closed bool
}

func (s *sink) Write(p []byte) (int, error) { return s.got.Write(p) }
func (s *sink) Close() error                { s.closed = true; return nil }

// TestGatheredWritesArriveInOrder writes like TLS, with and without memory for gathered writes.
// After a write with nothing to follow, all bytes have been written and the memory is free again.
func TestGatheredWritesArriveInOrder(t *testing.T) {
	for room := range 2 {
		r := rand.New(rand.NewPCG(7, uint64(room)))
		out := &sink{}
		c := &conn{Conn: out, release: func() {}, spare: make(chan []byte, room)}
		for range room {
			c.spare <- nil
		}
		var want []byte
		waited := 0
		for i := range 2000 {
			c.gathers.Store(r.IntN(12) > 0)
			p := bytes.Repeat([]byte{byte(i), byte(i >> 8)}, []int{1, 100, 8203, 8203, gatherBytes/2 - 1, gatherBytes / 2, gatherBytes/2 + 1}[r.IntN(7)])
			want = append(want, p...)
			if n, err := c.Write(p); n != len(p) || err != nil {
				t.Fatalf("got %d and %v, want %d", n, err, len(p))
			}
			got := out.got.Bytes()
			if !bytes.HasPrefix(want, got) {
				t.Fatalf("write %d: bytes are out that were not written yet", i)
			}
			if len(got) < len(want) {
				waited++
			}
			if !c.gathers.Load() && len(got) < len(want) {
				t.Fatalf("write %d: got %d bytes out, want all %d", i, len(got), len(want))
			}
			if over := len(want) - len(got); over > 0 == (len(c.spare) == room) || over > gatherBytes {
				t.Fatalf("write %d: %d bytes wait, and %d of %d pieces of memory are free", i, over, len(c.spare), room)
			}
			out.got.Reset()
			want = want[len(got):]
		}
		if (waited > 0) != (room > 0) {
			t.Errorf("%d writes waited in %d pieces of memory", waited, room)
		}
		if c.Close(); !out.closed || len(c.spare) != room {
			t.Errorf("closed: %v, %d of %d pieces of memory are free", out.closed, len(c.spare), room)
		}
	}
}
