package client_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// TestPatternOfGateways: rank r of w reads from gateway floor(r*G/w) by its name. A gateway that
// fails does not change the index of another one.
func TestPatternOfGateways(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(map[string]time.Duration{})
		c := newClient(t, client.Config{Gateways: []string{"http://gw-{0..3}.gw:80"}, Home: client.HomeByRank, HTTP: &http.Client{Transport: f}})
		want := func(what string, rank uint64, hosts string) {
			t.Helper()
			readSome(t, c, client.Options{Rank: rank, WorldSize: 8}, 3)
			if got := f.asked(); got != hosts {
				t.Errorf("%s: got batches %s, want %s", what, got, hosts)
			}
		}
		want("the first rank", 0, "map[gw-0.gw:80:3]")
		want("the last rank", 7, "map[gw-3.gw:80:3]")
		f.set("gw-1.gw:80", 0, true) // like a name that cannot be resolved yet
		want("a gateway that is starting", 3, "map[gw-0.gw:80:3 gw-1.gw:80:1]")
		want("the one behind it keeps its index", 4, "map[gw-2.gw:80:3]")
		f.set("gw-1.gw:80", 0, false)
		pause(3 * time.Second)
		want("it has started", 3, "map[gw-1.gw:80:3]")
		if got := slices.Compact(f.names); slices.ContainsFunc(got, func(host string) bool { return !strings.HasSuffix(host, ".gw:80") }) {
			t.Errorf("got Host %v, want names", got)
		}
	})
}

func TestFormsOfPatterns(t *testing.T) {
	for _, tc := range []struct{ pattern, asked, fault string }{
		{pattern: "node{08..10}:80", asked: "map[node08:80:1]"},
		{pattern: "https://gw-{3..3}.gw", asked: "map[gw-3.gw:1]"},
		{pattern: "http://gw:{8080..8081}", asked: "map[gw:8080:1]"},
		{pattern: "gw-{7..0}:80", fault: "as in {0..7}"},
		{pattern: "gw-{a..b}:80", fault: "want one {FIRST..LAST} of whole numbers"},
		{pattern: "gw-{0..1}.{0..1}:80", fault: "want one {FIRST..LAST}"},
		{pattern: "gw-{0..1:80", fault: "want one {FIRST..LAST}"},
		{pattern: "gw-{0..4096}:80", fault: "the pattern expands to 4097 gateways: must be at most 4096"},
		{pattern: "gw-{0..99999999999}:80", fault: "want one {FIRST..LAST}"},
		{pattern: "dns:gw:80", fault: "give a pattern such as http://gateways-{0..7}.gw:80, or srv:_http._tcp.gw"},
		{pattern: "srv:gw", fault: "want srv:_http._tcp.NAME"},
		{pattern: "srv:_http._tcp.gw:80", fault: "want srv:_http._tcp.NAME"},
		{pattern: "http://mr_" + strings.Repeat("a", 43) + "-{1..0}", fault: "without a user, password or token"},
	} {
		f := newFleet(map[string]time.Duration{})
		c, err := client.New(client.Config{Gateways: []string{tc.pattern}, Home: client.HomeByRank, HTTP: &http.Client{Transport: f}})
		switch {
		case tc.fault != "":
			if err == nil || !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("%s: got %v, want %q", tc.pattern, err, tc.fault)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", tc.pattern, err)
			continue
		}
		readSome(t, c, client.Options{}, 1)
		if got := f.asked(); got != tc.asked {
			t.Errorf("%s: got batches %s, want %s", tc.pattern, got, tc.asked)
		}
	}
}

// TestAdviceAboutHomesComesOnce: the client logs once how much homes would save if a job reads
// through several gateways and has not configured sharing.
func TestAdviceAboutHomesComesOnce(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	two := func(context.Context, string) ([]string, error) { return []string{"10.0.0.1", "10.0.0.2"}, nil }
	f := newFleet(map[string]time.Duration{})
	f.fake.plan = "&shuffle=slot"
	for _, tc := range []struct {
		what     string
		gateways []string
		home     func(rank, worldSize uint64, gateways int) int
		opt      client.Options
		cluster  bool
		want     int
	}{
		{what: "a list", gateways: []string{"a", "b"}, want: 1},
		{what: "a pattern", gateways: []string{"gw-{0..3}"}, want: 1},
		{what: "one name", gateways: []string{"dns:gw:80"}},
		{what: "one name with several addresses", gateways: []string{"http://gw:80"}},
		{what: "one gateway", gateways: []string{"gw"}},
		{what: "home", gateways: []string{"a", "b"}, home: client.HomeByRank},
		{what: "locality", gateways: []string{"a", "b"}, opt: client.Options{Share: "locality"}},
		{what: "another rank", gateways: []string{"a", "b"}, opt: client.Options{Rank: 1}},
		{what: "fewer ranks than gateways", gateways: []string{"gw-{0..4}"}},
		{what: "a cluster", gateways: []string{"a", "b"}, cluster: true},
	} {
		f.fake.cluster = tc.cluster
		c := newClient(t, client.Config{Gateways: tc.gateways, Home: tc.home, Lookup: two, HTTP: &http.Client{Transport: f}})
		tc.opt.WorldSize, tc.opt.Until, tc.opt.Generation = 4, 2, "g"
		for range 2 {
			for _, err := range c.Batches(t.Context(), tc.opt) {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := strings.Count(log.String(), "reads the whole dataset"); got != tc.want {
			t.Errorf("%s: got advice %d times, want %d: %s", tc.what, got, tc.want, log.String())
		}
		log.Reset()
	}
}

// TestRecordsOfAService: gateways are numbered in the order of the records' targets. With homes
// this also holds while some have no record. With _https they are addressed by name over TLS.
func TestRecordsOfAService(t *testing.T) {
	record := func(target string, port uint16) *net.SRV { return &net.SRV{Target: target, Port: port} }
	gw := func(n string) *net.SRV { return record("gw-"+n+".gw.svc.", 80) }
	for _, tc := range []struct {
		what, service string
		records       []*net.SRV
		near          bool   // no rank has a home
		want          string // host that rank 7 of 8 uses first
	}{
		{what: "in another order", service: "_http", records: []*net.SRV{gw("10"), gw("9"), gw("2")}, want: "gw-9.gw.svc:80"},
		{what: "https", service: "_https", records: []*net.SRV{gw("0"), gw("1")}, want: "gw-1.gw.svc:80"},
		{what: "without the first", service: "_http", records: []*net.SRV{gw("3"), gw("1"), gw("2")}, want: "gw-3.gw.svc:80"},
		{what: "without the one before the last", service: "_http", records: []*net.SRV{gw("0"), gw("7")}, want: "gw-7.gw.svc:80"},
		{what: "no numbers", service: "_http", records: []*net.SRV{record("b.", 80), record("a.", 80)}, want: "b:80"},
		{what: "addresses", service: "_http", records: []*net.SRV{record("10-0-0-9.gw.", 80), record("10-0-0-4.gw.", 80)}, want: "10-0-0-9.gw:80"},
		{what: "a huge number", service: "_http", records: []*net.SRV{gw("99999999")}, want: "gw-99999999.gw.svc:80"},
		{what: "no homes", service: "_http", records: []*net.SRV{gw("3")}, near: true, want: "gw-3.gw.svc:80"},
	} {
		bubble.Test(t, func(t *testing.T) {
			var schemes []string
			f := newFleet(map[string]time.Duration{})
			asked := roundTrip(func(r *http.Request) (*http.Response, error) {
				schemes = append(schemes, "_"+r.URL.Scheme)
				return f.RoundTrip(r)
			})
			cfg := client.Config{Gateways: []string{"srv:" + tc.service + "._tcp.gw.svc"}, HTTP: &http.Client{Transport: asked}}
			if !tc.near {
				cfg.Home = client.HomeByRank
			}
			c := newClient(t, cfg)
			known := true
			client.AnswerSRV(c, func() ([]*net.SRV, error) {
				if known {
					return tc.records, nil
				}
				return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
			})
			for range 2 {
				readSome(t, c, client.Options{Rank: 7, WorldSize: 8}, 1)
				if got, want := f.asked(), "map["+tc.want+":1]"; got != want || schemes[0] != tc.service {
					t.Errorf("%s: got batches %s over %s, want %s over %s", tc.what, got, schemes[0], want, tc.service)
				}
				pause(time.Minute)
				known = false // the last response stays valid
			}
		})
	}
}

// TestRecordMissingKeepsIndexes: if a gateway has no record yet, the gateways after it keep their
// ranks.
func TestRecordMissingKeepsIndexes(t *testing.T) {
	f := newFleet(map[string]time.Duration{})
	f.set("gw-0:80", 0, true)
	c := newClient(t, client.Config{Gateways: []string{"srv:_http._tcp.gw"}, Home: client.HomeByRank, HTTP: &http.Client{Transport: f}})
	client.AnswerSRV(c, func() ([]*net.SRV, error) {
		return []*net.SRV{{Target: "gw-2.", Port: 80}, {Target: "gw-1.", Port: 80}, {Target: "gw-3.", Port: 80}}, nil
	})
	for rank, want := range []string{2: "gw-1:80", 3: "gw-1:80", 4: "gw-2:80", 5: "gw-2:80", 6: "gw-3:80"} {
		if want == "" {
			continue
		}
		readSome(t, c, client.Options{Rank: uint64(rank), WorldSize: 8}, 1)
		if got := f.asked(); got != "map["+want+":1]" {
			t.Errorf("rank %d: got batches %s, want of %s", rank, got, want)
		}
	}
}
