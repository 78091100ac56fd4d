package s3backend

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
)

// TestPrivateAuthority reads over TLS from a store with a certificate that no system trusts.
func TestPrivateAuthority(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"`+testETag+`"`)
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		w.Header().Set("Content-Range", "bytes 0-2/3")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = io.WriteString(w, "abc") // the client checks the bytes
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(file, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for _, tc := range []struct {
		name, flag, env string
		trusted         bool
	}{
		{"flag", file, "", true},
		{"environment", "", file, true},
		{"neither", "", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("AWS_CA_BUNDLE", tc.env)
			b := opened(t, Config{Bucket: "train", Endpoint: srv.URL, PathStyle: true, CAFile: tc.flag}, quick())
			dst := make([]byte, 3)
			err := b.ReadRange(t.Context(), ref, 0, dst)
			if tc.trusted && (err != nil || string(dst) != "abc") {
				t.Errorf("got %q, %v, want abc", dst, err)
			}
			if !tc.trusted && (!errors.Is(err, objstore.ErrUnavailable) || !strings.Contains(err.Error(), "certificate")) {
				t.Errorf("got %v, want %v that names the certificate", err, objstore.ErrUnavailable)
			}
			if n := b.Stats().Retries; n != 0 {
				t.Errorf("got %d retries, want none: no repetition mends trust", n)
			}
		})
	}
}

// TestCAFileFaults checks that the error names the CA file that cannot be used.
func TestCAFileFaults(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{empty, empty + ".missing"} {
		if _, err := New(Config{Bucket: "train", CAFile: file}); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("got %v, want an error that names %s", err, file)
		}
	}
}

// TestCredentialsFound checks which credentials sign the requests.
func TestCredentialsFound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials")
	text := "[default]\naws_access_key_id = FROMFILE\naws_secret_access_key = s\n[other]\naws_access_key_id = FROMPROFILE\naws_secret_access_key = s\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, id, profile, want string }{
		{"environment goes first", "FROMENV", "other", "Credential=FROMENV/"},
		{"default profile", "", "", "Credential=FROMFILE/"},
		{"named profile", "", "other", "Credential=FROMPROFILE/"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
			t.Setenv("AWS_PROFILE", tc.profile)
			t.Setenv("AWS_ACCESS_KEY_ID", tc.id)
			t.Setenv("AWS_SECRET_ACCESS_KEY", tc.id)
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Authorization"); !strings.Contains(got, tc.want) {
					t.Errorf("got %q, want %q in it", got, tc.want)
				}
				w.WriteHeader(http.StatusNotFound)
			}))
			defer srv.Close()
			b := opened(t, Config{Bucket: "train", Endpoint: srv.URL, PathStyle: true}, quick())
			if _, err := b.Stat(t.Context(), testKey); !errors.Is(err, objstore.ErrNotFound) {
				t.Errorf("got %v, want %v", err, objstore.ErrNotFound)
			}
		})
	}
}

// multipart is a store that accepts multipart uploads and fails on request.
type multipart struct {
	failPart, failComplete string // error codes of the rejection; empty: none
	aborted, completed     int
}

func (m *multipart) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fail := func(status int, code string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
	}
	_, _ = io.Copy(io.Discard, r.Body) // the client reports a failed upload
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodPost && q.Has("uploads"):
		fmt.Fprint(w, "<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>")
	case r.Method == http.MethodPut && q.Get("partNumber") == "2" && m.failPart != "":
		fail(http.StatusForbidden, m.failPart)
	case r.Method == http.MethodPut:
		w.Header().Set("ETag", `"part"`)
	case r.Method == http.MethodPost && m.failComplete != "":
		m.completed++
		fail(http.StatusPreconditionFailed, m.failComplete)
	case r.Method == http.MethodDelete && q.Get("uploadId") == "u1":
		m.aborted++
		w.WriteHeader(http.StatusNoContent)
	default:
		fail(http.StatusNotImplemented, "NotImplemented")
	}
}

// TestFailedPartsLeaveNothing fails a part, and then the last request. Each time the upload is
// aborted.
func TestFailedPartsLeaveNothing(t *testing.T) {
	for _, tc := range []struct {
		name      string
		store     multipart
		want      error
		completed int
	}{
		{"part refused", multipart{failPart: "AccessDenied"}, objstore.ErrDenied, 0},
		{"condition does not hold", multipart{failComplete: "PreconditionFailed"}, objstore.ErrChanged, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := httptest.NewServer(&tc.store)
			t.Setenv("AWS_ACCESS_KEY_ID", "id")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
			b := opened(t, Config{Bucket: "train", Endpoint: srv.URL, PathStyle: true, PartSize: minPart}, quick())
			_, err := b.Put(t.Context(), testKey, strings.NewReader(strings.Repeat("x", minPart+1)), minPart+1, objstore.Condition{IfAbsent: true})
			b.Close()
			srv.Close() // waits for running requests, so that later attempts do not overlap them
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if tc.store.aborted != 1 || tc.store.completed != tc.completed {
				t.Errorf("got %d aborts and %d completions, want 1 and %d", tc.store.aborted, tc.store.completed, tc.completed)
			}
		})
	}
}

// TestNoCredentials checks that, if a store rejects an unsigned request, the error says that there
// were no credentials.
func TestNoCredentials(t *testing.T) {
	signed := false
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signed = r.Header.Get("Authorization") != ""
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "<Error><Code>AccessDenied</Code></Error>")
	}))
	defer srv.Close()
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "missing"))
	for _, id := range []string{"", "id"} {
		t.Setenv("AWS_ACCESS_KEY_ID", id)
		t.Setenv("AWS_SECRET_ACCESS_KEY", id)
		b := opened(t, Config{Bucket: "train", Endpoint: srv.URL, PathStyle: true}, quick())
		err := b.ReadRange(t.Context(), ref, 0, make([]byte, 1))
		if !errors.Is(err, objstore.ErrDenied) || strings.Contains(err.Error(), "no credentials") != (id == "") {
			t.Errorf("id %q: got %v", id, err)
		}
		if signed != (id != "") {
			t.Errorf("id %q: got a signature: %t", id, signed)
		}
	}
}
