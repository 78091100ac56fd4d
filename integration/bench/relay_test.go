package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// TestStream_SendsEachByteOnce reads pieces over several connections, and checks that together they
// are the dataset.
func TestStream_SendsEachByteOnce(t *testing.T) {
	store := memstore.New()
	d := setOf("text", 64)
	if err := d.fill(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	s, err := newStream(t.Context(), store, d)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	s.begin = sync.OnceFunc(func() { go func() { ended <- s.fetch(t.Context()) }() })
	srv := httptest.NewServer(s)
	defer srv.Close()
	pieces := make([][]byte, (s.total+s.body-1)/s.body)
	var readers sync.WaitGroup
	for reader := range conns {
		readers.Go(func() {
			for n := reader; n < len(pieces); n += conns {
				resp, err := http.Get(fmt.Sprintf("%s/stream?n=%d", srv.URL, n))
				if err != nil {
					t.Error(err)
					return
				}
				pieces[n], err = io.ReadAll(resp.Body)
				resp.Body.Close() // read to the end
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Errorf("piece %d: got %s, %v", n, resp.Status, err)
				}
			}
		})
	}
	readers.Wait()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	want, err := d.tar(0)
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.Join(pieces, nil); sha256.Sum256(got) != sha256.Sum256(want) {
		t.Errorf("got %d bytes that differ from the dataset's %d", len(got), len(want))
	}
	resp, err := http.Get(fmt.Sprintf("%s/stream?n=%d", srv.URL, len(pieces)))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close() // only the status counts
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("behind the end: got %s, want 404", resp.Status)
	}
}
