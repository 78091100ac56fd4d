package s3backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
)

// wantError checks the class of an error, and the end of its text.
func wantError(t *testing.T, what string, err, class error, text string) {
	t.Helper()
	if !errors.Is(err, class) || !strings.HasSuffix(fmt.Sprint(err), text) {
		t.Errorf("%s: got %v, want %v: ...%s", what, err, class, text)
	}
	for _, other := range objstore.Vocabulary() {
		if other != class && errors.Is(err, other) {
			t.Errorf("%s: got %v, which is %q as well as %q", what, err, other, class)
		}
	}
}

// filled returns a service with 20 keys in three pages, and the list of the keys.
func filled() (*service, []string) {
	s := newService()
	var keys []string
	for i := range 20 {
		keys = append(keys, fmt.Sprintf("d/%02d", i))
		s.store.Set(keys[i], []byte("x"))
	}
	return s, keys
}

// TestList_ResumesBehindTheLastKey makes each page fail once, in each way. The list resumes after
// the last key.
func TestList_ResumesBehindTheLastKey(t *testing.T) {
	s, keys := filled()
	b := serviceBackend(t, s)
	for name, fail := range map[string]func(http.ResponseWriter){
		"refused":   func(w http.ResponseWriter) { say(w, http.StatusInternalServerError, "InternalError") },
		"throttled": func(w http.ResponseWriter) { say(w, http.StatusServiceUnavailable, "SlowDown") },
		"cut": func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "<ListBucketResult>")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
	} {
		for page, after := range []string{"", keys[pageKeys-1], keys[2*pageKeys-1]} {
			asked := 0
			s.faults(func(w http.ResponseWriter, _ *http.Request) bool {
				if asked++; asked == page+1 {
					fail(w)
					return true
				}
				return false
			})
			var got []string
			err := b.List(t.Context(), "d/", func(o objstore.Object) error { got = append(got, o.Key); return nil })
			if err != nil || !slices.Equal(got, keys) {
				t.Errorf("%s at page %d: got %q, %v, want every key once", name, page, got, err)
			}
			if r := s.requests(); len(r) != 4 || r[page+1] != strings.TrimSpace("GET "+after) {
				t.Errorf("%s at page %d: got requests %q, want 4, one of them from behind %q", name, page, r, after)
			}
		}
	}
}

// TestList_RefusesKeysOutOfOrder returns a key twice, or a key before the previous one. No key
// after it is visited.
func TestList_RefusesKeysOutOfOrder(t *testing.T) {
	for _, c := range []struct{ keys, visited, want string }{
		{"a b b c", "a b", `invalid response: key "b" comes after "b"`},
		{"a c b d", "a c", `invalid response: key "b" comes after "c"`},
	} {
		s := newService()
		s.faults(func(w http.ResponseWriter, r *http.Request) bool {
			var page listResult
			for key := range strings.FieldsSeq(c.keys) {
				if after := r.URL.Query().Get("start-after"); after == "" || key >= after { // a service that repeats the key at which a page begins
					page.Contents = append(page.Contents, listedObject{Key: key, Size: 1, ETag: `"e"`, LastModified: "2006-01-02T15:04:05Z"})
				}
			}
			if r.URL.Query().Get("start-after") != "" && c.visited == "a c" {
				page.Contents = []listedObject{{Key: "b", Size: 1, ETag: `"e"`, LastModified: "2006-01-02T15:04:05Z"}}
			}
			writeList(w, &page)
			return true
		})
		var got []string
		err := serviceBackend(t, s).List(t.Context(), "", func(o objstore.Object) error { got = append(got, o.Key); return nil })
		wantError(t, c.keys, err, objstore.ErrUnavailable, c.want)
		if strings.Join(got, " ") != c.visited {
			t.Errorf("%s: visited %q, want %q", c.keys, got, c.visited)
		}
		if n := len(s.requests()); n != quick().attempts {
			t.Errorf("%s: got %d requests, want %d", c.keys, n, quick().attempts)
		}
	}
}

// TestList_ReturnsTheVisitorsError checks that no page is requested after the one at which visit
// returns an error.
func TestList_ReturnsTheVisitorsError(t *testing.T) {
	s, keys := filled()
	stop := errors.New("enough")
	var got []string
	err := serviceBackend(t, s).List(t.Context(), "d/", func(o objstore.Object) error {
		got = append(got, o.Key)
		if o.Key == keys[8] {
			return stop
		}
		return nil
	})
	if err != stop || !slices.Equal(got, keys[:9]) || len(s.requests()) != 2 {
		t.Errorf("got %v after %q in %d requests, want %v itself after 9 keys in 2", err, got, len(s.requests()), stop)
	}
}

func TestSoundPrefix(t *testing.T) {
	for prefix, want := range map[string]string{
		"": "", "a": "a", "a/": "a/", "a/b": "a/b", "a//": "a/", "a//b": "a/", "/a": "", ".": "", "./a": "", "a/.": "a/", "a/..": "a/", "a/../b/": "a/", "a/.b/c": "a/.b/c", "..a": "..a",
	} {
		if got := soundPrefix(prefix); got != want {
			t.Errorf("%q: got %q, want %q", prefix, got, want)
		}
	}
}

// TestNoBucket checks that, for each operation, the error names the missing bucket.
func TestNoBucket(t *testing.T) {
	s := newService()
	s.faults(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("X-Minio-Error-Code", "NoSuchBucket")
		say(w, http.StatusNotFound, "NoSuchBucket")
		return true
	})
	b := serviceBackend(t, s)
	_, err := b.Stat(t.Context(), "k")
	wantError(t, "stat", err, objstore.ErrNotFound, `stat "k": bucket train: not found: NoSuchBucket (status 404)`)
	err = b.List(t.Context(), "d/", func(objstore.Object) error { return nil })
	wantError(t, "list", err, objstore.ErrNotFound, `list "d/": bucket train: not found: NoSuchBucket (status 404)`)
	wantError(t, "delete", b.Delete(t.Context(), "k"), objstore.ErrNotFound, `delete "k": not found: NoSuchBucket (status 404)`)
	if n := len(s.requests()); n != 3 {
		t.Errorf("got %d requests, want 3", n)
	}
	s.faults(func(w http.ResponseWriter, _ *http.Request) bool {
		say(w, http.StatusNotFound, "NoSuchKey")
		return true
	})
	if err := b.Delete(t.Context(), "k"); err != nil {
		t.Errorf("delete of a key that is not there: %v", err)
	}
	s.faults(func(w http.ResponseWriter, _ *http.Request) bool {
		say(w, http.StatusForbidden, "AccessDenied")
		return true
	})
	err = b.List(t.Context(), "d/", func(objstore.Object) error { return nil })
	wantError(t, "list that is refused", err, objstore.ErrDenied, ", and no credentials were found in the environment or the shared credentials file")
	wantError(t, "delete that is refused", b.Delete(t.Context(), "k"), objstore.ErrDenied, ", and no credentials were found in the environment or the shared credentials file")
}

// TestStat_RefusesAnIncompleteHead omits one header at a time: first in one response, then in all.
func TestStat_RefusesAnIncompleteHead(t *testing.T) {
	for name, spoil := range map[string]func(http.ResponseWriter) (status int){
		"no ETag":   func(w http.ResponseWriter) int { w.Header().Del("ETag"); return http.StatusOK },
		"no time":   func(w http.ResponseWriter) int { w.Header().Del("Last-Modified"); return http.StatusOK },
		"no length": func(w http.ResponseWriter) int { w.Header().Del("Content-Length"); return http.StatusOK },
		"part":      func(http.ResponseWriter) int { return http.StatusPartialContent },
	} {
		s := newService()
		s.store.Set("k", []byte("x"))
		b := serviceBackend(t, s)
		most := 1
		s.faults(func(w http.ResponseWriter, _ *http.Request) bool {
			if len(s.requests()) > most {
				return false
			}
			w.Header().Set("ETag", `"e"`)
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			w.Header().Set("Content-Length", "1")
			w.WriteHeader(spoil(w))
			return true
		})
		if o, err := b.Stat(t.Context(), "k"); err != nil || o.ETag != "m1" || len(s.requests()) != 2 {
			t.Errorf("%s once: got %+v, %v in %d requests, want the object in 2", name, o, err, len(s.requests()))
		}
		most = 100
		_, err := b.Stat(t.Context(), "k")
		wantError(t, name, err, objstore.ErrUnavailable, "or ETag, length or time is missing")
	}
}

// TestPastEnd lets a service return "no such range" for an object that is shorter, for one that has
// changed, and for one that it cannot find afterwards.
func TestPastEnd(t *testing.T) {
	const there = 10
	for _, c := range []struct {
		name   string
		etag   string // expected ETag; empty: any
		head   int    // status of the response to HEAD
		offset int64
		want   error
		text   string
		opens  bool // Open succeeds: an offset at the end is no error
	}{
		{"shorter", testETag, 200, 11, objstore.ErrShort, "short: the object has 10 bytes", false},
		{"shorter, any version", "", 200, 11, objstore.ErrShort, "short: the object has 10 bytes", false},
		{"at the end", testETag, 200, there, objstore.ErrShort, "short: the object has 10 bytes", true},
		{"changed", "old", 200, 11, objstore.ErrChanged, "changed: it is " + testETag + ", expected old", false},
		{"changed, at the end", "old", 200, there, objstore.ErrChanged, "changed: it is " + testETag + ", expected old", false},
		{"gone", testETag, 404, 11, objstore.ErrNotFound, "not found: NoSuchKey (status 404)", false},
		{"gone, at the end", testETag, 404, there, objstore.ErrNotFound, "not found: NoSuchKey (status 404)", false},
	} {
		s := newService()
		s.faults(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet {
				say(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
				return true
			}
			w.Header().Set("ETag", `"`+testETag+`"`)
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			w.Header().Set("Content-Length", fmt.Sprint(there))
			w.WriteHeader(c.head)
			return true
		})
		b, ref := serviceBackend(t, s), objstore.Ref{Key: testKey, ETag: c.etag}
		wantError(t, "read "+c.name, b.ReadRange(t.Context(), ref, c.offset, make([]byte, 1)), c.want, c.text)
		r, err := b.Open(t.Context(), ref, c.offset)
		if !c.opens {
			wantError(t, "open "+c.name, err, c.want, c.text)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("open %s: got %d bytes, %v, want none and %v", c.name, n, err, io.EOF)
		}
		r.Close()
	}
}

// large is a body that is stored in three parts.
var large = sample(2*minPart + 100)

// TestPut_Faults fails one request of a Put, whole or in parts. It checks the stored object, the
// error, and that no upload remains.
func TestPut_Faults(t *testing.T) {
	refuse := func(status int, code string) func(*service, http.ResponseWriter, *http.Request) {
		return func(_ *service, w http.ResponseWriter, _ *http.Request) { say(w, status, code) }
	}
	lose := func(s *service, _ http.ResponseWriter, r *http.Request) { // performs the request, but sends no response
		s.ServeHTTP(&lostResponse{http.Header{}}, r)
		panic(http.ErrAbortHandler)
	}
	noETag := func(_ *service, w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
	}
	const whole, begin, second, complete = "PUT", "POST ?uploads", "PUT 2", "POST"
	for _, c := range []struct {
		name   string
		data   []byte
		at     string // the request that fails
		times  int
		fail   func(*service, http.ResponseWriter, *http.Request)
		cond   objstore.Condition
		want   error // nil: the object is stored
		text   string
		aborts int
	}{
		{"lost", large[:9], whole, 1, lose, objstore.Condition{IfAbsent: true}, nil, "", 0},
		{"lost, unconditional", large[:9], whole, 1, lose, objstore.Condition{}, nil, "", 0},
		{"no ETag", large[:9], whole, 9, noETag, objstore.Condition{}, objstore.ErrUnavailable, "invalid response: ETag is missing", 0},
		{"refused", large[:9], whole, 9, refuse(403, "AccessDenied"), objstore.Condition{}, objstore.ErrDenied, "shared credentials file", 0},
		{"no such key", large[:9], whole, 1, refuse(404, "NoSuchKey"), objstore.Condition{IfMatch: "m1"}, objstore.ErrChanged, `put "k": changed: it does not exist`, 0},
		{"no such key, unconditional", large[:9], whole, 1, refuse(404, "NoSuchKey"), objstore.Condition{}, objstore.ErrNotFound, "(status 404)", 0},
		{"conflict once", large[:9], whole, 1, refuse(409, "ConditionalRequestConflict"), objstore.Condition{}, nil, "", 0},
		{"conflict", large[:9], whole, 9, refuse(409, "OperationAborted"), objstore.Condition{}, objstore.ErrChanged, "OperationAborted (status 409)", 0},
		{"begin fails", large, begin, 9, refuse(500, "InternalError"), objstore.Condition{}, objstore.ErrUnavailable, "InternalError (status 500)", 0},
		{"begin fails once", large, begin, 1, refuse(500, "InternalError"), objstore.Condition{}, nil, "", 0},
		{"part fails once", large, second, 1, refuse(503, "SlowDown"), objstore.Condition{}, nil, "", 0},
		{"part fails", large, second, 9, refuse(500, "InternalError"), objstore.Condition{}, objstore.ErrUnavailable, "InternalError (status 500)", 1},
		{"part without ETag", large, second, 9, noETag, objstore.Condition{}, objstore.ErrUnavailable, "part 2: unavailable: invalid response: ETag is missing", 1},
		{"upload is gone", large, second, 1, refuse(404, "NoSuchUpload"), objstore.Condition{}, objstore.ErrUnavailable, "part 2: unavailable: NoSuchUpload (status 404)", 1},
		{"condition fails", large, complete, 1, refuse(412, "PreconditionFailed"), objstore.Condition{IfMatch: "m9"}, objstore.ErrChanged, "PreconditionFailed (status 412)", 1},
		{"completion is lost", large, complete, 1, lose, objstore.Condition{IfAbsent: true}, nil, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService()
			b := serviceBackend(t, s)
			var failed, aborts atomic.Int64
			s.faults(func(w http.ResponseWriter, r *http.Request) bool {
				q := r.URL.Query()
				name := strings.TrimSpace(r.Method + " " + q.Get("partNumber"))
				if q.Has("uploads") {
					name += " ?uploads"
				}
				if r.Method == http.MethodDelete {
					aborts.Add(1)
				}
				if name != c.at || failed.Load() >= int64(c.times) {
					return false
				}
				failed.Add(1)
				c.fail(s, w, r)
				return true
			})
			o, err := b.Put(t.Context(), "k", bytes.NewReader(c.data), int64(len(c.data)), c.cond)
			stored, _ := s.store.Bytes("k")
			if c.want == nil && (err != nil || !bytes.Equal(stored, c.data) || o.Size != int64(len(c.data)) || o.ETag == "") {
				t.Errorf("got %+v, %v and %d bytes stored, want %d", o, err, len(stored), len(c.data))
			}
			if c.want != nil {
				wantError(t, "put", err, c.want, c.text)
				if stored != nil || o != (objstore.Object{}) {
					t.Errorf("got %+v and %d bytes stored, want none", o, len(stored))
				}
			}
			if len(s.parts) != 0 || int(aborts.Load()) != c.aborts {
				t.Errorf("got %d uploads left after %d aborts, want none after %d", len(s.parts), aborts.Load(), c.aborts)
			}
		})
	}
}

// lostResponse is a response that is not sent.
type lostResponse struct{ header http.Header }

func (u *lostResponse) Header() http.Header         { return u.header }
func (u *lostResponse) Write(p []byte) (int, error) { return len(p), nil }
func (u *lostResponse) WriteHeader(int)             {}

// TestPut_AbortsCanceledUpload cancels while a part is being sent: the upload is still removed. If
// the service refuses to remove it, that is counted as an error, but does not change the result.
func TestPut_AbortsCanceledUpload(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		s := newService()
		b := serviceBackend(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		var aborts atomic.Int64
		s.faults(func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case r.URL.Query().Get("partNumber") == "2":
				_, _ = io.Copy(io.Discard, r.Body) // the server detects that the client has left only after it has read the body
				cancel()
				<-r.Context().Done()
				return true
			case r.Method == http.MethodDelete:
				aborts.Add(1)
				if refuses {
					say(w, http.StatusForbidden, "AccessDenied")
				}
				return refuses
			}
			return false
		})
		_, err := b.Put(ctx, "k", bytes.NewReader(large), int64(len(large)), objstore.Condition{})
		if !errors.Is(err, context.Canceled) || aborts.Load() != 1 {
			t.Errorf("got %v after %d aborts, want %v after one", err, aborts.Load(), context.Canceled)
		}
		if got := b.Stats().Errors["denied"]; got != map[bool]int64{true: 1}[refuses] || !refuses && len(s.parts) != 0 {
			t.Errorf("refused: %t: got %d refusals counted and %d uploads left", refuses, got, len(s.parts))
		}
	}
}

// TestRefusals covers errors of the caller, for which nothing is sent.
func TestRefusals(t *testing.T) {
	s := newService()
	b := serviceBackend(t, s)
	put := func(key string, size int64) error {
		_, err := b.Put(t.Context(), key, strings.NewReader(""), size, objstore.Condition{})
		return err
	}
	_, openErr := b.Open(t.Context(), ref, -1)
	for want, err := range map[string]error{
		`put "k": negative size -1`:                    put("k", -1),
		`open "a/shard.tar" at -1: negative offset -1`: openErr,
		`put "": `:                   put("", 0),
		`delete "a//b": `:            b.Delete(t.Context(), "a//b"),
		`read "a/shard.tar" at -1: `: b.ReadRange(t.Context(), ref, -1, make([]byte, 1)),
		`read "a/shard.tar" at 0: `:  b.ReadRange(t.Context(), ref, 0),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s...", err, want)
		}
	}
	if r := s.requests(); len(r) != 0 {
		t.Errorf("got requests %q, want none", r)
	}
}
