package build

import (
	"bytes"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/chunkindex/testing/codectest"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// counting counts the calls of Keep. It forwards all calls.
type counting struct {
	format.Frames
	calls int
}

func (c *counting) Keep(from int64, bytes [4]int64) {
	c.calls++
	c.Frames.Keep(from, bytes)
}

// TestRun_ManyTinyMembers checks that the scan forgets frames with only gaps or only pieces of one
// sample, and that the chunks around them are correct.
func TestRun_ManyTinyMembers(t *testing.T) {
	line := codectest.PackAt(codec.Gzip, []byte("{}\n"))
	empty := codectest.PackAt(codec.Gzip, []byte("\n"))
	long := codectest.PackAt(codec.Gzip, []byte("1"))
	var shard []byte
	for range 3 {
		shard = append(shard, line...)
		shard = append(shard, bytes.Repeat(empty, 20_000)...)
	}
	shard = append(append(shard, bytes.Repeat(long, 20_000)...), empty...)
	store := memstore.New()
	store.Set("a.jsonl.gz", shard)
	for _, size := range []int64{1, 30_000, 8 << 20} {
		rep, err := Run(t.Context(), store, "", Options{ChunkSize: size})
		if err != nil || rep.Samples != 4 {
			t.Fatalf("chunks of %d: got %+v, %v, want 4 samples", size, rep, err)
		}
		x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		checkChunks(t, store, x)
		x.Close()
	}
	r, err := codec.NewReader(codec.Gzip, bytes.NewReader(shard))
	if err != nil {
		t.Fatal(err)
	}
	cut := newCutter(1, func(*layout.ChunkRecord) error { return nil })
	frames := &counting{Frames: r}
	cut.codec, cut.frames = codec.Gzip, frames
	for range 10 {
		if err := cut.Gap([]byte{'\n'}); err != nil {
			t.Fatal(err)
		}
	}
	if frames.calls != 10 {
		t.Errorf("got %d calls, want one for each gap", frames.calls)
	}
}
