package integration_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/integration/history"
)

// TestRollingRestart replaces three gateways in turn with SIGTERM while readers read an epoch. Each
// batch needs at most one retry, and every response has the bytes of the plan.
func TestRollingRestart(t *testing.T) {
	rolls := 3
	if long() {
		rolls = 60
	}
	const size, fleet = 16, 3
	files, _ := harness.Files(t, 200, 4000)
	store := harness.Open(t, "dir")
	harness.Pack(t, store, files, dataset, small()...)
	log := harness.Record(t, harness.Packed(t, store, dataset))
	start := func() *harness.Gateway { return serve(t, store, "--lame-duck", "300ms") }
	var mu sync.Mutex // guards gateways
	gateways := make([]*harness.Gateway, fleet)
	for i := range gateways {
		gateways[i] = start()
	}
	n := batches(t, gateways[0], 0, size)
	ask := func(k int, path string) (harness.Response, error) {
		mu.Lock()
		g := gateways[k%fleet]
		mu.Unlock()
		return g.Try(t.Context(), path)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	var reads [2]int
	for c := range reads {
		readers.Go(func() {
			for m := c; ; m++ {
				select {
				case <-done:
					return
				default:
				}
				path := batchPath(0, m%n) + share(size, 0, 1)
				r, err := ask(m, path)
				if err != nil || r.Status != http.StatusOK {
					r, err = ask(m+1, path)
				}
				if err != nil || r.Status != http.StatusOK || log.Err() != nil {
					t.Errorf("batch %d: got status %d and %v after one retry, want 200", m%n, r.Status, err)
					return
				}
				reads[c]++
			}
		})
	}
	for i := range rolls {
		old := gateways[i%fleet]
		if err := old.Stop(); err != nil {
			t.Errorf("roll %d: %v", i, err)
		}
		next := start()
		mu.Lock()
		gateways[i%fleet] = next
		mu.Unlock()
	}
	close(done)
	readers.Wait()
	for c, got := range reads {
		if got < n {
			t.Errorf("reader %d: got %d batches, want a whole epoch of %d at least", c, got, n)
		}
	}
}

// TestKillInTheMiddleOfABody checks that a client notices an incomplete body, and can read all of
// it from any other gateway.
func TestKillInTheMiddleOfABody(t *testing.T) {
	const count = 200
	files, _ := harness.Files(t, count, 200<<10)
	store := harness.Open(t, "dir")
	harness.Pack(t, store, files, dataset)
	log := harness.Record(t, harness.Packed(t, store, dataset))
	path := batchPath(0, 0) + share(count, 0, 1)
	first := serve(t, store)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, first.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	half := make([]byte, 1<<20)
	if _, err := io.ReadFull(resp.Body, half); err != nil {
		t.Fatal(err)
	}
	first.Kill()
	rest, err := io.ReadAll(resp.Body)
	if got := int64(len(half) + len(rest)); err == nil || errors.Is(err, io.EOF) || got >= resp.ContentLength {
		t.Fatalf("killed after %d bytes: got %d of %d and %v, want an error and a part", len(half), got, resp.ContentLength, err)
	}
	second := serve(t, store)
	second.MustGet(t, path)
	begun, part := time.Now(), append(half, rest...)
	tail := second.Get(t, path, "Range", fmt.Sprintf("bytes=%d-", len(part)), "If-Range", resp.Header.Get("ETag"))
	if tail.Status != http.StatusPartialContent {
		t.Errorf("resumed: got status %d, want 206", tail.Status)
	}
	log.Add(history.Answer("reader that resumed", path, begun, http.StatusOK, resp.Header, append(part, tail.Body...), nil))
}
