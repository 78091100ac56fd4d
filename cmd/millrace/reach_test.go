package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// deadGateway returns an address that refuses connections.
func deadGateway(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	return "http://" + ln.Addr().String()
}

func TestCommands_FailOnTheFirstRefusedConnection(t *testing.T) {
	gateway := deadGateway(t)
	batch := gateway + "/v1/datasets/d/epochs/0/batches/0?generation=" + strings.Repeat("a", 64)
	for _, args := range [][]string{
		{"datasets", gateway}, {"info", gateway}, {"explain", gateway}, {"warm", gateway},
		{"fetch", gateway}, {"fetch", gateway, gateway}, {"fetch", "unix:" + t.TempDir() + "/none"},
		{"occurrences", batch, "--key", "k", "--epochs", "0"},
	} {
		t.Run(args[0], func(t *testing.T) {
			o := millrace(t, nil, args...)
			if o.code != exitStore || strings.Contains(o.stderr, "retrying") || !strings.Contains(o.stderr, "no answer: ") || !strings.HasSuffix(o.stderr, ": start it, or correct the address\n") {
				t.Errorf("%q: got exit code %d, %q, want %d at once", args, o.code, o.stderr, exitStore)
			}
		})
	}
}

// TestCommands_NameSchemeOfGatewayWithoutTLS: the error names the scheme at once; the command does
// not retry.
func TestCommands_NameSchemeOfGatewayWithoutTLS(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	gateway := "https://" + plain.Listener.Addr().String()
	for _, args := range [][]string{{"datasets", gateway}, {"fetch", gateway}, {"top", "--once", gateway}} {
		o := millrace(t, nil, args...)
		if o.code != exitStore || strings.Contains(o.stderr, "retrying") || !strings.HasSuffix(o.stderr, ": write http:// in place of https://\n") {
			t.Errorf("%q: got exit code %d, %q, want %d at once, with the cure", args, o.code, o.stderr, exitStore)
		}
	}
}

// TestFetch_FailsIfGatewayDies: a gateway dies after a few responses, in each possible way. fetch
// retries until --deadline, and then reports that no gateway responds.
func TestFetch_FailsIfGatewayDies(t *testing.T) {
	at, err := url.Parse(gatewayFor(t, shards(t)))
	if err != nil {
		t.Fatal(err)
	}
	for name, die := range map[string]func(*httptest.Server, *http.Request){
		"refuses connections": func(srv *httptest.Server, _ *http.Request) { srv.Listener.Close(); panic(http.ErrAbortHandler) },
		"closes connections":  func(*httptest.Server, *http.Request) { panic(http.ErrAbortHandler) },
		"hangs":               func(_ *httptest.Server, r *http.Request) { <-r.Context().Done(); panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			gateway := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) }}
			var answers atomic.Int64
			var srv *httptest.Server
			srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if answers.Add(1) > 5 {
					die(srv, r)
				}
				gateway.ServeHTTP(w, r)
			}))
			defer srv.Close()
			o := millrace(t, nil, "fetch", srv.URL, "--json", "--no-manifest", "--parallel", "1", "--deadline", "200ms")
			if o.code != exitStore || !strings.Contains(o.stdout, `"code":"gateway_unavailable"`) {
				t.Errorf("got exit code %d, %q, want %d", o.code, o.stdout, exitStore)
			}
		})
	}
}

// TestServe_NamesAPortInUse: serve checks its ports before it opens anything. The error is its
// whole output.
func TestServe_NamesAPortInUse(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	at, dir := busy.Addr().String(), shards(t)
	want := "millrace: listen on " + at + ": the port is in use: stop the process that uses it, or choose another port\n"
	for _, ports := range [][]string{{"--listen", at}, {"--listen", "127.0.0.1:0", "--admin-listen", at}, {"--listen", "127.0.0.1:0", "MILLRACE_HEALTH_LISTEN=" + at}} {
		if o := millrace(t, nil, append([]string{"serve", dir, "--cache-size", "64MiB"}, ports...)...); o.code != exitFailure || o.stderr != want {
			t.Errorf("%q: got exit code %d, %q, want %d, %q", ports, o.code, o.stderr, exitFailure, want)
		}
	}
}

func TestToken_PrintsOnlyTheTokenOnStdout(t *testing.T) {
	o := ok(t, "token", "trainer")
	if token := strings.TrimSuffix(o.stdout, "\n"); len(token) != 46 || !strings.HasPrefix(token, "mr_") || !strings.Contains(o.stderr, "- {name: trainer, sha256: ") || strings.Contains(o.stderr, token) {
		t.Errorf("got %q on stdout, %q on stderr", o.stdout, o.stderr)
	}
}

func TestPlan_NamesTheCureForABatchOfADataset(t *testing.T) {
	o := millrace(t, nil, "plan", "./photos", "--batch", "3")
	if want := "run 'millrace serve ./photos', then 'millrace explain http://127.0.0.1:8080 --batch 3'"; o.code != exitUsage || !strings.Contains(o.stderr, want) {
		t.Errorf("got exit code %d, %q, want %d, %q", o.code, o.stderr, exitUsage, want)
	}
}

func TestCommands_TakeTheDatasetFromTheAddress(t *testing.T) {
	url := gatewayFor(t, shards(t))
	for _, args := range [][]string{
		{"info"}, {"explain"}, {"explain", "--batch", "0"}, {"warm"}, {"fetch"}, {"fetch", url},
	} {
		ok(t, append(args, url+"/files")...)
		if o := millrace(t, nil, append(args, url+"/other")...); o.code != exitNotFound || !strings.Contains(o.stderr, "other") {
			t.Errorf("%q of a dataset that is not served: got exit code %d, %q, want %d", args, o.code, o.stderr, exitNotFound)
		}
	}
	o := millrace(t, nil, "fetch", url+"/files", url+"/other")
	if want := "its dataset is other, but another address names files"; o.code != exitUsage || !strings.Contains(o.stderr, want) {
		t.Errorf("got exit code %d, %q, want %d, %q", o.code, o.stderr, exitUsage, want)
	}
}

func TestDatasets_PrintsThatItRetries(t *testing.T) {
	var asked atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !asked.Swap(true) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"datasets":[{"name":"d"}]}`)
	}))
	defer srv.Close()
	if o, want := ok(t, "datasets", srv.URL), "millrace: retrying: "; !strings.HasPrefix(o.stderr, want) {
		t.Errorf("got %q, want %q", o.stderr, want)
	}
}
