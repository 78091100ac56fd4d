package integration_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestMixtureNeedsNoLuckWithMemory requests all batches of a mixture concurrently from a gateway
// whose memory can hold only a few of them. A batch may wait long for memory, but two batches never
// wait for each other. Every batch arrives, and equals that of a gateway with enough memory for
// all.
func TestMixtureNeedsNoLuckWithMemory(t *testing.T) {
	const sources, each, inBatch = 6, 160, 4
	store := harness.Open(t, "dir")
	var args, names, shares []string
	for i := range sources {
		name := fmt.Sprintf("part-%d", i)
		files, _ := harness.Files(t, each+i, 64<<10) // the bytes of each source differ
		harness.Pack(t, store, files, name, "--shard-size", "4MiB", "--chunk-size", "256KiB", "--batch-size", "16")
		names, shares = append(names, name), append(shares, fmt.Sprintf("%s:%d", name, inBatch))
		if i > 0 {
			args = append(args, "--dataset", name+"="+store.Dataset(name))
		}
	}
	args = append(args, "--mixture", "blend="+strings.Join(shares, ",")+",per-batch", "MILLRACE_BUDGET_WAIT=10m")
	large := harness.Serve(t, store, names[0], append(args, "--cache-size", "256MiB")...)
	small := harness.Serve(t, store, names[0], append(args, "--cache-size", "8MiB")...)

	const batches = each / inBatch
	var all sync.WaitGroup
	for range 3 {
		for m := range batches {
			all.Go(func() {
				path := fmt.Sprintf("/v1/datasets/blend/epochs/0/batches/%d", m)
				got, err := harness.Do(t.Context(), http.MethodGet, small.URL+path, "Millrace-Deadline-Ms: 50000")
				if err != nil || got.Status != http.StatusOK {
					t.Errorf("batch %d: got %d %.200s (%v), want 200", m, got.Status, got.Body, err)
					return
				}
				want, err := harness.Do(t.Context(), http.MethodGet, large.URL+path)
				if err != nil || !bytes.Equal(got.Body, want.Body) {
					t.Errorf("batch %d: got %d other bytes than the gateway with memory for everything (%v)", m, len(got.Body), err)
				}
			})
		}
	}
	all.Wait()
}
