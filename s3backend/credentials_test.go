package s3backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// rotation is a store that accepts one access key, and also the service that issues the key.
type rotation struct {
	mu      sync.Mutex
	valid   string // key that the store accepts
	given   string // key that the service issues; empty: the service fails
	hangs   bool   // the service does not answer
	handed  int
	refused int
}

func (r *rotation) set(valid, given string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.valid, r.given, r.handed, r.refused = valid, given, 0, 0
}

func (r *rotation) counts() (handed, refused int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handed, r.refused
}

func (r *rotation) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if req.URL.Path == "/credentials" {
		r.handed++
		if r.hangs {
			r.mu.Unlock()
			<-req.Context().Done()
			r.mu.Lock()
			return
		}
		if r.given == "" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, `{"AccessKeyId":%q,"SecretAccessKey":"s","Token":"t","Expiration":%q}`, r.given, time.Now().Add(6*time.Hour).Format(time.RFC3339))
		return
	}
	if !strings.Contains(req.Header.Get("Authorization"), "Credential="+r.valid+"/") {
		r.refused++
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "<Error><Code>InvalidAccessKeyId</Code></Error>")
		return
	}
	w.Header().Set("ETag", `"`+testETag+`"`)
	w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
	w.Header().Set("Content-Range", "bytes 0-0/1")
	w.WriteHeader(http.StatusPartialContent)
	fmt.Fprint(w, "x")
}

// rotating returns a backend with credentials issued by r, as in a container.
func rotating(t *testing.T, r *rotation, policy retryPolicy) *Backend {
	t.Helper()
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "missing"))
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", srv.URL+"/credentials")
	return opened(t, Config{Bucket: "train", Endpoint: srv.URL, PathStyle: true}, policy)
}

// readAll reads one byte with each of many concurrent callers, and returns their errors.
func readAll(t *testing.T, b *Backend, callers int) error {
	t.Helper()
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = b.ReadRange(t.Context(), ref, 0, make([]byte, 1)) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// TestRotationIsHidden replaces the key under load. One refresh serves all rejected requests, and
// each of them is retried once.
func TestRotationIsHidden(t *testing.T) {
	const callers = 32
	r := &rotation{valid: "one", given: "one"}
	b := rotating(t, r, quick())
	for _, key := range []string{"one", "two"} {
		r.set(key, key)
		if err := readAll(t, b, callers); err != nil {
			t.Errorf("key %s: %v", key, err)
		}
		handed, refused := r.counts()
		if handed != 1 || refused > callers || key == "two" && refused == 0 {
			t.Errorf("key %s: asked for credentials %d times, refused %d times, want once, and at most %d", key, handed, refused, callers)
		}
		if st := b.Stats(); st.Retries != int64(refused) {
			t.Errorf("key %s: got %d retries after %d refusals", key, st.Retries, refused)
		}
	}
}

// TestRevocationIsFinal issues a key that the store rejects. There is one refresh for all requests,
// one retry for each request, and no other refresh within the interval.
func TestRevocationIsFinal(t *testing.T) {
	const callers = 32
	r := &rotation{valid: "one", given: "one"}
	b := rotating(t, r, quick())
	if err := readAll(t, b, 1); err != nil {
		t.Fatal(err)
	}
	r.set("none", "one")
	if err := readAll(t, b, callers); !errors.Is(err, objstore.ErrDenied) {
		t.Errorf("got %v, want %v", err, objstore.ErrDenied)
	}
	if handed, refused := r.counts(); handed != 1 || refused > 2*callers {
		t.Errorf("asked for credentials %d times, refused %d times, want once, and at most %d", handed, refused, 2*callers)
	}
	before := b.Stats().Requests
	if err := readAll(t, b, 1); !errors.Is(err, objstore.ErrDenied) || b.Stats().Requests != before+1 {
		t.Errorf("soon after: got %v in %d requests, want %v in one", err, b.Stats().Requests-before, objstore.ErrDenied)
	}
}

// TestCredentialsOutliveTheirSource: the service that issues credentials fails while the store also
// rejects a request. Requests are still signed, and succeed once the store accepts the key again.
func TestCredentialsOutliveTheirSource(t *testing.T) {
	r := &rotation{valid: "one", given: "one"}
	b := rotating(t, r, quick())
	if err := readAll(t, b, 1); err != nil {
		t.Fatal(err)
	}
	r.set("none", "")
	if err := readAll(t, b, 1); !errors.Is(err, objstore.ErrDenied) || strings.Contains(fmt.Sprint(err), "no credentials") {
		t.Errorf("got %v, want %v of a signed request", err, objstore.ErrDenied)
	}
	r.set("one", "")
	if err := readAll(t, b, 8); err != nil {
		t.Errorf("with the old key, which is good again: %v", err)
	}
}

// TestCredentialSourceThatHangsIsGivenUp: the service that issues the new key does not respond.
// Requests return the store's error for the old key, and succeed once that key is valid again.
func TestCredentialSourceThatHangsIsGivenUp(t *testing.T) {
	r := &rotation{valid: "one", given: "one"}
	policy := quick()
	policy.header = time.Second
	b := rotating(t, r, policy)
	if err := readAll(t, b, 1); err != nil {
		t.Fatal(err)
	}
	r.set("two", "two")
	r.mu.Lock()
	r.hangs = true
	r.mu.Unlock()
	if err := readAll(t, b, 8); !errors.Is(err, objstore.ErrDenied) {
		t.Errorf("got %v, want %v", err, objstore.ErrDenied)
	}
	r.set("one", "one")
	if err := readAll(t, b, 8); err != nil {
		t.Errorf("with the old key, which is good again: %v", err)
	}
}

// provider issues keys on request.
type provider struct {
	id    string // empty: it returns no key
	asked int
}

func (s *provider) Retrieve() (credentials.Value, error) { return s.RetrieveWithCredContext(nil) }
func (s *provider) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	s.asked++
	return credentials.Value{AccessKeyID: s.id, SecretAccessKey: s.id}, nil
}
func (s *provider) IsExpired() bool { return false }

// TestSteadyLooksAgain checks that old credentials are kept, and that new ones are requested once
// per interval.
func TestSteadyLooksAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		src := &provider{}
		creds := credentials.New(&stickyCredentials{source: &credentials.Chain{Providers: []credentials.Provider{src}}})
		for i, step := range []struct {
			id     string
			expire bool
			sleep  time.Duration
			want   string
			asked  int
		}{
			{"", false, 0, "", 1},
			{"one", false, lookAgain / 2, "", 1},
			{"one", false, lookAgain / 2, "one", 2},
			{"", true, 0, "one", 3},
			{"", false, lookAgain / 2, "one", 3},
			{"", false, lookAgain / 2, "one", 4},
			{"two", false, lookAgain, "two", 5},
			{"three", false, time.Hour, "two", 5},
			{"three", true, 0, "three", 6},
		} {
			src.id = step.id
			if step.expire {
				creds.Expire()
			}
			time.Sleep(step.sleep)
			got, err := creds.GetWithContext(nil)
			if err != nil || got.AccessKeyID != step.want || src.asked != step.asked {
				t.Errorf("step %d: got %q, %v after asking %d times, want %q after %d", i, got.AccessKeyID, err, src.asked, step.want, step.asked)
			}
		}
	})
}

// TestCredentialsFileIsReadForEachRequest checks that a new key in the credentials file is used at
// once. The file of a profile is read again only after the store has rejected the key.
func TestCredentialsFileIsReadForEachRequest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	for profile, want := range map[string]string{"": "new", "default": "old"} {
		var got credentials.Value
		var err error
		creds := Config{Profile: profile}.credentials(http.DefaultTransport, time.Second)
		for _, key := range []string{"old", "new"} {
			if err := os.WriteFile(file, []byte("[default]\naws_access_key_id = "+key+"\naws_secret_access_key = secret\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err = creds.GetWithContext(nil); err != nil {
				t.Fatal(err)
			}
		}
		if got.AccessKeyID != want {
			t.Errorf("profile %q: got key %s after the file changed, want %s", profile, got.AccessKeyID, want)
		}
	}
}

// TestNoEndpointIsSet checks that, without an endpoint, a network error for AWS's own hosts also
// names the missing setting.
func TestNoEndpointIsSet(t *testing.T) {
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	const looked, none = "look up pics.s3.amazonaws.com: no such host", ", and no credentials were found in the environment or the shared credentials file"
	const unset = "no endpoint is set (AWS_ENDPOINT_URL, or endpoint= of the address), so AWS itself was asked: "
	for _, c := range []struct{ endpoint, id, want string }{
		{"", "", unset + looked + none},
		{"", "id", unset + looked},
		{"https://s3.amazonaws.com", "", looked + ", at the endpoint https://s3.amazonaws.com (AWS_ENDPOINT_URL, or endpoint= of the address)"},
	} {
		t.Setenv("AWS_ACCESS_KEY_ID", c.id)
		t.Setenv("AWS_SECRET_ACCESS_KEY", c.id)
		b := opened(t, Config{Bucket: "pics", Endpoint: c.endpoint}, quick())
		b.transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.DNSError{Err: "no such host", Name: "pics.s3.amazonaws.com", IsNotFound: true}
		}
		_, err := b.Stat(t.Context(), "a")
		if !errors.Is(err, objstore.ErrUnavailable) || !strings.HasSuffix(err.Error(), "unavailable: "+c.want) {
			t.Errorf("endpoint %q, key %q: got %v, want %q", c.endpoint, c.id, err, c.want)
		}
	}
}

// TestBadEndpoint checks that the error contains the setting, its value and the required form, but
// no password.
func TestBadEndpoint(t *testing.T) {
	for _, c := range []struct{ variable, value, want string }{
		{"AWS_ENDPOINT_URL", "127.0.0.1:9000", "s3: AWS_ENDPOINT_URL=127.0.0.1:9000 is not an http or https URL: write it as http://HOST:PORT"},
		{"AWS_ENDPOINT_URL_S3", "store:9000", "s3: AWS_ENDPOINT_URL_S3=store:9000 is not an http or https URL: write it as http://HOST:PORT"},
		{"AWS_ENDPOINT_URL", "user:secret@store", "s3: AWS_ENDPOINT_URL= is not an http or https URL: write it as http://HOST:PORT"},
	} {
		t.Setenv("AWS_ENDPOINT_URL", "")
		t.Setenv("AWS_ENDPOINT_URL_S3", "")
		t.Setenv(c.variable, c.value)
		if _, err := New(Config{Bucket: "pics"}); err == nil || err.Error() != c.want {
			t.Errorf("%s=%s: got %v, want %q", c.variable, c.value, err, c.want)
		}
	}
	t.Setenv("AWS_ENDPOINT_URL", "")
	if _, err := New(Config{Bucket: "pics", Endpoint: "store:9000"}); err == nil || !strings.HasPrefix(err.Error(), "s3: endpoint=store:9000 is no") {
		t.Errorf("got %v, want the endpoint of the address", err)
	}
}
