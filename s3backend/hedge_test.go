package s3backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// scriptedStore is a correct store with scripted responses to its next requests.
type scriptedStore struct {
	data  []byte
	every time.Duration // delay of each response

	mu     sync.Mutex
	script []http.HandlerFunc // responses to the next requests; nil: as usual
	ended  int                // number of requests that the client canceled
}

func (s *scriptedStore) next(answers ...http.HandlerFunc) {
	s.mu.Lock()
	s.script = answers
	s.mu.Unlock()
}

func (s *scriptedStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	var answer http.HandlerFunc
	if len(s.script) > 0 {
		answer, s.script = s.script[0], s.script[1:]
	}
	s.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	time.Sleep(s.every)
	s.sound(w, r)
}

func (s *scriptedStore) sound(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"`+testETag+`"`)
	http.ServeContent(w, r, "", time.Unix(1e9, 0), bytes.NewReader(s.data))
}

// after returns a handler that responds correctly after a delay.
func (s *scriptedStore) after(d time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { time.Sleep(d); s.sound(w, r) }
}

// never responds only after the client has canceled.
func (s *scriptedStore) never(_ http.ResponseWriter, r *http.Request) {
	<-r.Context().Done()
	s.mu.Lock()
	s.ended++
	s.mu.Unlock()
}

const (
	usual  = 20 * time.Millisecond // time from request to response
	late   = 30 * time.Millisecond // time until a second request is sent
	second = late + usual          // time until its response
	later  = 80 * time.Millisecond
)

// learned makes the backend treat a response as late after the given time.
func learned(t *testing.T, b *Backend) {
	t.Helper()
	for range hedgeLearn {
		b.hedges.saw(late)
	}
	if got := b.hedges.lateness(); got != late {
		t.Fatalf("late after %v, want %v", got, late)
	}
}

// TestLateAnswerIsAskedForAgain makes the first request late in each way. The fake clock shows
// which response was used.
func TestLateAnswerIsAskedForAgain(t *testing.T) {
	s := &scriptedStore{data: sample(100), every: usual}
	abort := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for _, tc := range []struct {
		name           string
		script         []http.HandlerFunc
		want           time.Duration
		hedges, others int64 // second requests, and retries
	}{
		{"as usual", nil, usual, 0, 0},
		{"never", []http.HandlerFunc{s.never}, second, 1, 0},
		{"late, the second later", []http.HandlerFunc{s.after(later), s.never}, later, 1, 0},
		{"both at once", []http.HandlerFunc{s.after(second)}, second, 1, 0},
		{"fails early", []http.HandlerFunc{abort}, usual, 0, 1},
		{"fails late", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) { time.Sleep(late + 10*time.Millisecond); abort(w, r) }}, second, 1, 0},
		{"the second fails", []http.HandlerFunc{s.after(later), abort}, later, 1, 0},
		{"the second has another version", []http.HandlerFunc{s.after(later), func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"other"`)
			http.ServeContent(w, r, "", time.Unix(1e9, 0), bytes.NewReader(s.data))
		}}, later, 1, 0},
		{"both fail", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) { time.Sleep(late + 10*time.Millisecond); abort(w, r) }, abort}, late + 10*time.Millisecond + usual, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			policy := quick()
			policy.base, policy.top = 0, 0
			inBubble(t, policy, s.ServeHTTP, func(t *testing.T, b *Backend) {
				learned(t, b)
				s.next(tc.script...)
				before, start, got := b.Stats(), time.Now(), make([]byte, 40)
				if err := b.ReadRange(t.Context(), ref, 7, got); err != nil || !bytes.Equal(got, s.data[7:47]) {
					t.Errorf("got %x, %v, want %x", got, err, s.data[7:47])
				}
				if took := time.Since(start); took != tc.want {
					t.Errorf("took %v on the fake clock, want %v", took, tc.want)
				}
				st := b.Stats()
				if h, r := st.Hedges-before.Hedges, st.Retries-before.Retries; h != tc.hedges || r != tc.others || st.Requests-before.Requests != 1+h+r {
					t.Errorf("got %d second requests and %d repetitions of %d, want %d and %d", h, r, st.Requests-before.Requests, tc.hedges, tc.others)
				}
				if !idle(b.concurrency) {
					t.Error("a place is still taken")
				}
				synctest.Wait()
				// A handler that never responds has seen the loser's connection
				// end; otherwise the bubble would be deadlocked.
			})
		})
	}
}

// TestSecondRequestsAreFew reads from a store that sends a tenth of the responses late. At most one
// request in a hundred is sent twice.
func TestSecondRequestsAreFew(t *testing.T) {
	s := &scriptedStore{data: sample(10), every: usual}
	inBubble(t, quick(), s.ServeHTTP, func(t *testing.T, b *Backend) {
		learned(t, b)
		const reads = 5000
		before := b.Stats()
		for i := range reads {
			if i%10 == 0 {
				s.next(s.after(time.Second))
			}
			if err := b.ReadRange(t.Context(), ref, 0, make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
		}
		st := b.Stats()
		if got := st.Hedges - before.Hedges; got > reads/100+hedgeBurst || got == 0 {
			t.Errorf("got %d second requests for %d reads, want some, and at most %d", got, reads, reads/100+hedgeBurst)
		}
		if st.Retries != 0 {
			t.Errorf("got %d repetitions, want none", st.Retries)
		}
	})
}

// TestNoSecondRequest checks that no second request is sent if it would do harm. Its place is free
// again immediately, while the first request is still running.
func TestNoSecondRequest(t *testing.T) {
	for name, prevent := range map[string]func(*Backend){
		"all places taken": func(b *Backend) { b.concurrency = newConcurrencyLimit(1) },
		"breaker open": func(b *Backend) {
			for range breakAfter {
				b.breaker.report(failed)
			}
			time.Sleep(breakTime)
			b.breaker.report(failed)
			time.Sleep(probeInterval) // the read is the probe
		},
		"no credit": func(b *Backend) {
			for b.hedges.credit.spend() {
			}
		},
		"no budget": func(b *Backend) {
			for b.retries.spend() {
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scriptedStore{data: sample(10), every: usual}
			inBubble(t, quick(), s.ServeHTTP, func(t *testing.T, b *Backend) {
				learned(t, b)
				s.next(s.after(time.Second))
				prevent(b)
				start, ended := time.Now(), make(chan error)
				go func() { ended <- b.ReadRange(t.Context(), ref, 0, make([]byte, 10)) }()
				time.Sleep(2 * late)
				if got, want := free(b.concurrency), int64(b.concurrency.current()-1); got != want {
					t.Errorf("got %d free places while one request is under way, want %d", got, want)
				}
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); b.Stats().Hedges != 0 || took != time.Second {
					t.Errorf("got %d second requests, an answer after %v on the fake clock, want none, and 1 s", b.Stats().Hedges, took)
				}
			})
		})
	}
}

// TestSecondRequestIsToldToSlowDown lets the store throttle only the second request.
func TestSecondRequestIsToldToSlowDown(t *testing.T) {
	s := &scriptedStore{data: sample(10), every: usual}
	inBubble(t, quick(), s.ServeHTTP, func(t *testing.T, b *Backend) {
		learned(t, b)
		s.next(s.after(later), func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "<Error><Code>SlowDown</Code></Error>")
		})
		if err := b.ReadRange(t.Context(), ref, 0, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		if st := b.Stats(); st.Hedges != 1 || st.Limit >= 256 {
			t.Errorf("got %d second requests and a limit of %d, want one, and less than 256", st.Hedges, st.Limit)
		}
	})
}

// TestTwoAnswersAtOnce lets both responses arrive at the same moment, repeatedly. One is used
// completely, and no connection or place is lost.
func TestTwoAnswersAtOnce(t *testing.T) {
	s := &scriptedStore{data: sample(1000), every: usual}
	inBubble(t, quick(), s.ServeHTTP, func(t *testing.T, b *Backend) {
		learned(t, b)
		for range 500 {
			b.hedges.credit.tokens = 1
			b.hedges.late.Store(int64(late))
			s.next(s.after(second))
			got := make([]byte, len(s.data))
			if err := b.ReadRange(t.Context(), ref, 0, got); err != nil || !bytes.Equal(got, s.data) {
				t.Fatalf("got %v, or not the bytes", err)
			}
			time.Sleep(time.Second) // the budget has gained a retry again
		}
		if st := b.Stats(); st.Retries != 0 || st.Hedges != 500 || !idle(b.concurrency) {
			t.Errorf("got %d repetitions, %d second requests, all places free: %t, want none, 500, true", st.Retries, st.Hedges, idle(b.concurrency))
		}
	})
}

// TestHedgeEndsWithItsCaller cancels while both requests are running.
func TestHedgeEndsWithItsCaller(t *testing.T) {
	s := &scriptedStore{data: sample(10), every: usual}
	inBubble(t, quick(), s.ServeHTTP, func(t *testing.T, b *Backend) {
		learned(t, b)
		s.next(s.never, s.never)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		err := b.ReadRange(ctx, ref, 0, make([]byte, 10))
		if want := ctx.Err(); want == nil || !errors.Is(err, want) || time.Since(start) != time.Second {
			t.Errorf("got %v after %v on the fake clock, want %v after 1 s", err, time.Since(start), want)
		}
		synctest.Wait()
		if !idle(b.concurrency) || s.ended != 2 {
			t.Errorf("got all places free: %t, and %d requests ended, want true and 2", idle(b.concurrency), s.ended)
		}
	})
}

// TestLateness checks that lateness is the 99th percentile of the latest response times.
func TestLateness(t *testing.T) {
	var h hedger
	for i := range hedgeLearn - 1 {
		h.saw(time.Duration(i) * time.Second)
	}
	if got := h.lateness(); got != 0 {
		t.Errorf("after too few answers: got %v, want 0", got)
	}
	var latest []time.Duration
	for i := range 1000 {
		d := time.Duration(i*7919%1000) * time.Millisecond
		h.saw(d)
		latest = append(latest, d)
	}
	for h.n%hedgeEvery != 0 {
		h.saw(0)
		latest = append(latest, 0)
	}
	latest = latest[len(latest)-len(h.recent):]
	slices.Sort(latest)
	if got, want := h.lateness(), latest[len(latest)*99/100]; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	for range len(h.recent) {
		h.saw(time.Millisecond)
	}
	if got := h.lateness(); got != hedgeFloor {
		t.Errorf("of a quick store: got %v, want %v", got, hedgeFloor)
	}
}
