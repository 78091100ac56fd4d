package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// problemJSON is an error as a caller decodes it.
type problemJSON struct {
	Type, Title, Detail, Instance, Code string
	Status                              int
	Retryable                           bool
	RetryAfterMs                        int64  `json:"retry_after_ms"`
	RequestID                           string `json:"request_id"`
	Faults                              []struct{ Name, Reason string }
	Batches, Bytes                      *uint64
	Object                              string
	Shard                               *int
	Shards                              []string
	More                                *bool
	Offset, Length                      *int64
}

// checkProblem compares a response with the contract of all errors.
func checkProblem(t *testing.T, a answer, status int, code string, retryable bool) problemJSON {
	t.Helper()
	var p problemJSON
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Fatalf("got status %d and no problem: %v: %.200s", a.StatusCode, err, a.body)
	}
	if a.StatusCode != status || p.Status != status || p.Code != code || p.Retryable != retryable {
		t.Errorf("got status %d, code %s, retryable %v; want %d, %s, %v: %s", a.StatusCode, p.Code, p.Retryable, status, code, retryable, p.Detail)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/problem+json", "Cache-Control": "no-store",
		"Content-Length": strconv.Itoa(len(a.body)), "X-Request-Id": p.RequestID, "Etag": "", "Millrace-Crc32c": "",
	} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("got %s %q, want %q", name, got, want)
		}
	}
	if wait := a.Header.Get("Retry-After"); (wait != "") != (p.RetryAfterMs > 0) {
		t.Errorf("got Retry-After %q beside %d ms, want both or none", wait, p.RetryAfterMs)
	}
	if want := "https://github.com/millrace-data/millrace/blob/main/docs/errors.md#" + p.Code; p.Type != want || p.Title == "" {
		t.Errorf("got type %q, title %q; want %q and some words", p.Type, p.Title, want)
	}
	shown := bytes.Replace(a.body, []byte(p.Type), nil, 1)
	if p.Object != "" { // relative to the dataset's prefix, like in manifests
		shown = bytes.ReplaceAll(shown, []byte(p.Object), nil)
	}
	for _, secret := range []string{"train-", "data/", "goroutine", ".go:", "127.0.0.1", "SECRET"} {
		if bytes.Contains(shown, []byte(secret)) {
			t.Errorf("got %q in %.500s, want nothing of the kind", secret, a.body)
		}
	}
	return p
}

func TestBadParametersAreNamedTogether(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	const two64 = "18446744073709551616"
	for query, want := range map[string][]string{
		"batch_size=0":                      {"batch_size"},
		"batch_size=-1":                     {"batch_size"},
		"batch_size=+1":                     {"batch_size"},
		"batch_size=01":                     {"batch_size"},
		"batch_size=%31":                    {"batch_size"},
		"batch_size=":                       {"batch_size"},
		"batch_size":                        {"batch_size"},
		"batch_size=1e3":                    {"batch_size"},
		"batch_size=2147483649":             {"batch_size"},
		"seed=" + two64:                     {"seed"},
		"seed=00":                           {"seed"},
		"window=0":                          {"window"},
		"shuffle=full&window=4":             {"window"},
		"shuffle=none&window=4":             {"window"},
		"shuffle=FULL":                      {"shuffle"},
		"tail=long":                         {"tail"},
		"rank=2&world_size=2":               {"rank"},
		"rank=1":                            {"rank"},
		"world_size=0":                      {"world_size"},
		"generation=xyz":                    {"generation"},
		"format=parquet":                    {"format"},
		"fields=jpg":                        {"fields"},
		"seed=1&seed=1":                     {"seed"},
		"seed=1&Seed=2":                     {"Seed"},
		"&":                                 {"query", "query"},
		"seed=1;rank=0":                     {"seed"},
		"s%65ed=1":                          {"s%65ed"},
		"batch_size=0&seed=x&nope=1&tail=z": {"nope", "batch_size", "seed", "tail"},
	} {
		a := r.do("GET", "/epoch/0/batch/0?"+query)
		p := checkProblem(t, a, http.StatusBadRequest, "invalid_argument", false)
		var got []string
		for _, f := range p.Faults {
			got = append(got, f.Name)
			if !strings.Contains(p.Detail, f.Name) {
				t.Errorf("%s: detail %q does not name %s", query, p.Detail, f.Name)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got faults %v, want %v", query, got, want)
		}
	}
	for _, path := range []string{"/epoch/-1/batch/0", "/epoch/0/batch/+1", "/epoch/%31/batch/0", "/epoch/0/batch/" + two64, "/epoch/00/batch/0", "/epoch/x/batch/0"} {
		checkProblem(t, r.do("GET", path), http.StatusBadRequest, "invalid_argument", false)
	}
	all := "/epoch/-1/batch/+1?batch_size=0&seed=" + two64 + "&shuffle=&window=0&tail=%73hort&rank=8&world_size=08&generation=abc&format=x&seed=1&colour=red"
	p := checkProblem(t, r.do("GET", all), http.StatusBadRequest, "invalid_argument", false)
	var named []string
	for _, f := range p.Faults {
		named = append(named, f.Name)
	}
	slices.Sort(named)
	if want := []string{
		"batch", "batch_size", "colour", "epoch", "format", "generation", "rank", "seed", "seed", "shuffle", "tail", "window", "world_size",
	}; !slices.Equal(named, want) {
		t.Errorf("got faults %v in path and query, want %v", named, want)
	}
	for path, want := range map[string]int{
		"/v1/datasets/photos/occurrences?key=%zz&epochs=01&rank=1&seed=-1": 4, "/v1/datasets/photos/occurrences?key=&epochs=1-2-3": 2,
		"/v1/datasets/photos/sample?generation=x&key=%2": 2, "/v1/datasets/photos/index?generation=&seed=1": 2, "/v1/datasets?a=1&b=2": 2,
	} {
		if p := checkProblem(t, r.do("GET", path), http.StatusBadRequest, "invalid_argument", false); len(p.Faults) != want {
			t.Errorf("%s: got faults %v, want %d", path, p.Faults, want)
		}
	}
	if a := r.do("GET", "/epoch/18446744073709551615/batch/0?seed=18446744073709551615&shuffle=window&window=2147483648"); a.StatusCode != http.StatusOK {
		t.Errorf("got status %d at the largest values, want 200: %s", a.StatusCode, a.body)
	}
	if a := r.do("GET", "/epoch/0/batch/0?shuffle=slot&window=1048577"); a.StatusCode != http.StatusBadRequest || !strings.Contains(string(a.body), "1048576") {
		t.Errorf("a window of 2^20+1 lanes: got status %d, want 400 with the most: %s", a.StatusCode, a.body)
	}
	checkProblem(t, r.do("GET", "/epoch/0/batch/0", "Millrace-Deadline-Ms: 0"), http.StatusBadRequest, "invalid_argument", false)
	if got := r.source.reads.Load(); got != 1 {
		t.Errorf("got %d reads, want 1", got)
	}
}

func TestRefusedRequests(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	other := strings.Repeat("ab", 32)
	for _, c := range []struct {
		method, path, header string
		status               int
		code                 string
	}{
		{"GET", "/nope", "", 404, "not_found"},
		{"GET", "/epoch/0/batch/0/", "", 404, "not_found"},
		{"GET", "/v1/datasets/other/epochs/0/batches/0", "", 404, "not_found"},
		{"GET", "/v1/datasets/%2e%2e/epochs/0", "", 404, "not_found"},
		{"GET", "/epoch/0/batch/0?generation=" + other, "", 404, "not_found"},
		{"GET", "/v1/datasets/photos/index?generation=" + other, "", 404, "not_found"},
		{"GET", "/v1/datasets/photos/sample?key=absent", "", 404, "not_found"},
		{"GET", "/v1/datasets/photos/sample", "", 400, "invalid_argument"},
		{"GET", "/v1/datasets/photos/occurrences?key=d0%2Fs00000&epochs=9-0", "", 400, "invalid_argument"},
		{"GET", "/v1/datasets/photos/occurrences?key=d0%2Fs00000&epochs=0-1000", "", 400, "invalid_argument"},
		{"GET", "/epoch/0/batch/2", "", 404, "end_of_epoch"},
		{"POST", "/epoch/0/batch/0", "", 405, "method_not_allowed"},
		{"DELETE", "/v1/datasets", "", 405, "method_not_allowed"},
		{"GET", "/epoch/0/batch/0", "Accept: text/html", 406, "not_acceptable"},
		{"GET", "/epoch/0/batch/0", "Accept: text/*, application/x-tar;q=0", 406, "not_acceptable"},
		{"GET", "/epoch/0/batch/0", "Range: bytes=99999999-", 416, "range_not_satisfiable"},
		{"GET", "/epoch/0/batch/0?seed=" + strings.Repeat("1", 17<<10), "", 414, "uri_too_long"},
	} {
		p := checkProblem(t, r.do(c.method, c.path, splitHeader(c.header)...), c.status, c.code, false)
		if c.code == "end_of_epoch" && (p.Batches == nil || *p.Batches != 2) {
			t.Errorf("%s: got batches %v, want 2", c.path, p.Batches)
		}
	}
	for _, accept := range []string{"*/*", "application/*", "application/x-tar", "text/html, application/x-tar;q=0.1", "", " , "} {
		if a := r.do("GET", "/epoch/0/batch/0", "Accept: "+accept); a.StatusCode != http.StatusOK {
			t.Errorf("Accept %s: got status %d, want 200", accept, a.StatusCode)
		}
	}
	if got := r.do("POST", "/epoch/0/batch/0").Header.Get("Allow"); got != "GET, HEAD, OPTIONS" {
		t.Errorf("got Allow %q, want GET, HEAD, OPTIONS", got)
	}
}

func splitHeader(h string) []string {
	if h == "" {
		return nil
	}
	return []string{h}
}

func TestBodiesAreRefused(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	for size, want := range map[int]int{1: http.StatusBadRequest, 65 << 10: http.StatusRequestEntityTooLarge} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", r.server.URL+"/epoch/0/batch/0", bytes.NewReader(make([]byte, size)))
		if err != nil {
			t.Fatal(err)
		}
		res, err := r.server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want || !res.Close {
			t.Errorf("body of %d bytes: got status %d, close %v, want %d and true", size, res.StatusCode, res.Close, want)
		}
	}
}

// TestStoreErrors makes the store fail in every way, with the real index.
func TestStoreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		err       error
		status    int
		code      string
		retryable bool
	}{
		"throttled":   {objstore.ErrThrottled, 503, "store_unavailable", true},
		"unavailable": {objstore.ErrUnavailable, 503, "store_unavailable", true},
		"timeout":     {objstore.ErrTimeout, 504, "store_timeout", true},
		"denied":      {objstore.ErrDenied, 502, "store_denied", true},
		"short":       {objstore.ErrShort, 502, "store_inconsistent", false},
		"unknown":     {fmt.Errorf("SECRET detail of /srv/x.go:12"), 500, "internal", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 20, 800, nil)
			r.store.SetFault(func(call memstore.Call) memstore.Fault { return memstore.Fault{Err: c.err} })
			p := checkProblem(t, r.do("GET", "/epoch/0/batch/0"), c.status, c.code, c.retryable)
			if (p.Shard != nil) != (c.code == "store_inconsistent") {
				t.Errorf("got shard %v, want one for store_inconsistent alone", p.Shard)
			}
			if !strings.Contains(r.log.String(), c.err.Error()) {
				t.Errorf("the log does not hold the cause %q: %s", c.err, r.log.String())
			}
		})
	}
}

func TestDamagedStore(t *testing.T) {
	for want, damage := range map[string]func(s *memstore.Store, key string){
		"train-1.tar was copied or changed since it was indexed: put all files back and run 'millrace index ADDRESS': the same bytes keep their generation; with other bytes, use the index for new runs only (ADDRESS: the dataset's; bytes ": func(s *memstore.Store, key string) { s.Set(key, make([]byte, 1<<20)) },
		"train-1.tar is missing: put all files back and run 'millrace index ADDRESS': the same bytes keep their generation; with other bytes, use the index for new runs only (ADDRESS: the dataset's; bytes ": func(s *memstore.Store, key string) {
			_ = s.Delete(context.Background(), key)
		},
	} {
		t.Run(want, func(t *testing.T) {
			r := newRig(t, 20, 800, nil)
			damage(r.store, "data/train-1.tar")
			p := checkProblem(t, r.do("GET", "/epoch/0/batch/0?batch_size=20"), 502, "store_inconsistent", false)
			if p.Shard == nil || *p.Shard != 1 || p.Offset == nil || p.Length == nil || *p.Length <= 0 {
				t.Errorf("got shard %v, offset %v, length %v, want shard 1 and a range", p.Shard, p.Offset, p.Length)
			}
			if p.Object != "train-1.tar" || !strings.HasPrefix(p.Detail, want) {
				t.Errorf("got %q, %q, want train-1.tar, %q", p.Object, p.Detail, want)
			}
		})
	}
}

func TestMemoryErrors(t *testing.T) {
	small := newRig(t, 20, 40<<10, func(c *gateway.Config) { c.Budget = budget.New(100<<10, time.Second) })
	p := checkProblem(t, small.do("GET", "/epoch/0/batch/0"), 400, "batch_too_large", false)
	if p.Bytes == nil || *p.Bytes < 16*20<<10 {
		t.Errorf("got the sum %v, want the bytes of the batch", p.Bytes)
	}
	if a := small.do("HEAD", "/epoch/0/batch/0"); a.StatusCode != http.StatusOK {
		t.Errorf("HEAD: got status %d, want 200", a.StatusCode)
	}
	huge := small.do("GET", "/epoch/0/batch/0?batch_size=2147483648&tail=pad")
	checkProblem(t, huge, 400, "batch_too_large", false)

	busy := newRig(t, 20, 800, nil)
	busy.source.before = func(context.Context) error { return fmt.Errorf("reserve: %w", budget.ErrOverloaded) }
	checkProblem(t, busy.do("GET", "/epoch/0/batch/0"), 503, "overloaded", true)
	busy.source.before = func(context.Context) error { return fmt.Errorf("reserve: %w", budget.ErrTooLarge) }
	checkProblem(t, busy.do("GET", "/epoch/0/batch/0"), 400, "batch_too_large", false)
}

func TestDeadline(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	r.source.before = func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	checkProblem(t, r.do("GET", "/epoch/0/batch/0", "Millrace-Deadline-Ms: 5"), 504, "store_timeout", true)
}

// TestDeadline_EndsWaitForGeneration: the deadline also applies to a request that waits until its
// generation is open.
func TestDeadline_EndsWaitForGeneration(t *testing.T) {
	opening := make(chan struct{})
	r := newRig(t, 20, 800, func(c *gateway.Config) {
		c.Open = func(context.Context, string, string) (gateway.Dataset, error) {
			<-opening
			return gateway.Dataset{}, objstore.ErrNotFound
		}
	})
	defer close(opening)
	generation := strings.Repeat("0", 64)
	checkProblem(t, r.do("GET", "/v1/datasets/photos/epochs/0/batches/0?generation="+generation, "Millrace-Deadline-Ms: 5"), 504, "store_timeout", true)
}

func TestDraining(t *testing.T) {
	r := newRig(t, 20, 800, func(c *gateway.Config) { c.LameDuck = time.Nanosecond })
	r.do("GET", "/readyz")
	etag := r.do("GET", "/epoch/0/batch/0").Header.Get("ETag")
	r.gateway.Drain()
	checkProblem(t, r.do("GET", "/readyz"), 503, "draining", true)
	a := r.do("GET", "/epoch/0/batch/0")
	checkProblem(t, a, 503, "draining", true)
	if !a.Close {
		t.Errorf("got a connection that stays open, want it closed")
	}
	for _, path := range []string{
		"/v1/datasets/photos/epochs/0/batches/0/manifest", "/v1/datasets/photos/epochs/0",
		"/v1/datasets/photos/occurrences?key=d0%2Fs00001&epochs=0", "/v1/datasets/photos/sample?key=d0%2Fs00001",
		"/v1/datasets/photos/epochs/0/samples?at=3",
	} {
		checkProblem(t, r.do("GET", path), 503, "draining", true)
	}
	if b := r.do("GET", "/epoch/0/batch/0", "If-None-Match: "+etag); b.StatusCode != http.StatusNotModified {
		t.Errorf("got status %d for what needs no read, want 304", b.StatusCode)
	}
	if b := r.do("GET", "/healthz"); b.StatusCode != http.StatusOK {
		t.Errorf("got status %d from healthz, want 200", b.StatusCode)
	}
	lame := newRig(t, 20, 800, func(c *gateway.Config) { c.LameDuck = time.Hour })
	lame.gateway.Drain()
	if b := lame.do("GET", "/epoch/0/batch/0"); b.StatusCode != http.StatusOK {
		t.Errorf("got status %d in the lame-duck time, want 200", b.StatusCode)
	}
}

func TestPanicsEndInAnErrorOrAnAbort(t *testing.T) {
	var memory *budget.Budget
	r := newRig(t, 20, 800, func(c *gateway.Config) { memory = c.Budget })
	idle := memory.InUse()
	r.source.before = func(context.Context) error { panic("SECRET") }
	checkProblem(t, r.do("GET", "/epoch/0/batch/0?tail=pad&batch_size=5000"), 500, "internal", true)
	if got := memory.InUse(); got != idle {
		t.Errorf("got %d bytes in use after a panic, want %d", got, idle)
	}
	if m := r.do("GET", "/metrics"); !bytes.Contains(m.body, []byte("millrace_http_panics_total 1")) {
		t.Errorf("the panic was not counted")
	}
	r.source.before = nil
	if a := r.do("GET", "/epoch/0/batch/0"); a.StatusCode != http.StatusOK {
		t.Errorf("got status %d after a panic, want 200", a.StatusCode)
	}
}

func TestRequestIDs(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	if got, want := r.do("GET", "/healthz", "X-Request-Id: job-7.a:b_c").Header.Get("X-Request-Id"), "job-7.a:b_c"; got != want {
		t.Errorf("got id %q, want %q", got, want)
	}
	for _, bad := range []string{"a b", "<x>", strings.Repeat("a", 129), "\"q\""} {
		if got := r.do("GET", "/healthz", "X-Request-Id: "+bad).Header.Get("X-Request-Id"); got == bad || got == "" {
			t.Errorf("got id %q for %q, want a new one", got, bad)
		}
	}
}
