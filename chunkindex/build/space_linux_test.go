package build

import (
	"syscall"
	"testing"
)

// TestScanFile_TakeFreesSpace checks that scans free their space while they are copied into the
// index, so that both together need hardly more space than the index.
func TestScanFile_TakeFreesSpace(t *testing.T) {
	out, err := newScanWriter(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer out.file.Close()
	const chunks = 20000
	out.begin()
	if err := manyChunks(chunks).each(out.write); err != nil {
		t.Fatal(err)
	}
	s, err := out.finish()
	if err != nil {
		t.Fatal(err)
	}
	written(t, shardScan{key: "a.tar", size: chunks * 2048, scan: s})
	info, err := out.file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if got := 512 * info.Sys().(*syscall.Stat_t).Blocks; got > s.size/20 {
		t.Errorf("got %d bytes that the scan of %d still takes", got, s.size)
	}
}
