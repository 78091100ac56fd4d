package gateway_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// golden are data sets with the indexes of format version 1 that an earlier release made of them, one for each format and codec of
// that time. They are never made again: what they answer must not change.
const golden = "../chunkindex/testdata/golden-v1"

// goldenAnswers are what a gateway answered for a data set.
type goldenAnswers struct {
	Generation string            `json:"generation"`
	ETags      map[string]string `json:"etags"`  // by path
	Bodies     map[string]string `json:"bodies"` // by path: SHA-256
}

// goldenStore returns a store that holds a data set. The objects are stored in the order of their names, which gives them the
// versions that their binding names.
func goldenStore(t *testing.T, dir string) *memstore.Store {
	t.Helper()
	store, keys := memstore.New(), []string(nil)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			keys = append(keys, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	isOwn := func(path string) bool { return strings.Contains(filepath.ToSlash(path), "/.millrace/") }
	slices.Sort(keys)
	for _, own := range []bool{false, true} {
		for _, path := range keys {
			if isOwn(path) != own {
				continue
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			key, err := filepath.Rel(dir, path)
			if err != nil {
				t.Fatal(err)
			}
			store.Set("data/"+filepath.ToSlash(key), b)
		}
	}
	return store
}

// goldenPaths are asked for of each data set.
func goldenPaths() []string {
	var paths []string
	for _, order := range []string{"", "&shuffle=none", "&shuffle=full&seed=3"} {
		for _, batch := range []string{"0", "1"} {
			path := "/epoch/1/batch/" + batch + "?batch_size=2" + order
			paths = append(paths, path, path+"&format=tar", path+"&rank=1&world_size=2")
		}
	}
	return append(paths, "/v1/datasets/photos/index")
}

// goldenGateway serves a data set of a store.
func goldenGateway(t *testing.T, store *memstore.Store) *rig {
	t.Helper()
	r := &rig{t: t, store: store, log: &lockedBuffer{}, source: &source{}}
	memory := budget.New(64<<20, 20*time.Millisecond)
	path := datapath.New(datapath.Config{Budget: memory, NoPrefetch: true})
	t.Cleanup(path.Close)
	var err error
	r.index, err = chunkindex.Open(t.Context(), store, "data/", chunkindex.OpenOptions{CacheDir: t.TempDir(), Tables: path.Tables()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.index.Close() })
	r.gateway, err = gateway.New(gateway.Config{
		Datasets: []gateway.Dataset{{Name: "photos", Index: r.index, Source: path.Open(r.index, store, "data/")}},
		Budget:   memory, Version: "test", Log: zerolog.New(r.log), Allow: []auth.Right{auth.Read},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.server = httptest.NewServer(r.gateway.Handler())
	t.Cleanup(r.server.Close)
	return r
}

// goldenAsk returns what a gateway answers.
func goldenAsk(t *testing.T, r *rig) goldenAnswers {
	t.Helper()
	a := goldenAnswers{Generation: r.index.Generation(), ETags: map[string]string{}, Bodies: map[string]string{}}
	for _, path := range goldenPaths() {
		got := r.do("GET", path)
		if got.StatusCode != 200 {
			t.Fatalf("%s: got status %d: %s", path, got.StatusCode, got.body)
		}
		sum := sha256.Sum256(got.body)
		a.ETags[path], a.Bodies[path] = got.Header.Get("ETag"), hex.EncodeToString(sum[:])
	}
	return a
}

// Indexes of format version 1 are served byte for byte as by the release that made them.
func TestGoldenIndexes(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(golden, "*", "data"))
	if err != nil || len(dirs) < 12 {
		t.Fatalf("got %d data sets, %v", len(dirs), err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(filepath.Dir(dir)), func(t *testing.T) {
			var want goldenAnswers
			b, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "answers.json"))
			if err == nil {
				err = json.Unmarshal(b, &want)
			}
			if err != nil {
				t.Fatal(err)
			}
			got := goldenAsk(t, goldenGateway(t, goldenStore(t, dir)))
			if got.Generation != want.Generation {
				t.Errorf("got generation %s, want %s", got.Generation, want.Generation)
			}
			for _, path := range goldenPaths() {
				if got.ETags[path] != want.ETags[path] || got.Bodies[path] != want.Bodies[path] {
					t.Errorf("%s: got %s %s, want %s %s", path, got.ETags[path], got.Bodies[path], want.ETags[path], want.Bodies[path])
				}
			}
		})
	}
}

// goldenOptions are those by which a golden data set was indexed.
func goldenOptions(name string) chunkindex.BuildOptions {
	opt := chunkindex.BuildOptions{ChunkSize: 700, Defaults: chunkindex.Defaults{Shuffle: shuffle.Slot, Window: 4, Seed: 7, BatchSize: 16, Tail: "short"}}
	switch name {
	case "tokens":
		opt.Format, opt.Split, opt.Hints.SequenceLength, opt.Hints.DType = "tokens", "all", 7, "<u2"
	case "megatron":
		opt.Hints.SequenceLength = 7
	case "records":
		opt.Format, opt.Hints.RecordSize = "records", 20
	}
	return opt
}

// An index of version 1 stays while it says what a new one would, and is bound again where its shards were stored again. Upgraded, it is made anew
// without reading data, and gives the same batches.
func TestGoldenIndexesAreKeptOrUpgraded(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(golden, "*", "data"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		name := filepath.Base(filepath.Dir(dir))
		t.Run(name, func(t *testing.T) {
			store, opt := goldenStore(t, dir), goldenOptions(name)
			before := goldenAsk(t, goldenGateway(t, store))
			rep, err := chunkindex.Build(t.Context(), store, "data/", opt)
			if err != nil || !rep.Unchanged || rep.OldVersion != 1 || rep.Generation != before.Generation || rep.ReadBytes != 0 {
				t.Errorf("unchanged: got %+v, %v", rep, err)
			}
			for _, key := range store.Keys() {
				if b, _ := store.Bytes(key); !strings.Contains(key, "/.millrace/") {
					store.Set(key, b)
				}
			}
			rep, err = chunkindex.Build(t.Context(), store, "data/", opt)
			if err != nil || !rep.Rebound || rep.Generation != before.Generation || rep.ReadBytes == 0 {
				t.Errorf("stored again: got %+v, %v", rep, err)
			}
			opt.Upgrade = true
			rep, err = chunkindex.Build(t.Context(), store, "data/", opt)
			if err != nil || rep.OldVersion != 0 || rep.Generation == before.Generation || rep.ReadBytes != 0 {
				t.Errorf("upgraded: got %+v, %v", rep, err)
			}
			upgraded := goldenGateway(t, store)
			after := goldenAsk(t, upgraded)
			err = chunkindex.Verify(t.Context(), upgraded.index, prefixed{store, "data/"}, "", 2, nil, func(bad chunkindex.BadRange) { t.Errorf("verify: %+v", bad) })
			if err != nil {
				t.Errorf("verify: %v", err)
			}
			for _, path := range goldenPaths() {
				same := path != "/v1/datasets/photos/index" && !upgraded.index.InClassFolders() // whose classes version 1 does not know
				if same && after.Bodies[path] != before.Bodies[path] {
					t.Errorf("%s: got other bytes after the upgrade", path)
				}
			}
			if rep, err = chunkindex.Build(t.Context(), store, "data/", opt); err != nil || !rep.Unchanged {
				t.Errorf("upgraded again: got %+v, %v", rep, err)
			}
		})
	}
}
