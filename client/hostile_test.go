package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// hosts is a transport for several gateways, without a socket.
type hosts map[string]http.RoundTripper

func (h hosts) RoundTrip(r *http.Request) (*http.Response, error) { return h[r.URL.Host].RoundTrip(r) }

// roundTrip makes a function a transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

var errDown = errors.New("connection refused")

func absent(_ int, w http.ResponseWriter, _ *http.Request) bool {
	refuse(w, http.StatusNotFound, map[string]any{"code": "not_found"})
	return true
}

func TestGenerationThatOneGatewayDoesNotKnowIsReadFromAnother(t *testing.T) {
	old, updated := &fake{batches: 4, generation: "g", fault: absent}, &fake{batches: 4, generation: "g"}
	c := newClient(t, client.Config{Gateways: []string{serve(t, old), serve(t, updated)}, Home: client.HomeByRank})
	if got := numbers(t, c, client.Options{Generation: "g", Prefetch: -1}); fmt.Sprint(got) != "[0 1 2 3]" {
		t.Errorf("got %v, want [0 1 2 3]", got)
	}
	if got := len(old.seen()); got != 1 {
		t.Errorf("the gateway without the generation got %d requests, want 1", got)
	}
}

func TestWhatNoGatewayKnowsIsFinal(t *testing.T) {
	a, b := &fake{fault: absent}, &fake{fault: absent}
	c := newClient(t, client.Config{Gateways: []string{serve(t, a), serve(t, b)}})
	_, err := c.Batch(t.Context(), client.Options{Generation: "g"}, 0)
	if !errors.Is(err, &client.Error{Code: client.CodeNotFound}) {
		t.Errorf("got %v, want not_found", err)
	}
	if err := c.JSON(t.Context(), "/v1/datasets/x", nil, new(any)); !errors.Is(err, &client.Error{Code: client.CodeNotFound}) {
		t.Errorf("dataset: got %v, want not_found", err)
	}
	if len(a.seen()) != 2 || len(b.seen()) != 2 {
		t.Errorf("got %d and %d requests, want two each", len(a.seen()), len(b.seen()))
	}
}

// TestShardsOfAnAmbiguousKey: a key that occurs in several shards is not the fault of a gateway.
// The caller gets the shards, to select one.
func TestShardsOfAnAmbiguousKey(t *testing.T) {
	f := &fake{fault: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		refuse(w, http.StatusConflict, map[string]any{"code": "ambiguous_key", "shards": []string{"a/0.tar", "b/0.tar"}})
		return true
	}}
	c := newClient(t, client.Config{Gateways: []string{serve(t, f)}})
	err := c.JSON(t.Context(), "/v1/datasets/x/occurrences", nil, new(any))
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Code != client.CodeAmbiguousKey || !slices.Equal(refused.Shards, []string{"a/0.tar", "b/0.tar"}) {
		t.Errorf("got %v, want both shards", err)
	}
	if got := len(f.seen()); got != 1 {
		t.Errorf("got %d requests, want 1", got)
	}
}

func TestGatewayThatIsDownMayStillKnow(t *testing.T) {
	for i := range 200 { // the last gateway is chosen at random
		up := []time.Duration{3 * time.Second, time.Hour}[i%2]
		bubble.Test(t, func(t *testing.T) {
			start, sound := time.Now(), transport{&fake{batches: 4, generation: "g"}}
			restarting := roundTrip(func(r *http.Request) (*http.Response, error) {
				if time.Since(start) < up {
					return nil, errDown
				}
				return sound.RoundTrip(r)
			})
			c, err := client.New(client.Config{
				Gateways: []string{"http://old", "http://new"},
				HTTP:     &http.Client{Transport: hosts{"old": transport{&fake{fault: absent}}, "new": restarting}},
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Batch(t.Context(), client.Options{Generation: "g"}, 0)
			if up < time.Minute {
				if err != nil {
					t.Errorf("got %v, want the batch of the gateway that came back", err)
				}
				return
			}
			if !errors.Is(err, &client.Error{Code: client.CodeNotFound}) || !errors.Is(err, errDown) {
				t.Errorf("got %v, want both faults named", err)
			}
		})
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := &fake{batches: 2, generation: "g"}
	target := serve(t, elsewhere)
	f := &fake{batches: 2, generation: "g"}
	f.fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, target+r.URL.RequestURI(), http.StatusFound)
		return true
	}
	for _, own := range []*http.Client{nil, {}} {
		c := newClient(t, client.Config{Gateways: []string{serve(t, f)}, HTTP: own})
		_, err := c.Batch(t.Context(), client.Options{}, 0)
		var e *client.Error
		if !errors.As(err, &e) || e.Status != http.StatusFound || !strings.Contains(e.Detail, target) {
			t.Errorf("got %v, want a refusal that names the target", err)
		}
	}
	if got := elsewhere.seen(); len(got) != 0 {
		t.Errorf("the target got %v", got)
	}
}

func TestGatewayThatRedirectsIsPassedOver(t *testing.T) {
	f := &fake{fault: func(_ int, w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, "http://login.invalid/", http.StatusTemporaryRedirect)
		return true
	}}
	c := newClient(t, client.Config{Gateways: []string{serve(t, f), serve(t, &fake{batches: 2, generation: "g"})}})
	if got := numbers(t, c, client.Options{}); fmt.Sprint(got) != "[0 1]" {
		t.Errorf("got %v, want [0 1]", got)
	}
}

func TestRetryAfterOutOfOrder(t *testing.T) {
	for _, tc := range []struct {
		header string
		ms     any
		want   time.Duration
	}{
		{"2000000000", nil, 30 * time.Second},
		{"99999999999999999999", nil, 0},
		{"-7", -7000, 0},
		{"Wed, 21 Oct 2065 07:28:00 GMT", nil, 0},
		{"1", int64(1) << 39, 30 * time.Second},
	} {
		bubble.Test(t, func(t *testing.T) {
			f := &fake{batches: 3, generation: "g"}
			f.fault = func(n int, w http.ResponseWriter, _ *http.Request) bool {
				if n == 0 {
					w.Header().Set("Retry-After", tc.header)
					refuse(w, 503, map[string]any{"code": "draining", "retryable": true, "retry_after_ms": tc.ms})
				}
				return n == 0
			}
			c, err := client.New(client.Config{Gateways: []string{"http://gw"}, HTTP: &http.Client{Transport: transport{f}}})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if _, err := c.Batch(t.Context(), client.Options{}, 0); err != nil {
				t.Errorf("Retry-After %q: %v", tc.header, err)
			}
			if got := time.Since(start).Truncate(time.Second); got != tc.want {
				t.Errorf("Retry-After %q, %v ms: got a wait of %v on the fake clock, want %v", tc.header, tc.ms, got, tc.want)
			}
		})
	}
}

// TestAnnouncedBytesCostNothing announces gigabytes and sends five bytes.
func TestAnnouncedBytesCostNothing(t *testing.T) {
	sound, n := transport{&fake{batches: 3, generation: "g"}}, 0
	c := newClient(t, client.Config{Gateways: []string{"http://gw"}, HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		resp, err := sound.RoundTrip(r)
		if n++; n == 1 && err == nil {
			resp.ContentLength, resp.Body = 3<<30, io.NopCloser(strings.NewReader("short"))
		}
		return resp, err
	})}})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := c.Batch(t.Context(), client.Options{}, 0); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; n != 2 || got > 256<<20 {
		t.Errorf("got %d bytes allocated in %d attempts, want little more than what came in two", got, n)
	}
}

func TestLargeBodyIsWholeAndBeyondTheLimitRefused(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 70<<20/16)
	f := &fake{batches: 1, generation: "g"}
	f.fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
		f.answer(w, r, func(h http.Header, _ []byte) []byte {
			h.Set("Content-Length", strconv.Itoa(len(large)))
			h.Set("Millrace-Crc32c", fmt.Sprintf("%08x", castagnoli(large)))
			return large
		})
		return true
	}
	gw := serve(t, f)
	b, err := newClient(t, client.Config{Gateways: []string{gw}}).Batch(t.Context(), client.Options{}, 0)
	if err != nil || !bytes.Equal(b.Bytes(), large) {
		t.Errorf("got %v, want the %d bytes", err, len(large))
	}
	_, err = newClient(t, client.Config{Gateways: []string{gw}, MaxBatchBytes: 64 << 20}).Batch(t.Context(), client.Options{}, 0)
	if !errors.Is(err, &client.Error{Code: client.CodeBatchTooLarge}) {
		t.Errorf("got %v, want batch_too_large", err)
	}
}

func TestManifestFaultsAreHidden(t *testing.T) {
	for name, lie := range map[string]string{
		"more samples than the batch": `{"samples":[{},{},{}]}`,
		"another batch's":             `{"samples":[{"length":12,"crc32c":"00000000"},{"length":12,"crc32c":"00000000"}]}`,
		"no array":                    `{"samples":7}`,
		"endless":                     `{"samples":[` + strings.Repeat(" ", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			lied := false
			f := &fake{batches: 2, generation: "g"}
			f.fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
				if lied || !strings.HasSuffix(r.URL.Path, "/manifest") {
					return false
				}
				lied = true
				_, _ = io.WriteString(w, lie) // the client may have closed the connection
				return true
			}
			c := newClient(t, client.Config{Gateways: []string{serve(t, f)}})
			b, err := c.Batch(t.Context(), client.Options{Manifest: true}, 1)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := b.Sample(1), sample(0, 3); !lied || !bytes.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestManifestLongerThanItsBatchIsNotRead(t *testing.T) {
	f := &fake{batches: 1, generation: "g"}
	for _, tc := range []struct{ manifest, want string }{
		{`{"samples":[{},{},{},{},{}]}`, "more than the batch's 2 samples"},
		{`{"samples":[` + strings.Repeat("{},", 100_000), "more than 163840 bytes"},
	} {
		f.fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/manifest") {
				_, _ = io.WriteString(w, tc.manifest) // the client may have closed the connection
				return true
			}
			return false
		}
		_, err := newClient(t, client.Config{Gateways: []string{serve(t, f)}}).Batch(t.Context(), client.Options{Manifest: true}, 0)
		if !errors.Is(err, client.ErrProtocol) || !strings.Contains(fmt.Sprint(err), tc.want) {
			t.Errorf("got %v, want %q", err, tc.want)
		}
	}
}

// stuck returns a transport that responds only to requests for the first two batches.
func stuck() http.RoundTripper {
	f := transport{&fake{batches: 100, generation: "g"}}
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/epoch/0/batch/0" || r.URL.Path == "/epoch/0/batch/1" {
			return f.RoundTrip(r)
		}
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
}

func TestCancelInTheMiddleEndsEveryRequest(t *testing.T) {
	for _, abandon := range []bool{true, false} {
		bubble.Test(t, func(t *testing.T) {
			c, err := client.New(client.Config{Gateways: []string{"http://gw"}, HTTP: &http.Client{Transport: stuck()}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			start, n := time.Now(), 0
			for _, err := range c.Batches(ctx, client.Options{Prefetch: 6}) {
				n++
				if n == 1 {
					continue
				}
				if n > 2 {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("got %v, want %v", err, context.Canceled)
					}
					continue
				}
				if abandon {
					break
				}
				time.AfterFunc(time.Second, cancel) // while Batches waits for the next batch
			}
			if want := 3; !abandon && n != want {
				t.Errorf("got %d turns of the loop, want %d", n, want)
			}
			if got := time.Since(start); got > time.Second {
				t.Errorf("the loop ended after %v on the fake clock, want no wait for stuck requests", got)
			}
			// synctest fails the test if a goroutine is still running.
		})
	}
}

func TestSequenceMayBeReadTwice(t *testing.T) {
	f := &fake{batches: 2, generation: "g1"}
	c := newClient(t, client.Config{Gateways: []string{serve(t, f)}})
	seq := c.Batches(t.Context(), client.Options{Prefetch: -1})
	for _, want := range []string{"g1", "g2"} {
		f.batches, f.generation = f.batches+1, want
		n := uint64(0)
		for b, err := range seq {
			if err != nil {
				t.Fatal(err)
			}
			if n++; b.Generation != want {
				t.Errorf("got generation %s, want %s", b.Generation, want)
			}
		}
		if n != f.batches {
			t.Errorf("got %d batches of %d", n, f.batches)
		}
	}
}

func TestResumeAtTheEnd(t *testing.T) {
	c := newClient(t, client.Config{Gateways: []string{serve(t, &fake{batches: 10, generation: "g"})}})
	for _, tc := range []struct {
		opt  client.Options
		want string
	}{
		{client.Options{From: 9}, "[9]"},
		{client.Options{From: 12, Step: 3}, "[]"}, // the batches after 0 3 6 9
		{client.Options{From: 5, Until: 5}, "[]"},
		{client.Options{From: 6, Until: 5}, "[]"},
		{client.Options{From: 8, Until: 1 << 63, Step: 1 << 62}, "[8]"},
	} {
		if got := fmt.Sprint(numbers(t, c, tc.opt)); got != tc.want {
			t.Errorf("%+v: got %s, want %s", tc.opt, got, tc.want)
		}
	}
	for _, err := range c.Batches(t.Context(), client.Options{From: 13, Step: 3}) {
		if !errors.Is(err, &client.Error{Code: client.CodeEndOfEpoch}) {
			t.Errorf("got %v, want end_of_epoch", err)
		}
	}
}

type tracedRequest struct{ http.RoundTripper }

// TestDefaultTransportOfAnotherKind: programs may replace the default transport, for example to add
// tracing.
func TestDefaultTransportOfAnotherKind(t *testing.T) {
	plain := http.DefaultTransport
	http.DefaultTransport = tracedRequest{plain}
	defer func() { http.DefaultTransport = plain }()
	c := newClient(t, client.Config{Gateways: []string{serve(t, &fake{batches: 3, generation: "g"})}})
	if _, err := c.Batch(t.Context(), client.Options{}, 1); err != nil {
		t.Errorf("got %v, want the batch", err)
	}
}

// TestEndOfAnEpochThatNobodyCounted: without the number of batches the client cannot tell whether
// batches are missing, and returns an error.
func TestEndOfAnEpochThatNobodyCounted(t *testing.T) {
	f := &fake{generation: "g"}
	c := newClient(t, client.Config{Gateways: []string{serve(t, f)}})
	if got := numbers(t, c, client.Options{}); len(got) != 0 {
		t.Errorf("got %v of an epoch without batches, want none", got)
	}
	f = &fake{generation: "g", fault: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		refuse(w, http.StatusNotFound, map[string]any{"code": "end_of_epoch"})
		return true
	}}
	c = newClient(t, client.Config{Gateways: []string{serve(t, f)}})
	var last error
	for _, err := range c.Batches(t.Context(), client.Options{}) {
		last = err
	}
	if !errors.Is(last, &client.Error{Code: client.CodeEndOfEpoch}) {
		t.Errorf("got %v, want end_of_epoch", last)
	}
}

func TestNegativeLimitsAreRefused(t *testing.T) {
	for _, cfg := range []client.Config{{Deadline: -1}, {AttemptTimeout: -1}, {MaxBatchBytes: -1}} {
		cfg.Gateways = []string{"http://gw"}
		if _, err := client.New(cfg); err == nil {
			t.Errorf("%+v: got no error", cfg)
		}
	}
}

func TestCompressionIsNotAskedFor(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got, want := r.Header.Get("Accept-Encoding"), "identity"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		(&fake{batches: 1, generation: "g"}).ServeHTTP(w, r)
	}))
	defer srv.Close()
	if _, err := newClient(t, client.Config{Gateways: []string{srv.URL}, HTTP: &http.Client{}}).Batch(t.Context(), client.Options{}, 0); err != nil {
		t.Error(err)
	}
}

func TestWordsOfAGatewayAreFitForATerminal(t *testing.T) {
	f := &fake{fault: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		refuse(w, http.StatusBadRequest, map[string]any{"code": "invalid_argument", "detail": "a\x1b[2J\nb\u202e" + strings.Repeat("x", 60_000), "request_id": "r\r1"})
		return true
	}}
	_, err := newClient(t, client.Config{Gateways: []string{serve(t, f)}}).Batch(t.Context(), client.Options{}, 0)
	got := fmt.Sprint(err)
	if strings.ContainsAny(got, "\x1b\n\r\u202e") || !strings.Contains(got, "a [2J b xx") || len(got) > 5000 {
		t.Errorf("got %.100q of %d bytes, want it short and without control characters", got, len(got))
	}
}
