package tempfile

import (
	"bytes"
	"os"
	"syscall"
	"testing"
)

func TestReleaseGivesBackSpace(t *testing.T) {
	f, err := File(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 1 << 20
	if _, err := f.Write(bytes.Repeat([]byte("x"), size)); err != nil {
		t.Fatal(err)
	}
	before := blocks(t, f)
	Release(f, 0, size/2)
	if got := blocks(t, f); got > before*6/10 {
		t.Errorf("got %d blocks of %d after half was released", got, before)
	}
	got := make([]byte, 2)
	if _, err := f.ReadAt(got, size/2-1); err != nil || string(got) != "\x00x" {
		t.Errorf("got %q, %v, want the end of the hole and what follows", got, err)
	}
}

func blocks(t *testing.T, f *os.File) int64 {
	t.Helper()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks
}
