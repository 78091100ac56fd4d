package codec

import (
	"bytes"
	"io"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// TestFrameList_Keep checks that Keep retains the frames that are still needed, and few others.
func TestFrameList_Keep(t *testing.T) {
	var one bytes.Buffer
	w := gzip.NewWriter(&one)
	if _, err := w.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	const members = 100_000
	r, err := NewReader(Gzip, bytes.NewReader(bytes.Repeat(one.Bytes(), members)))
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	for off := range int64(members) {
		if _, err := io.ReadFull(r, b); err != nil {
			t.Fatal(err)
		}
		r.Keep(off, [4]int64{5, 77, off / 2, -1})
		if len(r.known) > 3*leastKnown || cap(r.known) > 4*leastKnown {
			t.Fatalf("after %d members: got %d frames, of %d, want few", off, len(r.known), cap(r.known))
		}
	}
	if n, err := r.Read(b); n != 0 || err != io.EOF {
		t.Fatalf("got %d, %v, want the end", n, err)
	}
	stored := int64(one.Len())
	for _, off := range []int64{5, 77, members - 1} {
		if f, ok := r.At(off); !ok || f != (Frame{Stored: off * stored, StoredEnd: (off + 1) * stored, Decoded: off, DecodedEnd: off + 1}) {
			t.Errorf("byte %d: got %+v, %v", off, f, ok)
		}
	}
}
