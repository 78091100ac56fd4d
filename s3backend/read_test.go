package s3backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

var ref = objstore.Ref{Key: testKey, ETag: testETag}

func sample(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + 1)
	}
	return b
}

// framings are the three ways in which HTTP/1.1 marks the end of a body.
var framings = []struct {
	name string
	head []string
	body func(c net.Conn, b []byte, cut int)
}{
	{"content-length", []string{"Content-Length: %d"}, func(c net.Conn, b []byte, cut int) { c.Write(b[:cut]) }},
	{"chunked", []string{"Transfer-Encoding: chunked"}, func(c net.Conn, b []byte, cut int) {
		for ; cut > 0; b, cut = b[1:], cut-1 {
			fmt.Fprintf(c, "1\r\n%s\r\n", b[:1])
		}
	}},
	{"connection-close", []string{"Connection: close"}, func(c net.Conn, b []byte, cut int) { c.Write(b[:cut]) }},
}

// TestCutAtEveryByte resets or truncates the body at every offset. The rest is requested with the
// same version, and the bytes are complete.
func TestCutAtEveryByte(t *testing.T) {
	const size, from = 40, 3
	data := sample(size)
	n := size - from
	for _, f := range framings {
		for _, end := range []struct {
			name string
			do   func(net.Conn)
		}{{"reset", reset}, {"truncated", func(c net.Conn) { c.Close() }}, {"chunked end", func(c net.Conn) { fmt.Fprint(c, "0\r\n\r\n"); c.Close() }}} {
			if end.name == "chunked end" && f.name != "chunked" {
				continue
			}
			t.Run(f.name+" "+end.name, func(t *testing.T) {
				for cut := range n {
					s := serve(t, func(c net.Conn, r request) bool {
						if r.n > 0 {
							return sound(c, r, data)
						}
						lines := []string{etag(testETag), contentRange(from, size-1, size)}
						for _, l := range f.head {
							if strings.Contains(l, "%d") {
								l = fmt.Sprintf(l, n)
							}
							lines = append(lines, l)
						}
						head(c, "206 Partial Content", lines...)
						f.body(c, data[from:], cut)
						end.do(c)
						return false
					})
					b := backend(t, s, quick())
					x, y := make([]byte, 11), make([]byte, n-11)
					ctx := objstore.WithProgress(t.Context(), func(n int64) {
						if got := slices.Concat(x, y)[:n]; !bytes.Equal(got, data[from:from+n]) {
							t.Errorf("cut at %d: %d bytes reported, got %x, want %x", cut, n, got, data[from:from+n])
						}
					})
					if err := b.ReadRange(ctx, ref, from, x, y); err != nil {
						t.Fatalf("cut at %d: %v", cut, err)
					}
					if got := slices.Concat(x, y); !bytes.Equal(got, data[from:]) {
						t.Fatalf("cut at %d: got %x, want %x", cut, got, data[from:])
					}
					if s.n != 2 || s.match[1] != `"`+testETag+`"` {
						t.Errorf("cut at %d: %d requests, the last with If-Match %s", cut, s.n, s.match[1])
					}
				}
			})
		}
	}
}

// TestOpenResumes interrupts a sequential read at every byte.
func TestOpenResumes(t *testing.T) {
	data := sample(30)
	for cut := range len(data) {
		s := serve(t, func(c net.Conn, r request) bool {
			if r.n > 0 {
				return sound(c, r, data)
			}
			head(c, "200 OK", etag(testETag), "Content-Length: 30")
			c.Write(data[:cut])
			return false
		})
		r, err := backend(t, s, quick()).Open(t.Context(), objstore.Ref{Key: testKey}, 0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("cut at %d: got %x, %v, want %x", cut, got, err, data)
		}
		if cut > 0 && s.match[1] != `"`+testETag+`"` {
			t.Errorf("resumed with If-Match %s", s.match[1])
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOpenNeverMixes resumes a sequential read and finds another version.
func TestOpenNeverMixes(t *testing.T) {
	data := sample(30)
	s := serve(t, func(c net.Conn, r request) bool {
		if r.n == 0 {
			head(c, "200 OK", etag(testETag), "Content-Length: 30")
			c.Write(data[:10])
			return false
		}
		head(c, "206 Partial Content", etag("other"), contentRange(10, 29, 30), "Content-Length: 20")
		c.Write(data[10:])
		return true
	})
	r, err := backend(t, s, quick()).Open(t.Context(), objstore.Ref{Key: testKey}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if !errors.Is(err, objstore.ErrChanged) || !bytes.Equal(got, data[:10]) {
		t.Errorf("got %x, %v, want ten bytes and %v", got, err, objstore.ErrChanged)
	}
}

// TestLies sends wrong responses for bytes 10-19 of 100. Every wrong response is an error or is
// replaced by another attempt, and no wrong byte is accepted.
func TestLies(t *testing.T) {
	const from, n, size = 10, 10, 100
	data := sample(size)
	good := []string{etag(testETag), contentRange(10, 19, 100), "Content-Length: 10"}
	for _, c := range []struct {
		name   string
		status string
		lines  []string
		body   []byte
		want   error // nil: hidden by the second attempt
	}{
		{"sound", "206 Partial Content", good, data[10:20], nil},
		{"200 with all", "200 OK", []string{etag(testETag), "Content-Length: 100"}, data, nil},
		{"200 with the length", "200 OK", []string{etag(testETag), "Content-Length: 10"}, data[:10], objstore.ErrShort},
		{"200 with a range", "200 OK", good, data[10:20], nil},
		{"206 without range", "206 Partial Content", []string{etag(testETag), "Content-Length: 10"}, data[:10], nil},
		{"start", "206 Partial Content", []string{etag(testETag), contentRange(11, 20, 100), "Content-Length: 10"}, data[11:21], nil},
		{"end", "206 Partial Content", []string{etag(testETag), contentRange(10, 20, 100), "Content-Length: 11"}, data[10:21], nil},
		{"shorter", "206 Partial Content", []string{etag(testETag), contentRange(10, 18, 100), "Content-Length: 9"}, data[10:19], nil},
		{"object ends", "206 Partial Content", []string{etag(testETag), contentRange(10, 14, 15), "Content-Length: 5"}, data[10:15], objstore.ErrShort},
		{"length", "206 Partial Content", []string{etag(testETag), contentRange(10, 19, 100), "Content-Length: 11"}, data[10:21], nil},
		{"total below end", "206 Partial Content", []string{etag(testETag), contentRange(10, 19, 15), "Content-Length: 10"}, data[10:20], nil},
		{"no total", "206 Partial Content", []string{etag(testETag), "Content-Range: bytes 10-19/*", "Content-Length: 10"}, data[10:20], nil},
		{"sign", "206 Partial Content", []string{etag(testETag), "Content-Range: bytes +10-19/100", "Content-Length: 10"}, data[10:20], nil},
		{"overflow", "206 Partial Content", []string{etag(testETag), "Content-Range: bytes 10-19/99999999999999999999", "Content-Length: 10"}, data[10:20], nil},
		{"body too long", "206 Partial Content", []string{etag(testETag), contentRange(10, 19, 100), "Connection: close"}, data[10:30], nil},
		{"no etag", "206 Partial Content", []string{contentRange(10, 19, 100), "Content-Length: 10"}, data[10:20], nil},
		{"other etag", "206 Partial Content", []string{etag("x"), contentRange(10, 19, 100), "Content-Length: 10"}, data[10:20], objstore.ErrChanged},
		{"redirect", "307 Temporary Redirect", []string{"Location: http://169.254.169.254/", "Content-Length: 0"}, nil, objstore.ErrDenied},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, func(w net.Conn, r request) bool {
				if r.n > 0 {
					return sound(w, r, data)
				}
				head(w, c.status, c.lines...)
				w.Write(c.body)
				return c.lines[len(c.lines)-1] != "Connection: close"
			})
			got := make([]byte, n)
			err := backend(t, s, quick()).ReadRange(t.Context(), ref, from, got)
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if err == nil && !bytes.Equal(got, data[from:from+n]) {
				t.Errorf("got %x, want %x", got, data[from:from+n])
			}
			wantRequests := 2
			if c.want != nil || c.name == "sound" {
				wantRequests = 1
			}
			if s.n != wantRequests {
				t.Errorf("got %d requests, want %d", s.n, wantRequests)
			}
		})
	}
}

// TestABodyThatIsTooLongIsGivenUp sends one byte too many each time. The discarded bytes are no
// progress, so the number of attempts is limited, and the saved retries remain for other requests.
func TestABodyThatIsTooLongIsGivenUp(t *testing.T) {
	policy := quick()
	policy.progress = defaultRetryPolicy().progress
	data := sample(int(2 * policy.progress))
	s := serve(t, func(w net.Conn, r request) bool {
		head(w, "206 Partial Content", etag(testETag), contentRange(0, len(data)-2, len(data)), "Connection: close")
		w.Write(data)
		return false
	})
	b := backend(t, s, policy)
	b.retries.tokens = 100
	b.retries.floor.SetLimit(0) // take every retry from the saved ones
	b.retries.floor.SetBurst(0)
	err := b.ReadRange(t.Context(), ref, 0, make([]byte, len(data)-1))
	if !errors.Is(err, objstore.ErrUnavailable) || s.n != policy.attempts {
		t.Errorf("got %v after %d requests, want %v after %d", err, s.n, objstore.ErrUnavailable, policy.attempts)
	}
	if least := float64(100 - policy.attempts + 1); b.retries.tokens < least {
		t.Errorf("got %.1f retries left of 100, want at least %.0f", b.retries.tokens, least)
	}
}

// TestBackend_BoundsResponseHeaders checks that a response with very large headers is rejected
// before they take memory.
func TestBackend_BoundsResponseHeaders(t *testing.T) {
	data := sample(10)
	for _, c := range []struct {
		header int
		want   error
	}{{maxHeader / 2, nil}, {12 << 20, objstore.ErrUnavailable}} {
		s := serve(t, func(w net.Conn, r request) bool {
			line := "X-Amz-Meta-Note: " + strings.Repeat("x", 1000)
			head(w, "206 Partial Content", append(slices.Repeat([]string{line}, c.header/len(line)), etag(testETag), contentRange(0, 9, 10), "Content-Length: 10")...)
			w.Write(data)
			return true
		})
		err := backend(t, s, quick()).ReadRange(t.Context(), ref, 0, make([]byte, len(data)))
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), "response headers exceeded 262144 bytes") {
			t.Errorf("headers of %d bytes: got %v, want %v", c.header, err, c.want)
		}
	}
}

// Readers of a published chunk must not see its bytes change.
func TestReadRange_NeverWritesReportedBytesAgain(t *testing.T) {
	const size, cut = 40, 10
	data := sample(size)
	wrong := bytes.Repeat([]byte{0xee}, size+1)
	for _, f := range framings[1:] { // framings that do not report the length
		t.Run(f.name, func(t *testing.T) {
			s := serve(t, func(c net.Conn, r request) bool {
				switch r.n {
				case 0:
					head(c, "206 Partial Content", etag(testETag), contentRange(0, size-1, size), fmt.Sprintf("Content-Length: %d", size))
					c.Write(data[:cut])
				case 1: // too long
					head(c, "206 Partial Content", append(f.head, etag(testETag), contentRange(cut, size-1, size))...)
					f.body(c, wrong, size-cut+1)
					if f.name == "chunked" {
						fmt.Fprint(c, "0\r\n\r\n")
					}
				default:
					return sound(c, r, data)
				}
				return false
			})
			got, last := make([]byte, size), int64(0)
			ctx := objstore.WithProgress(t.Context(), func(n int64) {
				if n < last || !bytes.Equal(got[:n], data[:n]) {
					t.Errorf("reported %d bytes after %d: %x, want %x", n, last, got[:n], data[:n])
				}
				last = n
			})
			if err := backend(t, s, quick()).ReadRange(ctx, ref, 0, got); err != nil || last != size || s.n != 3 {
				t.Errorf("got %v after %d requests and %d bytes reported, want 3 and %d", err, s.n, last, size)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	lasting := defaultRetryPolicy().attempts
	for _, c := range []struct {
		status, code string
		want         error
		requests     int
	}{
		{"404 Not Found", "NoSuchKey", objstore.ErrNotFound, 1},
		{"404 Not Found", "NoSuchBucket", objstore.ErrNotFound, 1},
		{"412 Precondition Failed", "PreconditionFailed", objstore.ErrChanged, 1},
		{"403 Forbidden", "AccessDenied", objstore.ErrDenied, 2}, // one retry, with new credentials
		{"403 Forbidden", "RequestTimeTooSkewed", objstore.ErrDenied, 1},
		{"400 Bad Request", "ExpiredToken", objstore.ErrDenied, 2},
		{"503 Service Unavailable", "SlowDown", objstore.ErrThrottled, lasting},
		{"429 Too Many Requests", "Whatever", objstore.ErrThrottled, lasting},
		{"503 Service Unavailable", "ServiceUnavailable", objstore.ErrUnavailable, lasting},
		{"500 Internal Server Error", "InternalError", objstore.ErrUnavailable, lasting},
		{"502 Bad Gateway", "Oops", objstore.ErrUnavailable, lasting},
		{"504 Gateway Timeout", "Oops", objstore.ErrTimeout, lasting},
		{"501 Not Implemented", "NotImplemented", objstore.ErrUnavailable, 1},
		{"400 Bad Request", "SlowDownRead", objstore.ErrThrottled, lasting},
		{"400 Bad Request", "SlowDownWrite", objstore.ErrThrottled, lasting},
		{"400 Bad Request", "TooManyRequests", objstore.ErrThrottled, lasting},
		{"400 Bad Request", "RequestLimitExceeded", objstore.ErrThrottled, lasting},
		{"400 Bad Request", "Throttling", objstore.ErrThrottled, lasting},
		{"400 Bad Request", "ThrottlingException", objstore.ErrThrottled, lasting},
		{"400 Bad Request", "ServiceBusy", objstore.ErrThrottled, lasting},
		{"400 Bad Request", "RequestTimeout", objstore.ErrTimeout, lasting},
		{"408 Request Timeout", "Oops", objstore.ErrTimeout, lasting},
		{"400 Bad Request", "ConditionalRequestConflict", objstore.ErrChanged, lasting},
		{"400 Bad Request", "OperationAborted", objstore.ErrChanged, lasting},
		{"409 Conflict", "Oops", objstore.ErrChanged, lasting},
		{"404 Not Found", "NoSuchUpload", objstore.ErrUnavailable, 1},
		{"400 Bad Request", "InvalidToken", objstore.ErrDenied, 2},
		{"400 Bad Request", "TokenRefreshRequired", objstore.ErrDenied, 2},
		{"400 Bad Request", "InvalidAccessKeyId", objstore.ErrDenied, 2},
		{"401 Unauthorized", "Oops", objstore.ErrDenied, 2},
		{"400 Bad Request", "InvalidArgument", objstore.ErrDenied, 1},
	} {
		t.Run(c.status+" "+c.code, func(t *testing.T) {
			s := serve(t, func(w net.Conn, r request) bool { return refuse(w, c.status, c.code) })
			b := backend(t, s, quick())
			err := b.ReadRange(t.Context(), ref, 0, make([]byte, 1))
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.code) {
				t.Errorf("got %v, want %v with its code", err, c.want)
			}
			st := b.Stats()
			if s.n != c.requests || st.Requests != int64(c.requests) || st.Retries != int64(c.requests-1) {
				t.Errorf("got %d requests, counted %+v, want %d", s.n, st, c.requests)
			}
			if kind := objstore.Kind(err); len(st.Errors) != 1 || st.Errors[kind] != int64(c.requests) {
				t.Errorf("got errors counted %v, want %d of kind %s", st.Errors, c.requests, kind)
			}
			if throttled := errors.Is(c.want, objstore.ErrThrottled); throttled != (st.Limit < 256) {
				t.Errorf("got a limit of %d requests", st.Limit)
			}
		})
	}
}

// TestHidden makes each failure of the store happen once. The caller does not notice it.
func TestHidden(t *testing.T) {
	data := sample(50)
	for name, fail := range map[string]func(c net.Conn) bool{
		"slow down": func(c net.Conn) bool { return refuse(c, "503 Service Unavailable", "SlowDown") },
		"internal":  func(c net.Conn) bool { return refuse(c, "500 Internal Server Error", "InternalError") },
		"no answer": func(c net.Conn) bool { reset(c); return false },
		"garbage":   func(c net.Conn) bool { fmt.Fprint(c, "garbage\r\n\r\n"); return false },
		"denied":    func(c net.Conn) bool { return refuse(c, "403 Forbidden", "InvalidAccessKeyId") },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(c net.Conn, r request) bool {
				if r.n == 0 {
					return fail(c)
				}
				return sound(c, r, data)
			})
			got := make([]byte, 50)
			if err := backend(t, s, quick()).ReadRange(t.Context(), ref, 0, got); err != nil || !bytes.Equal(got, data) {
				t.Errorf("got %x, %v", got, err)
			}
		})
	}
}

// TestStalls hangs before the response header, and in the middle of the body.
func TestStalls(t *testing.T) {
	data := sample(50)
	policy := quick()
	policy.header, policy.stall = 100*time.Millisecond, 100*time.Millisecond
	for _, sent := range []int{-1, 0, 20} {
		hang := func(c net.Conn) bool {
			if sent >= 0 {
				head(c, "206 Partial Content", etag(testETag), contentRange(0, 49, 50), "Content-Length: 50")
				c.Write(data[:sent])
			}
			_, _ = io.Copy(io.Discard, c) // until the client gives up
			return false
		}
		t.Run(fmt.Sprint("once after ", sent), func(t *testing.T) {
			s := serve(t, func(c net.Conn, r request) bool {
				if r.n == 0 {
					return hang(c)
				}
				return sound(c, r, data)
			})
			got := make([]byte, 50)
			if err := backend(t, s, policy).ReadRange(t.Context(), ref, 0, got); err != nil || !bytes.Equal(got, data) {
				t.Errorf("got %x, %v", got, err)
			}
		})
		t.Run(fmt.Sprint("for ever after ", sent), func(t *testing.T) {
			s := serve(t, func(c net.Conn, _ request) bool { return hang(c) })
			err := backend(t, s, policy).ReadRange(t.Context(), ref, 0, make([]byte, 50))
			if sent <= 0 && !errors.Is(err, objstore.ErrTimeout) || err == nil {
				t.Errorf("got %v, want %v", err, objstore.ErrTimeout)
			}
		})
	}
	t.Run("deadline", func(t *testing.T) {
		s := serve(t, func(c net.Conn, _ request) bool { _, _ = io.Copy(io.Discard, c); return false })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := backend(t, s, defaultRetryPolicy()).ReadRange(ctx, ref, 0, make([]byte, 50))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// TestIgnoredIfMatch reads from a service that ignores the condition.
func TestIgnoredIfMatch(t *testing.T) {
	data := sample(20)
	s := serve(t, func(c net.Conn, r request) bool { return sound(c, r, data) })
	b := backend(t, s, quick())
	old := objstore.Ref{Key: testKey, ETag: "old"}
	if err := b.ReadRange(t.Context(), old, 0, make([]byte, 5)); !errors.Is(err, objstore.ErrChanged) {
		t.Errorf("read: got %v, want %v", err, objstore.ErrChanged)
	}
	if _, err := b.Open(t.Context(), old, 0); !errors.Is(err, objstore.ErrChanged) {
		t.Errorf("open: got %v, want %v", err, objstore.ErrChanged)
	}
}

// TestNoSecrets searches errors for keys and signatures, including errors in which a server repeats
// them.
func TestNoSecrets(t *testing.T) {
	for _, code := range []string{"SignatureDoesNotMatch", "InternalError"} {
		s := serve(t, func(c net.Conn, r request) bool {
			body := "<Error><Code>" + code + "</Code><Message>you sent " + r.Header.Get("Authorization") + " canary-secret-key</Message></Error>"
			head(c, "500 Nope", fmt.Sprintf("Content-Length: %d", len(body)))
			if r.Method != http.MethodHead {
				fmt.Fprint(c, body)
			}
			return true
		})
		b := backend(t, s, quick())
		_, statErr := b.Stat(t.Context(), testKey)
		_, putErr := b.Put(t.Context(), testKey, strings.NewReader("x"), 1, objstore.Condition{})
		for _, err := range []error{b.ReadRange(t.Context(), ref, 0, make([]byte, 1)), statErr, putErr, b.Delete(t.Context(), testKey)} {
			if err == nil {
				t.Fatal("got no error")
			}
			for _, secret := range []string{"canary", "AKID", "Signature="} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("got %q, which holds %q", err, secret)
				}
			}
		}
	}
}

// TestLostAnswer stores an object but loses the response. The retry finds that the earlier write
// has succeeded.
func TestLostAnswer(t *testing.T) {
	for _, ours := range []bool{true, false} {
		var token string
		s := serve(t, func(c net.Conn, r request) bool {
			_, _ = io.Copy(io.Discard, r.Body)
			switch {
			case r.Method == http.MethodPut && r.n == 0:
				token = r.Header.Get("X-Amz-Meta-Millrace-Put")
				return refuse(c, "500 Internal Server Error", "InternalError")
			case r.Method == http.MethodPut:
				return refuse(c, "412 Precondition Failed", "PreconditionFailed")
			}
			if !ours {
				token = "another"
			}
			head(c, "200 OK", etag(testETag), "Content-Length: 1", "X-Amz-Meta-Millrace-Put: "+token)
			return true
		})
		o, err := backend(t, s, quick()).Put(t.Context(), testKey, strings.NewReader("x"), 1, objstore.Condition{IfAbsent: true})
		if ours && (err != nil || o.ETag != testETag) {
			t.Errorf("our own write: got %+v, %v", o, err)
		}
		if !ours && !errors.Is(err, objstore.ErrChanged) {
			t.Errorf("another's write: got %v, want %v", err, objstore.ErrChanged)
		}
	}
}
