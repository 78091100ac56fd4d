package origin

import (
	"net/http"
	"net/netip"
	"testing"
)

// behindProxy returns the caller of a request that a trusted proxy has sent.
func behindProxy(header http.Header) string {
	p := &Policy{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	return p.Caller(&http.Request{RemoteAddr: "192.0.2.1:4711", Header: header})
}

func TestCaller(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"Forwarded", "for=198.51.100.7", "198.51.100.7"},
		{"Forwarded", `For="[2001:db8::1]:4711";proto=https;by=192.0.2.1`, "2001:db8::1"},
		{"Forwarded", "for=203.0.113.9, for=198.51.100.7, for=192.0.2.5", "198.51.100.7"},
		{"Forwarded", "for=_hidden", "192.0.2.1"},
		{"Forwarded", "for=203.0.113.9, for=unknown", "192.0.2.1"},
		{"Forwarded", `for=203.0.113.9;x=", for=198.51.100.7`, "192.0.2.1"},
		{"Forwarded", "by=192.0.2.1", "192.0.2.1"},
		{"X-Forwarded-For", "203.0.113.9, 198.51.100.7", "198.51.100.7"},
		{"X-Forwarded-For", "203.0.113.9, 198.51.100.7:80 , 192.0.2.5", "198.51.100.7"},
		{"X-Forwarded-For", "203.0.113.9,", "192.0.2.1"},
		{"X-Forwarded-For", "::ffff:198.51.100.7", "198.51.100.7"},
	} {
		if got := behindProxy(http.Header{c.name: {c.value}}); got != c.want {
			t.Errorf("%s: %s: got %s, want %s", c.name, c.value, got, c.want)
		}
	}
	const mine, other = "198.51.100.7", "203.0.113.9"
	for _, c := range []struct{ standard, common, want string }{{mine, mine, mine}, {other, mine, "192.0.2.1"}, {mine, other, "192.0.2.1"}, {mine, "", mine}} {
		if got := behindProxy(http.Header{"Forwarded": {"for=" + c.standard}, "X-Forwarded-For": {c.common}}); got != c.want {
			t.Errorf("Forwarded %s, X-Forwarded-For %s: got %s, want %s", c.standard, c.common, got, c.want)
		}
	}
	p := &Policy{}
	if got := p.Caller(&http.Request{RemoteAddr: "192.0.2.1:4711", Header: http.Header{"Forwarded": {"for=203.0.113.9"}}}); got != "192.0.2.1" {
		t.Errorf("a proxy that nobody trusts: got %s, want its own address", got)
	}
}

// FuzzForwarded: clients send arbitrary headers, and a trusted proxy appends their address. Caller
// returns that address or the proxy's, and no other address.
func FuzzForwarded(f *testing.F) {
	for _, s := range []string{"", "for=203.0.113.9", `for=203.0.113.9;x="`, `for="`, `"`, `\`, `for="\`, ",", ";", `for=203.0.113.9;x="\"`, "for=192.0.2.7"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, said, also string) {
		for _, mine := range []string{"for=198.51.100.7", `for="198.51.100.7:80";by="_gw"`, `proto="https";for="198.51.100.7"`} {
			for _, lines := range [][]string{{said + ", " + mine}, {said, mine}, {said, also, mine}} {
				got := behindProxy(http.Header{"Forwarded": lines, "X-Forwarded-For": {also}})
				if got != "198.51.100.7" && got != "192.0.2.1" {
					t.Fatalf("%q: got %s, want 198.51.100.7 or the proxy", lines, got)
				}
			}
		}
		if got := behindProxy(http.Header{"X-Forwarded-For": {said, also + ",198.51.100.7"}}); got != "198.51.100.7" {
			t.Fatalf("X-Forwarded-For %q, %q: got %s, want 198.51.100.7", said, also, got)
		}
	})
}
