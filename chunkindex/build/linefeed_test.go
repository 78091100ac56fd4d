package build

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/chunkindex/testing/codectest"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// TestRun_AddsMissingLineFeeds: the last line of a shard may lack its line feed. The sample and its
// chunk, compressed or not, must include a line feed, so that another line can follow.
func TestRun_AddsMissingLineFeeds(t *testing.T) {
	var all []string
	for i := range 40 {
		all = append(all, fmt.Sprintf(`{"n":%d}`, i))
	}
	body := []byte(strings.Join(all, "\n"))
	shards := map[string][]byte{
		"a.jsonl": body, "b.jsonl.gz": codectest.PackAt(codec.Gzip, body), "c.jsonl.gz": codectest.PackAt(codec.Gzip, body, 50, 100, 150, len(body)-3), "d.jsonl.zst": codectest.PackAt(codec.Zstd, body, 200),
		"e.jsonl": []byte("{}"), "f.jsonl": append(bytes.Clone(body), "\n "...),
	}
	for _, size := range []int64{1, 100, 8 << 20} {
		store := memstore.New()
		for key, b := range shards {
			store.Set(key, b)
		}
		rep, err := Run(t.Context(), store, "", Options{ChunkSize: size})
		if err != nil || rep.Samples != 5*40+1 {
			t.Fatalf("chunks of %d: got %+v, %v, want all lines", size, rep, err)
		}
		x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		added := 0
		for i := range x.Chunks() {
			if x.Chunk(i).Codec&codec.LineFeed != 0 {
				added++
			}
		}
		if added != 5 {
			t.Errorf("chunks of %d: got %d with a line feed added, want one of each shard that lacks it", size, added)
		}
		if err := chunkindex.Verify(t.Context(), x, store, "", 2, nil, func(r chunkindex.BadRange) { t.Errorf("bad range %+v", r) }); err != nil {
			t.Error(err)
		}
		x.Close()
		store.Set("g.jsonl", []byte("{}\n"))
		if again, err := Run(t.Context(), store, "", Options{ChunkSize: size}); err != nil || again.ReusedShards != 6 || again.Samples != rep.Samples+1 {
			t.Errorf("chunks of %d, again: got %+v, %v, want the known shards reused", size, again, err)
		}
	}
}

// TestDecode_AddsLineFeed checks that Decode adds the line feed. An index must be rejected if a
// chunk has the flag but lacks no line feed.
func TestDecode_AddsLineFeed(t *testing.T) {
	for _, c := range []codec.Codec{codec.None, codec.Gzip, codec.Zstd} {
		stored := []byte("0123456789")
		if c != codec.None {
			stored = codectest.PackAt(c, stored)
		}
		dst := make([]byte, 11)
		if err := codec.Decode(c|codec.LineFeed, nil, stored, 0, dst); err != nil || string(dst) != "0123456789\n" {
			t.Errorf("%v: got %q, %v", c, dst, err)
		}
		if err := codec.Decode(c|codec.LineFeed, nil, stored, 0, nil); err == nil {
			t.Errorf("%v, nothing: got no error", c)
		}
		if (c | codec.LineFeed | 1<<9).Known() || !(c | codec.LineFeed).Known() {
			t.Errorf("%v: got another flag accepted, or this one rejected", c)
		}
	}
	for length, want := range map[int64]bool{9: false, 10: true, 11: false} {
		o := layout.ExtentOrder{Shards: []layout.Shard{{Size: 100}}}
		err := o.Next(layout.Extent{Length: length}, 11, codec.LineFeed)
		if err == nil {
			err = o.EndChunk()
		}
		if (err == nil) != want {
			t.Errorf("%d bytes stored of a chunk of 11: got %v", length, err)
		}
	}
}
