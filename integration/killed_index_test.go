package integration_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/objstore"
)

// door is a proxy in front of an S3 store, which counts requests. After a given number of shards it
// delays all further requests.
type door struct {
	*httptest.Server
	mu     sync.Mutex
	give   int            // shards
	counts map[string]int // by method and purpose
	stuck  chan struct{}  // closed when a request is delayed
}

func newDoor(t *testing.T, store *harness.Store, give int) (*door, *harness.Store) {
	t.Helper()
	target, err := url.Parse(strings.TrimPrefix(store.Env[0], "AWS_ENDPOINT_URL_S3="))
	if err != nil {
		t.Fatal(err)
	}
	d := &door{give: give, counts: map[string]int{}, stuck: make(chan struct{})}
	forward := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.Out.Host = p.In.Host // the signature covers the host
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !d.pass(r) {
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(d.Close)
	behind := *store
	behind.Env = append([]string{"AWS_ENDPOINT_URL_S3=" + d.URL}, store.Env[1:]...)
	return d, &behind
}

// pass counts a request, and reports whether to forward it.
func (d *door) pass(r *http.Request) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	shard := r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, ".tar")
	switch {
	case shard && d.counts["shards"] == d.give:
		select {
		case <-d.stuck:
		default:
			close(d.stuck)
		}
		return false
	case shard:
		d.counts["shards"]++
	case strings.Contains(r.URL.Path, "/.millrace/scan/"):
		d.counts["scans "+r.Method]++
	}
	return true
}

func (d *door) count(what string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts[what]
}

// tinyShards returns tar shards of one sample each.
func tinyShards(t *testing.T, n int) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for i := range n {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%06d.txt", i), Mode: 0o644, Size: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		all[fmt.Sprintf("shard-%06d.tar", i)] = b.Bytes()
	}
	return all
}

// TestIndexGoesOnAfterAKill kills `millrace index` with SIGKILL while it reads tiny shards. The
// killed command leaves no temporary files. The next run rereads no more shards than the help
// states. Saving progress takes only a few writes.
func TestIndexGoesOnAfterAKill(t *testing.T) {
	const shards, read = 2400, 2200
	store, dir := harness.Open(t, "minio"), harness.Open(t, "dir")
	if err := os.Mkdir(filepath.Join(dir.Path, "tiny"), 0o755); err != nil {
		t.Fatal(err)
	}
	bucket := store.Objects(t)
	for name, body := range tinyShards(t, shards) {
		if _, err := bucket.Put(t.Context(), "tiny/"+name, bytes.NewReader(body), int64(len(body)), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir.Path, "tiny", name), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, behind := newDoor(t, store, read)
	temp := t.TempDir()
	env := append([]string{"TMPDIR=" + temp, "HOME=" + t.TempDir(), "NO_PROXY=127.0.0.1"}, behind.Env...)
	run := harness.Start(t, "index", harness.Binary(t), env, "index", store.Dataset("tiny"), "--parallel", "4")
	run.Ready(t, func(ctx context.Context) error {
		select {
		case <-d.stuck:
			return nil
		case <-ctx.Done():
			return errors.New("it has not read so many shards")
		}
	})
	run.Kill()
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("after the kill: got %v, %v among the temporary files, want none", left, err)
	}
	if got := d.count("scans PUT"); got == 0 || got > read/500 {
		t.Errorf("got %d writes of what is kept, want one for some 500 shards", got)
	}

	d.mu.Lock()
	d.give, d.counts = 1<<30, map[string]int{}
	d.mu.Unlock()
	type report struct {
		Generation string
		Samples    int
		Reused     int `json:"reused_shards"`
	}
	index := func(store *harness.Store) (rep report) {
		t.Helper()
		if err := json.Unmarshal([]byte(harness.MustRun(t, store, "index", store.Dataset("tiny"), "--json")), &rep); err != nil {
			t.Fatal(err)
		}
		return rep
	}
	rep := index(behind)
	got := d.count("shards")
	if got != shards-rep.Reused || got > shards-read+1000+2*4 {
		t.Errorf("got %d shards read by the second run and %d taken over, want at most 1,000 read again", got, rep.Reused)
	}
	if d.count("scans DELETE") == 0 {
		t.Errorf("got %v, want what was kept removed", d.counts)
	}
	if want := index(dir); rep.Generation != want.Generation || rep.Samples != shards || want.Reused != 0 {
		t.Errorf("got %+v, want what a run gives that nobody kills, %+v", rep, want)
	}
}
