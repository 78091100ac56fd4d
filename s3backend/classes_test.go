package s3backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// TestClassifyAnswer checks, for each rejection, the error, and whether to retry, whether it may
// have taken effect, and whether new credentials may help.
func TestClassifyAnswer(t *testing.T) {
	const retry, lost, fresh = "retry", "lost", "fresh"
	for _, c := range []struct {
		status int
		code   string
		kind   error
		flags  string
	}{
		{400, "SlowDown", objstore.ErrThrottled, retry}, {503, "SlowDown", objstore.ErrThrottled, retry}, {400, "RequestTimeout", objstore.ErrTimeout, retry},
		{409, "ConditionalRequestConflict", objstore.ErrChanged, retry}, {409, "OperationAborted", objstore.ErrChanged, retry},
		{404, "NoSuchUpload", objstore.ErrUnavailable, ""}, {400, "ExpiredToken", objstore.ErrDenied, fresh}, {403, "RequestTimeTooSkewed", objstore.ErrDenied, ""},
		{404, "x", objstore.ErrNotFound, ""}, {412, "x", objstore.ErrChanged, ""}, {304, "x", objstore.ErrChanged, ""},
		{401, "x", objstore.ErrDenied, fresh}, {403, "x", objstore.ErrDenied, fresh}, {429, "x", objstore.ErrThrottled, retry},
		{416, "x", objstore.ErrShort, ""}, {408, "x", objstore.ErrTimeout, retry + lost}, {504, "x", objstore.ErrTimeout, retry + lost},
		{300, "x", objstore.ErrDenied, ""}, {399, "x", objstore.ErrDenied, ""}, {400, "x", objstore.ErrDenied, ""}, {499, "x", objstore.ErrDenied, ""},
		{500, "x", objstore.ErrUnavailable, retry + lost}, {503, "x", objstore.ErrUnavailable, retry + lost}, {501, "x", objstore.ErrUnavailable, lost},
		{409, "x", objstore.ErrChanged, retry}, {0, "x", objstore.ErrUnavailable, retry + lost}, {200, "x", objstore.ErrUnavailable, retry + lost}, {201, "x", objstore.ErrDenied, ""},
	} {
		f := classify(fmt.Errorf("wrapped: %w", minio.ErrorResponse{StatusCode: c.status, Code: c.code, RequestID: "r"}))
		flags := ""
		for name, set := range map[string]bool{retry: f.retry, lost: f.lost, fresh: f.fresh} {
			if set != strings.Contains(c.flags, name) {
				flags += fmt.Sprintf(" %s: %t", name, set)
			}
		}
		if f.kind != c.kind || flags != "" || f.own || !strings.HasSuffix(f.detail, fmt.Sprintf("%s (status %d, request r)", c.code, c.status)) {
			t.Errorf("status %d %s: got %v,%s, want %v", c.status, c.code, f, flags, c.kind)
		}
		if code := map[bool]string{true: "InvalidRange", false: c.code}[c.status == 416]; f.code != code {
			t.Errorf("status %d: got the code %s, want %s", c.status, f.code, code)
		}
	}
}

// TestLimiter_LeavesOnePlace checks that one place is left, however often the store asks to slow
// down. Successes restore the other places.
func TestLimiter_LeavesOnePlace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newConcurrencyLimit(3)
		for range 8 {
			l.slower()
			time.Sleep(cutInterval)
		}
		if got := l.current(); got != 1 || !l.try() || l.try() {
			t.Errorf("got a limit of %d, want one place", got)
		}
		l.release()
		for range 8 {
			l.faster()
		}
		if got := l.current(); got != 3 || !l.try() || !l.try() || !l.try() || l.try() {
			t.Errorf("got a limit of %d, want three places", got)
		}
	})
}

// TestSource_IsLeftAloneAfterItsRequest checks that a transport that still reads after its request
// gets nothing of the caller's body.
func TestSource_IsLeftAloneAfterItsRequest(t *testing.T) {
	fault := errors.New("disk on fire")
	for _, c := range []struct {
		body  io.ReaderAt
		reads int
		err   error // error of the request
		want  error
	}{
		{strings.NewReader("12345"), 1, nil, nil}, {strings.NewReader("12345"), 1, fault, fault}, {strings.NewReader("12345"), 0, io.EOF, io.EOF},
		{strings.NewReader("1234"), 2, io.EOF, objstore.ErrShort}, {broken{fault}, 1, io.ErrUnexpectedEOF, io.ErrUnexpectedEOF}, {broken{io.EOF}, 1, nil, nil},
	} {
		rested := make(chan struct{})
		w := newWatchdog(func(error) { close(rested) }, time.Hour)
		s := newUploadBody(c.body, 0, 5, w, defaultRetryPolicy())
		for range c.reads {
			_, _ = s.Read(make([]byte, 5))
		}
		err := s.detach(c.err)
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("got %v, want %v", err, c.want)
		}
		if n, err := s.Read(make([]byte, 5)); n != 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("afterwards: got %d bytes, %v, want %v", n, err, http.ErrBodyReadAfterClose)
		}
		if w.timer.Stop() {
			t.Error("the watch runs on after the request")
		}
	}
}

// TestPut_SendsPartsTogether checks that four parts are sent concurrently, and that a body of at
// most one part is sent in one request.
func TestPut_SendsPartsTogether(t *testing.T) {
	for _, c := range []struct {
		size  int64
		times int // number of rounds of one second
		puts  int
	}{{minPart, 1, 1}, {minPart + 1, 1, 2}, {4 * minPart, 1, 4}, {4*minPart + 1, 2, 5}} {
		var mu sync.Mutex
		puts := 0
		inBubble(t, quick(), func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			switch {
			case r.Method == http.MethodPut:
				mu.Lock()
				puts++
				mu.Unlock()
				time.Sleep(time.Second)
				w.Header().Set("ETag", `"part"`)
			case r.URL.Query().Has("uploads"):
				fmt.Fprint(w, "<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>")
			default:
				fmt.Fprint(w, `<CompleteMultipartUploadResult><Bucket>train</Bucket><ETag>"whole"</ETag></CompleteMultipartUploadResult>`)
			}
		}, func(t *testing.T, b *Backend) {
			b.cfg.PartSize = minPart
			start := time.Now()
			o, err := b.Put(t.Context(), testKey, zeros{}, c.size, objstore.Condition{})
			want, requests := objstore.Object{Key: testKey, Size: c.size, ETag: "part"}, c.puts
			if c.puts > 1 { // the upload is begun and completed by two more requests
				want.ETag, requests = "whole", c.puts+2
			}
			took, ought := time.Since(start), time.Duration(c.times)*time.Second
			if err != nil || o != want || took != ought || puts != c.puts || b.Stats().Requests != int64(requests) {
				t.Errorf("%d bytes: got %+v, %v after %v and %d puts of %d requests, want %v, %d and %d", c.size, o, err, took, puts, b.Stats().Requests, ought, c.puts, requests)
			}
		})
	}
}

// zeros is an endless body.
type zeros struct{}

func (zeros) ReadAt(p []byte, _ int64) (int, error) { clear(p); return len(p), nil }

// TestSend_SignsWithTheTimeOfTheRequest checks that each request is signed with its own time:
// stores reject signatures with another time.
func TestSend_SignsWithTheTimeOfTheRequest(t *testing.T) {
	var dates []string
	inBubble(t, quick(), func(w http.ResponseWriter, r *http.Request) {
		dates = append(dates, r.Header.Get("X-Amz-Date"))
		w.WriteHeader(http.StatusNotFound)
	}, func(t *testing.T, b *Backend) {
		var want []string
		for range 2 {
			want = append(want, time.Now().UTC().Format(secondFormat))
			if _, err := b.Stat(t.Context(), testKey); !errors.Is(err, objstore.ErrNotFound) {
				t.Error(err)
			}
			time.Sleep(25 * time.Hour)
		}
		if !slices.Equal(dates, want) {
			t.Errorf("got requests of %q, want %q", dates, want)
		}
	})
}

// TestCredentials_AskTheMetadataServiceWhereItCanBe checks when the metadata service is queried: at
// AWS, unless it is disabled, and where an identity is set.
func TestCredentials_AskTheMetadataServiceWhereItCanBe(t *testing.T) {
	for _, c := range []struct {
		endpoint, disabled, container string
		want                          string
	}{
		{"", "", "", "169.254.169.254:80"}, {"", "false", "", "169.254.169.254:80"}, {"", "TRUE", "", ""}, {"http://store:80", "", "", ""},
		{"http://store:80", "true", "http://127.0.0.1:9/credentials", "127.0.0.1:9"}, {"", "true", "http://127.0.0.1:9/credentials", "127.0.0.1:9"},
	} {
		for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} {
			t.Setenv(name, "")
		}
		t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
		t.Setenv("AWS_EC2_METADATA_DISABLED", c.disabled)
		t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", c.container)
		policy := quick()
		policy.attempts = 1
		b := opened(t, Config{Bucket: "train", Endpoint: c.endpoint, Region: "eu-west-1"}, policy)
		var mu sync.Mutex
		asked := ""
		b.transport.Proxy = nil
		b.transport.DialContext = func(_ context.Context, _, address string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			if !strings.Contains(address, "store") && !strings.Contains(address, "amazonaws") {
				asked = address
			}
			return nil, &net.OpError{Op: "dial", Err: errNamesDown}
		}
		if _, err := b.Stat(t.Context(), testKey); err == nil || asked != c.want {
			t.Errorf("%+v: got %v after asking %q, want %q", c, err, asked, c.want)
		}
	}
}

// TestProfile_FollowsNoRedirect checks that credentials come only from the service named in the
// files.
func TestProfile_FollowsNoRedirect(t *testing.T) {
	sharedFiles(t, "[profile role]\nrole_arn = arn:aws:iam::1:role/reader\nsource_profile = keys\n", "[keys]\naws_access_key_id = OFKEYS\naws_secret_access_key = s\n")
	var elsewhere credentialService
	other := httptest.NewServer(&elsewhere)
	defer other.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer srv.Close()
	b := opened(t, Config{Bucket: "train", Endpoint: srv.URL, PathStyle: true, Profile: "role"}, quick())
	if _, err := b.Stat(t.Context(), testKey); !errors.Is(err, objstore.ErrDenied) || len(elsewhere.seen) > 0 {
		t.Errorf("got %v after %d requests elsewhere, want %v and none", err, len(elsewhere.seen), objstore.ErrDenied)
	}
}
