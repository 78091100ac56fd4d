//go:build !race

// The race detector allocates too.

package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// warmAllocations is the number of allocations for a batch of 64 samples from memory, including
// those of the test's own recorder. Each costs a tenth of a microsecond, and more if many batches
// per second keep the garbage collector busy.
const warmAllocations = 124

// TestABatchFromMemoryAllocatesLittle: timing and the dynamic set of datasets must not make a batch
// from memory expensive.
func TestABatchFromMemoryAllocatesLittle(t *testing.T) {
	s := newStack(t, 512, 4<<10, 8<<20, 64<<20)
	path := "/v1/datasets/photos/epochs/0/batches/1?batch_size=64&generation=" + s.index.Generation()
	h := s.gateway.Handler()
	got := testing.AllocsPerRun(100, func() {
		w := discardWriter{header: http.Header{}}
		h.ServeHTTP(&w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.status != http.StatusOK {
			t.Fatalf("got status %d, want 200", w.status)
		}
	})
	if got > warmAllocations {
		t.Errorf("got %v allocations for a batch out of memory, want at most %d", got, warmAllocations)
	}
}

// discardWriter is the writer of a response without a reader.
type discardWriter struct {
	header http.Header
	status int
}

func (w *discardWriter) Header() http.Header         { return w.header }
func (w *discardWriter) WriteHeader(status int)      { w.status = status }
func (w *discardWriter) Write(p []byte) (int, error) { return len(p), nil }
