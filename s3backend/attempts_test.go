package s3backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// TestReport_TellsTheBreaker checks that normal responses reset the breaker's count of failures.
// Errors that say nothing about the store's health do not change the count.
func TestReport_TellsTheBreaker(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int // number of consecutive failures, after three
	}{
		{nil, 0},
		{objstore.ErrNotFound, 0},
		{objstore.ErrChanged, 0},
		{objstore.ErrDenied, 0},
		{objstore.ErrShort, 3},
		{objstore.ErrThrottled, 3},
		{context.Canceled, 3},
		{objstore.ErrUnavailable, 4},
		{objstore.ErrTimeout, 4},
	} {
		b := opened(t, Config{Bucket: "train", Endpoint: "http://store"}, quick())
		b.breaker.failures, b.breaker.probing = 3, true
		err := c.err
		if err != nil {
			err = fmt.Errorf("read: %w", err)
		}
		b.report(err)
		if b.breaker.failures != c.want || b.breaker.probing {
			t.Errorf("%v: got %d failures, a probe under way: %t, want %d and none", c.err, b.breaker.failures, b.breaker.probing, c.want)
		}
		if st := b.Stats(); err != nil && st.Errors[objstore.Kind(err)] != 1 || err == nil && len(st.Errors) > 0 {
			t.Errorf("%v: got errors counted %v", c.err, st.Errors)
		}
		if slowed := b.concurrency.current() < b.cfg.MaxConns; slowed != errors.Is(err, objstore.ErrThrottled) {
			t.Errorf("%v: got a limit of %d requests", c.err, b.concurrency.current())
		}
	}
}

// TestReport_OfSuccessGivesPlacesBack checks that successes raise the limit again after the store
// has asked to slow down.
func TestReport_OfSuccessGivesPlacesBack(t *testing.T) {
	b := opened(t, Config{Bucket: "train", Endpoint: "http://store"}, quick())
	b.report(objstore.ErrThrottled)
	low := b.Stats().Limit
	for range b.cfg.MaxConns {
		b.report(nil)
	}
	if got := b.Stats().Limit; got <= low {
		t.Errorf("got a limit of %d requests, want more than %d", got, low)
	}
}

// outage lets all requests fail until the breaker is open.
func outage(t *testing.T, b *Backend, s *scriptedStore) {
	t.Helper()
	for !b.Stats().BreakerOpen {
		s.next(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		if err := b.ReadRange(t.Context(), ref, 0, make([]byte, 10)); !errors.Is(err, objstore.ErrUnavailable) {
			t.Fatalf("got %v, want %v", err, objstore.ErrUnavailable)
		}
		time.Sleep(breakTime / (breakAfter - 1))
	}
}

// TestProbeThatGetsNoPlaceIsOver checks a probe that waits for a place until its caller gives up.
// The next probe is sent after the usual interval.
func TestProbeThatGetsNoPlaceIsOver(t *testing.T) {
	s := &scriptedStore{data: sample(10), every: usual}
	policy := quick()
	policy.attempts = 1
	inBubble(t, policy, s.ServeHTTP, func(t *testing.T, b *Backend) {
		outage(t, b, s)
		requests := b.Stats().Requests
		err := b.ReadRange(t.Context(), ref, 0, make([]byte, 10))
		wantError(t, "before the probe", err, objstore.ErrUnavailable, fmt.Sprintf("no answer in %d attempts, waiting for the next probe", requests))
		time.Sleep(probeInterval)
		taken := 0
		for b.concurrency.try() {
			taken++
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := b.ReadRange(ctx, ref, 0, make([]byte, 10)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a place: got %v, want %v", err, context.DeadlineExceeded)
		}
		if got := b.Stats().Requests; got != requests {
			t.Errorf("got %d requests, want no more than %d", got, requests)
		}
		for range taken {
			b.concurrency.release()
		}
		time.Sleep(probeInterval)
		if err := b.ReadRange(t.Context(), ref, 0, make([]byte, 10)); err != nil || b.Stats().BreakerOpen {
			t.Errorf("the next probe: got %v, breaker open: %t", err, b.Stats().BreakerOpen)
		}
	})
}

// TestNoPauseBeyondTheDeadline fails a request with a deadline that ends before the pause would:
// the error is returned immediately. If the caller cancels during a pause, the error contains the
// reason for the pause.
func TestNoPauseBeyondTheDeadline(t *testing.T) {
	policy := quick()
	policy.base, policy.top = 1000*time.Hour, 1000*time.Hour
	inBubble(t, policy, nameless, func(t *testing.T, b *Backend) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		defer cancel()
		start := time.Now()
		err := b.ReadRange(ctx, ref, 0, make([]byte, 1))
		wantError(t, "read", err, objstore.ErrUnavailable, "(status 503, request r7)")
		if took := time.Since(start); took != 0 || b.Stats().Requests != 1 {
			t.Errorf("took %v on the fake clock and %d requests, want none, and one", took, b.Stats().Requests)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		err = b.ReadRange(ctx, ref, 0, make([]byte, 1))
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "503") || time.Since(start) != time.Second {
			t.Errorf("got %v after %v, want %v and the status after 1s", err, time.Since(start), context.Canceled)
		}
	})
}

// trickle sends the requested range, with a pause after each piece.
func (s *scriptedStore) trickle(piece int, pauses func(sent int) time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"`+testETag+`"`)
		w.Header().Set("Content-Length", strconv.Itoa(len(s.data)))
		for sent := 0; sent < len(s.data) && objstore.Sleep(r.Context(), pauses(sent)) == nil; sent += piece {
			_, _ = w.Write(s.data[sent:min(sent+piece, len(s.data))])
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// TestSlowBodyIsReplaced checks that a body slower than the minimum rate over a window is canceled,
// even if earlier windows were faster, and that another attempt reads the rest. A body at the
// minimum rate is not canceled.
func TestSlowBodyIsReplaced(t *testing.T) {
	const piece = 32 << 10
	policy := quick()
	policy.stall, policy.rateWindow, policy.minRate = 5*time.Second, 10*time.Second, 64<<10
	policy.base, policy.top = 0, 0
	s := &scriptedStore{data: sample(100 * piece)}
	for name, c := range map[string]struct {
		pauses  func(sent int) time.Duration
		least   time.Duration
		most    time.Duration
		retries int64
	}{
		"at the rate": {func(int) time.Duration { return time.Second / 2 }, 50 * time.Second, 50 * time.Second, 0},
		"slow":        {func(int) time.Duration { return time.Second }, 10 * time.Second, 11 * time.Second, 1},
		"quick, then slow": {func(sent int) time.Duration {
			if sent < 60*piece {
				return time.Second / 5
			}
			return 2 * time.Second
		}, 22 * time.Second, 30 * time.Second, 1},
		"stalled": {func(sent int) time.Duration {
			if sent < 10*piece {
				return 0
			}
			return time.Hour
		}, 5 * time.Second, 5 * time.Second, 1},
	} {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in sequence %t", name, open), func(t *testing.T) {
				inBubble(t, policy, s.ServeHTTP, func(t *testing.T, b *Backend) {
					s.next(s.trickle(piece, c.pauses))
					start := time.Now()
					if got := readOne(t, b, open, len(s.data)); !bytes.Equal(got, s.data) {
						t.Error("got other bytes")
					}
					took, st := time.Since(start), b.Stats()
					if took < c.least || took > c.most || st.Retries != c.retries || st.Errors["timeout"] != c.retries {
						t.Errorf("took %v with %d retries after %v, want %v to %v with %d", took, st.Retries, st.Errors, c.least, c.most, c.retries)
					}
				})
			})
		}
	}
}

// TestOpen_Lies checks wrong responses to Open: a second transfer must report the same object as
// the first, and each transfer must report a length.
func TestOpen_Lies(t *testing.T) {
	data := sample(30)
	for _, c := range []struct {
		name  string
		first []string // headers of the first response
		later []string // headers of the responses to requests for the rest
		text  string
	}{
		{"no length", []string{etag(testETag), "Connection: close"}, nil, "invalid response: Content-Length is missing"},
		{"another size", []string{etag(testETag), "Content-Length: 30"}, []string{etag(testETag), contentRange(10, 30, 31), "Content-Length: 21"}, "invalid response: 31 bytes in total instead of 30"},
		{"another start", []string{etag(testETag), "Content-Length: 30"}, []string{etag(testETag), contentRange(9, 29, 30), "Content-Length: 21"}, "bytes for a request of bytes 10 to 29"},
	} {
		s := serve(t, func(w net.Conn, r request) bool {
			if r.Header.Get("Range") == "" {
				head(w, "200 OK", c.first...)
				w.Write(data[:10])
				return false
			}
			head(w, "206 Partial Content", c.later...)
			return false
		})
		r, err := backend(t, s, quick()).Open(t.Context(), ref, 0)
		if err == nil {
			_, err = io.ReadAll(r)
			r.Close()
		}
		wantError(t, c.name, err, objstore.ErrUnavailable, c.text)
	}
}

// TestOpen_Ends checks that a closed reader, or one with a canceled context, sends no further
// requests.
func TestOpen_Ends(t *testing.T) {
	s := &scriptedStore{data: sample(30), every: usual}
	inBubble(t, quick(), s.ServeHTTP, func(t *testing.T, b *Backend) {
		ctx, cancel := context.WithCancel(t.Context())
		var readers [2]io.ReadCloser
		for i := range readers {
			var err error
			if readers[i], err = b.Open(ctx, ref, 0); err != nil {
				t.Fatal(err)
			}
			if n, err := readers[i].Read(nil); n != 0 || err != nil {
				t.Errorf("read of nothing: got %d bytes, %v", n, err)
			}
			if _, err := readers[i].Read(make([]byte, 3)); err != nil {
				t.Fatal(err)
			}
		}
		readers[0].Close()
		if n, err := readers[0].Read(make([]byte, 3)); n != 0 || err == nil || err.Error() != `read "a/shard.tar" at 3: reader is closed` {
			t.Errorf("closed: got %d bytes, %v", n, err)
		}
		cancel()
		if n, err := readers[1].Read(make([]byte, 3)); n != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: got %d bytes, %v, want %v", n, err, context.Canceled)
		}
		readers[1].Close()
		if _, err := b.Open(ctx, ref, 0); !errors.Is(err, context.Canceled) || b.Stats().Requests != 2 {
			t.Errorf("open: got %v after %d requests, want %v after 2", err, b.Stats().Requests, context.Canceled)
		}
	})
}

// TestOpen_GivesUpWithoutAnAnswer checks that the response header must arrive within its limit in
// each attempt.
func TestOpen_GivesUpWithoutAnAnswer(t *testing.T) {
	s := &scriptedStore{data: sample(30)}
	policy := quick()
	policy.header, policy.base, policy.top = 5*time.Second, 0, 0
	inBubble(t, policy, s.ServeHTTP, func(t *testing.T, b *Backend) {
		s.next(s.never, s.never, s.never, s.never, s.never)
		start := time.Now()
		_, err := b.Open(t.Context(), ref, 0)
		wantError(t, "open", err, objstore.ErrTimeout, "no progress")
		synctest.Wait()
		if took, want := time.Since(start), time.Duration(policy.attempts)*policy.header; took != want || s.ended != policy.attempts {
			t.Errorf("took %v, %d requests ended, want %v and %d", took, s.ended, want, policy.attempts)
		}
	})
}

// TestVersionIsAskedFor checks that every read requests the version in its ref.
func TestVersionIsAskedFor(t *testing.T) {
	var asked []string
	inBubble(t, quick(), func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.RawQuery)
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		w.Header().Set("ETag", `"`+testETag+`"`)
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		w.Header().Set("Content-Length", "3")
	}, func(t *testing.T, b *Backend) {
		err := b.ReadRange(t.Context(), objstore.Ref{Key: testKey, VersionID: "v/1 +"}, 7, make([]byte, 1))
		wantError(t, "read", err, objstore.ErrShort, "the object has 3 bytes")
		if got, want := strings.Join(asked, ", "), "GET versionId=v%2F1%20%2B, HEAD versionId=v%2F1%20%2B"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// TestClassifyNetwork checks the class and the text for each network fault.
func TestClassifyNetwork(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, c := range []struct {
		err  error
		want error
		text string
		lost bool
	}{
		{context.DeadlineExceeded, objstore.ErrTimeout, "timeout: context deadline exceeded", true},
		{context.Canceled, objstore.ErrTimeout, "timeout: context canceled", true},
		{&net.OpError{Op: "read", Err: slow{}}, objstore.ErrTimeout, "timeout: the network timed out", true},
		{&net.DNSError{Name: "store.test", Err: "no such host"}, objstore.ErrUnavailable, "unavailable: look up store.test: no such host", false},
		{refused, objstore.ErrUnavailable, "unavailable: dial: connection refused", true},
		{&url.Error{Op: "Get", URL: "http://secret", Err: refused}, objstore.ErrUnavailable, "unavailable: dial: connection refused", true},
		{io.EOF, objstore.ErrUnavailable, "unavailable: the connection was closed", true},
		{io.ErrUnexpectedEOF, objstore.ErrUnavailable, "unavailable: the connection was closed", true},
		{errors.New("mal\nformed " + strings.Repeat("x", 200)), objstore.ErrUnavailable, "unavailable: the transfer failed: mal.formed " + strings.Repeat("x", 149) + "...", true},
	} {
		f := classify(c.err)
		if f.Error() != c.text || !errors.Is(f, c.want) || !f.retry || f.lost != c.lost {
			t.Errorf("%v: got %v, retry: %t, lost: %t, want %s, true, %t", c.err, f, f.retry, f.lost, c.text, c.lost)
		}
	}
}

// slow is a timeout of the network.
type slow struct{}

func (slow) Error() string   { return "i/o timeout" }
func (slow) Timeout() bool   { return true }
func (slow) Temporary() bool { return true }

// TestSettle_TellsWhoEndedAnAttempt checks that the error names who ended an attempt: the caller,
// the fault of the caller's body, the watchdog, or else the store.
func TestSettle_TellsWhoEndedAnAttempt(t *testing.T) {
	fault, watched := errors.New("fault"), &failure{kind: objstore.ErrTimeout, detail: "no progress"}
	own := &failure{detail: "read the body: fault", own: true}
	live := t.Context()
	ended, cancel := context.WithCancel(live)
	cancel()
	timedOut, end := context.WithCancelCause(live)
	end(watched)
	for name, c := range map[string]struct {
		caller, attempt context.Context
		err             error
		want            error  // itself
		text            string // text of a different error
	}{
		"success":                         {live, live, nil, nil, ""},
		"success though it was ended":     {ended, timedOut, nil, nil, ""},
		"the caller left":                 {ended, timedOut, fault, fault, ""},
		"our watch":                       {live, timedOut, fault, watched, ""},
		"our watch, while the body fails": {live, timedOut, own, own, ""},
		"the body":                        {live, live, own, own, ""},
		"the store":                       {live, live, fault, nil, "unavailable: the transfer failed: fault"},
		"ended by another":                {live, ended, fault, nil, "unavailable: the transfer failed: fault"},
	} {
		err := settle(c.caller, c.attempt, c.err)
		if c.text == "" && err != c.want || c.text != "" && (err == nil || err.Error() != c.text) {
			t.Errorf("%s: got %v, want %v%s", name, err, c.want, c.text)
		}
	}
}

// TestAnother_PausesLongerWhenThrottled checks the pauses between attempts: ten times as long if
// the store throttles, and longer after each attempt without progress.
func TestAnother_PausesLongerWhenThrottled(t *testing.T) {
	policy := quick()
	policy.base, policy.top, policy.attempts = time.Minute, time.Hour, 3
	for _, c := range []struct {
		kind      error
		fruitless int
		got       int64
		most      time.Duration
	}{
		{objstore.ErrUnavailable, 0, 0, time.Minute}, {objstore.ErrUnavailable, 1, 0, 2 * time.Minute}, {objstore.ErrUnavailable, 1, policy.progress, time.Minute},
		{objstore.ErrUnavailable, 1, policy.progress - 1, 2 * time.Minute}, {objstore.ErrThrottled, 0, 0, 10 * time.Minute}, {objstore.ErrThrottled, 1, 0, 20 * time.Minute},
	} {
		inBubble(t, policy, nameless, func(t *testing.T, b *Backend) {
			longest := time.Duration(0)
			for range 50 {
				start, fruitless := time.Now(), c.fruitless
				if err := b.another(t.Context(), &failure{kind: c.kind, retry: true}, &fruitless, c.got); err != nil {
					t.Fatal(err)
				}
				longest = max(longest, time.Since(start))
				time.Sleep(time.Second) // the budget gains ten retries per second
			}
			if longest > c.most || longest <= c.most/2 {
				t.Errorf("%v after %d in a row: got pauses of %v at most, want %v", c.kind, c.fruitless, longest, c.most)
			}
		})
	}
}
