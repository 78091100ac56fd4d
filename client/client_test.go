package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

func newClient(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return c
}

// numbers reads an epoch, checks each body and returns the batch numbers.
func numbers(t *testing.T, c *client.Client, opt client.Options) []uint64 {
	t.Helper()
	var got []uint64
	for b, err := range c.Batches(t.Context(), opt) {
		if err != nil {
			t.Fatalf("after %v: %v", got, err)
		}
		if want := body(opt.Epoch, b.Number); !bytes.Equal(b.Bytes(), want) {
			t.Errorf("batch %d: got %q, want %q", b.Number, b.Bytes(), want)
		}
		got = append(got, b.Number)
	}
	return got
}

func TestBatchesComeInOrderUnderOneGeneration(t *testing.T) {
	for _, prefetch := range []int{-1, 1, 3, 50} {
		f := &fake{batches: 7, generation: "g1"}
		c := newClient(t, client.Config{Gateways: []string{serve(t, f)}})
		got := numbers(t, c, client.Options{Epoch: 4, From: 2, Prefetch: prefetch})
		if fmt.Sprint(got) != "[2 3 4 5 6]" {
			t.Errorf("prefetch %d: got %v, want [2 3 4 5 6]", prefetch, got)
		}
		for i, r := range f.seen() {
			if pinned := strings.Contains(r, "generation=g1"); pinned != (i > 0) {
				t.Errorf("prefetch %d, request %d: %s: pinned %v, want %v", prefetch, i, r, pinned, i > 0)
			}
		}
	}
}

// TestFirstBatchIsUsedWhileTheNextAreRead: the consumer gets the first batch while the next ones
// are read. The first step of a job is often its longest.
func TestFirstBatchIsUsedWhileTheNextAreRead(t *testing.T) {
	ahead := make(chan struct{}, 10)
	f := &fake{batches: 10, generation: "g", fault: func(n int, _ http.ResponseWriter, _ *http.Request) bool {
		if n > 0 {
			ahead <- struct{}{}
		}
		return false
	}}
	c := newClient(t, client.Config{Gateways: []string{serve(t, f)}})
	for _, err := range c.Batches(t.Context(), client.Options{Prefetch: 3}) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			select {
			case <-ahead:
			case <-time.After(time.Minute):
				t.Fatalf("got %d batches asked for while the first was used, want 3", i)
			}
		}
		break
	}
}

func TestStepAndUntilSelectBatches(t *testing.T) {
	f := &fake{batches: 10, generation: "g"}
	c := newClient(t, client.Config{Gateways: []string{serve(t, f)}})
	if got := numbers(t, c, client.Options{From: 1, Until: 8, Step: 3}); fmt.Sprint(got) != "[1 4 7]" {
		t.Errorf("got %v, want [1 4 7]", got)
	}
}

func TestStartAtTheEndIsAFinishedEpochAndBeyondItAnError(t *testing.T) {
	f := &fake{batches: 3, generation: "g"}
	c := newClient(t, client.Config{Gateways: []string{serve(t, f)}})
	if got := numbers(t, c, client.Options{From: 3}); len(got) != 0 {
		t.Errorf("got %v, want none", got)
	}
	for _, err := range c.Batches(t.Context(), client.Options{From: 4}) {
		if !errors.Is(err, &client.Error{Code: client.CodeEndOfEpoch}) {
			t.Errorf("got %v, want end_of_epoch", err)
		}
	}
}

type fault func(t *testing.T, f *fake, w http.ResponseWriter, r *http.Request)

// transferFaults returns responses that a client must reject, or that report a temporary fault.
func transferFaults() map[string]fault {
	return map[string]fault{
		"reset": func(t *testing.T, _ *fake, w http.ResponseWriter, _ *http.Request) { reset(t, w) },
		"short body": func(t *testing.T, f *fake, w http.ResponseWriter, r *http.Request) {
			f.answer(w, r, func(_ http.Header, b []byte) []byte { return b[:len(b)-1] })
		},
		"wrong byte": func(t *testing.T, f *fake, w http.ResponseWriter, r *http.Request) {
			f.answer(w, r, func(_ http.Header, b []byte) []byte { b[3] ^= 1; return b })
		},
		"another batch": func(t *testing.T, f *fake, w http.ResponseWriter, r *http.Request) {
			f.answer(w, r, func(h http.Header, b []byte) []byte { h.Set("Millrace-Batch", "77"); return b })
		},
		"no crc": func(t *testing.T, f *fake, w http.ResponseWriter, r *http.Request) {
			f.answer(w, r, func(h http.Header, b []byte) []byte { h.Del("Millrace-Crc32c"); return b })
		},
		"another epoch": func(t *testing.T, f *fake, w http.ResponseWriter, r *http.Request) {
			f.answer(w, r, func(h http.Header, b []byte) []byte { h.Set("Millrace-Epoch", "77"); return b })
		},
		"another plan's batches": func(t *testing.T, f *fake, w http.ResponseWriter, r *http.Request) {
			f.answer(w, r, func(h http.Header, b []byte) []byte { h.Set("Millrace-Batches", "4"); return b })
		},
		"another generation in the address": func(t *testing.T, f *fake, w http.ResponseWriter, r *http.Request) {
			f.answer(w, r, func(h http.Header, b []byte) []byte {
				h.Set("Content-Location", "/v1/datasets/photos/epochs/0/batches/1?generation=other")
				return b
			})
		},
		"another seed": func(t *testing.T, f *fake, w http.ResponseWriter, r *http.Request) {
			f.answer(w, r, func(h http.Header, b []byte) []byte {
				h.Set("Content-Location", "/v1/datasets/photos/epochs/0/batches/1?seed=8")
				return b
			})
		},
		"more samples than the plan's batch": func(t *testing.T, f *fake, w http.ResponseWriter, r *http.Request) {
			f.answer(w, r, func(h http.Header, b []byte) []byte {
				h.Set("Content-Location", "/v1/datasets/photos/epochs/0/batches/1?batch_size=1")
				return b
			})
		},
		"more padding than samples": func(t *testing.T, f *fake, w http.ResponseWriter, r *http.Request) {
			f.answer(w, r, func(h http.Header, b []byte) []byte { h.Set("Millrace-Padded", "3"); return b })
		},
		"end inside the epoch": func(t *testing.T, _ *fake, w http.ResponseWriter, _ *http.Request) {
			refuse(w, 404, map[string]any{"code": "end_of_epoch", "batches": 1})
		},
		"503": func(t *testing.T, _ *fake, w http.ResponseWriter, _ *http.Request) {
			refuse(w, 503, map[string]any{"code": "overloaded", "retryable": true})
		},
		"proxy without backend": func(t *testing.T, _ *fake, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) },
		"internal once": func(t *testing.T, _ *fake, w http.ResponseWriter, _ *http.Request) {
			refuse(w, 500, map[string]any{"code": "internal", "retryable": true})
		},
	}
}

func TestFaultsOfOneTransferAreHidden(t *testing.T) {
	for name, fault := range transferFaults() {
		t.Run(name, func(t *testing.T) {
			f := &fake{batches: 3, generation: "g"}
			f.fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
				if n != 1 {
					return false
				}
				fault(t, f, w, r)
				return true
			}
			c := newClient(t, client.Config{Gateways: []string{serve(t, f)}})
			if got := numbers(t, c, client.Options{Prefetch: -1, Seed: new(uint64(7))}); fmt.Sprint(got) != "[0 1 2]" {
				t.Errorf("got %v, want [0 1 2]", got)
			}
			if got, want := len(f.seen()), 4; got < want {
				t.Errorf("got %d requests, want %d at least: the fault did not happen", got, want)
			}
		})
	}
}

func TestFaultsThatStayAreErrors(t *testing.T) {
	damaged := func(f *fake, w http.ResponseWriter, r *http.Request) {
		f.answer(w, r, func(_ http.Header, b []byte) []byte { b[0] ^= 1; return b })
	}
	for _, tc := range []struct {
		name     string
		fault    func(f *fake, w http.ResponseWriter, r *http.Request)
		want     error
		requests int
	}{
		{"always damaged", damaged, client.ErrCRC, 4},
		{"inconsistent store", func(_ *fake, w http.ResponseWriter, _ *http.Request) {
			refuse(w, 502, map[string]any{"code": "store_inconsistent"})
		}, &client.Error{Code: client.CodeStoreInconsistent}, 1},
		{"internal twice", func(_ *fake, w http.ResponseWriter, _ *http.Request) {
			refuse(w, 500, map[string]any{"code": "internal", "retryable": true})
		}, &client.Error{Code: client.CodeInternal}, 2},
		{"another generation", func(f *fake, w http.ResponseWriter, r *http.Request) {
			f.answer(w, r, func(h http.Header, b []byte) []byte { h.Set("Millrace-Generation", "other"); return b })
		}, client.ErrProtocol, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &fake{batches: 3, generation: "g"}
			f.fault = func(_ int, w http.ResponseWriter, r *http.Request) bool { tc.fault(f, w, r); return true }
			c := newClient(t, client.Config{Gateways: []string{serve(t, f)}})
			_, err := c.Batch(t.Context(), client.Options{Generation: "g"}, 1)
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if got := len(f.seen()); got != tc.requests {
				t.Errorf("got %d requests, want %d", got, tc.requests)
			}
		})
	}
}

func TestAnotherGatewayTakesOver(t *testing.T) {
	dead := &fake{batches: 5, generation: "g"}
	dead.fault = func(_ int, w http.ResponseWriter, _ *http.Request) bool { reset(t, w); return true }
	alive := &fake{batches: 5, generation: "g"}
	c := newClient(t, client.Config{Gateways: []string{serve(t, dead), serve(t, alive)}})
	if got := numbers(t, c, client.Options{Prefetch: -1}); fmt.Sprint(got) != "[0 1 2 3 4]" {
		t.Errorf("got %v, want [0 1 2 3 4]", got)
	}
	if got := len(alive.seen()); got != 5 {
		t.Errorf("the second gateway got %d requests, want 5", got)
	}
	// Go's transport may repeat a reset request once by itself.
	if got := len(dead.seen()); got > 2 {
		t.Errorf("the dead gateway got %d requests: it was asked again after the first failure", got)
	}
}

// transport answers from a handler without a socket, so that synctest's clock can run.
type transport struct{ h http.Handler }

func (tr transport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	tr.h.ServeHTTP(w, r)
	resp := w.Result()
	n, err := strconv.ParseInt(resp.Header.Get("Content-Length"), 10, 64)
	if err == nil {
		resp.ContentLength = n
	}
	return resp, nil
}

func TestRetryAfterIsHonoured(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := &fake{batches: 3, generation: "g"}
		f.fault = func(n int, w http.ResponseWriter, _ *http.Request) bool {
			if n < 2 {
				w.Header().Set("Retry-After", "7")
				refuse(w, 503, map[string]any{"code": "draining", "retryable": true})
			}
			return n < 2
		}
		c, err := client.New(client.Config{Gateways: []string{"http://gw"}, HTTP: &http.Client{Transport: transport{f}}})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := c.Batch(t.Context(), client.Options{}, 0); err != nil {
			t.Fatal(err)
		}
		if got, want := time.Since(start), 14*time.Second; got != want {
			t.Errorf("got a wait of %v on the fake clock, want %v", got, want)
		}
	})
}

func TestDeadlineEndsTheRetriesAndNamesTheFault(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := &fake{batches: 3, generation: "g"}
		f.fault = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			refuse(w, 503, map[string]any{"code": "overloaded", "retryable": true, "retry_after_ms": 900})
			return true
		}
		c, err := client.New(client.Config{Gateways: []string{"http://gw"}, Deadline: 10 * time.Second, HTTP: &http.Client{Transport: transport{f}}})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = c.Batch(t.Context(), client.Options{}, 0)
		if !errors.Is(err, &client.Error{Code: client.CodeOverloaded}) {
			t.Errorf("got %v, want overloaded", err)
		}
		if got := time.Since(start); got > 10*time.Second || got < 5*time.Second {
			t.Errorf("gave up after %v on the fake clock, want 5 to 10 s", got)
		}
	})
}

// stalledBody is a body whose bytes never arrive.
type stalledBody struct{ ctx context.Context }

func (s stalledBody) Read([]byte) (int, error) { <-s.ctx.Done(); return 0, s.ctx.Err() }
func (s stalledBody) Close() error             { return nil }

type stallOnce struct {
	next  http.RoundTripper
	calls int
}

func (s *stallOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(r)
	if s.calls++; s.calls == 1 && err == nil {
		resp.Body = io.NopCloser(stalledBody{r.Context()})
	}
	return resp, err
}

func TestStalledBodyIsAskedForAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		rt := &stallOnce{next: transport{&fake{batches: 3, generation: "g"}}}
		c, err := client.New(client.Config{Gateways: []string{"http://gw"}, HTTP: &http.Client{Transport: rt}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Batch(t.Context(), client.Options{}, 0); err != nil {
			t.Error(err)
		}
		if rt.calls != 2 {
			t.Errorf("got %d attempts, want 2", rt.calls)
		}
	})
}

func TestBreakAndCancelWaitForAllRequests(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, err := client.New(client.Config{Gateways: []string{"http://gw"}, HTTP: &http.Client{Transport: transport{&fake{batches: 100, generation: "g"}}}})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range c.Batches(t.Context(), client.Options{Prefetch: 8}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 3 {
				break
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, err := range c.Batches(ctx, client.Options{Prefetch: 8}) {
			cancel()
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want context.Canceled", err)
			}
		}
		// synctest fails the test if a goroutine is still running.
	})
}

func TestManifestLaysSamplesOverTheBody(t *testing.T) {
	f := &fake{batches: 2, generation: "g"}
	c := newClient(t, client.Config{Gateways: []string{serve(t, f)}})
	b, err := c.Batch(t.Context(), client.Options{Epoch: 5, Manifest: true}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.Samples(), 2; got != want {
		t.Fatalf("got %d samples, want %d", got, want)
	}
	for i := range 2 {
		if got, want := b.Sample(i), sample(5, uint64(2+i)); !bytes.Equal(got, want) {
			t.Errorf("sample %d: got %q, want %q", i, got, want)
		}
		if got, want := b.Describe(i).Key, fmt.Sprintf("k%d", 2+i); got != want {
			t.Errorf("key %d: got %s, want %s", i, got, want)
		}
	}
}

func TestDescribeTellsFields(t *testing.T) {
	told := `[{"name":"label","encoding":"raw","type":"int64","nullable":true,"classes":["cat","dog"]},{"name":"x","encoding":"raw","type":"float","shape":[3,4]}]`
	f := &fake{generation: "g", fields: json.RawMessage(told)}
	c := newClient(t, client.Config{Gateways: []string{serve(t, f)}})
	d, err := c.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []client.Field{
		{Name: "label", Encoding: "raw", Type: "int64", Nullable: true, Classes: []string{"cat", "dog"}},
		{Name: "x", Encoding: "raw", Type: "float", Shape: []uint64{3, 4}},
	}
	if diff := cmp.Diff(want, d.Fields); diff != "" {
		t.Error(diff)
	}
}

func TestNewRefusesWhatIsNoGateway(t *testing.T) {
	for _, g := range []string{"ftp://x", "http://", "http://x?y=1", "://"} {
		if _, err := client.New(client.Config{Gateways: []string{g}}); err == nil {
			t.Errorf("%q: got no error", g)
		}
	}
	if _, err := client.New(client.Config{}); err == nil {
		t.Error("no gateway: got no error")
	}
}
