package build

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

func TestMultiReaderAt(t *testing.T) {
	want := []byte("abcdefghij")
	var r multiReaderAt
	for _, n := range []int{0, 3, 0, 1, 6, 0} {
		at := int(r.size())
		r = append(r, io.NewSectionReader(bytes.NewReader(want), int64(at), int64(n)))
	}
	for from := range want {
		for to := from; to <= len(want); to++ {
			got := make([]byte, to-from)
			if n, err := r.ReadAt(got, int64(from)); err != nil || n != to-from || !bytes.Equal(got, want[from:to]) {
				t.Errorf("%d to %d: got %q, %v", from, to, got, err)
			}
		}
	}
	got := make([]byte, 5)
	if n, err := r.ReadAt(got, 8); n != 2 || !errors.Is(err, io.EOF) {
		t.Errorf("beyond the end: got %d, %v", n, err)
	}
}
