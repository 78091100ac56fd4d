package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestMDSAsStreamingReadsIt has MosaicML Streaming write shards with all its encodings, plain,
// compressed, and in directories under one index. A gateway serves them in place. Streaming then
// reads an epoch from a directory whose shards are the batches: every sample appears once,
// unchanged.
func TestMDSAsStreamingReadsIt(t *testing.T) {
	dir := t.TempDir()
	want := library(t, "mds.py", "write", dir)["plain"]
	store := harness.Open(t, "minio")
	objects := store.Objects(t)
	names := []string{"plain", "zstd", "gz", "merged"}
	g := serveAll(t, store, objects, dir, names...)
	var readable []string
	for _, name := range names {
		readable = append(readable, saveAs(t, name, asMDS(t, g, name, 7)))
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

// asMDS returns the files of an epoch as an MDS dataset.
func asMDS(t *testing.T, g *harness.Gateway, dataset string, batchSize int) map[string][]byte {
	t.Helper()
	get := func(file string) []byte {
		return g.MustGet(t, fmt.Sprintf("/v1/datasets/%s/epochs/1/mds/batch_size=%d/%s", dataset, batchSize, file)).Body
	}
	files := map[string][]byte{"index.json": get("index.json")}
	var index struct {
		Shards []struct {
			Raw struct {
				Basename string `json:"basename"`
			} `json:"raw_data"`
		} `json:"shards"`
	}
	if err := json.Unmarshal(files["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	for _, s := range index.Shards {
		files[s.Raw.Basename] = get(s.Raw.Basename)
	}
	for i, batch := range epochAs(t, g, dataset, "mds", "application/vnd.mosaicml.mds", batchSize) {
		if name := fmt.Sprintf("shard.%05d.mds", i); !bytes.Equal(files[name], batch) {
			t.Errorf("%s of %s: got %d bytes, want the %d of the batch", name, dataset, len(files[name]), len(batch))
		}
	}
	return files
}
