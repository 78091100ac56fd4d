package integration_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// peakRSS returns the peak memory of a process in bytes, or its current memory if the system does
// not record the peak.
func peakRSS(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		out, err := exec.CommandContext(t.Context(), "ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output()
		if err != nil {
			t.Fatal(err)
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return kib << 10
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("read peak memory: no VmHWM")
	return 0
}

// stall opens connections that request batches but never read a response, until ctx ends. It closes
// each connection after a while and opens another one.
func stall(ctx context.Context, g *harness.Gateway, clients, batches int, patience time.Duration) func() {
	host, _ := url.Parse(g.URL)
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for m := c; ctx.Err() == nil; m += clients {
				conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host.Host)
				if err != nil {
					return
				}
				_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
				fmt.Fprintf(conn, "GET /epoch/0/batch/%d?batch_size=8 HTTP/1.1\r\nHost: localhost\r\n\r\n", m%batches)
				hold, cancel := context.WithTimeout(ctx, patience)
				<-hold.Done()
				cancel()
				conn.Close()
			}
		})
	}
	return all.Wait
}

// patient reads one batch. After each 503 it waits as long as the response says.
func patient(ctx context.Context, g *harness.Gateway, path string) (harness.Response, error) {
	for {
		r, err := g.Try(ctx, path)
		if err != nil || r.Status != http.StatusServiceUnavailable {
			return r, err
		}
		seconds, err := strconv.Atoi(r.Header.Get("Retry-After"))
		if err != nil {
			return r, fmt.Errorf("503 without Retry-After: %w", err)
		}
		wait, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
		<-wait.Done()
		cancel()
	}
}

// TestMemoryStaysWithinTheBudget reads a dataset of ten times the cache with 64 clients, 32 of
// which never read their responses. The process may use at most the budget plus 64 MiB.
func TestMemoryStaysWithinTheBudget(t *testing.T) {
	budget, count, patience, stallTime := int64(32<<20), 1600, 5*time.Minute, 5*time.Second
	if long() {
		budget, count, patience, stallTime = 128<<20, 6400, 30*time.Minute, 20*time.Second
	}
	files, content := harness.Files(t, count, 256<<10)
	var total int64
	for _, data := range content {
		total += int64(len(data))
	}
	if total < 9*budget {
		t.Fatalf("dataset: got %d bytes, want about ten times the cache", total)
	}
	store := harness.Open(t, "dir")
	harness.Record(t, nil)
	harness.Pack(t, store, files, dataset, "--shard-size", "32MiB", "--chunk-size", "1MiB", "--batch-size", "8")
	g := harness.Serve(t, store, dataset, "--cache-size", strconv.FormatInt(budget>>20, 10)+"MiB")
	n := batches(t, g, 0, 8)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	stalled, end := context.WithCancel(ctx)
	wait := stall(stalled, g, 32, n, stallTime)
	defer func() { cancel(); wait() }()

	const readers = 32
	var all sync.WaitGroup
	faults := make([]error, readers)
	served := make([]int, readers)
	for c := range readers {
		all.Go(func() {
			for m := c; m < n; m += readers {
				r, err := patient(ctx, g, fmt.Sprintf("/epoch/0/batch/%d?batch_size=8", m))
				if err == nil && r.Status != http.StatusOK {
					err = fmt.Errorf("batch %d: status %d: %s", m, r.Status, r.Body)
				}
				if err != nil {
					faults[c] = err
					return
				}
				served[c]++
			}
		})
	}
	all.Wait()
	end()
	sum := 0
	for c, err := range faults {
		if err != nil {
			t.Errorf("client %d: %v", c, err)
		}
		sum += served[c]
	}
	if sum != n {
		t.Errorf("batches read: got %d, want %d", sum, n)
	}
	peak := peakRSS(t, g.Pid())
	logStatus(t, g.Pid())
	t.Logf("figure: peak memory %.1f MiB, budget %.0f MiB, dataset %.0f MiB", float64(peak)/(1<<20), float64(budget)/(1<<20), float64(total)/(1<<20))
	if limit := budget + 64<<20; peak > limit {
		t.Errorf("peak memory: got %d MiB, want at most %d", peak>>20, limit>>20)
	}
}

// logStatus logs the current memory of the process by kind.
func logStatus(t *testing.T, pid int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "Rss") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// greedy returns a peer request for the maximum number of ranges of one chunk, in the encoding that
// the comment of cluster/peer/codec.go describes.
func greedy(dataset string) []byte {
	const ranges = 2<<20 - 100
	head, le := fmt.Sprintf(`{"Dataset":%q,"Generation":"x"}`, dataset), binary.LittleEndian
	text := le.AppendUint32(le.AppendUint32([]byte("MRQ\x02"), uint32(len(head))), 1)
	text = le.AppendUint32(le.AppendUint32(append(text, head...), 0), ranges)
	text = append(text, make([]byte, 32+8*ranges)...)
	return le.AppendUint32(text, crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
}

// TestLittleIsKeptInTheHeap checks that chunks and bodies are outside of Go's heap. With small
// batches the garbage collector scans the heap dozens of times per second, so each additional
// megabyte slows every batch by a percent.
func TestLittleIsKeptInTheHeap(t *testing.T) {
	const most = 3 << 20
	g := harness.Serve(t, packed(t, "dir"), dataset, "--cache-size", "64MiB")
	batches(t, g, 0, 8)
	if r, err := g.TryAdmin(t.Context(), "/debug/pprof/heap?gc=1"); err != nil || r.Status != http.StatusOK {
		t.Fatalf("collect the garbage: status %d, %v", r.Status, err)
	}
	got := g.Metric(t, "go_memstats_heap_alloc_bytes", "")
	t.Logf("figure: %.0f bytes in the heap of an idle gateway", got)
	if got == 0 || got > most {
		t.Errorf("got %.0f bytes in the heap of an idle gateway, want at most %d", got, most)
	}
}

// TestQuestionsArePaidFromTheBudget lets twelve gateways, or a single faulty one, concurrently send
// requests with the maximum number of ranges. Decoded, each request takes a hundred MiB.
func TestQuestionsArePaidFromTheBudget(t *testing.T) {
	const budget, questions = 128 << 20, 12
	store := packed(t, "dir")
	f := harness.NewFleet(t, harness.FleetConfig{Store: store, Dataset: dataset, Size: 1, Args: []string{"--cache-size", "128MiB"}})
	f.Start(t, 0)
	text := greedy(dataset)
	var all sync.WaitGroup
	for range questions {
		all.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.Members[0].Peer+"/peer/v1/read", bytes.NewReader(text))
			if err != nil {
				t.Error(err)
				return
			}
			for k, v := range map[string]string{
				"Millrace-Cluster": harness.ClusterName, "Millrace-Peer-Version": "2",
				"Millrace-Member": "gw-9", "Millrace-Deadline-Ms": "1000",
			} {
				r.Header.Set(k, v)
			}
			resp, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("got %d, want %d", resp.StatusCode, http.StatusServiceUnavailable)
			}
		})
	}
	all.Wait()
	peak := peakRSS(t, f.Members[0].Pid())
	t.Logf("figure: %d questions of %d bytes at once, budget %d MiB: at most %d MiB", questions, len(text), budget>>20, peak>>20)
	if most := int64(budget + 64<<20); peak > most {
		t.Errorf("got %d MiB of memory, want at most %d", peak>>20, most>>20)
	}
}
