package integration_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// tally counts the responses to well-behaved clients while others misbehave.
type tally struct {
	mu     sync.Mutex // guards the fields below
	served int
	other  map[string]int // responses other than 200, by status or error
}

// note counts one response; the history checks its bytes.
func (c *tally) note(r harness.Response, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.other[err.Error()]++
	case r.Status != http.StatusOK:
		c.other[strconv.Itoa(r.Status)]++
	default:
		c.served++
	}
}

// check requires that at least 0.95 of the responses are 200.
func (c *tally) check(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	refused := 0
	for _, n := range c.other {
		refused += n
	}
	share := float64(c.served) / float64(max(1, c.served+refused))
	t.Logf("figure: %d batches of others, %.3f of them served; else %v", c.served+refused, share, c.other)
	if share < 0.95 || c.served == 0 {
		t.Errorf("got %.3f of %d batches served, want at least 0.95; else %v", share, c.served+refused, c.other)
	}
}

// besides reads batches of 8 samples with two clients for a time, while others misbehave. One
// client keeps its connection; the other opens a new one for each batch.
func besides(t *testing.T, g *harness.Gateway, lasts time.Duration) *tally {
	t.Helper()
	const readers = 2
	c := &tally{other: map[string]int{}}
	n := batches(t, g, 1, 8)
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var all sync.WaitGroup
	for r := range readers {
		all.Go(func() {
			for m := r; ctx.Err() == nil; m += readers {
				got, err := g.Try(t.Context(), fmt.Sprintf("/epoch/1/batch/%d?batch_size=8", m%n), "Connection", []string{"keep-alive", "close"}[r])
				c.note(got, err)
				select { // a trainer computes between two batches
				case <-ctx.Done():
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
	}
	all.Wait()
	return c
}

// checkMemory requires that a process stayed within its budget plus 64 MiB.
func checkMemory(t *testing.T, g *harness.Gateway, budget int64) {
	t.Helper()
	peak := peakRSS(t, g.Pid())
	t.Logf("figure: peak memory %.1f MiB, budget %d MiB", float64(peak)/(1<<20), budget>>20)
	if limit := budget + 64<<20; peak > limit {
		t.Errorf("peak memory: got %d MiB, want at most %d", peak>>20, limit>>20)
	}
}

// raw opens a connection to a gateway, with a small receive buffer. The connection closes when the
// test ends. After a failure raw returns a closed one.
func raw(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Error(err)
		gone, _ := net.Pipe()
		gone.Close()
		return gone
	}
	t.Cleanup(func() { c.Close() })
	_ = c.(*net.TCPConn).SetReadBuffer(32 << 10)
	return c
}

// slowly reads path at rate bytes per second until ctx ends, and retries after a 503. It calls
// answered at the first response, and returns the number of bytes read from the body, and the
// body's length.
func slowly(ctx context.Context, t *testing.T, g *harness.Gateway, path string, rate int, answered func()) (read, length int64) {
	first := sync.OnceFunc(answered)
	defer first()
	for ctx.Err() == nil {
		c := raw(t, g.URL)
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
		res, err := http.ReadResponse(bufio.NewReaderSize(c, 4<<10), nil)
		if err != nil {
			t.Errorf("GET %s: %v", path, err)
			return 0, 0
		}
		first()
		if res.StatusCode != http.StatusOK {
			if res.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("GET %s: got %d, want 200 or 503", path, res.StatusCode)
				return 0, 0
			}
			res.Body.Close()
			c.Close()
			time.Sleep(time.Second)
			continue
		}
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			n, err := io.CopyN(io.Discard, res.Body, int64(rate/20))
			read += n
			if err != nil {
				return read, res.ContentLength
			}
			<-tick.C
		}
		return read, res.ContentLength
	}
	return read, length
}

// TestSlowReadersLeaveRoomForOthers has four clients read large batches at 100 KB/s. The four
// bodies take most of the budget; together with the memory for reading them from the store they
// take all of it.
func TestSlowReadersLeaveRoomForOthers(t *testing.T) {
	budget, size, lasts := int64(32<<20), 36, 5*time.Second
	if long() {
		budget, size, lasts = 128<<20, 149, 60*time.Second
	}
	files, _ := harness.Files(t, int(4*budget>>20)*4, 256<<10)
	store := harness.Open(t, "dir")
	harness.Pack(t, store, files, dataset, "--shard-size", "32MiB", "--chunk-size", strconv.FormatInt(budget>>4, 10)+"B", "--batch-size", "8")
	harness.Record(t, harness.Packed(t, store, dataset))
	for name, c := range map[string]struct {
		size    int
		shuffle string
	}{
		"most of the budget":            {size, "full"},
		"most of it, chunk after chunk": {size, "none"},
		"a little of many chunks":       {size / 3, "window&window=5"},
	} {
		if !long() && c.shuffle != "full" {
			t.Logf("only with long counts: %s", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			g := harness.Serve(t, store, dataset, "--cache-size", strconv.FormatInt(budget>>20, 10)+"MiB")
			ctx, end := context.WithCancel(t.Context())
			var all, answered sync.WaitGroup
			answered.Add(4)
			for r, size := range []int{c.size, c.size, c.size, c.size * 7 / 8} {
				all.Go(func() {
					got, of := slowly(ctx, t, g, fmt.Sprintf("/epoch/%d/batch/%d?batch_size=%d&shuffle=%s", r, r, size, c.shuffle), 100<<10, answered.Done)
					t.Logf("slow reader %d: %.1f of %.1f MB", r, float64(got)/1e6, float64(of)/1e6)
				})
			}
			answered.Wait()
			others := besides(t, g, lasts)
			end()
			all.Wait()
			others.check(t)
			checkMemory(t, g, budget)
		})
	}
}
