package integration_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/objstore"
)

// damage is one kind of damage to a stored shard, done while a gateway serves it.
type damage struct {
	name string
	do   func(t *testing.T, store *harness.Store, key string)
}

func damages(store *harness.Store) []damage {
	all := []damage{
		{"overwritten", overwrite},
		{"deleted", remove},
		{"truncated", truncate},
	}
	if store.Name == "dir" {
		// Same bytes, but written again: a read that expects the former version must fail.
		all = append(all, damage{"touched", touch})
	}
	if store.Path != "" {
		// Only possible if the test can reach the stored file itself: same ETag, other
		// bytes.
		all = append(all, damage{"one bit flipped", flip})
	}
	return all
}

// read returns the stored bytes of key.
func read(t *testing.T, store *harness.Store, key string) []byte {
	t.Helper()
	if store.Name == "dir" {
		data, err := os.ReadFile(filepath.Join(store.Path, key))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	objects := store.Objects(t)
	object, err := objects.Stat(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, object.Size)
	if err := objects.ReadRange(t.Context(), object.Ref(), 0, data); err != nil {
		t.Fatal(err)
	}
	return data
}

func replace(t *testing.T, store *harness.Store, key string, data []byte) {
	t.Helper()
	if store.Name == "dir" {
		if err := os.WriteFile(filepath.Join(store.Path, key), data, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	_, err := store.Objects(t).Put(t.Context(), key, bytes.NewReader(data), int64(len(data)), objstore.Condition{})
	if err != nil {
		t.Fatal(err)
	}
}

func overwrite(t *testing.T, store *harness.Store, key string) {
	t.Helper()
	replace(t, store, key, bytes.Repeat([]byte{0x5a}, len(read(t, store, key))))
}

func truncate(t *testing.T, store *harness.Store, key string) {
	t.Helper()
	data := read(t, store, key)
	replace(t, store, key, data[:len(data)/2])
}

func touch(t *testing.T, store *harness.Store, key string) {
	t.Helper()
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(store.Path, key), later, later); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, store *harness.Store, key string) {
	t.Helper()
	if store.Name == "dir" {
		if err := os.Remove(filepath.Join(store.Path, key)); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := store.Objects(t).Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

// flip changes one bit in the middle of the stored file and restores the file's times, so that only
// the bytes differ.
func flip(t *testing.T, store *harness.Store, key string) {
	t.Helper()
	path := filepath.Join(store.Path, key)
	if store.Name != "dir" {
		path = filepath.Join(store.Path, filepath.FromSlash(key))
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := info.Size()/2/512*512 + 100
	one := make([]byte, 1)
	if _, err := f.ReadAt(one, at); err != nil {
		t.Fatal(err)
	}
	one[0] ^= 4
	if _, err := f.WriteAt(one, at); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
}

// TestDamageUnderARunningGateway damages one shard after the gateway has opened the index. Each
// batch is then either correct or a 502 that names the shard and the range. The stored order limits
// the damage to some of the batches.
func TestDamageUnderARunningGateway(t *testing.T) {
	files, _ := harness.Files(t, 200, 4000)
	for _, kind := range harness.Kinds() {
		for _, what := range damages(&harness.Store{Name: kind, Path: map[string]string{"dir": "x", "versitygw": "x"}[kind]}) {
			t.Run(kind+"/"+strings.ReplaceAll(what.name, " ", "-"), func(t *testing.T) {
				store := harness.Open(t, kind)
				harness.Pack(t, store, files, dataset, small()...)
				healthy := serve(t, store)
				n := batches(t, healthy, 0, 8)
				harness.Record(t, harness.Packed(t, store, dataset))
				keys := store.Keys(t, dataset)
				if len(keys) < 2 {
					t.Fatalf("shards: got %v, want several", keys)
				}
				g := serve(t, store)
				what.do(t, store, keys[0])
				refused := 0
				for m := range n {
					r := g.Get(t, batchPath(0, m)+share(8, 0, 1)+"&shuffle=none")
					if r.Status == http.StatusOK { // the history checks the response
						continue
					}
					p := problemOf(t, r)
					if r.Status != http.StatusBadGateway || p.Code != "store_inconsistent" || p.Retryable {
						t.Fatalf("batch %d: got %d %+v, want 502 store_inconsistent, not retryable", m, r.Status, p)
					}
					if p.Shard == nil || *p.Shard != 0 || p.Length < 1 {
						t.Errorf("batch %d: got %s, want shard 0 and a range of it named", m, r.Body)
					}
					if strings.Contains(string(r.Body), "127.0.0.1") || strings.Contains(string(r.Body), store.Root) {
						t.Errorf("batch %d: the answer names our host or path: %s", m, r.Body)
					}
					refused++
				}
				if refused == 0 || refused == n {
					t.Errorf("%s, %s damaged: got %d of %d batches refused, want some", kind, keys[0], refused, n)
				}
			})
		}
	}
}
