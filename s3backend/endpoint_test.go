package s3backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
)

// regionalStore is a store with a bucket in one region. It rejects requests that are signed for
// another region, in one of AWS's ways.
type regionalStore struct {
	region string
	refuse http.HandlerFunc
}

func (s *regionalStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.Header.Get("Authorization"), "/"+s.region+"/s3/aws4_request") {
		s.refuse(w, r)
		return
	}
	w.Header().Set("ETag", `"`+testETag+`"`)
	w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
	switch {
	case r.URL.Query().Has("list-type"):
		fmt.Fprint(w, "<ListBucketResult></ListBucketResult>")
	case r.Method == http.MethodGet:
		w.Header().Set("Content-Range", "bytes 0-0/1")
		w.WriteHeader(http.StatusPartialContent)
		fmt.Fprint(w, "x")
	case r.Method == http.MethodHead:
		w.Header().Set("Content-Length", "1")
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default:
		_, _ = io.Copy(io.Discard, r.Body) // discard uploaded bytes
	}
}

// kinds returns a function for each kind of request.
func kinds(t *testing.T) map[string]func(*Backend) error {
	t.Helper()
	return map[string]func(*Backend) error{
		"read":   func(b *Backend) error { return b.ReadRange(t.Context(), ref, 0, make([]byte, 1)) },
		"stat":   func(b *Backend) error { _, err := b.Stat(t.Context(), testKey); return err },
		"list":   func(b *Backend) error { return b.List(t.Context(), "", func(objstore.Object) error { return nil }) },
		"delete": func(b *Backend) error { return b.Delete(t.Context(), testKey) },
		"put": func(b *Backend) error {
			_, err := b.Put(t.Context(), testKey, strings.NewReader("x"), 1, objstore.Condition{})
			return err
		},
	}
}

// TestRegion checks how a request signed for the wrong region is handled, for each form of
// rejection. If the user sets no region, the store's is used; otherwise the error contains both
// regions.
func TestRegion(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	for name, refuse := range map[string]http.HandlerFunc{
		"in the body": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>")
		},
		"in a header": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Amz-Bucket-Region", "eu-west-1")
			w.WriteHeader(http.StatusBadRequest)
		},
		"redirect": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Amz-Bucket-Region", "eu-west-1")
			w.Header().Set("Location", "http://169.254.169.254/")
			w.WriteHeader(http.StatusMovedPermanently)
		},
	} {
		for kind, ask := range kinds(t) {
			if kind == "stat" && name == "in the body" {
				continue // the response to a HEAD has no body
			}
			t.Run(name+" "+kind, func(t *testing.T) {
				srv := httptest.NewServer(&regionalStore{region: "eu-west-1", refuse: refuse})
				defer srv.Close()
				b := homeless(t, srv.URL, "")
				if err := errors.Join(ask(b), ask(b)); err != nil || b.Stats().Requests != 3 || b.Stats().Retries != 1 {
					t.Errorf("no region: got %v after %d requests, want it to be found, and one repetition for 2 requests", err, b.Stats().Requests)
				}
				const want = "the bucket is in region eu-west-1, not in us-west-2: set region= in its address, or AWS_REGION"
				if err := ask(homeless(t, srv.URL, "us-west-2")); !errors.Is(err, objstore.ErrDenied) || !strings.Contains(err.Error(), want) {
					t.Errorf("another region: got %v, want %v: %s", err, objstore.ErrDenied, want)
				}
			})
		}
	}
}

func homeless(t *testing.T, url, region string) *Backend {
	t.Helper()
	return opened(t, Config{Bucket: "train", Endpoint: url, Region: region}, quick())
}

// TestRegionThatIsNone uses a store that reports a host instead of a region, and one that reports a
// different region each time.
func TestRegionThatIsNone(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	for name, most := range map[string]int{"evil.test/": 1, "evil.test#": 1, "Ü": 1, "": 1, "region-%d": 2} {
		n := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.Host, ".amazonaws.com") {
				t.Errorf("%q: a request goes to %s", name, r.Host)
			}
			if n++; n > most {
				t.Errorf("%q: got request %d, want %d at most", name, n, most)
				w.WriteHeader(http.StatusNotFound)
				return
			}
			w.Header().Set("X-Amz-Bucket-Region", strings.ReplaceAll(name, "%d", fmt.Sprint(n)))
			w.WriteHeader(http.StatusMovedPermanently)
		}))
		b := homeless(t, "http://s3.us-east-1.amazonaws.com", "")
		b.transport.DialContext = dialTo(srv)
		if err := b.ReadRange(t.Context(), ref, 0, make([]byte, 1)); !errors.Is(err, objstore.ErrDenied) {
			t.Errorf("%q: got %v, want %v", name, err, objstore.ErrDenied)
		}
		srv.Close()
	}
}

// dialTo returns a dial function that connects to one server for any address.
func dialTo(srv *httptest.Server) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, srv.Listener.Addr().String())
	}
}

// TestHomes checks the host of requests, and the region and service for which they are signed.
func TestHomes(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	for _, c := range []struct {
		cfg         Config
		base, scope string
	}{
		{Config{Bucket: "train"}, "https://train.s3.dualstack.us-east-1.amazonaws.com/", "us-east-1/s3"},
		{Config{Bucket: "train", Region: "eu-west-1"}, "https://train.s3.dualstack.eu-west-1.amazonaws.com/", "eu-west-1/s3"},
		{Config{Bucket: "train", Region: "cn-north-1"}, "https://train.s3.dualstack.cn-north-1.amazonaws.com.cn/", "cn-north-1/s3"},
		{Config{Bucket: "train", PathStyle: true}, "https://s3.dualstack.us-east-1.amazonaws.com/train/", "us-east-1/s3"},
		{Config{Bucket: "my.train"}, "https://s3.dualstack.us-east-1.amazonaws.com/my.train/", "us-east-1/s3"},
		{Config{Bucket: "train", Endpoint: "https://s3.eu-central-1.amazonaws.com"}, "https://train.s3.dualstack.eu-central-1.amazonaws.com/", "eu-central-1/s3"},
		{Config{Bucket: "train", Endpoint: "https://storage.googleapis.com"}, "https://train.storage.googleapis.com/", "us-east-1/s3"},
		{Config{Bucket: "train", Endpoint: "http://store:9000"}, "http://store:9000/train/", "us-east-1/s3"},
		{Config{Bucket: "train", Endpoint: "http://store:80", Region: "here"}, "http://store/train/", "here/s3"},
		{Config{Bucket: "train", Endpoint: "https://[::1]:443"}, "https://[::1]/train/", "us-east-1/s3"},
		{Config{Bucket: "train", Endpoint: "https://x.s3-outposts.us-west-2.amazonaws.com"}, "https://x.s3-outposts.us-west-2.amazonaws.com/train/", "us-west-2/s3-outposts"},
	} {
		b, err := New(c.cfg)
		if err != nil {
			t.Errorf("%+v: %v", c.cfg, err)
			continue
		}
		h := b.endpoint.Load()
		if got := h.signer.region + "/" + h.signer.service; h.base.String() != c.base || got != c.scope {
			t.Errorf("%+v: got %s, signed for %s, want %s, %s", c.cfg, h.base, got, c.base, c.scope)
		}
	}
	if _, err := New(Config{Bucket: "train--use1-az4--x-s3"}); err == nil || !strings.Contains(err.Error(), "directory bucket") {
		t.Errorf("got %v, want a refusal of directory buckets", err)
	}
}

// TestOddKeysArrive requests unusual keys in both addressing styles, and compares the path that the
// server decodes.
func TestOddKeysArrive(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	var path, host string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, host = r.URL.Path, r.Host
		w.WriteHeader(http.StatusNotFound)
	}))
	defer srv.Close()
	for _, c := range []struct {
		cfg          Config
		prefix, host string
	}{
		{Config{Bucket: "train", Endpoint: srv.URL, PathStyle: true}, "/train/", strings.TrimPrefix(srv.URL, "http://")},
		{Config{Bucket: "train", Endpoint: "http://s3.eu-west-1.amazonaws.com"}, "/", "train.s3.dualstack.eu-west-1.amazonaws.com"},
	} {
		b := opened(t, c.cfg, quick())
		b.transport.DialContext = dialTo(srv)
		for _, key := range oddKeys() {
			err := b.ReadRange(t.Context(), objstore.Ref{Key: key}, 0, make([]byte, 1))
			if !errors.Is(err, objstore.ErrNotFound) || path != c.prefix+key || host != c.host {
				t.Errorf("%q: got %v at %s%s, want %v at %s%s", key, err, host, path, objstore.ErrNotFound, c.host, c.prefix+key)
			}
		}
	}
}
