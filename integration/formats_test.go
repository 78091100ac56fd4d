package integration_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/objstore"
)

// told is the output of a script of integration/python: digests of samples as a library decodes
// them, by directory and then by sample ID.
type told map[string]map[string]string

// library runs a script of integration/python.
func library(t *testing.T, script string, args ...string) told {
	t.Helper()
	path, env := harness.Python(t)
	cmd := exec.CommandContext(t.Context(), path, append([]string{"-W", "ignore", filepath.Join("python", script)}, args...)...)
	cmd.Env = env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s", script, args, err, stderr.String())
	}
	var all told
	if err := json.Unmarshal(stdout.Bytes(), &all); err != nil {
		t.Fatalf("%s %v printed %q: %v", script, args, stdout.String(), err)
	}
	return all
}

// upload stores a directory as a dataset.
func upload(t *testing.T, to objstore.Store, dir, dataset string) {
	t.Helper()
	for name, b := range filesOf(t, dir) {
		if _, err := to.Put(t.Context(), dataset+"/"+name, bytes.NewReader(b), int64(len(b)), objstore.Condition{}); err != nil {
			t.Fatalf("upload %s: %v", name, err)
		}
	}
}

// serveAll uploads the directories with these names, indexes them in place, and serves them.
func serveAll(t *testing.T, store *harness.Store, objects objstore.Store, dir string, names ...string) *harness.Gateway {
	t.Helper()
	var more []string
	for i, name := range names {
		upload(t, objects, filepath.Join(dir, name), name)
		harness.MustRun(t, store, "index", store.Dataset(name), "--chunk-size", "16KiB")
		if i > 0 {
			more = append(more, "--dataset", name+"="+store.Dataset(name))
		}
	}
	g := harness.Serve(t, store, names[0], more...)
	for _, name := range names {
		fetched(t, store, g, name)
	}
	return g
}

// fetched has the client read an epoch with manifests. The client must find every sample in the
// dataset's own framing.
func fetched(t *testing.T, store *harness.Store, g *harness.Gateway, dataset string) {
	t.Helper()
	if out := harness.MustRun(t, store, "fetch", g.URL, "--dataset", dataset, "--batch-size", "7"); !strings.Contains(out, "exactly once") {
		t.Errorf("fetch %s: got %s, want proof that every sample came", dataset, out)
	}
}

// delivered is the gateway's response for a batch.
type delivered struct {
	samples int
	body    []byte
}

// epochOf reads all batches of an epoch.
func epochOf(t *testing.T, g *harness.Gateway, dataset string, epoch, batchSize int) []delivered {
	t.Helper()
	var all []delivered
	for n := 1; len(all) < n; {
		r := g.MustGet(t, "/v1/datasets/"+dataset+"/epochs/"+strconv.Itoa(epoch)+"/batches/"+strconv.Itoa(len(all))+share(batchSize, 0, 1))
		var err error
		if n, err = strconv.Atoi(r.Header.Get("Millrace-Batches")); err != nil {
			t.Fatal(err)
		}
		samples, err := strconv.Atoi(r.Header.Get("Millrace-Samples"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, delivered{samples, r.Body})
	}
	return all
}

// same checks that a library reads every sample from the batches exactly once, with the same
// content as from the dataset itself.
func same(t *testing.T, what string, want, got map[string]string) {
	t.Helper()
	if len(want) == 0 || len(got) != len(want) {
		t.Errorf("%s: got %d samples from batches, want %d", what, len(got), len(want))
	}
	for id, digest := range want {
		if got[id] != digest {
			t.Errorf("%s: sample %s: got %q from batches, want %q", what, id, got[id], digest)
		}
	}
}

// filesOf returns all files below a directory by their relative slash-separated names.
func filesOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err == nil {
			files[filepath.ToSlash(rel)], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// saveAs writes files into a new directory with this name.
func saveAs(t *testing.T, name string, files map[string][]byte) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
