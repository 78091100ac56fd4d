package chunkindex

import (
	"syscall"
	"testing"
)

// What the maker of an index has written for itself gives back its space as it goes over into the index, so that both together take hardly more
// than the index.
func TestTemporarySpace(t *testing.T) {
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
	written(t, shardScan{key: "a.tar", size: chunks * 2048, scan: s}).file.Close()
	info, err := out.file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if got := 512 * info.Sys().(*syscall.Stat_t).Blocks; got > s.size/20 {
		t.Errorf("got %d bytes that the scan of %d still takes", got, s.size)
	}
}
