package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/objstore/dirstore"
)

// dataset writes a directory of small files and indexes it.
func dataset(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for i := range 50 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%03d.txt", i)), bytes.Repeat([]byte{byte(i)}, 700*(i+1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store, err := dirstore.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := build.Run(t.Context(), store, "", build.Options{ChunkSize: 64 << 10, Format: "files", TempDir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCgroupLimit_IsLowestOfAllGroups(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for name, tc := range map[string]struct {
		fs   fstest.MapFS
		want int64
	}{
		"none": {fstest.MapFS{}, noLimit},
		"v2, parent binds": {fstest.MapFS{
			"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("max\n"),
			"sys/fs/cgroup/a/memory.max": file("1000\n"), "sys/fs/cgroup/memory.max": file("2000\n"),
		}, 1000},
		"v2, container": {fstest.MapFS{"proc/self/cgroup": file("0::/docker/x\n"), "sys/fs/cgroup/memory.max": file("2000\n")}, 2000},
		"v1":            {fstest.MapFS{"proc/self/cgroup": file("4:cpu:/q\n3:memory:/q\n"), "sys/fs/cgroup/memory/q/memory.limit_in_bytes": file("77\n")}, 77},
	} {
		if got := cgroupLimit(tc.fs); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
}

// TestSendLosses_RunsInBackground: a gateway is ready before it has sent the losses that an earlier
// process kept.
func TestSendLosses_RunsInBackground(t *testing.T) {
	dir, log := dataset(t), t.TempDir()
	at := location.Location{Name: "files", Dir: dir}
	store, err := dirstore.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	earlier, err := importance.New(importance.Config{Reader: store, Dir: filepath.Join(log, at.Name), Location: at.String()})
	if err != nil {
		t.Fatal(err)
	}
	r := importance.Report{Plan: "p", Count: 1, Positions: []uint64{0}, Losses: []float64{1}}
	if _, err := earlier.Add(t.Context(), r); !errors.Is(err, importance.ErrReadOnly) {
		t.Fatalf("got %v, want %v", err, importance.ErrReadOnly)
	}
	if err := earlier.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), &Config{CacheSize: 64 << 20, Memory: 1 << 40, LossLog: log, Locations: []location.Location{at}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sent := func() (n int) {
		err := store.List(t.Context(), ".millrace/importance/log/", func(objstore.Object) error { n++; return nil })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got := sent(); got != 0 {
		t.Errorf("before it serves: got %d reports sent, want 0", got)
	}
	var sending sync.WaitGroup
	s.keeper.sendLosses(t.Context(), &sending)
	sending.Wait()
	if got := sent(); got != 1 {
		t.Errorf("while it serves: got %d reports sent, want 1", got)
	}
}

// TestNew_WithoutClusterHasNoPeers: without a cluster name, the node has no peers and no cluster metrics.
func TestNew_WithoutClusterHasNoPeers(t *testing.T) {
	s, err := New(t.Context(), &Config{CacheSize: 64 << 20, Memory: 1 << 40, Locations: []location.Location{{Name: "files", Dir: dataset(t)}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.peers != nil {
		t.Error("got peers, want none")
	}
	for _, x := range s.stats() {
		if strings.HasPrefix(x.Name, "cluster_") || strings.HasPrefix(x.Name, "peer_") {
			t.Errorf("got %s, want no cluster metrics", x.Name)
		}
	}
}

// TestDivide_QuotaHasOwnBudgetAndDisk: a dataset with a quota has its own budget and disk cache. If
// the quota is removed, the main disk cache still opens.
func TestDivide_QuotaHasOwnBudgetAndDisk(t *testing.T) {
	data, other, disk := dataset(t), dataset(t), filepath.Join(t.TempDir(), "disk")
	for _, quotas := range [][]Quota{nil, {{Dataset: "b", Memory: 16 << 20, Disk: 4 << 20}}, {{Dataset: "a", Memory: 16 << 20}}, nil} {
		s, err := New(t.Context(), &Config{
			CacheSize: 64 << 20, Memory: 1 << 40, DiskCache: disk, DiskCacheSize: 8 << 20, Quota: quotas,
			Locations: []location.Location{{Name: "a", Dir: data}, {Name: "b", Dir: other}},
		})
		if err != nil {
			t.Fatalf("%v: %v", quotas, err)
		}
		if got := len(s.divisions); got != 1+len(quotas) {
			t.Errorf("%v: got %d divisions", quotas, got)
		}
		for _, q := range quotas {
			v := s.division(q.Dataset)
			if v == s.main() || v.budget.Total() != q.Memory || len(of(v, s.keeper.all())) != 1 || len(of(s.main(), s.keeper.all())) != 1 || (v.disk != nil) != (q.Disk > 0) {
				t.Errorf("%v: got %+v, want its own budget", quotas, v)
			}
		}
		names := map[string]int{}
		for _, x := range s.stats() {
			names[x.Name]++
		}
		if names["cache_bytes"] != 1 || names["disk_limit_bytes"] != 1 || names["quota_used_bytes"] != len(quotas) {
			t.Errorf("%v: got %v, want each metric once", quotas, names)
		}
		s.Close()
	}
}
