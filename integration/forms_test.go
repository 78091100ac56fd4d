package integration_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/objstore"
)

// form is a way to store samples other than plain tars.
type form struct {
	name    string
	objects map[string][]byte // by key below the dataset
	content map[string]string // expected members of the batches
	args    []string          // of index
}

// compressed packs files into tars and compresses each with a common program: in a single frame, or
// in frames of the given size.
func compressed(t *testing.T, frame int, suffix, program string, args ...string) form {
	t.Helper()
	files, content := harness.Files(t, sampleCount(), 4000)
	local := harness.Open(t, "dir")
	harness.Pack(t, local, files, dataset, small()...)
	f := form{name: fmt.Sprintf("%s in frames of %d", program, frame), objects: map[string][]byte{}, content: content, args: []string{"--chunk-size", "32KiB"}}
	for _, key := range local.Keys(t, dataset) {
		tar, err := os.ReadFile(filepath.Join(local.Path, key))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		for len(tar) > 0 {
			n := min(len(tar), frame)
			cmd := exec.CommandContext(t.Context(), program, args...)
			cmd.Stdin, cmd.Stdout = bytes.NewReader(tar[:n]), &out
			if err := cmd.Run(); err != nil {
				t.Fatalf("%s: %v", program, err)
			}
			tar = tar[n:]
		}
		f.objects[filepath.Base(key)+suffix] = out.Bytes()
	}
	return f
}

// loose returns objects of one sample each.
func loose(count int) form {
	f := form{name: "loose objects", objects: map[string][]byte{}, content: map[string]string{}, args: []string{"--chunk-size", "64KiB"}}
	random := rand.NewChaCha8([32]byte{7})
	for i := range count {
		b := make([]byte, 500+i%1500)
		_, _ = random.Read(b) // never fails
		key := fmt.Sprintf("class-%02d/sample-%06d", i%7, i)
		f.objects[key+".jpg"], f.content[key+".jpg"] = b, string(b)
		f.content[key+".cls"] = strconv.Itoa(i % 7)
	}
	return f
}

// store stores and indexes the objects, and returns their total size in bytes.
func (f form) store(t *testing.T, store *harness.Store) (n int64) {
	t.Helper()
	var g errgroup.Group
	g.SetLimit(8)
	var objects objstore.Store
	if store.Name != "dir" {
		objects = store.Objects(t)
	}
	for name, b := range f.objects {
		n += int64(len(b))
		g.Go(func() error {
			if objects != nil {
				_, err := objects.Put(t.Context(), dataset+"/"+name, bytes.NewReader(b), int64(len(b)), objstore.Condition{})
				return err
			}
			path := filepath.Join(store.Path, dataset, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			return os.WriteFile(path, b, 0o644)
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"index", store.Dataset(dataset)}, f.args...)
	if objects == nil {
		// next to the shards; by default the index of class folders is in the user's own
		// cache
		args = append(args, "--index-url", store.Dataset(dataset))
	}
	harness.MustRun(t, store, args...)
	return n
}

func looseCount() int {
	if long() {
		return 5000
	}
	return 2000
}

// TestFormsOfStorage indexes, in place, loose objects and tars that real programs have compressed.
// An epoch delivers each sample once, byte for byte, and reads each byte from the store about once.
// The second epoch comes from memory.
func TestFormsOfStorage(t *testing.T) {
	forms := []form{
		compressed(t, 1<<30, ".gz", "gzip", "-c"),
		compressed(t, 20_000, ".gz", "gzip", "-c"),
		compressed(t, 1<<30, ".zst", "zstd", "-qc"),
		compressed(t, 20_000, ".zst", "zstd", "-qc"),
		loose(looseCount()),
	}
	for _, kind := range harness.Kinds() {
		for _, f := range forms {
			if f.name != "loose objects" && kind == "minio" {
				continue // these add no new kind of request to a store
			}
			t.Run(kind+"/"+f.name, func(t *testing.T) {
				store := harness.Open(t, kind)
				bytes := f.store(t, store)
				served, reads := store, (*harness.Reads)(nil)
				if kind != "dir" {
					own := strings.TrimPrefix(store.Env[0], "AWS_ENDPOINT_URL_S3=http://")
					at := harness.FreeAddress(t)
					reads = harness.CountReads(t, nil, store, at, own, 0)
					counted := *store
					counted.Env, served = reads.Env, &counted
				}
				g := serve(t, served)
				r := newReader(t, f.content, nil)
				for epoch := range 2 {
					for m := range batches(t, g, epoch, 64) {
						r.step(g, epoch, m, 64, 2)
					}
					r.endEpoch(fmt.Sprintf("epoch %d", epoch))
				}
				if reads != nil {
					f.thrifty(t, reads, bytes)
				}
			})
		}
	}
}

// thrifty checks the reads of two epochs from a store. Frames at chunk borders are read for both
// neighboring chunks. Loose objects that a rank could not wait for are read a second time with
// their chunk.
func (f form) thrifty(t *testing.T, reads *harness.Reads, bytes int64) {
	t.Helper()
	requests, got := len(reads.All()), reads.Bytes()
	t.Logf("figure: %s: %d objects, %d bytes; two epochs asked for %d bytes in %d requests", f.name, len(f.objects), bytes, got, requests)
	if got < bytes*9/10 || got > 2*bytes {
		t.Errorf("got %d bytes read in two epochs, want about %d", got, bytes)
	}
	if f.name == "loose objects" {
		if n := len(f.objects); requests < n || requests > 2*n {
			t.Errorf("got %d requests in two epochs, want about one for each of %d objects", requests, n)
		}
	}
}

// TestFormsThatChange checks that an object that was replaced after indexing is never served.
func TestFormsThatChange(t *testing.T) {
	for _, f := range []form{compressed(t, 20_000, ".zst", "zstd", "-qc"), loose(300)} {
		t.Run(f.name, func(t *testing.T) {
			store := harness.Open(t, "versitygw")
			f.store(t, store)
			r := newReader(t, f.content, nil)
			g := serve(t, store)
			key := ""
			for name := range f.objects {
				key = max(key, name)
			}
			overwrite(t, store, dataset+"/"+key)
			wrong := 0
			for m := range batches(t, g, 0, 8) {
				path := batchPath(0, m) + share(8, 0, 1)
				switch answer := g.Get(t, path); answer.Status {
				case http.StatusOK:
					r.take(path, answer)
				case http.StatusBadGateway:
					wrong++
					if !bytes.Contains(answer.Body, []byte("store_inconsistent")) {
						t.Errorf("got %s, want store_inconsistent", answer.Body)
					}
				default:
					t.Errorf("got status %d: %s", answer.Status, answer.Body)
				}
			}
			if wrong == 0 || f.name == "loose objects" && wrong != 1 {
				t.Errorf("got %d batches refused, want those of the object that was replaced", wrong)
			}
		})
	}
}
