package integration_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestRollingRestart replaces three gateways in turn with SIGTERM while readers walk through an epoch. Each batch comes
// with one retry at most, and with the same bytes from whoever answers.
func TestRollingRestart(t *testing.T) {
	rolls := 3
	if long() {
		rolls = 60
	}
	const size, fleet = 16, 3
	files, _ := harness.Files(t, 200, 4000)
	store := harness.Open(t, "dir")
	harness.Pack(t, store, files, dataset, small()...)
	start := func() *harness.Gateway { return serve(t, store, "--lame-duck", "300ms") }
	var mu sync.Mutex // guards gateways
	gateways := make([]*harness.Gateway, fleet)
	for i := range gateways {
		gateways[i] = start()
	}
	n := batches(t, gateways[0], 0, size)
	want := make([][]byte, n)
	for m := range want {
		want[m] = gateways[0].MustGet(t, batchPath(0, m)+share(size, 0, 1)).Body
	}
	address := func(k int) string {
		mu.Lock()
		defer mu.Unlock()
		return gateways[k%fleet].URL
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
				r, err := harness.Do(t.Context(), http.MethodGet, address(m)+path)
				if err != nil || r.Status != http.StatusOK {
					r, err = harness.Do(t.Context(), http.MethodGet, address(m+1)+path)
				}
				if err != nil || r.Status != http.StatusOK || !bytes.Equal(r.Body, want[m%n]) {
					t.Errorf("batch %d: got status %d, %d bytes and %v after one retry, want 200 and %d", m%n, r.Status, len(r.Body), err, len(want[m%n]))
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

// TestKillInTheMiddleOfABody: whoever has half of a body can tell, and gets all of it from any other gateway.
func TestKillInTheMiddleOfABody(t *testing.T) {
	const count = 200
	files, _ := harness.Files(t, count, 200<<10)
	store := harness.Open(t, "dir")
	harness.Pack(t, store, files, dataset)
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
	whole := second.MustGet(t, path)
	if part := append(half, rest...); int64(len(whole.Body)) != resp.ContentLength || !bytes.HasPrefix(whole.Body, part) {
		t.Errorf("second gateway: got %d bytes that do not go on where the first stopped at %d", len(whole.Body), len(part))
	}
	tail := second.Get(t, path, "Range", fmt.Sprintf("bytes=%d-", len(half)+len(rest)), "If-Range", resp.Header.Get("ETag"))
	if joined := append(append(half, rest...), tail.Body...); tail.Status != http.StatusPartialContent || !bytes.Equal(joined, whole.Body) {
		t.Errorf("resumed: got status %d and %d bytes, want 206 and the rest", tail.Status, len(tail.Body))
	}
}
