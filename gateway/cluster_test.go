package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/shuffle"
)

func TestClusterIsShownAsItIsSeen(t *testing.T) {
	alone := newRig(t, 20, 800, nil)
	p := alone.do("GET", "/v1/cluster")
	checkProblem(t, p, http.StatusNotFound, "not_found", false)
	if !strings.Contains(string(p.body), "--cluster NAME --join PEERS") {
		t.Errorf("got %s, want how to make a cluster", p.body)
	}
	type member struct {
		Name  string `json:"name"`
		Bytes uint64 `json:"bytes"`
	}
	want := []member{{"gw-0", 7}, {"gw-1", 1 << 60}}
	both := func(c *gateway.Config) { c.Cluster = func() any { return map[string]any{"members": want} } }
	r := newRig(t, 20, 800, both)
	var got struct {
		Members []member `json:"members"`
	}
	r.json("/v1/cluster", &got)
	if !slices.Equal(got.Members, want) {
		t.Errorf("got %v, want %v", got.Members, want)
	}
	if got := r.do("GET", "/v1/cluster").Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("got Cache-Control %q, want no-store", got)
	}
	checkProblem(t, r.do("GET", "/v1/cluster?a=1"), http.StatusBadRequest, "invalid_argument", false)
	hidden := newRig(t, 20, 800, func(c *gateway.Config) { both(c); c.AdminListen = true })
	checkProblem(t, hidden.do("GET", "/v1/cluster"), http.StatusNotFound, "not_found", false)
}

func TestPlanForAnotherGateway(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	generation := r.index.Generation()
	params := shuffle.Params{Shuffle: shuffle.Slot, Window: 4, Seed: 9}
	plan, epoch, leave, err := r.gateway.Plan(t.Context(), "photos", generation, params, 3)
	if err != nil {
		t.Fatal(err)
	}
	want, err := shuffle.NewPlan(params, r.index.First())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := plan.OrderDigest(), want.OrderDigest(); got != want || plan.Params() != params {
		t.Errorf("got a plan of %v with digest %s, want %v with %s", plan.Params(), got, params, want)
	}
	for _, at := range []uint64{0, 7, 49} {
		if got, want := epoch.At(at), want.Epoch(3).At(at); got != want {
			t.Errorf("got sample %d at %d, want %d", got, at, want)
		}
	}
	again, _, leaveAgain, err := r.gateway.Plan(t.Context(), "photos", generation, params, 3)
	if err != nil || again != plan {
		t.Errorf("got %v and another plan %t, want the same one", err, again != plan)
	}
	leaveAgain()
	leave()
	wrong := func(what, dataset, generation string, params shuffle.Params) {
		t.Helper()
		if _, _, _, err := r.gateway.Plan(t.Context(), dataset, generation, params, 0); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want an error with %q", err, what)
		}
	}
	wrong("not served", "photos", strings.Repeat("0", 64), params)
	wrong("not served", "absent", generation, params)
	wrong("must be at most 65536", "photos", generation, shuffle.Params{Shuffle: shuffle.Window, Window: 1 << 20, Strata: 1 << 20})
	wrong("must be at most 1048576", "photos", generation, shuffle.Params{Shuffle: shuffle.Slot, Window: 1 << 40})
	wrong("unknown shuffle", "photos", generation, shuffle.Params{Shuffle: "riffle"})
}

// TestPlanForAnotherGatewayOpensNoSnapshot: Plan returns a plan with importance only while a
// request of this gateway uses the snapshot.
func TestPlanForAnotherGatewayOpensNoSnapshot(t *testing.T) {
	r, w, _, names := watchedRig(t, 1)
	params := shuffle.Params{Shuffle: shuffle.Slot, Window: 4, Seed: 9, Importance: names[0]}
	ask := func() (func(), error) {
		_, _, leave, err := r.gateway.Plan(t.Context(), "photos", r.index.Generation(), params, 1)
		return leave, err
	}
	if _, err := ask(); err == nil || !strings.Contains(err.Error(), "not open here") || w.opened(names[0]) != 0 {
		t.Errorf("got %v and %d opened, want an error and none", err, w.opened(names[0]))
	}
	if a := r.do("GET", "/epoch/0/batch/0?importance="+names[0]); a.StatusCode != http.StatusOK {
		t.Fatalf("got status %d, want 200", a.StatusCode)
	}
	leave, err := ask()
	if err != nil || w.opened(names[0]) != 1 {
		t.Fatalf("got %v and %d opened, want a plan and 1", err, w.opened(names[0]))
	}
	leave()
}

// TestStarting: until a gateway has contacted its cluster, readyz reports that it is starting, but
// it serves all requests. While it drains, readyz reports draining instead.
func TestStarting(t *testing.T) {
	awaits := "1 of 3 addresses have been asked"
	r := newRig(t, 20, 800, func(c *gateway.Config) { c.Awaits = func() string { return awaits } })
	metric := func() string {
		t.Helper()
		_, value, _ := strings.Cut(string(r.do("GET", "/metrics").body), "\nmillrace_ready ")
		value, _, _ = strings.Cut(value, "\n")
		return value
	}
	p := checkProblem(t, r.do("GET", "/readyz"), http.StatusServiceUnavailable, "starting", true)
	if !strings.Contains(p.Detail, awaits) || p.RetryAfterMs == 0 || metric() != "0" {
		t.Errorf("got %+v and millrace_ready %s, want what it waits for, and 0", p, metric())
	}
	for _, path := range []string{"/epoch/0/batch/0", "/healthz"} {
		if a := r.do("GET", path); a.StatusCode != http.StatusOK {
			t.Errorf("%s while it starts: got status %d, want 200", path, a.StatusCode)
		}
	}
	awaits = ""
	if a := r.do("GET", "/readyz"); a.StatusCode != http.StatusOK || metric() != "1" {
		t.Errorf("got status %d and millrace_ready %s once it waits for nothing, want 200 and 1", a.StatusCode, metric())
	}
	awaits = "anything"
	r.gateway.Drain()
	checkProblem(t, r.do("GET", "/readyz"), http.StatusServiceUnavailable, "draining", true)
}
