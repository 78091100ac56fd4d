package client_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// TestSamplesOfEveryFraming: the client finds the samples of a batch in every framing: after the
// header of an MDS shard, after the header of each tar member (including long names), or without a
// header.
func TestSamplesOfEveryFraming(t *testing.T) {
	golden := map[string]map[string][]byte{}
	for kind, names := range map[string][]string{
		"mds": {"index.json", "shard.00000.mds"}, "litdata": {"index.json", "chunk-0-0.bin", "chunk-0-1.bin"},
	} {
		golden[kind] = map[string][]byte{}
		for _, name := range names {
			b, err := os.ReadFile(filepath.Join("..", "chunkindex", "format", kind, "testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			golden[kind][name] = b
		}
	}
	loose := map[string][]byte{}
	for i := range 20 {
		loose[fmt.Sprintf("%s%d.jpg", strings.Repeat("long", 40*(i%2)), i)] = bytes.Repeat([]byte{byte(i)}, 1+i*130)
	}
	folders := map[string][]byte{}
	for i := range 20 {
		folders[fmt.Sprintf("%c/%s%d.jpg", 'a'+i%2, strings.Repeat("long", 40*(i%3/2)), i)] = bytes.Repeat([]byte{byte(i)}, 1+i*130)
	}
	record := []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x29\x03\x98\x07\xd8\xea\x82\xa2") // without data
	hints := map[string]build.Options{
		"records": {Hints: format.Options{RecordSize: 8}}, "tokens": {Hints: format.Options{SequenceLength: 4, DType: "<u2"}},
	}
	for name, objects := range map[string]map[string][]byte{
		"mds": golden["mds"], "litdata": golden["litdata"], "files": loose, "class folders": folders, "jsonl": {"a.jsonl": []byte("{}\n{\"a\":1}\n[]\n")},
		"tfrecord": {"a.tfrecord": bytes.Repeat(record, 5)},
		"records":  {"a.bin": bytes.Repeat([]byte("records!"), 7)}, "tokens": {"a.tokens": bytes.Repeat([]byte("ab"), 20)},
	} {
		s := storedDataset{store: memstore.New()}
		for key, b := range objects {
			if _, err := s.store.Put(t.Context(), "data/"+key, bytes.NewReader(b), int64(len(b)), objstore.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := build.Run(t.Context(), s.store, "data/", hints[name]); err != nil {
			t.Fatal(err)
		}
		var err error
		if s.index, err = chunkindex.Open(t.Context(), s.store, "data/", chunkindex.OpenOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.index.Close() })
		if got := s.index.Format(); got != name && !s.index.InClassFolders() {
			t.Errorf("got a dataset of format %s, want %s", got, name)
		}
		c := newClient(t, client.Config{Gateways: []string{newReal(t, s, gateway.Config{}).url}})
		came := client.NewDeliveries(s.index.Samples(), false)
		for b, err := range c.Batches(t.Context(), client.Options{BatchSize: 3, Manifest: true}) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			came.Add(b)
			for i := range b.Samples() {
				line := b.Describe(i)
				if got := crc32.Checksum(b.Sample(i), crc32.MakeTable(crc32.Castagnoli)); client.CRC(got) != line.CRC32C {
					t.Errorf("%s: sample %q: got CRC-32C %08x, want %08x", name, line.Key, got, line.CRC32C)
				}
				if want, ok := objects[line.Key+".jpg"]; s.index.Format() == "files" && (!ok || !bytes.Equal(b.Sample(i), want)) {
					t.Errorf("sample %q: got other bytes than its object has", line.Key)
				}
			}
		}
		if err := came.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
