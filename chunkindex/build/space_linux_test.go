package build

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/testing/shards"
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
	written(t, shardScan{key: "a.tar", size: chunks * 2048, scan: s}).file.Close()
	info, err := out.file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if got := 512 * info.Sys().(*syscall.Stat_t).Blocks; got > s.size/20 {
		t.Errorf("got %d bytes that the scan of %d still takes", got, s.size)
	}
}

// TestShardsOf_TakeFreesSpace checks that the blocks of an earlier index free their space while
// they are copied into the new index.
func TestShardsOf_TakeFreesSpace(t *testing.T) {
	store, rep := indexedLines(t, 30000)
	index := shards.Bytes(t, store, layout.IndexObject("", rep.Generation))
	file, err := os.Create(filepath.Join(t.TempDir(), "index"))
	if err == nil {
		_, err = file.Write(index)
	}
	if err != nil {
		t.Fatal(err)
	}
	x, err := chunkindex.OpenFile(file, int64(len(index)), rep.Generation)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	head, err := layout.DecodeHeader(index[:layout.HeaderSize], int64(len(index)))
	if err != nil {
		t.Fatal(err)
	}
	s := newShardsOf(t.Context(), x, 0, 2)
	used := func() int64 {
		info, err := file.Stat()
		if err != nil {
			t.Fatal(err)
		}
		return 512 * info.Sys().(*syscall.Stat_t).Blocks
	}
	if err := s.check(); err != nil {
		t.Fatal(err)
	}
	before := used()
	if err := s.take(func(*layout.ChunkRecord) error { return nil }); err != nil {
		t.Fatal(err)
	}
	blocks := head.Sections[layout.SecTables].Length + head.Sections[layout.SecParts].Length
	if after := used(); before-after < blocks*9/10-2*layout.ProofSize {
		t.Errorf("got %d bytes of %d given back, of %d of blocks", before-after, before, blocks)
	}
}
