package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// kept returns the contents of the files in a directory, by name.
func kept(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil && !e.IsDir() {
			t.Fatal(err)
		}
	}
	return files
}

func write(t *testing.T, data []byte, path ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(path...), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestReadEpoch_FetchesOnlyWhatIsNotThereWhole reads an epoch to files, damages some of them in
// every way, and reads the epoch again. Only incomplete files are fetched.
func TestReadEpoch_FetchesOnlyWhatIsNotThereWhole(t *testing.T) {
	g := newReal(t, newStored(t), gateway.Config{})
	c, dir := newClient(t, client.Config{Gateways: []string{g.url}}), filepath.Join(t.TempDir(), "to", "files")
	var told []string
	e := client.Epoch{Options: client.Options{Epoch: 3}, Dir: dir, Progress: func(done, total int64) { told = append(told, fmt.Sprintf("%d of %d", done, total)) }}
	first, err := c.ReadEpoch(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	want := kept(t, dir)
	_, sent, _ := g.sent()
	if len(want) != 5 || first.Batches != 5 || first.Samples != realSamples || first.Padded != 0 || first.Bytes != uint64(sent) || first.Reused != (client.ReusedBatches{}) {
		t.Errorf("got %d files and %+v, want 5 batches of %d bytes, none reused", len(want), first, sent)
	}
	if last := fmt.Sprintf("%d of %d", sent, sent); len(told) != 5 || told[4] != last {
		t.Errorf("told of %q, want five times, %s at last", told, last)
	}
	if whole := (client.Proof{Of: "sample", Whole: true, Seen: realSamples, Total: realSamples}); first.Proof != whole {
		t.Errorf("got %+v, want %+v", first.Proof, whole)
	}
	damaged := bytes.Clone(want["batch-000001.tar"])
	damaged[700] ^= 1
	write(t, damaged, dir, "batch-000001.tar")
	write(t, want["batch-000002.tar"][1:], dir, "batch-000002.tar")
	if err := os.Remove(filepath.Join(dir, "batch-000004.tar")); err != nil {
		t.Fatal(err)
	}
	again, err := c.ReadEpoch(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	_, sent, _ = g.sent()
	bytesOf := func(batches ...int) (n uint64) {
		for _, b := range batches {
			n += uint64(len(want[fmt.Sprintf("batch-%06d.tar", b)]))
		}
		return n
	}
	if again.Reused != (client.ReusedBatches{Batches: 2, Samples: 24, Bytes: bytesOf(0, 3)}) || again.Proof != first.Proof || again.Bytes != first.Bytes || len(again.Latencies) != 3 {
		t.Errorf("got %+v, want two batches reused, and latencies of the others", again)
	}
	// The client sends a HEAD request for each existing file, which returns the batch's length.
	if uint64(sent) < bytesOf(1, 2, 4) {
		t.Errorf("got %d bytes sent, want those of three batches", sent)
	}
	if got := kept(t, dir); !equalFiles(got, want) {
		t.Error("the files are not what they were")
	}
}

func equalFiles(a, b map[string][]byte) bool {
	same := len(a) == len(b)
	for name := range a {
		same = same && bytes.Equal(a[name], b[name])
	}
	return same
}

// TestReadEpoch_RemovesWhatItsOwnRanksLeft checks that ReadEpoch removes temporary files that
// killed runs of its own ranks left, but no files of other ranks.
func TestReadEpoch_RemovesWhatItsOwnRanksLeft(t *testing.T) {
	c := newClient(t, client.Config{Gateways: []string{newReal(t, newStored(t), gateway.Config{}).url}})
	left := []string{".batch-000000.tar.part-1", ".batch-000000.rank-0-of-2.tar.part-1", ".batch-000000.rank-1-of-2.tar.part-1", ".batch-000000.rank-1-of-12.tar.part-1", ".other.part-1", "batch-x.part-1"}
	for _, tc := range []struct {
		e    client.Epoch
		gone []int
	}{
		{client.Epoch{}, []int{0}},
		{client.Epoch{Options: client.Options{Rank: 1, WorldSize: 2}}, []int{2}},
		{client.Epoch{Options: client.Options{WorldSize: 2}, AllRanks: true}, []int{1, 2}},
	} {
		dir := t.TempDir()
		for _, name := range left {
			write(t, nil, dir, name)
		}
		tc.e.Dir = dir
		if _, err := c.ReadEpoch(t.Context(), tc.e); err != nil {
			t.Fatal(err)
		}
		files := kept(t, dir)
		for i, name := range left {
			if _, there := files[name]; there == slices.Contains(tc.gone, i) {
				t.Errorf("%+v: %s is there: %t", tc.e, name, there)
			}
		}
	}
}

// TestReadEpoch_Faults: with several readers ReadEpoch returns the first error. A failed write
// leaves no temporary file.
func TestReadEpoch_Faults(t *testing.T) {
	g := newReal(t, newStored(t), gateway.Config{})
	c := newClient(t, client.Config{Gateways: []string{g.url}})
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "batch-000002.tar"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := c.ReadEpoch(t.Context(), client.Epoch{Dir: dir, Connections: 1})
	if err == nil || !strings.HasPrefix(err.Error(), "write batch-000002.tar: ") {
		t.Errorf("got %v, want that batch 2 could not be written", err)
	}
	if got := kept(t, dir); len(got) != 3 { // two batches, and the entry that blocked the third
		t.Errorf("got files %d, want 3", len(got))
	}
	file := filepath.Join(dir, "batch-000000.tar")
	if _, err := c.ReadEpoch(t.Context(), client.Epoch{Dir: file}); err == nil || !strings.HasPrefix(err.Error(), "write batches: ") {
		t.Errorf("a directory that is a file: got %v", err)
	}
	small := newClient(t, client.Config{Gateways: []string{g.url}, MaxBatchBytes: 5000})
	for _, all := range []bool{false, true} {
		_, err := small.ReadEpoch(t.Context(), client.Epoch{Options: client.Options{WorldSize: 2}, AllRanks: all})
		if !errors.Is(err, &client.Error{Code: client.CodeBatchTooLarge}) {
			t.Errorf("all ranks: %t: got %v, want %s", all, err, client.CodeBatchTooLarge)
		}
	}
}

// TestReadEpoch_ProvesWhatItRead checks the proof for a part of an epoch, one rank, all ranks, and
// an epoch that drops its tail.
func TestReadEpoch_ProvesWhatItRead(t *testing.T) {
	c := newClient(t, client.Config{Gateways: []string{newReal(t, newStored(t), gateway.Config{}).url}})
	for name, tc := range map[string]struct {
		e    client.Epoch
		want client.Proof
	}{
		"not its beginning": {client.Epoch{Options: client.Options{From: 1}}, client.Proof{Of: "sample", Seen: 48, Total: 60}},
		"not its end":       {client.Epoch{Options: client.Options{Until: 4}}, client.Proof{Of: "sample", Seen: 48, Total: 60}},
		"to its end":        {client.Epoch{Options: client.Options{Until: 5}}, client.Proof{Of: "sample", Whole: true, Seen: 60, Total: 60}},
		"one rank":          {client.Epoch{Options: client.Options{WorldSize: 2}}, client.Proof{Of: "sample", Seen: 30, Total: 60}},
		"all ranks":         {client.Epoch{Options: client.Options{WorldSize: 2}, AllRanks: true}, client.Proof{Of: "sample", Whole: true, Seen: 60, Total: 60}},
		"dropped":           {client.Epoch{Options: client.Options{BatchSize: 16, Tail: "drop"}}, client.Proof{Of: "sample", Whole: true, Dropped: 12, Seen: 48, Total: 60}},
		"unproved":          {client.Epoch{Unproved: true}, client.Proof{}},
	} {
		r, err := c.ReadEpoch(t.Context(), tc.e)
		if err != nil || r.Proof != tc.want {
			t.Errorf("%s: got %+v, %v, want %+v", name, r.Proof, err, tc.want)
		}
	}
}

// TestRetry_WaitsForTheGatewayThatIsReadyFirst: two gateways refuse once with different waits, and
// the client uses the shorter one.
func TestRetry_WaitsForTheGatewayThatIsReadyFirst(t *testing.T) {
	const down = -1
	for _, tc := range []struct{ a, b, least, most time.Duration }{
		{2 * time.Second, 20 * time.Second, 2 * time.Second, 2 * time.Second},
		{20 * time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second},
		{time.Hour, 40 * time.Second, 30 * time.Second, 30 * time.Second},
		{down, 20 * time.Second, 0, 101 * time.Millisecond},
		{20 * time.Second, down, 0, 101 * time.Millisecond},
	} {
		bubble.Test(t, func(t *testing.T) {
			gateways := hosts{}
			for host, wait := range map[string]time.Duration{"a": tc.a, "b": tc.b} {
				f := &fake{batches: 1, generation: "g"}
				f.fault = func(n int, w http.ResponseWriter, _ *http.Request) bool {
					if n == 0 {
						refuse(w, http.StatusServiceUnavailable, map[string]any{"code": "overloaded", "retryable": true, "retry_after_ms": wait.Milliseconds()})
					}
					return n == 0
				}
				sound, asked := transport{f}, 0
				gateways[host] = roundTrip(func(r *http.Request) (*http.Response, error) {
					if wait == down && r.URL.Path != "/readyz" {
						if asked++; asked == 1 {
							return nil, errDown
						}
					}
					return sound.RoundTrip(r)
				})
			}
			c := newClient(t, client.Config{Gateways: []string{"http://a", "http://b"}, Home: inOrder, HTTP: &http.Client{Transport: gateways}})
			start := time.Now()
			_, err := c.Batch(t.Context(), client.Options{}, 0)
			if took := time.Since(start); err != nil || took < tc.least || took > tc.most {
				t.Errorf("%v and %v: got %v after %v on the fake clock, want %v to %v", tc.a, tc.b, err, took, tc.least, tc.most)
			}
		})
	}
}
