package gateway_test

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
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// serve runs the real server on a loopback port until the test ends or stop is called.
func (r *rig) serve(cfg gateway.ServerConfig) (addr string, stop func() error) {
	r.t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(r.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- gateway.NewServer(r.gateway, cfg).Serve(ctx, ln) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	r.t.Cleanup(func() {
		if err := stop(); err != nil {
			r.t.Errorf("serve: %v", err)
		}
	})
	return ln.Addr().String(), stop
}

func dial(tb testing.TB, addr string) net.Conn {
	tb.Helper()
	c, err := (&net.Dialer{}).DialContext(tb.Context(), "tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

func fastDrain(c *gateway.Config) { c.LameDuck = time.Millisecond }

func TestServerServesAndDrains(t *testing.T) {
	r := newRig(t, 20, 800, fastDrain)
	addr, stop := r.serve(gateway.ServerConfig{Connections: 2})
	entered, leave := make(chan struct{}), make(chan struct{})
	r.source.before = func(context.Context) error {
		close(entered)
		<-leave
		return nil
	}
	c := dial(t, addr)
	fmt.Fprintf(c, "GET /epoch/0/batch/0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	// A request in flight finishes although the server is shutting down. Readiness probes on
	// new connections get a 503.
	for {
		late := dial(t, addr)
		fmt.Fprintf(late, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(late), nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		late.Close()
		if res.StatusCode == http.StatusServiceUnavailable {
			break
		}
	}
	close(leave)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || res.StatusCode != http.StatusOK || int64(len(body)) != res.ContentLength {
		t.Errorf("got status %d, %d bytes and %v while draining, want 200 and the whole body", res.StatusCode, len(body), err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("got %v from the drain, want nil", err)
	}
}

func TestConnectionLimit(t *testing.T) {
	r := newRig(t, 20, 800, fastDrain)
	addr, _ := r.serve(gateway.ServerConfig{Connections: 1})
	first := dial(t, addr)
	fmt.Fprintf(first, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, err := http.ReadResponse(bufio.NewReader(first), nil); err != nil {
		t.Fatal(err)
	}
	second := dial(t, addr) // in the kernel's queue: it is served after the first connection is closed
	fmt.Fprintf(second, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	first.Close()
	if _, err := http.ReadResponse(bufio.NewReader(second), nil); err != nil {
		t.Errorf("second connection: %v", err)
	}
}

func TestClientGoneIsLoggedAndNothingIsKept(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	r.source.before = func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		close(gone)
		return ctx.Err()
	}
	req, err := http.NewRequestWithContext(ctx, "GET", r.server.URL+"/epoch/0/batch/0", nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := r.server.Client().Do(req); err == nil {
		res.Body.Close()
		t.Fatal("got an answer, want none")
	}
	<-gone
	r.server.Close()
	if got := r.log.String(); !strings.Contains(got, `"status":499`) {
		t.Errorf("got log %s, want status 499", got)
	}
}

func TestReaderThatLeavesAbortsTheBody(t *testing.T) {
	r := newRig(t, 40, 400<<10, nil)
	c := dial(t, strings.TrimPrefix(r.server.URL, "http://"))
	fmt.Fprintf(c, "GET /epoch/0/batch/0?batch_size=40 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, err := io.ReadFull(c, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	c.Close()
	r.server.Close() // waits for the handler; the rig then checks that no body is open
	got := r.log.String()
	if !strings.Contains(got, `"aborted":true`) || strings.Contains(got, `"code"`) {
		t.Errorf("got log %s, want an aborted request that is nobody's error here", got)
	}
}

// TestReaderThatLeavesALongAnswer: the reader disconnects while the next batch is read, and the
// gateway reports no error.
func TestReaderThatLeavesALongAnswer(t *testing.T) {
	r := newRig(t, 40, 800, nil)
	var reads atomic.Int64
	c := dial(t, strings.TrimPrefix(r.server.URL, "http://"))
	r.source.before = func(ctx context.Context) error {
		if reads.Add(1) < 2 {
			return nil
		}
		c.Close()
		<-ctx.Done()
		return ctx.Err()
	}
	fmt.Fprintf(c, "GET /epoch/0/batches?batch_size=10&count=4 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	for reads.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	r.server.Close()
	got := r.log.String()
	if !strings.Contains(got, `"aborted":true`) || strings.Contains(got, `"code"`) {
		t.Errorf("got log %s, want an aborted request that is nobody's error here", got)
	}
}

func TestMetricsAndStats(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	size := len(r.do("GET", "/epoch/0/batch/0").body)
	scraped := r.do("GET", "/metrics").body
	for _, want := range []string{
		`millrace_http_requests_total{code="200",dataset="photos",route="/epoch/{epoch}/batch/{batch}"} 1`,
		fmt.Sprintf(`millrace_http_response_bytes_total{dataset="photos",route="/epoch/{epoch}/batch/{batch}"} %d`, size),
		`millrace_tier_bytes_total{dataset="photos",tier="store"} 1`, `millrace_http_phase_seconds_total{dataset="photos",phase="send"} `, "millrace_cache_hits_total 42", "millrace_budget_bytes 6.7108864e+07",
	} {
		if !bytes.Contains(scraped, []byte(want)) {
			t.Errorf("metrics lack %s", want)
		}
	}
	problems, err := promlint.New(bytes.NewReader(scraped)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("got %v and %v from the linter, want nothing", problems, err)
	}
	var stats struct{ Counters map[string]float64 }
	r.json("/v1/stats", &stats)
	if got := stats.Counters["millrace_cache_hits_total"]; got != 42 {
		t.Errorf("got %v hits in the statistics, want 42", got)
	}
	separate := newRig(t, 20, 800, func(c *gateway.Config) { c.AdminListen = true })
	for _, path := range []string{"/metrics", "/v1/stats", "/debug/pprof/"} {
		if a := separate.do("GET", path); a.StatusCode != http.StatusNotFound {
			t.Errorf("%s on the data port: got status %d, want 404", path, a.StatusCode)
		}
	}
}

// TestMetricsHaveFewSeries: no text of a caller becomes a label. The omitted body of a HEAD
// response is not counted.
func TestMetricsHaveFewSeries(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	for i := range 20 {
		r.do("GET", fmt.Sprintf("/epoch/%d/batch/1?seed=%d", i, i))
		r.do("GET", fmt.Sprintf("/nope/%d", i))
		r.do("GET", fmt.Sprintf("/v1/datasets/absent-%d", i))
		r.do(fmt.Sprintf("VERB%d", i), "/healthz")
		r.do("HEAD", "/metrics")
	}
	var stats struct{ Counters map[string]float64 }
	r.json("/v1/stats", &stats)
	var requests []string
	for name, value := range stats.Counters {
		if series, ok := strings.CutPrefix(name, "millrace_http_requests_total"); ok {
			requests = append(requests, fmt.Sprint(series, " ", value))
		}
	}
	slices.Sort(requests)
	if want := []string{
		`{code="200",dataset="",route="/metrics"} 20`, `{code="200",dataset="photos",route="/epoch/{epoch}/batch/{batch}"} 20`,
		`{code="404",dataset="",route="/v1/datasets/{dataset}"} 20`, `{code="404",dataset="",route="unknown"} 20`, `{code="501",dataset="",route="unknown"} 20`,
	}; !slices.Equal(requests, want) {
		t.Errorf("got series %q, want %q", requests, want)
	}
	if got := stats.Counters[`millrace_http_response_bytes_total{dataset="",route="/metrics"}`]; got != 0 {
		t.Errorf("got %v bytes sent with HEAD, want 0", got)
	}
}

func TestAccessLineAndServerTimingSayWhereTheTimeWent(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	a := r.do("GET", "/epoch/5/batch/1?rank=1&world_size=2", "X-Request-Id: abc")
	for _, want := range []string{"plan;dur=", "memory;dur=0.001", "peer;dur=2", "store;dur=1"} {
		if got := a.Header.Get("Server-Timing"); !strings.Contains(got, want) {
			t.Errorf("got Server-Timing %q, want %s in it", got, want)
		}
	}
	r.server.Close()
	for _, want := range []string{
		`"request_id":"abc"`, `"dataset":"photos"`, `"epoch":5`, `"batch":1`, `"rank":1`, `"status":200`,
		fmt.Sprintf(`"bytes":%d`, len(a.body)), `"waited_ms":`, `"plan_ms":`, `"store_ms":1`, `"memory_ms":0.001`, `"peer_ms":2`, `"peer_bytes":2`,
	} {
		if got := r.log.String(); !strings.Contains(got, want) {
			t.Errorf("got log %s, want %s in it", got, want)
		}
	}
}

// TestAccessLineOfManyBatchesHasTheirSums: the header Server-Timing covers only the first batch,
// and the access log line covers all batches.
func TestAccessLineOfManyBatchesHasTheirSums(t *testing.T) {
	r := newRig(t, 60, 800, nil)
	a := r.do("GET", "/epoch/5/batches?count=3&format=arrow", "User-Agent: trainer/1 "+strings.Repeat("x", 1000))
	for _, want := range []string{"plan;dur=", "locate;dur=", "memory;dur=0.001", "store;dur=1"} {
		if got := a.Header.Get("Server-Timing"); !strings.Contains(got, want) {
			t.Errorf("got Server-Timing %q, want %s in it", got, want)
		}
	}
	if got := r.do("HEAD", "/epoch/5/batches?count=3").Header.Get("Server-Timing"); !strings.Contains(got, "locate;dur=") {
		t.Errorf("HEAD: got Server-Timing %q, want locate in it", got)
	}
	r.do(strings.Repeat("A", 1000), "/healthz")
	r.server.Close()
	for _, want := range []string{
		`"remote":"127.0.0.1:`, `"user_agent":"trainer/1 ` + strings.Repeat("x", 190) + `"`, `"locate_ms":`, `"decode_ms":`,
		`"store_ms":3`, `"memory_ms":0.003`, `"peer_bytes":6`, `"method":"` + strings.Repeat("A", 16) + `"`,
	} {
		if got := r.log.String(); !strings.Contains(got, want) {
			t.Errorf("got log %s, want %s in it", got, want)
		}
	}
}

// TestFieldsOfTheAccessLineAreInTheDocumentation compares access log lines of many kinds with the
// table in docs/spec/output.md.
func TestFieldsOfTheAccessLineAreInTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../docs/spec/output.md")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, 60, 800, nil)
	r.do("GET", "/epoch/5/batches?count=3&format=arrow")
	r.do("GET", "/epoch/0/batch/99")
	r.source.before = func(context.Context) error { panic("a bug") }
	r.do("GET", "/epoch/0/batch/0")
	r.server.Close()
	for line := range strings.Lines(r.log.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		for name := range fields {
			tier, _, _ := strings.Cut(name, "_")
			known := slices.Contains([]string{"level", "message", "memory", "disk", "peer", "store"}, tier)
			if !known && !bytes.Contains(page, []byte("`"+name+"`")) {
				t.Errorf("docs/spec/output.md does not say what %s is: %s", name, line)
			}
		}
	}
}

// TestAccessLineTellsTheWaitForMemory: another reservation uses the whole budget for some time, and
// the timing contains the wait.
func TestAccessLineTellsTheWaitForMemory(t *testing.T) {
	var memory *budget.Budget
	r := newRig(t, 2000, 80, func(c *gateway.Config) { memory = c.Budget })
	bubble.Test(t, func(t *testing.T) {
		all, err := memory.Reserve(t.Context(), memory.Total()-memory.InUse())
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			<-time.After(500 * time.Millisecond)
			all.Release()
		}()
		w := httptest.NewRecorder()
		r.gateway.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/epoch/0/batch/0?batch_size=2000", nil))
		if got := w.Header().Get("Server-Timing"); w.Code != http.StatusOK || !strings.Contains(got, "wait;dur=500") {
			t.Errorf("got status %d, Server-Timing %q; want 200 and wait;dur=500", w.Code, got)
		}
	})
}

func TestConfigurationFaultsAreReportedTogether(t *testing.T) {
	_, err := gateway.New(gateway.Config{Datasets: []gateway.Dataset{{Name: "a/b"}, {Name: "c"}}})
	if err == nil || !strings.Contains(err.Error(), "a/b") || !strings.Contains(err.Error(), `"c"`) {
		t.Errorf("got %v, want an error that names both", err)
	}
	if _, err := gateway.New(gateway.Config{}); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("got %v without a dataset, want an error", err)
	}
}
