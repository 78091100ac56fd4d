package integration_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// blockOfTokens equals BLOCK in lit.py.
const blockOfTokens = 8

// TestChunksAsLitDataReadsThem has LitData write chunks with many kinds of leaves, plain and
// compressed, and chunks of tokens. A gateway serves them in place, and LitData reads the batches
// of an epoch: every sample appears once, unchanged.
func TestChunksAsLitDataReadsThem(t *testing.T) {
	dir := t.TempDir()
	want := library(t, "lit.py", "write", dir)
	store := harness.Open(t, "minio")
	objects := store.Objects(t)
	upload(t, objects, filepath.Join(dir, "tokens"), "tokens")
	if r := harness.Run(t, store, "index", store.Dataset("tokens")); r.Code == 0 || !strings.Contains(r.Stderr, "set --sequence-length") {
		t.Errorf("index of chunks of tokens: exit code %d, %s, want the cure", r.Code, r.Stderr)
	}
	harness.MustRun(t, store, "index", store.Dataset("tokens"), "--format", "litdata", "--sequence-length", strconv.Itoa(blockOfTokens-1))
	names := []string{"plain", "zstd", "level"}
	var readable []string
	read := func(g *harness.Gateway, name string) {
		files := asLitData(t, filesOf(t, filepath.Join(dir, name))["index.json"], epochOf(t, g, name, 1, 7))
		readable = append(readable, saveAs(t, name, files))
	}
	tokens := harness.Serve(t, store, "tokens")
	fetched(t, store, tokens, "tokens")
	read(tokens, "tokens")
	g := serveAll(t, store, objects, dir, names...)
	for _, name := range names {
		read(g, name)
	}
	found := library(t, "lit.py", append([]string{"read"}, readable...)...)
	same(t, "tokens", want["tokens"], found["tokens"])
	for _, name := range names {
		same(t, name, want["plain"], found[name])
	}
}

// asLitData returns the files of a LitData dataset whose chunks are the given batches. source is
// the index of the dataset that the batches come from.
func asLitData(t *testing.T, source []byte, batches []delivered) map[string][]byte {
	t.Helper()
	var index struct {
		Chunks  []map[string]any `json:"chunks"`
		Config  map[string]any   `json:"config"`
		Updated string           `json:"updated_at"`
	}
	if err := json.Unmarshal(source, &index); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	index.Chunks, index.Config["compression"] = nil, nil
	for i, b := range batches {
		name := fmt.Sprintf("chunk-0-%d.bin", i)
		index.Chunks = append(index.Chunks, map[string]any{"chunk_bytes": len(b.body), "chunk_size": b.samples, "dim": b.samples * blockOfTokens, "filename": name})
		files[name] = b.body
	}
	var err error
	if files["index.json"], err = json.Marshal(index); err != nil {
		t.Fatal(err)
	}
	return files
}
