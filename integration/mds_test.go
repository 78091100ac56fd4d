package integration_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/mds"
	"github.com/millrace-data/millrace/chunkindex/scantest"
	"github.com/millrace-data/millrace/integration/harness"
)

// TestMDSAsStreamingReadsIt has MosaicML Streaming write shards of every encoding it has, plain, compressed and
// in directories under one index, serves them where they lie, and has Streaming read the batches of an epoch: it finds every sample once, and equal.
func TestMDSAsStreamingReadsIt(t *testing.T) {
	dir := t.TempDir()
	want := library(t, "mds.py", "write", dir)["plain"]
	store := harness.Open(t, "minio")
	objects := store.Objects(t)
	names := []string{"plain", "zstd", "gz", "merged"}
	g := serveAll(t, store, objects, dir, names...)
	var readable []string
	for _, name := range names {
		files := asMDS(t, filesOf(t, filepath.Join(dir, name)), epochOf(t, g, name, 1, 7))
		readable = append(readable, saveAs(t, name, files))
	}
	found := library(t, "mds.py", append([]string{"read"}, readable...)...)
	for _, name := range names {
		same(t, name, want, found[name])
	}

	upload(t, objects, filepath.Join(dir, "br"), "br")
	if r := harness.Run(t, store, "index", store.Dataset("br")); r.Code == 0 || !strings.Contains(r.Stderr, `compression "br" is not supported`) {
		t.Errorf("index of shards compressed by Brotli: exit code %d, %s, want it refused by name", r.Code, r.Stderr)
	}
}

// asMDS returns the files of an MDS dataset whose shards are batches of another one.
func asMDS(t *testing.T, source scantest.Objects, batches []delivered) map[string][]byte {
	t.Helper()
	d, err := mds.Format{}.Survey(t.Context(), source, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	var infos []mds.BatchInfo
	for i, b := range batches {
		name := fmt.Sprintf("shard.%05d.mds", i)
		infos = append(infos, mds.BatchInfo{Name: name, Samples: b.samples, Bytes: int64(len(b.body))})
		files[name] = b.body
	}
	if files["index.json"], err = mds.Index(d.Framing, infos); err != nil {
		t.Fatal(err)
	}
	return files
}
