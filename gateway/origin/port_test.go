package origin

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// on returns the context of requests to a port on an address.
func on(t *testing.T, address string) context.Context {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return OfListener(ln)
}

// request makes a request for a host; headers are "Name: value".
func request(ctx context.Context, method, host string, headers ...string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, method, "/", nil)
	r.Host, r.RemoteAddr = host, "127.0.0.1:4711"
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func TestHostOnLoopback(t *testing.T) {
	loopback, everywhere := on(t, "127.0.0.1:0"), on(t, "0.0.0.0:0")
	p := &Policy{Host: []string{"gw.example"}}
	for host, want := range map[string]error{
		"localhost": nil, "LocalHost:8080": nil, "127.0.0.1": nil, "127.0.0.1:8080": nil, "127.8.9.10": nil, "[::1]": nil, "[::1]:8080": nil,
		"[::ffff:127.0.0.1]:80": nil, "gw.example": nil, "GW.Example:1": nil, "": nil, // only HTTP/1.0 may omit Host
		"evil.example": ErrHost, "evil.example:8080": ErrHost, "localhost.evil.example": ErrHost, "127.0.0.1.evil.example": ErrHost, "127.0.0.1.": ErrHost,
		"localhost.": ErrHost, "a.localhost": ErrHost, "0.0.0.0": ErrHost, "[::]": ErrHost, "10.0.0.1": ErrHost, "[fe80::1]": ErrHost, "2130706433": ErrHost, "127.1": ErrHost,
		"0x7f.0.0.1": ErrHost, "sub.gw.example": ErrHost, "localhost:80:evil.example": ErrHost, "evil.example:localhost": ErrHost, "localhost@evil.example": ErrHost,
	} {
		if got := p.Check(request(loopback, "GET", host)); !errors.Is(got, want) {
			t.Errorf("Host %q on loopback: got %v, want %v", host, got, want)
		}
		if got := p.Check(request(everywhere, "GET", host)); got != nil {
			t.Errorf("Host %q on every address: got %v, want nil", host, got)
		}
	}
}

func TestOtherSites(t *testing.T) {
	const mine, evil = "Origin: http://localhost:8080", "Origin: https://evil.example"
	for _, c := range []struct {
		headers []string
		get     error
		post    error
	}{
		{nil, nil, nil},
		{[]string{mine}, nil, nil},
		{[]string{"Origin: http://LOCALHOST:8080"}, ErrCrossSite, ErrCrossSite}, // no browser sends this spelling
		{[]string{evil}, ErrCrossSite, ErrCrossSite},
		{[]string{"Origin: http://localhost:9"}, ErrCrossSite, ErrCrossSite},
		{[]string{"Origin: http://localhost:8080.evil.example"}, ErrCrossSite, ErrCrossSite},
		{[]string{"Origin: null"}, ErrCrossSite, ErrCrossSite},
		{[]string{"Origin: ://"}, ErrCrossSite, ErrCrossSite},
		{[]string{"Sec-Fetch-Site: same-origin", mine}, nil, nil},
		{[]string{"Sec-Fetch-Site: none"}, nil, nil},
		{[]string{"Sec-Fetch-Site: cross-site"}, ErrCrossSite, ErrCrossSite},
		{[]string{"Sec-Fetch-Site: same-site"}, ErrCrossSite, ErrCrossSite},
		{[]string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"}, ErrCrossSite, ErrCrossSite},
		{[]string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"}, nil, ErrCrossSite}, // a user follows a link
	} {
		for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
			p, ctx := &Policy{}, on(t, address)
			if got := p.Check(request(ctx, "GET", "localhost:8080", c.headers...)); !errors.Is(got, c.get) {
				t.Errorf("%s, GET with %q: got %v, want %v", address, c.headers, got, c.get)
			}
			if got := p.Check(request(ctx, "POST", "localhost:8080", c.headers...)); !errors.Is(got, c.post) {
				t.Errorf("%s, POST with %q: got %v, want %v", address, c.headers, got, c.post)
			}
		}
	}
}

func TestProxiesOnLoopback(t *testing.T) {
	loopback, everywhere := on(t, "[::1]:0"), on(t, "0.0.0.0:0")
	for _, header := range []string{
		"Forwarded: for=1.2.3.4", "Via: 1.1 proxy", "X-Forwarded-For: 1.2.3.4", "x-forwarded-host: a", "X-Forwarded-Proto: https", "X-Forwarded-Anything: ", "forwarded: ",
	} {
		r := request(loopback, "GET", "localhost", header)
		if got := (&Policy{LocalOnly: true}).Check(r); !errors.Is(got, ErrProxy) {
			t.Errorf("%s on loopback without an access file: got %v, want ErrProxy", header, got)
		}
		if got := (&Policy{}).Check(r); got != nil {
			t.Errorf("%s on loopback with an access file: got %v, want nil", header, got)
		}
		if got := (&Policy{LocalOnly: true}).Check(request(everywhere, "GET", "localhost", header)); got != nil {
			t.Errorf("%s on every address: got %v, want nil", header, got)
		}
	}
}

func TestTokensWithoutTLS(t *testing.T) {
	for _, c := range []struct {
		remote  string
		headers []string
		secret  bool
		plain   bool
		want    error
	}{
		{"10.0.0.1:99", []string{"Authorization: Bearer a"}, false, false, ErrPlain},
		{"[2001:db8::1]:99", []string{"Authorization: Bearer a"}, false, false, ErrPlain},
		{"[fe80::1%eth0]:99", []string{"Authorization: Bearer a"}, false, false, ErrPlain},
		{"10.0.0.1:99", []string{"Authorization: ", "Authorization: Bearer a"}, false, false, ErrPlain},
		{"10.0.0.1:99", []string{"Authorization: Basic a"}, false, false, ErrPlain},
		{"10.0.0.1:99", []string{"Authorization: Bearer a", "X-Forwarded-Proto: https"}, false, false, ErrPlain},
		{"10.0.0.1:99", nil, false, false, nil},
		{"10.0.0.1:99", []string{"Authorization: Bearer a"}, true, false, nil},
		{"10.0.0.1:99", []string{"Authorization: Bearer a"}, false, true, nil},
		{"127.0.0.1:99", []string{"Authorization: Bearer a"}, false, false, nil},
		{"[::1]:99", []string{"Authorization: Bearer a"}, false, false, nil},
		{"[::ffff:127.0.0.1]:99", []string{"Authorization: Bearer a"}, false, false, nil},
		{"[::ffff:10.0.0.1]:99", []string{"Authorization: Bearer a"}, false, false, ErrPlain},
	} {
		r := request(t.Context(), "GET", "gw", c.headers...)
		if r.RemoteAddr = c.remote; c.secret {
			r.TLS = &tls.ConnectionState{}
		}
		if got := (&Policy{InsecurePlainHTTP: c.plain}).CheckTransport(r); !errors.Is(got, c.want) {
			t.Errorf("%s, TLS %v, allowed %v, %q: got %v, want %v", c.remote, c.secret, c.plain, c.headers, got, c.want)
		}
	}
}

func TestCallersBehindProxies(t *testing.T) {
	p := &Policy{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}
	for _, c := range []struct {
		remote  string
		headers []string
		want    string
	}{
		{"192.0.2.1:1", nil, "192.0.2.1"},
		{"192.0.2.1:1", []string{"X-Forwarded-For: 1.2.3.4"}, "192.0.2.1"}, // not from a trusted proxy
		{"192.0.2.1:1", []string{"Forwarded: for=1.2.3.4"}, "192.0.2.1"},
		{"10.0.0.1:1", nil, "10.0.0.1"},
		{"10.0.0.1:1", []string{"X-Forwarded-For: 1.2.3.4"}, "1.2.3.4"},
		{"[::ffff:10.0.0.1]:1", []string{"X-Forwarded-For: ::ffff:1.2.3.4"}, "1.2.3.4"},
		{"10.0.0.1:1", []string{"X-Forwarded-For: 6.6.6.6, 1.2.3.4"}, "1.2.3.4"}, // the caller wrote the first address
		{"10.0.0.1:1", []string{"X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: 1.2.3.4"}, "1.2.3.4"},
		{"10.0.0.1:1", []string{"X-Forwarded-For: 6.6.6.6, 1.2.3.4, 10.0.0.2"}, "1.2.3.4"},
		{"10.0.0.1:1", []string{"X-Forwarded-For: 10.0.0.3, 10.0.0.2"}, "10.0.0.3"}, // all addresses are trusted proxies
		{"10.0.0.1:1", []string{"X-Forwarded-For: 1.2.3.4, unknown"}, "10.0.0.1"},
		{"10.0.0.1:1", []string{"X-Forwarded-For: "}, "10.0.0.1"},
		{"10.0.0.1:1", []string{"X-Forwarded-For: 1.2.3.4:567"}, "1.2.3.4"},
		{"10.0.0.1:1", []string{"X-Forwarded-For: 2001:db8::1"}, "2001:db8::1"},
		{"10.0.0.1:1", []string{"X-Forwarded-For: [2001:db8::1%zone]:4711"}, "2001:db8::1"},
		{"10.0.0.1:1", []string{`Forwarded: for=1.2.3.4;proto=https;by=10.0.0.1`}, "1.2.3.4"},
		{"10.0.0.1:1", []string{`forwarded: proto=http; FOR="[2001:db8:cafe::17]:4711"`}, "2001:db8:cafe::17"},
		{"[fd00::1]:1", []string{`Forwarded: for=6.6.6.6, for=1.2.3.4, for="[fd00::2]"`}, "1.2.3.4"},
		{"10.0.0.1:1", []string{`Forwarded: for=6.6.6.6`, `Forwarded: for=1.2.3.4`}, "1.2.3.4"},
		{"10.0.0.1:1", []string{`Forwarded: for=1.2.3.4, for=_hidden`}, "10.0.0.1"},
		{"10.0.0.1:1", []string{`Forwarded: for=1.2.3.4, proto=https`}, "10.0.0.1"},
		{"10.0.0.1:1", []string{`Forwarded: for="6.6.6.6, for=1.2.3.4`}, "10.0.0.1"}, // an open quote includes the proxy's entry
		{"10.0.0.1:1", []string{`Forwarded: for="6.6.6.6\"", for=1.2.3.4`}, "1.2.3.4"},
		{"10.0.0.1:1", []string{`Forwarded: ;;,,=`}, "10.0.0.1"},
		// A proxy that writes only one of the headers forwards the caller's own version of
		// the other.
		{"10.0.0.1:1", []string{`Forwarded: for=6.6.6.6`, "X-Forwarded-For: 1.2.3.4"}, "10.0.0.1"},
		{"10.0.0.1:1", []string{`Forwarded: for=1.2.3.4`, "X-Forwarded-For: 6.6.6.6"}, "10.0.0.1"},
		{"10.0.0.1:1", []string{`Forwarded: for=1.2.3.4`, "X-Forwarded-For: 6.6.6.6, 1.2.3.4"}, "1.2.3.4"},
		{"pipe", []string{"X-Forwarded-For: 1.2.3.4"}, "pipe"},
	} {
		r := request(t.Context(), "GET", "gw", c.headers...)
		r.RemoteAddr = c.remote
		if got := p.Caller(r); got != c.want {
			t.Errorf("%s with %q: got %s, want %s", c.remote, c.headers, got, c.want)
		}
	}
}

func TestNetwork(t *testing.T) {
	for address, want := range map[string]string{
		"1.2.3.4": "1.2.3.4", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "2001:db8:1:2::": "2001:db8:1:2::/64", "::ffff:1.2.3.4": "::ffff:1.2.3.4",
		"fe80::1%eth0": "fe80::/64", "pipe": "pipe",
	} {
		if got := Network(address); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}
