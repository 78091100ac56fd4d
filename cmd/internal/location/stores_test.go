package location

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
)

// profiles writes a file of credentials, and clears all other AWS environment variables.
func profiles(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CA_BUNDLE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	t.Setenv("AWS_CONFIG_FILE", file+".config")
}

func parsed(t *testing.T, address string) Location {
	t.Helper()
	l, err := Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const twoTeams = "[a]\naws_access_key_id = KEYOFA\naws_secret_access_key = s\n[b]\naws_access_key_id = KEYOFB\naws_secret_access_key = s\n"

// TestStores_UseEnvironmentForMissingParameters reads objects from two services. The address sets
// service and key; otherwise the AWS variables do.
func TestStores_UseEnvironmentForMissingParameters(t *testing.T) {
	profiles(t, twoTeams)
	var asked string
	serve := func(name string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, key, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
			key, _, _ = strings.Cut(key, "/20")
			_, region, _ := strings.Cut(r.Header.Get("Authorization"), "Credential="+key)
			asked = name + " " + key + " " + strings.Split(region+"//", "/")[2] + " " + r.URL.Path
			w.WriteHeader(http.StatusNotFound)
		}))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	usual, own := serve("usual"), serve("own")
	t.Setenv("AWS_ENDPOINT_URL_S3", usual)
	t.Setenv("AWS_REGION", "us-env-1")
	s := &Stores{}
	for address, want := range map[string]string{
		"s3://bucket/p?profile=a":                               "usual KEYOFA us-env-1 /bucket/p/x",
		"s3://bucket/p?profile=b&region=eu-own-1":               "usual KEYOFB eu-own-1 /bucket/p/x",
		"s3://bucket/p?profile=b&endpoint=" + own:               "own KEYOFB us-env-1 /bucket/p/x",
		"s3://other/?profile=a&region=eu-own-1&endpoint=" + own: "own KEYOFA eu-own-1 /other/x",
		"s3://bucket/p": "usual   /bucket/p/x", // without credentials there is no signature
	} {
		l := parsed(t, address)
		st, done, err := s.Open(l, false)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if _, err := st.Stat(t.Context(), l.Prefix+"x"); err == nil || asked != want {
			t.Errorf("%s: got %q (%v), want %q", address, asked, err, want)
		}
		done()
	}
	if _, _, err := s.Open(parsed(t, "s3://bucket/p?profile=nobody"), false); err == nil || !strings.Contains(err.Error(), `profile "nobody"`) ||
		!strings.Contains(err.Error(), os.Getenv("AWS_SHARED_CREDENTIALS_FILE")) {
		t.Errorf("a missing profile: got %v, want its name and the file's", err)
	}
}

// TestStores_ShareBackendOfEqualServices opens stores of many addresses. There is one backend for
// each bucket and service, and for each dataset with a bandwidth limit. Its last user closes it,
// and its counts are kept.
func TestStores_ShareBackendOfEqualServices(t *testing.T) {
	profiles(t, twoTeams)
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	t.Setenv("AWS_ENDPOINT_URL_S3", srv.URL)
	s := &Stores{}
	var all []objstore.Store
	var ends []func()
	open := func(address string) objstore.Store {
		st, done, err := s.Open(parsed(t, address), false)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			ends = append(ends, done) // ending one use twice has no further effect
		}
		all = append(all, st)
		return st
	}
	if got := s.Stats(); got != nil {
		t.Errorf("before: got %v", got)
	}
	one := open("x=s3://bucket/a")
	for address, shared := range map[string]bool{
		"y=s3://bucket/b": true, "y=s3://bucket/b?path_style=false": true,
		"y=s3://bucket/a?profile=a": false, "y=s3://other/a": false, "y=s3://bucket/a?region=eu": false, "y=s3://bucket/a?path_style=true": false, "y=s3://bucket/a?max_conns=8": false,
	} {
		if got := open(address) == one; got != shared {
			t.Errorf("%s: shares the backend: %v, want %v", address, got, shared)
		}
	}
	limited := open("x=s3://bucket/a?bandwidth=1MB")
	if open("x=s3://bucket/b?bandwidth=1MB") != limited {
		t.Error("two generations of one dataset have separate limits")
	}
	if open("y=s3://bucket/a?bandwidth=1MB") == limited || limited == one {
		t.Error("two datasets share the limit of one")
	}
	for _, st := range all {
		if _, err := st.Stat(t.Context(), "x"); err == nil {
			t.Error("got no error for a store without objects")
		}
	}
	if got := s.Stats(); len(got) != 1+8 {
		t.Errorf("got counts of %d backends, want 8", len(got)-1)
	}
	for i, done := range ends {
		done()
		if _, err := one.Stat(t.Context(), "x"); i == 0 && err == nil {
			t.Error("got no error of a store without objects")
		}
	}
	var requests int64
	got := s.Stats()
	for _, t := range got {
		requests += t.Requests
	}
	if len(got) != 1 || requests < int64(len(all)) {
		t.Errorf("in the end: got %d backends and %d requests in all, want none open, and at least %d", len(got)-1, requests, len(all))
	}
}

// TestStores_PlaceIdentifiesObjects: only parameters that may lead to other objects change the
// place.
func TestStores_PlaceIdentifiesObjects(t *testing.T) {
	profiles(t, twoTeams)
	t.Setenv("AWS_ENDPOINT_URL", "http://env:9000")
	s := &Stores{}
	const base = "s3://bucket/p"
	place := s.Place(parsed(t, base))
	for address, want := range map[string]bool{
		base + "?endpoint=http://env:9000/": true, base + "?region=eu": true, base + "?bandwidth=1MB": true, base + "?path_style=true": true, base + "?ca_file=/x": true,
		base + "?endpoint=http://other:9000": false, base + "?profile=a": false, "s3://other/p": false, "s3://bucket/q": false,
	} {
		if got := s.Place(parsed(t, address)) == place; got != want {
			t.Errorf("%s is the place of %s: %v, want %v", address, base, got, want)
		}
	}
	t.Setenv("AWS_ENDPOINT_URL", "")
	if s.Place(parsed(t, base)) == place {
		t.Error("AWS is the place of an endpoint")
	}
	if s.Place(parsed(t, base+"?region=us-east-1")) == s.Place(parsed(t, base+"?region=cn-north-1")) {
		t.Error("regions of AWS with buckets of their own are one place")
	}
	if got := s.Place(parsed(t, "/dir")); got != "file:///dir" {
		t.Errorf("a directory: got %s", got)
	}
}
