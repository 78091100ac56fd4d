package s3backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/leaks"
)

// distinct returns a policy with different timeouts for each kind of wait, and with only one
// attempt.
func distinct() retryPolicy {
	policy := quick()
	policy.header, policy.upload, policy.stall, policy.write, policy.attempts = 5*time.Second, 10*time.Second, 20*time.Second, time.Minute, 1
	return policy
}

// TestRequests_EndWithTheLimitOfTheirKind sends each kind of request to a store that accepts it and
// never responds.
func TestRequests_EndWithTheLimitOfTheirKind(t *testing.T) {
	policy := distinct()
	never := (&scriptedStore{}).never
	put := func(t *testing.T, size int64) func(*Backend) error {
		t.Helper()
		return func(b *Backend) error {
			_, err := b.Put(t.Context(), testKey, strings.NewReader(string(sample(int(size)))), size, objstore.Condition{})
			return err
		}
	}
	for kind, want := range map[string]time.Duration{
		"read": policy.header, "stat": policy.header, "list": policy.header, "delete": policy.write, "put": policy.write, "put of nothing": policy.write, "put in parts": policy.write,
	} {
		inBubble(t, policy, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead && kind != "stat" { // this request looks up whether the write took effect
				w.WriteHeader(http.StatusNotFound)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			never(w, r)
		}, func(t *testing.T, b *Backend) {
			b.cfg.PartSize = minPart
			ask := kinds(t)
			ask["put of nothing"], ask["put in parts"] = put(t, 0), put(t, minPart+1)
			start := time.Now()
			err := ask[kind](b)
			wantError(t, kind, err, objstore.ErrTimeout, "no progress")
			if took := time.Since(start); took != want {
				t.Errorf("%s: took %v, want %v", kind, took, want)
			}
		})
	}
}

// TestPut_WaitsWhileTheBodyIsTaken checks that each piece of the body, and then the response, has
// its own timeout.
func TestPut_WaitsWhileTheBodyIsTaken(t *testing.T) {
	const piece, pieces = 64 << 10, 10
	policy := distinct()
	for _, c := range []struct {
		name          string
		size          int64
		piece, answer time.Duration // pauses of the store before each piece and before the response
		want          error
	}{
		{"slow and late", piece * pieces, policy.upload - time.Second, policy.write / 2, nil}, // the last piece is sent long before the store reads it
		{"empty and late", 0, 0, policy.write - time.Second, nil},
		{"stalled body", piece * pieces, policy.upload + time.Second, 0, objstore.ErrTimeout},
		{"no answer", piece * pieces, 0, policy.write + time.Second, objstore.ErrTimeout},
		{"empty without an answer", 0, 0, policy.write + time.Second, objstore.ErrTimeout},
	} {
		inBubble(t, policy, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			for more := c.size > 0; more; {
				time.Sleep(c.piece)
				_, err := io.CopyN(io.Discard, r.Body, piece)
				more = err == nil
			}
			time.Sleep(c.answer)
			w.Header().Set("ETag", `"`+testETag+`"`)
		}, func(t *testing.T, b *Backend) {
			o, err := b.Put(t.Context(), testKey, strings.NewReader(string(sample(int(c.size)))), c.size, objstore.Condition{})
			if c.want == nil && (err != nil || o != objstore.Object{Key: testKey, Size: c.size, ETag: testETag}) {
				t.Errorf("%s: got %+v, %v", c.name, o, err)
			}
			if c.want != nil {
				wantError(t, c.name, err, c.want, "no progress")
			}
			time.Sleep(time.Hour) // wait until the store's handler has ended
		})
	}
}

// listing responds with pages of one key each, from "a" to "d". fault may respond instead.
func listing(fault func(w http.ResponseWriter, r *http.Request, after string) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		after := max(q.Get("start-after"), q.Get("continuation-token"))
		if fault(w, r, after) {
			return
		}
		page := listResult{IsTruncated: after < "c"}
		page.NextContinuationToken = "a"
		if after != "" {
			page.NextContinuationToken = string(after[0] + 1)
		}
		page.Contents = []listedObject{{Key: page.NextContinuationToken, Size: 1, ETag: `"e"`, LastModified: "2006-01-02T15:04:05Z"}}
		writeList(w, &page)
	}
}

// TestList_LimitsPagesNotVisitors checks that visit may take any time, but a page may not, whether
// it is the first or a later one.
func TestList_LimitsPagesNotVisitors(t *testing.T) {
	policy := distinct()
	visit := func(got *[]string) func(objstore.Object) error {
		return func(o objstore.Object) error {
			time.Sleep(time.Hour)
			*got = append(*got, o.Key)
			return nil
		}
	}
	for hangs, want := range map[string][]string{"none": {"a", "b", "c", "d"}, "": nil, "b": {"a", "b"}} {
		never := (&scriptedStore{}).never
		inBubble(t, policy, listing(func(w http.ResponseWriter, r *http.Request, after string) bool {
			if after == hangs {
				never(w, r)
			}
			return after == hangs
		}), func(t *testing.T, b *Backend) {
			var got []string
			start := time.Now()
			err := b.List(t.Context(), "", visit(&got))
			took, waited := time.Since(start), time.Duration(0)
			if hangs != "none" {
				wantError(t, "hangs after "+hangs, err, objstore.ErrTimeout, "no progress")
				waited = policy.header
			} else if err != nil {
				t.Errorf("slow visitor: %v", err)
			}
			if took != time.Duration(len(want))*time.Hour+waited || !slices.Equal(got, want) {
				t.Errorf("hangs after %q: got %q after %v, want %q", hangs, got, took, want)
			}
		})
	}
}

// TestList_CountsAttemptsFromTheLastKey checks that a list fails after too many consecutive
// attempts without a key, however many failed before.
func TestList_CountsAttemptsFromTheLastKey(t *testing.T) {
	policy := quick()
	policy.attempts = 3
	for fails, want := range map[int]error{policy.attempts - 1: nil, policy.attempts: objstore.ErrUnavailable} {
		failed := map[string]int{}
		inBubble(t, policy, listing(func(w http.ResponseWriter, _ *http.Request, after string) bool {
			if failed[after] == fails {
				return false
			}
			failed[after]++
			say(w, http.StatusInternalServerError, "InternalError")
			return true
		}), func(t *testing.T, b *Backend) {
			keys := ""
			err := b.List(t.Context(), "", func(o objstore.Object) error { keys += o.Key; return nil })
			if !errors.Is(err, want) || (keys == "abcd") != (want == nil) {
				t.Errorf("%d failures a page: got %q, %v, want %v", fails, keys, err, want)
			}
		})
	}
}

// TestPaced_EndsItsWaitWithTheTransfer checks a wait for bandwidth that the context ends: the bytes
// are delivered with the context's error. An error of the body is returned without a wait.
func TestPaced_EndsItsWaitWithTheTransfer(t *testing.T) {
	fault := errors.New("fault")
	for _, c := range []struct {
		name string
		with error // error that arrives with the bytes
		ends bool
		want error
		took time.Duration
	}{
		{"bytes", nil, false, nil, time.Second},
		{"last bytes", io.EOF, false, io.EOF, time.Second},
		{"bytes, ended", nil, true, context.Canceled, time.Second / 2},
		{"last bytes, ended", io.EOF, true, context.Canceled, time.Second / 2},
		{"fault", fault, false, fault, 0},
		{"fault, ended", fault, true, fault, 0},
	} {
		bubble.Test(t, func(t *testing.T) {
			limit := rate.NewLimiter(10, 10)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.ends {
				time.AfterFunc(time.Second/2, cancel)
			}
			limit.ReserveN(time.Now(), 10) // another reader uses up the burst
			r := throttledReader{ctx, iotest.DataErrReader(io.MultiReader(strings.NewReader("ten bytes."), iotest.ErrReader(c.with))), limit}
			if c.with == nil {
				r.body = strings.NewReader("ten bytes and more")
			}
			start := time.Now()
			n, err := r.Read(make([]byte, 100))
			if took := time.Since(start); n != 10 || err != c.want || took != c.took {
				t.Errorf("%s: got %d bytes, %v after %v, want 10, %v after %v", c.name, n, err, took, c.want, c.took)
			}
			if left := limit.TokensAt(start); left != -10 {
				t.Errorf("%s: got %v bytes of the limit left, want those read to be taken", c.name, left)
			}
		})
	}
}

func TestNewPace(t *testing.T) {
	for bandwidth, burst := range map[int64]int{1: leastBurst, 20 * leastBurst: leastBurst, 20*leastBurst + 20: leastBurst + 1, 20 * mostBurst: mostBurst, 1 << 40: mostBurst} {
		if l := newBandwidthLimit(bandwidth); l.Burst() != burst || l.Limit() != rate.Limit(bandwidth) {
			t.Errorf("%d bytes per second: got %v at once, %v per second, want %d", bandwidth, l.Burst(), l.Limit(), burst)
		}
	}
	if l := newBandwidthLimit(0); l != nil {
		t.Errorf("no limit: got %v", l)
	}
}

// TestOpen_EndsAnswersItRefuses checks that the connection is closed after a response without a
// length, or with another length than before. The server would keep such a connection open until
// the end of the test.
func TestOpen_EndsAnswersItRefuses(t *testing.T) {
	data := sample(30)
	s := serve(t, func(c net.Conn, r request) bool {
		switch r.n {
		case 0:
			head(c, "200 OK", etag(testETag), "Transfer-Encoding: chunked")
			fmt.Fprint(c, "1\r\nx\r\n")
		case 1:
			head(c, "200 OK", etag(testETag), "Content-Length: 30")
			c.Write(data[:10])
			return false
		default:
			head(c, "206 Partial Content", etag(testETag), contentRange(10, 30, 31), "Content-Length: 21")
		}
		_, _ = io.Copy(io.Discard, c) // until the client closes the connection
		return false
	})
	r, err := backend(t, s, quick()).Open(context.WithoutCancel(t.Context()), ref, 0) // otherwise the end of the test would end the responses
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); !errors.Is(err, objstore.ErrUnavailable) || len(got) != 10 {
		t.Errorf("got %d bytes, %v, want 10 and %v", len(got), err, objstore.ErrUnavailable)
	}
}

// TestOpen_WaitsForSlowReaders checks that a reader may pause before the first byte, between bytes,
// and after the last one.
func TestOpen_WaitsForSlowReaders(t *testing.T) {
	s := &scriptedStore{data: sample(1 << 20)}
	policy := distinct()
	inBubble(t, policy, s.ServeHTTP, func(t *testing.T, b *Backend) {
		r, err := b.Open(t.Context(), ref, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for part := make([]byte, 1<<18); err == nil; {
			time.Sleep(time.Hour)
			var n int
			n, err = io.ReadFull(r, part)
			got = append(got, part[:n]...)
		}
		if err != io.EOF || string(got) != string(s.data) || b.Stats().Requests != 1 {
			t.Errorf("got %d bytes, %v in %d requests, want all in one", len(got), err, b.Stats().Requests)
		}
		r.Close()
	})
}

// TestOpen_EndsWithItsCaller cancels in the middle of a body. That is not counted as an error of
// the store, and nothing more is requested.
func TestOpen_EndsWithItsCaller(t *testing.T) {
	s := &scriptedStore{data: sample(30)}
	inBubble(t, distinct(), s.ServeHTTP, func(t *testing.T, b *Backend) {
		s.next(s.trickle(10, func(sent int) time.Duration { return time.Duration(sent) * time.Second }))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		r, err := b.Open(ctx, ref, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		got, err := io.ReadAll(r)
		if st := b.Stats(); len(got) != 10 || !errors.Is(err, context.Canceled) || st.Requests != 1 || len(st.Errors) != 0 {
			t.Errorf("got %d bytes, %v, counted %+v, want 10, %v and no error of the store", len(got), err, st, context.Canceled)
		}
	})
}

// TestOpen_LetsTheConnectionGoAtTheEnd checks that the connection is closed after the last byte,
// before Close. In this test the body has no length, and never ends.
func TestOpen_LetsTheConnectionGoAtTheEnd(t *testing.T) {
	s := serve(t, func(c net.Conn, _ request) bool {
		head(c, "206 Partial Content", etag(testETag), contentRange(1, 9, 10), "Transfer-Encoding: chunked")
		fmt.Fprint(c, "9\r\nnine more\r\n")
		_, _ = io.Copy(io.Discard, c) // until the client closes the connection
		return false
	})
	r, err := backend(t, s, quick()).Open(context.WithoutCancel(t.Context()), ref, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); string(got) != "nine more" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestAttempts_LeaveNothingInTheContext checks that attempts leave nothing in the caller's context,
// even if the caller never cancels it.
func TestAttempts_LeaveNothingInTheContext(t *testing.T) {
	for name, ask := range map[string]func(ctx context.Context, b *Backend) error{
		"read": func(ctx context.Context, b *Backend) error { return b.ReadRange(ctx, ref, 0, make([]byte, 1)) },
		"open": func(ctx context.Context, b *Backend) error {
			r, err := b.Open(ctx, ref, 0)
			if err == nil {
				r.Close()
			}
			return err
		},
	} {
		want, answer := error(nil), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"`+testETag+`"`)
			w.Write(sample(30))
		})
		if name == "read" {
			want, answer = objstore.ErrUnavailable, nameless // each attempt fails
		}
		inBubble(t, quick(), answer, func(t *testing.T, b *Backend) {
			ctx := leaks.NewContext()
			if err := ask(ctx, b); !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", name, err, want)
			}
			synctest.Wait()
			if got := ctx.Open(); got != 0 {
				t.Errorf("%s: got %d contexts or functions left, want none", name, got)
			}
		})
	}
}

func TestReader_CloseEndsTheTransferOnce(t *testing.T) {
	ends := 0
	r := &reader{ctx: t.Context(), ref: ref, total: 30, body: strings.NewReader("ten bytes."), end: func() { ends++ }}
	for range 2 {
		if r.Close(); ends != 1 {
			t.Errorf("got %d ends of the transfer, want 1", ends)
		}
	}
}
