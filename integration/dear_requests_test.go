package integration_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// processorTime returns the processor time of a process, or zero if the system does not report it.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	var user, system int64
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond // a tick is a hundredth of a second
}

// TestDearestRequests sends the most expensive request of each route, for a million samples. The
// gateway must refuse a request that takes over two seconds of processor time, and name the sum; a
// list of shards may take eight. The test allows twice as much, because other programs share the
// processors.
func TestDearestRequests(t *testing.T) {
	store := harness.Open(t, "dir")
	dir := strings.TrimPrefix(store.Dataset(dataset), "file://")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "lines.jsonl"), bytes.Repeat([]byte("[]\n"), 1_000_000), 0o644); err != nil {
		t.Fatal(err)
	}
	harness.MustRun(t, store, "index", store.Dataset(dataset), "--chunk-size", "16KiB")
	const batches, refused = "/v1/datasets/" + dataset + "/epochs/5/batches?count=1024&batch_size=976", http.StatusBadRequest
	const sample = "/v1/datasets/" + dataset + "/occurrences?key=lines/000499999&epochs=0-999"
	large := harness.Serve(t, store, dataset, "--cache-size", "1GiB")
	small := harness.Serve(t, store, dataset, "--cache-size", "128MiB")
	for _, c := range []struct {
		of     *harness.Gateway
		path   string
		status int
	}{
		{small, batches, http.StatusOK},
		{small, batches + "&shuffle=full", http.StatusOK},
		{small, batches + "&shuffle=full&balance=bytes&world_size=8", http.StatusOK},
		{small, batches + "&format=arrow", refused},
		{small, batches + "&format=tar", refused},
		{small, batches + "&format=framed&table=keys", refused},
		{small, strings.Replace(batches, "1024", "256", 1) + "&format=arrow", http.StatusOK},
		{small, strings.Replace(batches, "1024", "256", 1) + "&format=tar&shuffle=full", http.StatusOK},
		{large, strings.Replace(batches, "1024", "512", 1) + "&format=tar&shuffle=full", http.StatusOK},
		{large, "/epoch/5/batch/0?batch_size=1000000", http.StatusOK},
		{large, "/epoch/5/batch/0?batch_size=1000000&format=arrow", refused},
		{large, "/v1/datasets/" + dataset + "/epochs/5/batches/0/manifest?batch_size=1000000", refused},
		{large, "/v1/datasets/" + dataset + "/epochs/5/batches/0/manifest?batch_size=600000", http.StatusOK},
		{large, "/v1/datasets/" + dataset + "/epochs/5/mds/index.json?batch_size=976", http.StatusOK},
		{large, "/v1/datasets/" + dataset + "/epochs/5/wds/index.json?batch_size=64", http.StatusOK},
		{large, sample, http.StatusOK},
		{large, sample + "&shuffle=full", http.StatusOK},
		{large, "/v1/datasets/" + dataset + "/epochs/5", http.StatusOK},
		{large, "/v1/datasets/" + dataset + "/index", http.StatusOK},
	} {
		most := 2 * time.Second
		if strings.Contains(c.path, "index.json") {
			most = 8 * time.Second
		}
		before := processorTime(t, c.of.Pid())
		r, err := harness.Do(t.Context(), http.MethodHead, c.of.URL+c.path)
		if err != nil {
			t.Fatal(err)
		}
		took := processorTime(t, c.of.Pid()) - before
		t.Logf("figure: %.2f s of processor time, %d: %s", took.Seconds(), r.Status, c.path)
		if r.Status != c.status {
			t.Errorf("got %d, want %d: %s", r.Status, c.status, c.path)
		}
		if took > 2*most {
			t.Errorf("got %v of processor time, want at most %v: %s", took, most, c.path)
		}
	}
	if got := large.Get(t, batches+"&format=arrow"); !strings.Contains(string(got.Body), "of CPU time") {
		t.Errorf("got %s, want the CPU time in it", got.Body)
	}
}
