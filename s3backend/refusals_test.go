package s3backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// TestNew_Refuses checks that errors for unusable values contain the setting.
func TestNew_Refuses(t *testing.T) {
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CA_BUNDLE"} {
		t.Setenv(name, "")
	}
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "s3: no bucket"},
		{Config{Bucket: "train", MaxConns: -1}, "s3: -1 connections: must not be negative"},
		{Config{Bucket: "train", PartSize: minPart - 1}, "s3: part size of 5242879 bytes: must be at least 5242880"},
		{Config{Bucket: "train", Bandwidth: -1}, "s3: bandwidth of -1 bytes per second: must not be negative"},
		{Config{Bucket: "train", Endpoint: "ftp://store"}, "s3: endpoint=ftp://store is not an http or https URL: write it as http://HOST:PORT"},
		{Config{Bucket: "train", Endpoint: "http://"}, "s3: endpoint=http:// is not an http or https URL: write it as http://HOST:PORT"},
		{Config{Bucket: "train", Endpoint: "http://a b"}, "s3: endpoint=http://a b is not an http or https URL: write it as http://HOST:PORT"},
		{Config{Bucket: "train", Endpoint: "http://user@store"}, "s3: endpoint contains a user name: remove it, and set credentials in the environment"},
		{Config{Bucket: "train", Endpoint: "http://store/path"}, "s3: endpoint contains more than scheme, host and port: remove the rest"},
		{Config{Bucket: "train", Endpoint: "http://store?x=1"}, "s3: endpoint contains more than scheme, host and port: remove the rest"},
		{Config{Bucket: "train", Endpoint: "http://store#x"}, "s3: endpoint contains more than scheme, host and port: remove the rest"},
		{Config{Bucket: "train", CAFile: missing}, "s3: CA file: open " + missing + ": no such file or directory"},
		{Config{Bucket: "a", Endpoint: "http://store"}, "s3: Bucket name cannot be shorter than 3 characters"},
	} {
		b, err := New(c.cfg)
		if b != nil || err == nil || err.Error() != c.want {
			t.Errorf("%+v: got %v, want %s", c.cfg, err, c.want)
		}
	}
	for _, cfg := range []Config{{Bucket: "train", Endpoint: "http://store/"}, {Bucket: "train", PartSize: minPart, MaxConns: 1, Bandwidth: 1}} {
		if b, err := New(cfg); err != nil || b.Paced() != (cfg.Bandwidth > 0) {
			t.Errorf("%+v: got %v", cfg, err)
		}
	}
}

// TestPlace checks that a bucket is identified by its endpoint, or at AWS by its region, from the
// environment or the address.
func TestPlace(t *testing.T) {
	for _, c := range []struct {
		cfg              Config
		env              [4]string // endpoint for S3, endpoint for all services, region, default region
		endpoint, region string
	}{
		{Config{}, [4]string{}, "", ""},
		{Config{}, [4]string{"", "", "eu", "us"}, "", "eu"},
		{Config{}, [4]string{"", "", "", "us"}, "", "us"},
		{Config{Region: "cn"}, [4]string{"", "", "eu", "us"}, "", "cn"},
		{Config{}, [4]string{"http://s3/", "http://all", "eu", ""}, "http://s3", ""},
		{Config{}, [4]string{"", "http://all", "eu", ""}, "http://all", ""},
		{Config{Endpoint: "http://own/", Region: "cn"}, [4]string{"http://s3", "", "", ""}, "http://own", ""},
	} {
		for i, name := range []string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"} {
			t.Setenv(name, c.env[i])
		}
		if endpoint, region := c.cfg.Place(); endpoint != c.endpoint || region != c.region {
			t.Errorf("%+v with %q: got %q, %q, want %q, %q", c.cfg, c.env, endpoint, region, c.endpoint, c.region)
		}
	}
}

// TestBlame checks that a rejection names the clock or the region if that is its cause. It is then
// not retried with other credentials.
func TestBlame(t *testing.T) {
	denied := func(code string) *failure {
		return &failure{kind: objstore.ErrDenied, code: code, detail: "x", fresh: true}
	}
	for _, c := range []struct {
		f     *failure
		skew  time.Duration
		want  string
		fresh bool
	}{
		{denied("AccessDenied"), maxSkew, "denied: x", true},
		{denied("AccessDenied"), -maxSkew, "denied: x", true},
		{denied("AccessDenied"), maxSkew + time.Second, "denied: this machine's clock is 15m1s ahead of the store's: set the clock with NTP: x", false},
		{denied("AccessDenied"), -maxSkew - time.Second, "denied: this machine's clock is 15m1s behind the store's: set the clock with NTP: x", false},
		{denied("RequestTimeTooSkewed"), 0, "denied: this machine's clock differs too much from the store's: set the clock with NTP: x", false},
		{&failure{kind: objstore.ErrNotFound, detail: "x"}, time.Hour, "not found: x", false},
		{&failure{kind: objstore.ErrThrottled, code: "RequestTimeTooSkewed", detail: "x"}, 0, "throttled: x", false},
	} {
		c.f.blameClock(c.skew)
		if c.f.Error() != c.want || c.f.fresh != c.fresh {
			t.Errorf("clock off by %v: got %v, fresh: %t, want %s, %t", c.skew, c.f, c.f.fresh, c.want, c.fresh)
		}
	}
	const named = "denied: the bucket is in region eu, not in us: set region= in its address, or AWS_REGION: x"
	for _, c := range []struct {
		kind   error
		status int
		bucket string
		want   string
	}{
		{objstore.ErrDenied, http.StatusBadRequest, "eu", named},
		{objstore.ErrDenied, http.StatusMovedPermanently, "eu", named},
		{objstore.ErrDenied, http.StatusForbidden, "eu", "denied: x"},
		{objstore.ErrDenied, http.StatusBadRequest, "us", "denied: x"},
		{objstore.ErrDenied, http.StatusBadRequest, "evil.test/", "denied: x"},
		{objstore.ErrDenied, http.StatusBadRequest, "", "denied: x"},
		{objstore.ErrNotFound, http.StatusBadRequest, "eu", "not found: x"},
	} {
		f := &failure{kind: c.kind, detail: "x", fresh: true}
		f.blameRegion(c.status, c.bucket, "us")
		if blamed := c.want == named; f.Error() != c.want || f.fresh == blamed || (f.region == "eu") != blamed {
			t.Errorf("%+v: got %v, fresh: %t, region %q", c, f, f.fresh, f.region)
		}
	}
}

// TestFailure_HidesWhatServersWrite checks that only printable ASCII of a limited length is shown.
func TestFailure_HidesWhatServersWrite(t *testing.T) {
	for in, want := range map[string]string{
		"plain ~": "plain ~", "a\tb\x7fc\x00": "a.b.c.", "ü": ".",
		strings.Repeat("x", 160): strings.Repeat("x", 160), strings.Repeat("x", 161): strings.Repeat("x", 160) + "...",
	} {
		if got := clip(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := (&failure{kind: objstore.ErrShort}).Error(); got != "short" {
		t.Errorf("without a detail: got %q", got)
	}
	if got := (&failure{detail: "x"}).Error(); got != "x" {
		t.Errorf("without a word of the vocabulary: got %q", got)
	}
}

// TestStats_AreACopy checks that changing a returned value changes no counter.
func TestStats_AreACopy(t *testing.T) {
	b := opened(t, Config{Bucket: "train", Endpoint: "http://store"}, quick())
	b.report(objstore.ErrShort)
	b.Stats().Errors["short"] = 7
	if got := b.Stats().Errors["short"]; got != 1 {
		t.Errorf("got %d, want 1", got)
	}
}

// TestCredentials_SourceFails checks errors for a source that cannot be reached or sends an invalid
// response. They name the fault, but never repeat the source's text.
func TestCredentials_SourceFails(t *testing.T) {
	sharedFiles(t, "[profile role]\nrole_arn = arn:aws:iam::1:role/reader\nsource_profile = keys\n[profile keys]\naws_access_key_id = OFKEYS\naws_secret_access_key = s\n"+
		"[profile bare]\nrole_arn = arn:aws:iam::1:role/reader\ncredential_source = Environment\n[profile zero]\nrole_arn = a\ncredential_source = Environment\nduration_seconds = 0\n", "")
	const noKey = `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>` +
		`<SecretAccessKey>canary</SecretAccessKey><Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`
	s := newService()
	for _, c := range []struct {
		profile string
		answer  func(http.ResponseWriter)
		want    error
		text    string
	}{
		{"role", func(w http.ResponseWriter) { fmt.Fprint(w, "canary") }, objstore.ErrDenied, `credentials of profile "role": their source failed, or its response is invalid`},
		{"role", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, objstore.ErrUnavailable, `credentials of profile "role": the connection was closed`},
		{"role", func(w http.ResponseWriter) { fmt.Fprint(w, noKey) }, objstore.ErrDenied, `profile "role": its source of credentials returned none`},
		{"bare", nil, objstore.ErrDenied, "role arn:aws:iam::1:role/reader: the source for assuming the role returned no credentials"},
	} {
		s.faults(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				c.answer(w)
			}
			return true
		})
		b := serviceBackend(t, s)
		t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.Getenv("AWS_CONFIG_FILE")+"-none")
		b = opened(t, Config{Bucket: "train", Endpoint: b.cfg.Endpoint, PathStyle: true, Profile: c.profile}, quick())
		_, err := b.Stat(t.Context(), testKey)
		if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.text) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %v, want %v: %s", c.profile, err, c.want, c.text)
		}
	}
	if _, err := New(Config{Bucket: "train", Profile: "zero"}); err == nil || !strings.HasSuffix(err.Error(), "duration_seconds is not a number of seconds") {
		t.Errorf("no seconds: got %v", err)
	}
	b := opened(t, Config{Bucket: "train", Endpoint: "http://127.0.0.1:1", Profile: "role"}, quick())
	if err := os.Remove(os.Getenv("AWS_CONFIG_FILE")); err != nil {
		t.Fatal(err)
	}
	_, err := b.Stat(t.Context(), testKey)
	if !errors.Is(err, objstore.ErrDenied) || !strings.Contains(err.Error(), `there is no profile "role"`) {
		t.Errorf("files that are gone: got %v", err)
	}
}

// TestDialer_RemembersForAWhile checks that the last address of a name is used while name
// resolution fails, until the address is too old.
func TestDialer_RemembersForAWhile(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for age, want := range map[time.Duration]bool{remember / 2: true, remember + time.Minute: false} {
		d := &dialer{good: map[string]addresses{"store.invalid:80": {last: ln.Addr().String(), at: time.Now().Add(-age)}}}
		d.net.Resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errNamesDown }}
		conn, err := d.dial(t.Context(), "tcp", "store.invalid:80")
		if (err == nil) != want {
			t.Errorf("after %v: got %v, want a connection: %t", age, err, want)
		}
		if conn != nil {
			conn.Close()
		}
	}
}

// TestFailure_BlamesTheKey: a refused key is named by its first characters, with its source.
func TestFailure_BlamesTheKey(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAENVIRONMENT")
	for _, c := range []struct{ code, key, profile, want string }{
		{"SignatureDoesNotMatch", "AKIAENVIRONMENT", "", "denied: x: the secret does not fit the access key AKIA... from AWS_ACCESS_KEY_ID: correct it there"},
		{"SignatureDoesNotMatch", "AKIAPROFILE", "team-b", "denied: x: the secret does not fit the access key AKIA... from profile team-b: correct it there"},
		{"InvalidAccessKeyId", "ASIAROLE", "", "denied: x: the service does not know the access key ASIA... from the shared AWS files or a role: correct it there"},
		{"AccessDenied", "AKIAENVIRONMENT", "", "denied: x"},
		{"SignatureDoesNotMatch", "", "", "denied: x"},
	} {
		f := &failure{kind: objstore.ErrDenied, code: c.code, detail: "x"}
		authorization := ""
		if c.key != "" {
			authorization = "AWS4-HMAC-SHA256 Credential=" + c.key + "/20261130/us/s3/aws4_request, SignedHeaders=host, Signature=5eca7"
		}
		if f.blameKey(authorization, c.profile); f.Error() != c.want {
			t.Errorf("%+v: got %v, want %s", c, f, c.want)
		}
	}
}
