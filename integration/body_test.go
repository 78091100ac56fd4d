package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// served packs a few hundred files into a directory and serves them.
func served(t *testing.T, args ...string) (*harness.Store, *harness.Gateway, map[string]string) {
	t.Helper()
	files, content := harness.Files(t, 300, 3000)
	store := harness.Open(t, "dir")
	harness.Pack(t, store, files, dataset, small()...)
	return store, serve(t, store, args...), content
}

// shardBytes reads a sample's stored bytes from the shard that its manifest names.
func shardBytes(t *testing.T, store *harness.Store, s harness.Sample) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join(store.Path, dataset, filepath.FromSlash(s.Shard)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data := make([]byte, s.Length)
	if _, err := f.ReadAt(data, s.Offset); err != nil {
		t.Fatalf("read %s [%d,+%d): %v", s.Shard, s.Offset, s.Length, err)
	}
	return data
}

// TestBodyIsTheStoredBytes compares batches with the shards on disk, byte for byte, and
// their checksum with the header.
func TestBodyIsTheStoredBytes(t *testing.T) {
	store, g, _ := served(t)
	for _, m := range []int{0, 3, 9} {
		query := share(16, 1, 2)
		answer := g.MustGet(t, batchPath(0, m)+query)
		var want []byte
		for _, s := range g.Manifest(t, batchPath(0, m), query) {
			want = append(want, shardBytes(t, store, s)...)
		}
		want = append(want, make([]byte, 1024)...)
		if !bytes.Equal(answer.Body, want) {
			t.Errorf("batch %d: got %d bytes, want the %d stored ones", m, len(answer.Body), len(want))
		}
		sum := fmt.Sprintf("%08x", crc32.Checksum(answer.Body, crc32.MakeTable(crc32.Castagnoli)))
		if got := answer.Header.Get("Millrace-Crc32c"); got != sum {
			t.Errorf("batch %d: Millrace-Crc32c: got %s, want %s", m, got, sum)
		}
	}
}

// TestOrdinaryToolsReadABatch passes a batch to GNU tar and to Python's tarfile. The other tests
// read batches with Go's archive/tar.
func TestOrdinaryToolsReadABatch(t *testing.T) {
	_, g, content := served(t)
	answer := g.MustGet(t, "/epoch/0/batch/1")
	file := filepath.Join(t.TempDir(), "batch.tar")
	if err := os.WriteFile(file, answer.Body, 0o644); err != nil {
		t.Fatal(err)
	}
	want := members(t, content, "batch", answer)
	script := "import sys,tarfile\nfor m in tarfile.open(sys.argv[1]): print(m.name)"
	for _, tool := range [][]string{{"tar", "-t", "-f", file}, {"python3", "-c", script, file}} {
		out, err := exec.CommandContext(t.Context(), tool[0], tool[1:]...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", tool[0], err, out)
			continue
		}
		names := strings.Fields(string(out))
		if len(names) != len(want) {
			t.Errorf("%s: got %d members, want %d", tool[0], len(names), len(want))
		}
		for _, name := range names {
			if !slices.Contains(want, name) {
				t.Errorf("%s: got member %s, want only members of the batch", tool[0], name)
			}
		}
	}
}

// problem is the body of an error.
type problem struct {
	Code      string `json:"code"`
	Retryable bool   `json:"retryable"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`

	// Set if the store is inconsistent: the shard's number, and a range in the shard.
	Shard  *int  `json:"shard"`
	Length int64 `json:"length"`
}

func problemOf(t *testing.T, r harness.Response) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal(r.Body, &p); err != nil {
		t.Fatalf("body of a %d: %v: %s", r.Status, err, r.Body)
	}
	if got := r.Header.Get("Content-Type"); !strings.HasPrefix(got, "application/problem+json") {
		t.Errorf("Content-Type of a %d: got %q", r.Status, got)
	}
	if got := r.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control of a %d: got %q, want no-store", r.Status, got)
	}
	return p
}

func TestErrorsSayWhatIsWrong(t *testing.T) {
	_, g, _ := served(t)
	for _, c := range []struct {
		path   string
		status int
		code   string
		names  []string
	}{
		{"/epoch/0/batch/0?batch_size=0&rank=7&unknown=1", 400, "invalid_argument", []string{"batch_size", "rank", "unknown"}},
		{"/epoch/0/batch/999999", 404, "end_of_epoch", nil},
		{"/v1/datasets/nothing/epochs/0/batches/0", 404, "not_found", nil},
		{"/epoch/0/batch/0?generation=0000", 0, "", nil},
	} {
		r := g.Get(t, c.path)
		p := problemOf(t, r)
		if c.status == 0 {
			if r.Status != 400 && r.Status != 404 {
				t.Errorf("%s: got %d, want 400 or 404", c.path, r.Status)
			}
			continue
		}
		if r.Status != c.status || p.Code != c.code || p.Retryable {
			t.Errorf("%s: got %d %+v, want %d %s, not retryable", c.path, r.Status, p, c.status, c.code)
		}
		for _, name := range c.names {
			if !strings.Contains(string(r.Body), name) {
				t.Errorf("%s: got %s, want %s named", c.path, r.Body, name)
			}
		}
	}
}

// TestEveryAddressHasItsOwnETag checks that different batches have different ETags. A shared ETag
// would let a cache answer a request for one batch with another batch.
func TestEveryAddressHasItsOwnETag(t *testing.T) {
	_, g, _ := served(t)
	seen := map[string]string{}
	for _, epoch := range []int{0, 1} {
		for _, m := range []int{0, 1} {
			for _, query := range []string{
				share(16, 0, 1), share(16, 0, 2), share(16, 1, 2), share(17, 0, 1),
				share(16, 0, 1) + "&seed=1", share(16, 0, 1) + "&shuffle=none", share(16, 0, 1) + "&tail=pad",
			} {
				path := batchPath(epoch, m) + query
				etag := g.MustGet(t, path).Header.Get("ETag")
				if other, ok := seen[etag]; ok {
					t.Errorf("%s and %s: got one ETag %s, want two", path, other, etag)
				}
				seen[etag] = path
			}
		}
	}
}
