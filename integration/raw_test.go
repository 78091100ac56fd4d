package integration_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// rawBatch is the path of the batch request that follows each request of the corpus on its
// connection.
const rawBatch = "/v1/datasets/photos/epochs/0/batches/1?batch_size=8"

// rawAnswer is one response on a connection.
type rawAnswer struct {
	*http.Response
	body []byte
}

// TestRawRequests sends requests that few clients would send. Each is followed by a request for a
// batch on the same connection, while other clients read batches. Each request gets the response in
// the table, the connection stays open or closes as the table states, and no batch is wrong.
func TestRawRequests(t *testing.T) {
	_, g, _ := served(t)
	address := strings.TrimPrefix(g.URL, "http://")
	batch := g.MustGet(t, rawBatch)
	body, err := json.Marshal(map[string]any{"url": batch.Header.Get("Content-Location"), "losses": []int{1, 2, 3, 4, 5, 6, 7, 8}})
	if err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("{BODY}", string(body), "{SIZE}", strconv.Itoa(len(body)), "{HEX}", fmt.Sprintf("%x", len(body)),
		"{BATCH}", rawBatch, "{HIDDEN}", strconv.Itoa(len(hidden)))

	var others sync.WaitGroup
	var over atomic.Bool
	var read atomic.Int64
	for range 2 {
		others.Go(func() {
			for !over.Load() {
				if a, err := g.Try(t.Context(), rawBatch); err != nil || a.Status != http.StatusOK || !bytes.Equal(a.Body, batch.Body) {
					t.Errorf("another reader: got %d, %d bytes and %v; want 200 and the batch", a.Status, len(a.Body), err)
					return
				}
				read.Add(1)
			}
		})
	}
	t.Run("corpus", func(t *testing.T) {
		for _, all := range [][]rawCase{framing(), lines(), targets()} {
			for _, c := range all {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel() // net/http lingers before it closes a refused connection
					c.check(t, askRaw(t, address, fill.Replace(c.raw)), batch.Body)
				})
			}
		}
	})
	over.Store(true)
	others.Wait()
	if read.Load() == 0 {
		t.Error("another reader: got no batch beside the corpus, want some")
	}
	awaitNobody(t, g)
	if strings.Contains(g.Log(), "panic") || strings.Contains(g.Log(), "canary") || strings.Contains(g.Log(), "secret") {
		t.Errorf("got log %s, want no panic, and nothing of what was sent", g.Log())
	}
	for line := range strings.Lines(g.Log()) {
		if len(line) > 2000 {
			t.Errorf("got a line of the log of %d bytes, want 2000 at most: %.200s", len(line), line)
		}
	}
}

// askRaw sends bytes, followed on the same connection by a request for a batch. It returns all
// responses.
func askRaw(t *testing.T, address, raw string) []rawAnswer {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	// The gateway may close before it has read everything.
	_, _ = io.WriteString(conn, raw+"GET "+rawBatch+" HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: follower\r\nConnection: close\r\n\r\n")
	method, _, _ := strings.Cut(raw, " ")
	var all []rawAnswer
	for in := bufio.NewReader(conn); ; {
		if _, err := in.Peek(1); err != nil {
			var late net.Error
			if errors.As(err, &late) && late.Timeout() {
				t.Fatalf("got %d answers and an open connection, want its end", len(all))
			}
			return all // a reset after the response counts as the end of the connection
		}
		res, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("after %d answers: %v", len(all), err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatalf("answer %d: %v", len(all), err)
		}
		all = append(all, rawAnswer{res, body})
		if res.StatusCode >= http.StatusOK {
			method = http.MethodGet // method of the following request
		}
	}
}

// check compares the responses on a connection with the table.
func (c rawCase) check(t *testing.T, answers []rawAnswer, batch []byte) {
	t.Helper()
	var got []string
	for _, a := range answers {
		got = append(got, strconv.Itoa(a.StatusCode))
		if id := a.Header.Get("X-Request-Id"); id == "hidden" || a.Header.Get("Set-Cookie")+a.Header.Get("X-Injected") != "" {
			t.Errorf("got an answer with %v, want no request read from a body, and no header from a value", a.Header)
		}
	}
	status, plain := strings.CutSuffix(c.want, " plain")
	wanted := strings.Fields(status)
	if c.then == kept {
		wanted = append(wanted, "200")
	}
	if strings.Join(got, " ") != strings.Join(wanted, " ") {
		t.Fatalf("got statuses %v, want %v (%s)", got, wanted, c.rule)
	}
	if len(answers) == 0 {
		return
	}
	last := answers[len(answers)-1]
	if c.then == kept {
		if last.Header.Get("X-Request-Id") != "follower" || !bytes.Equal(last.body, batch) {
			t.Errorf("the request behind: got %d bytes for %q, want the batch", len(last.body), last.Header.Get("X-Request-Id"))
		}
		last = answers[len(answers)-2]
	}
	if last.Close != (c.then == closed) {
		t.Errorf("got an end of the connection announced: %v, want %v", last.Close, c.then == closed)
	}
	kind := last.Header.Get("Content-Type")
	if len(last.body) > 0 && last.StatusCode >= 400 && (kind == "application/problem+json") == plain {
		t.Errorf("got an error of type %q, want one of net/http itself: %v", kind, plain)
	}
}

// awaitNobody waits until the gateway has no other client than the reader of its metrics.
func awaitNobody(t *testing.T, g *harness.Gateway) {
	t.Helper()
	g.Ready(t, func(context.Context) error {
		if n := g.Metric(t, "millrace_http_in_flight_requests", ""); n > 1 {
			return fmt.Errorf("%v requests are being answered", n-1)
		}
		return nil
	})
}
