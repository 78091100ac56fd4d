package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// opened is the output of integration/python/without_server.py.
type opened struct {
	Epochs  [][]string `json:"epochs"`
	Gateway string     `json:"gateway"`
}

// openAlone has a Python process read a dataset of a store without a server. Its socket and caches
// are below dir.
func openAlone(t *testing.T, store *harness.Store, dir, address string) (o opened, stderr string) {
	t.Helper()
	path, env := harness.Python(t)
	cmd := exec.CommandContext(t.Context(), path, filepath.Join("python", "without_server.py"), address)
	cmd.Env = append(append(env, store.Env...), "MILLRACE_PROGRAM="+harness.Binary(t), "XDG_RUNTIME_DIR="+dir, "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &o)
	}
	if err != nil {
		return o, said.String() + err.Error()
	}
	return o, ""
}

// TestOpenWithoutAServer checks that Python reads the data of a directory or a bucket without a
// server, and leaves no gateway running. A missing index is created next to the data or, if that
// location is read-only, in the user's cache. The next run finds it.
func TestOpenWithoutAServer(t *testing.T) {
	texts := t.TempDir()
	var want []string
	for i := range 30 {
		name := fmt.Sprintf("text-%02d", i)
		want = append(want, name)
		place(t, filepath.Join(texts, name+".txt"), name)
	}
	for _, kind := range harness.Kinds() {
		t.Run(kind, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "m") // a socket's path must be short
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			store := harness.Open(t, kind)
			if kind == "dir" {
				if err := os.CopyFS(filepath.Join(store.Path, "texts"), os.DirFS(texts)); err != nil {
					t.Fatal(err)
				}
			} else {
				upload(t, store.Objects(t), texts, "texts")
			}
			stores := []*harness.Store{store}
			if kind == "versitygw" {
				stores = []*harness.Store{store.ReadOnly(t), store}
			}
			for _, s := range stores {
				for range 2 {
					o, fault := openAlone(t, s, dir, s.Dataset("texts"))
					if fault != "" {
						t.Fatal(fault)
					}
					for n, epoch := range o.Epochs {
						if slices.Sort(epoch); !slices.Equal(epoch, want) {
							t.Errorf("epoch %d: got %v", n, epoch)
						}
					}
					if !strings.HasPrefix(o.Gateway, "unix:"+dir) {
						t.Errorf("got the gateway %s", o.Gateway)
					}
				}
			}
			cached, err := filepath.Glob(filepath.Join(dir, "cache", "millrace", "indexes", "*"))
			if wanted := len(stores) - 1; err != nil || len(cached) != wanted {
				t.Errorf("got %v in the cache, %v; want %d", cached, err, wanted)
			}
			if r := harness.Run(t, store, "info", store.Dataset("texts")); (r.Code == 0) != (kind != "versitygw") {
				t.Errorf("an index beside the data: got exit code %d, and one in the cache is enough", r.Code)
			}
			harness.MustRun(t, store, "index", store.Dataset("texts"), "--name", "some", "--match", "*0.txt")
			if o, fault := openAlone(t, store, dir, store.Dataset("texts")+"#some"); fault != "" || len(o.Epochs[0]) != 3 {
				t.Errorf("got %v %s, want the three samples of the index that was named", o.Epochs, fault)
			}
			if _, fault := openAlone(t, store, dir, store.Dataset("texts")+"#sum"); !strings.Contains(fault, "NotFound") || !strings.Contains(fault, "there is no index #sum, only") {
				t.Errorf("a name that is not there: got %s", fault)
			}
			if _, fault := openAlone(t, store, dir, store.Dataset("nothing")); !strings.Contains(fault, "no shards found") && !strings.Contains(fault, "no such directory") {
				t.Errorf("nothing: got %s", fault)
			}
			for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
				left, err := filepath.Glob(filepath.Join(dir, "*", "socket")) // a gateway removes its socket when it exits
				if err != nil || len(left) == 0 {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("left running: %s", left)
				}
			}
		})
	}
}
