package integration_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// burstVariable makes the test program dial an address several times and exit: "ADDRESS COUNT
// HOST". The dialers are a separate process, so that the gateway's connections and theirs do not
// share a limit of open files.
const burstVariable = "TEST_MILLRACE_BURST"

// burst dials as burstVariable specifies, from its own loopback address, holds the connections for
// a second and resets them.
func burst(order string) error {
	var address string
	var count, host int
	if _, err := fmt.Sscan(order, &address, &count, &host); err != nil {
		return err
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(host))}, Timeout: 5 * time.Second}
	turns := make(chan struct{}, 200)
	var mu sync.Mutex
	var open []net.Conn
	var all sync.WaitGroup
	for range count {
		turns <- struct{}{}
		all.Go(func() {
			c, err := d.Dial("tcp", address)
			<-turns
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			open = append(open, c)
		})
	}
	all.Wait()
	fmt.Printf("%d connections\n", len(open))
	time.Sleep(time.Second)
	for _, c := range open {
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	if len(open) == 0 {
		return fmt.Errorf("none of %d connections", count)
	}
	return nil
}

// scaled returns the first number, or the second one in a long run.
func scaled(short, lengthy int) int {
	if long() {
		return lengthy
	}
	return short
}

// send writes text to a new connection that ends with ctx, and returns the time until the gateway
// closed it.
func send(ctx context.Context, t *testing.T, g *harness.Gateway, text string) time.Duration {
	c := raw(t, g.URL)
	defer context.AfterFunc(ctx, func() { c.Close() })()
	start := time.Now()
	if _, err := io.WriteString(c, text); err != nil {
		return time.Since(start)
	}
	_, err := io.Copy(io.Discard, c)
	if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
		return -1
	}
	return time.Since(start)
}

// clumsy is the behavior of some clients while others read.
type clumsy struct {
	script string // shell command that starts the gateway
	budget int64
	lasts  time.Duration
	act    func(ctx context.Context, t *testing.T, g *harness.Gateway)
}

// crowd runs many clients, and waits for them.
func crowd(n int, client func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { client(i) })
	}
	all.Wait()
}

// crawl reads at rates from one byte to one MiB per second.
func crawl(ctx context.Context, t *testing.T, g *harness.Gateway) {
	n := scaled(100, 1000)
	size := scaled(8, 2)
	crowd(n, func(i int) {
		c := raw(t, g.URL)
		defer context.AfterFunc(ctx, func() { c.Close() })()
		rate := math.Exp2(20 * float64(i) / float64(n-1))
		fmt.Fprintf(c, "GET /epoch/0/batch/%d?batch_size=%d HTTP/1.1\r\nHost: localhost\r\n\r\n", i%40, size)
		pause := max(time.Duration(float64(time.Second)/rate), 50*time.Millisecond)
		for ctx.Err() == nil {
			if _, err := io.CopyN(io.Discard, c, int64(max(1, rate*pause.Seconds()))); err != nil {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	})
}

// storm dials in bursts.
func storm(ctx context.Context, t *testing.T, g *harness.Gateway) {
	for i := range scaled(5, 100) {
		if ctx.Err() != nil {
			return
		}
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d", burstVariable, strings.TrimPrefix(g.URL, "http://"), 10_000, 1+i%250))
		if out, err := cmd.CombinedOutput(); err != nil && ctx.Err() == nil {
			t.Errorf("burst %d: %v: %s", i, err, out)
		}
	}
}

// halves sends incomplete headers, and complete headers followed by one byte of their body.
func halves(ctx context.Context, t *testing.T, g *harness.Gateway) {
	crowd(scaled(500, 5000), func(i int) {
		text := "GET /epoch/0/batch/0 HTTP/1.1\r\nHost: local"
		if i%5 == 0 {
			text = "POST /v1/datasets/" + dataset + "/importance HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"
		}
		// In a long run most of them first wait for a free connection slot.
		if after := send(ctx, t, g, text); after > 15*time.Second && !long() {
			t.Errorf("got a connection that lived for %v, want 10 s at most", after)
		}
	})
}

// promises sends the headers of requests with large bodies, but no bodies.
func promises(ctx context.Context, t *testing.T, g *harness.Gateway) {
	for range scaled(1, 10) {
		crowd(24, func(i int) {
			size := 9<<10 + i*(4<<20-9<<10)/23
			send(ctx, t, g, fmt.Sprintf("POST /v1/datasets/%s/importance HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", dataset, size))
		})
	}
}

// loiter keeps idle connections open, and requests the health state over new ones.
func loiter(ctx context.Context, t *testing.T, g *harness.Gateway) {
	crowd(400, func(int) {
		c := raw(t, g.URL)
		fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("health beside idle connections: %v", err)
			return
		}
		res.Body.Close()
	})
	for ctx.Err() == nil {
		for _, ask := range []func(context.Context, string) (harness.Response, error){
			func(ctx context.Context, path string) (harness.Response, error) {
				return g.Try(ctx, path, "Connection", "close")
			},
			g.TryAdmin,
		} {
			if r, err := ask(ctx, "/healthz"); ctx.Err() == nil && (err != nil || r.Status != http.StatusOK) {
				t.Errorf("health beside idle connections: got %d, %v, want 200", r.Status, err)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestClumsyClientsHarmThemselvesAlone checks that misbehaving clients disturb no other client, and
// that memory stays within the budget.
func TestClumsyClientsHarmThemselvesAlone(t *testing.T) {
	store := harness.Open(t, "dir")
	files, _ := harness.Files(t, 400, 256<<10)
	harness.Pack(t, store, files, dataset, "--shard-size", "32MiB", "--chunk-size", "1MiB", "--batch-size", "8")
	harness.Record(t, harness.Packed(t, store, dataset))
	lasts := time.Duration(scaled(4, 45)) * time.Second
	const all = `exec "$0" "$@"`
	for name, c := range map[string]clumsy{
		"slow clients":           {all, 128 << 20, lasts, crawl},
		"bursts of dials":        {all, 128 << 20, lasts * 2, storm},
		"half heads":             {all, 128 << 20, lasts, halves},
		"bodies that never come": {all, 128 << 20, lasts, promises},
		"idle connections":       {`ulimit -n 700; exec "$0" "$@"`, 128 << 20, lasts, loiter},
	} {
		t.Run(name, func(t *testing.T) {
			g := harness.ServeUnder(t, c.script, store, dataset, "--cache-size", strconv.FormatInt(c.budget>>20, 10)+"MiB", "--allow", "read,report")
			ctx, end := context.WithCancel(t.Context())
			acted := make(chan struct{})
			go func() {
				defer close(acted)
				c.act(ctx, t, g)
			}()
			others := besides(t, g, c.lasts)
			end()
			<-acted
			others.check(t)
			checkMemory(t, g, c.budget)
		})
	}
}
