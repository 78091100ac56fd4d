package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// fleet is a transport for many gateways, without a socket. Each gateway responds after its own
// delay, or not at all.
type fleet struct {
	fake fake

	mu      sync.Mutex // guards the fields below
	after   map[string]time.Duration
	down    map[string]bool
	batches map[string]int // requests for batches, by host
	probes  map[string]int
	names   []string      // Host of each request
	slow    time.Duration // additional time of batches compared with probes
}

func newFleet(after map[string]time.Duration) *fleet {
	return &fleet{fake: fake{batches: 1000, generation: "g"}, after: after, down: map[string]bool{}, batches: map[string]int{}, probes: map[string]int{}}
}

func (f *fleet) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	host := r.URL.Host
	wait, down := f.after[host], f.down[host]
	switch r.URL.Path {
	case "/readyz":
		f.probes[host]++
	case "/v1/datasets":
	default:
		f.batches[host]++
		wait += f.slow
		f.names = append(f.names, r.Host)
	}
	f.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if down {
		return nil, errDown
	}
	return transport{&f.fake}.RoundTrip(r)
}

func (f *fleet) set(host string, after time.Duration, down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after[host], f.down[host] = after, down
}

// asked returns the number of requests for batches that each gateway received since the last call.
func (f *fleet) asked() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer clear(f.batches)
	return fmt.Sprint(f.batches)
}

func pause(d time.Duration) { <-time.After(d) }

// readSome reads the first n batches, one after another.
func readSome(t *testing.T, c *client.Client, opt client.Options, n uint64) {
	t.Helper()
	for m := range n {
		if _, err := c.Batch(t.Context(), opt, m); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNearGatewayIsAskedFirst(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(map[string]time.Duration{"a": 10 * time.Millisecond, "b": time.Millisecond, "c": 40 * time.Millisecond})
		c := newClient(t, client.Config{Gateways: []string{"a", "b", "c"}, HTTP: &http.Client{Transport: f}})
		want := func(what, hosts string) {
			t.Helper()
			readSome(t, c, client.Options{}, 5)
			if got := f.asked(); got != hosts {
				t.Errorf("%s: got batches %s, want %s", what, got, hosts)
			}
		}
		want("b is nearest", "map[b:5]")
		f.set("a", 900*time.Microsecond, false)
		for range 5 {
			pause(61 * time.Second)
			want("a little nearer is not worth a change", "map[b:5]")
		}
		f.set("b", 30*time.Millisecond, false)
		pause(61 * time.Second)
		want("b is far away now", "map[a:5]")
		f.set("a", time.Hour, false) // the gateway is stopped
		pause(61 * time.Second)
		want("what gives no sign of life is far", "map[b:5]")
		f.set("a", 0, true)
		f.set("b", 30*time.Millisecond, true)
		want("the last one left, after one failure", "map[b:1 c:5]")
	})
}

// TestClientsOfAJobMeasureInTurn: clients that start together do not all move from a busy gateway
// to the same idle one at once.
func TestClientsOfAJobMeasureInTurn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(map[string]time.Duration{})
		var job []*client.Client
		for range 20 {
			job = append(job, newClient(t, client.Config{Gateways: []string{"a", "b"}, HTTP: &http.Client{Transport: f}}))
		}
		most := 0
		for range 90 {
			for _, c := range job {
				readSome(t, c, client.Options{}, 1)
			}
			if got := f.probes["a"]; got != len(job) { // not the measurements at the start
				most = max(most, got)
			}
			clear(f.probes)
			pause(time.Second)
		}
		if most < 1 || most > len(job)/2 {
			t.Errorf("got %d of %d clients that measured in one second, want at least one, and not half of them", most, len(job))
		}
	})
}

// TestStoppedGatewayIsToldFromASlowStore: the client waits for a gateway that still responds to
// probes, and fetches nothing twice. It abandons a silent gateway within seconds.
func TestStoppedGatewayIsToldFromASlowStore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(map[string]time.Duration{})
		c := newClient(t, client.Config{Gateways: []string{"a", "b"}, Home: inOrder, HTTP: &http.Client{Transport: f}})
		readSome(t, c, client.Options{}, 1)
		f.slow = 40 * time.Second
		readSome(t, c, client.Options{}, 1)
		if got, want := f.asked(), "map[a:2]"; got != want || f.probes["a"] < 10 {
			t.Errorf("got batches %s and %d probes, want %s and more than 10", got, f.probes["a"], want)
		}
		f.slow = 0
		f.set("a", time.Hour, false)
		start := time.Now()
		readSome(t, c, client.Options{}, 3)
		if got, want := f.asked(), "map[a:1 b:3]"; got != want {
			t.Errorf("got batches %s, want %s", got, want)
		}
		if got := time.Since(start); got > 5*time.Second {
			t.Errorf("got %v on the fake clock until the gateway was left, want 5 s at most", got)
		}
	})
}

// TestStoppedGatewayIsLeftWhateverItWasAsked: the client waits for manifests and loss reports no
// longer than for batches.
func TestStoppedGatewayIsLeftWhateverItWasAsked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(map[string]time.Duration{"a": time.Hour})
		c := newClient(t, client.Config{Gateways: []string{"a", "b"}, Home: inOrder, HTTP: &http.Client{Transport: f}})
		start := time.Now()
		var manifest struct{}
		if err := c.JSON(t.Context(), "/epoch/0/batch/0/manifest", nil, &manifest); err != nil {
			t.Fatal(err)
		}
		if got, want := f.asked(), "map[a:1 b:1]"; got != want {
			t.Errorf("got requests %s, want %s", got, want)
		}
		if got := time.Since(start); got > 5*time.Second {
			t.Errorf("got %v on the fake clock until the gateway was left, want 5 s at most", got)
		}
	})
}

func TestGatewayThatFailedRestsAndComesBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(map[string]time.Duration{})
		home := func(rank, _ uint64, _ int) int { return int(rank) }
		c := newClient(t, client.Config{Gateways: []string{"a", "b", "c"}, Home: home, HTTP: &http.Client{Transport: f}})
		want := func(what string, rank uint64, hosts string) {
			t.Helper()
			readSome(t, c, client.Options{Rank: rank, WorldSize: 3}, 4)
			if got := f.asked(); got != hosts {
				t.Errorf("%s: got batches %s, want %s", what, got, hosts)
			}
		}
		want("each rank has its own", 0, "map[a:4]")
		want("each rank has its own", 2, "map[c:4]")
		if f.probes["a"]+f.probes["b"]+f.probes["c"] != 0 {
			t.Errorf("got probes %v, want none while all is well", f.probes)
		}
		f.set("a", 0, true)
		want("one failure is enough", 0, "map[a:1 b:4]")
		pause(2 * time.Second)
		want("no batch is risked to learn that it is still down", 0, "map[b:4]")
		if got := f.probes["a"]; got != 1 {
			t.Errorf("got %d probes, want 1", got)
		}
		f.set("a", 0, false)
		want("it rests for longer now", 0, "map[b:4]")
		pause(3 * time.Second)
		want("it is back", 0, "map[a:4]")
	})
}

// TestGatewayThatIsNotReadyIsAskedLast: the client uses a gateway that is starting or draining only
// if no other one accepts requests.
func TestGatewayThatIsNotReadyIsAskedLast(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(map[string]time.Duration{"b": 5 * time.Millisecond})
		starting := map[string]bool{"a": true}
		some := roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/readyz" && starting[r.URL.Host] {
				return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Request: r}, nil
			}
			return f.RoundTrip(r)
		})
		c := newClient(t, client.Config{Gateways: []string{"a", "b"}, HTTP: &http.Client{Transport: some}})
		readSome(t, c, client.Options{}, 4)
		if got := f.asked(); got != "map[b:4]" {
			t.Errorf("one of two starts: got batches %s, want all of the other", got)
		}
		f.set("b", 0, true)
		readSome(t, c, client.Options{}, 1)
		if got := f.asked(); got != "map[a:1 b:1]" {
			t.Errorf("the other is down: got batches %s, want one of the gateway that starts", got)
		}
		starting["a"] = false
		pause(time.Minute)
		readSome(t, c, client.Options{}, 4)
		if got := f.asked(); got != "map[a:4]" {
			t.Errorf("it is ready: got batches %s, want all of it", got)
		}
	})
}

// TestGatewayThatOnlySeemsReadyIsLeft: a gateway that responds only to small requests costs a job
// less and less time.
func TestGatewayThatOnlySeemsReadyIsLeft(t *testing.T) {
	for what, home := range map[string]func(uint64, uint64, int) int{"home": inOrder, "near": nil} {
		bubble.Test(t, func(t *testing.T) {
			f := newFleet(map[string]time.Duration{"b": 5 * time.Millisecond})
			wedged := roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Host == "a" && r.URL.Path != "/readyz" {
					f.mu.Lock()
					f.batches["a"]++
					f.mu.Unlock()
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return f.RoundTrip(r)
			})
			c := newClient(t, client.Config{Gateways: []string{"a", "b"}, Home: home, HTTP: &http.Client{Transport: wedged}})
			start := time.Now()
			for range 3600 {
				pause(time.Second)
				readSome(t, c, client.Options{}, 1)
			}
			if got := time.Since(start); got > 80*time.Minute {
				t.Errorf("%s: got %v on the fake clock for what takes an hour without it, want 80 minutes at most", what, got)
			}
			if got := f.batches["a"]; got < 3 {
				t.Errorf("%s: got %d requests to it, want that it is tried again", what, got)
			}
		})
	}
}

func TestAddressesOfANameAreGateways(t *testing.T) {
	for _, name := range []string{"dns:gw.job.svc:8080", "http://gw.job.svc:8080"} {
		bubble.Test(t, func(t *testing.T) {
			f := newFleet(map[string]time.Duration{"10.0.0.1:8080": time.Millisecond, "[fd00::2]:8080": 90 * time.Millisecond, "10.0.0.3:8080": 2 * time.Millisecond})
			addresses, lookups := []string{"10.0.0.1", "fd00::2", "fe80::1%eth0"}, 0
			lookup := func(_ context.Context, host string) ([]string, error) {
				lookups++
				if host != "gw.job.svc" {
					return nil, fmt.Errorf("no such host %s", host)
				}
				return addresses, nil
			}
			c := newClient(t, client.Config{Gateways: []string{name}, Lookup: lookup, HTTP: &http.Client{Transport: f}})
			readSome(t, c, client.Options{}, 3)
			if got, want := f.asked(), "map[10.0.0.1:8080:3]"; got != want || lookups != 1 {
				t.Errorf("got batches %s and %d look-ups, want %s and 1", got, lookups, want)
			}
			if got := slices.Compact(f.names); !slices.Equal(got, []string{"gw.job.svc:8080"}) {
				t.Errorf("got Host %v, want the name", got)
			}
			// Both gateways are removed and a third one is added: a round fails, and
			// the client looks up the name again.
			f.set("10.0.0.1:8080", 0, true)
			f.set("[fd00::2]:8080", 0, true)
			addresses = []string{"10.0.0.3"}
			if strings.HasPrefix(name, "http") {
				addresses = append(addresses, "10.0.0.4")
				f.set("10.0.0.4:8080", time.Second, false)
			}
			readSome(t, c, client.Options{}, 1)
			if got, want := f.asked(), "map[10.0.0.1:8080:1 10.0.0.3:8080:1 [fd00::2]:8080:1]"; got != want || lookups != 2 {
				t.Errorf("got batches %s and %d look-ups, want %s and 2", got, lookups, want)
			}
			addresses = nil
			pause(time.Minute)
			readSome(t, c, client.Options{}, 1)
			if got, want := f.asked(), "map[10.0.0.3:8080:1]"; strings.HasPrefix(name, "dns") && got != want {
				t.Errorf("got batches %s while the name has no answer, want %s", got, want)
			}
		})
	}
}

func TestNamesThatStayNames(t *testing.T) {
	two := func(context.Context, string) ([]string, error) { return []string{"10.0.0.1", "10.0.0.2"}, nil }
	local := func(context.Context, string) ([]string, error) { return []string{"127.0.0.1", "::1"}, nil }
	fails := func(context.Context, string) ([]string, error) { return nil, errors.New("no such host") }
	for _, tc := range []struct {
		gateway string
		lookup  func(context.Context, string) ([]string, error)
		home    func(rank, worldSize uint64, gateways int) int
		want    string
	}{
		{"https://gw", two, nil, "gw"},
		{"http://localhost:8080", two, nil, "localhost:8080"},
		{"http://10.1.1.1:80", two, nil, "10.1.1.1:80"},
		{"http://gw:8080", local, nil, "gw:8080"},
		{"http://gw:8080", fails, nil, "gw:8080"},
		{"http://gw:8080", two, client.HomeByRank, "gw:8080"},
		{"http://gw:8080", nil, nil, "gw:8080"}, // a custom dialer may resolve the name differently
	} {
		f := newFleet(map[string]time.Duration{})
		c := newClient(t, client.Config{Gateways: []string{tc.gateway}, Lookup: tc.lookup, Home: tc.home, HTTP: &http.Client{Transport: f}})
		readSome(t, c, client.Options{}, 1)
		if got, want := f.asked(), "map["+tc.want+":1]"; got != want {
			t.Errorf("%s: got batches %s, want %s", tc.gateway, got, want)
		}
	}
}

func TestNameWithoutAnAddressIsAnError(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		lookup := func(context.Context, string) ([]string, error) { return nil, errors.New("no such host") }
		c := newClient(t, client.Config{Gateways: []string{"dns:absent:80"}, Lookup: lookup, Deadline: 10 * time.Second, HTTP: &http.Client{Transport: newFleet(nil)}})
		_, err := c.Batch(t.Context(), client.Options{}, 0)
		if err == nil || !strings.Contains(err.Error(), "look up gateways absent: no such host") {
			t.Errorf("got %v, want the fault of the look-up", err)
		}
	})
}

func TestNewRefusesNamesThatAreNone(t *testing.T) {
	for _, g := range []string{"dns:", "dns:gw", "dns::80", "dns:gw:", "dns:gw:80/x", "dns:http://gw:80"} {
		if _, err := client.New(client.Config{Gateways: []string{g}}); err == nil {
			t.Errorf("%q: got no error", g)
		}
	}
	_, err := client.New(client.Config{Gateways: []string{"dns:gw:80"}, Home: client.HomeByRank})
	if err == nil || !strings.Contains(err.Error(), "the same gateway order for all ranks") {
		t.Errorf("got %v, want an error about the order", err)
	}
}

func TestHomeByRank(t *testing.T) {
	for _, tc := range []struct {
		ranks    uint64
		gateways int
		want     []int
	}{{8, 4, []int{0, 0, 1, 1, 2, 2, 3, 3}}, {3, 2, []int{0, 0, 1}}, {2, 5, []int{0, 2}}, {5, 1, []int{0, 0, 0, 0, 0}}} {
		var got []int
		for rank := range tc.ranks {
			got = append(got, client.HomeByRank(rank, tc.ranks, tc.gateways))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%d ranks, %d gateways: got %v, want %v", tc.ranks, tc.gateways, got, tc.want)
		}
	}
	if got := client.HomeByRank(1<<63, 1<<63+1, 1000); got != 999 {
		t.Errorf("got %d, want 999", got)
	}
}

// TestRanksOfALostGatewayGoToDifferentOnes: after a gateway fails, no other one gets twice the
// load.
func TestRanksOfALostGatewayGoToDifferentOnes(t *testing.T) {
	f := newFleet(map[string]time.Duration{})
	f.set("a", 0, true)
	c := newClient(t, client.Config{Gateways: []string{"a", "b", "c", "d"}, Home: client.HomeByRank, HTTP: &http.Client{Transport: f}})
	for rank := range uint64(3) {
		if _, err := c.Batch(t.Context(), client.Options{Rank: rank, WorldSize: 12, Generation: "g"}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := f.asked(), "map[a:1 b:1 c:1 d:1]"; got != want {
		t.Errorf("got batches %s, want %s", got, want)
	}
}
