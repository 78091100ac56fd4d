package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// modelGateway is the state of a gateway from the client's point of view.
type modelGateway struct {
	host        string
	mode        string // kind of its responses: "up", "down", "absent", "draining" or "store"
	faults      int
	least, most time.Time // the client avoids it until a time between these; zero: it is healthy
}

func (g *modelGateway) well() bool { return g.least.IsZero() }

// rest starts a cooldown of the gateway. The cooldown doubles with each fault, is up to a quarter
// longer, and lasts at least wait, which the gateway requested.
func (g *modelGateway) rest(wait time.Duration) {
	now := time.Now()
	if now.Before(g.least) {
		return
	}
	cooldown := min(time.Second<<min(g.faults, 5), 30*time.Second)
	g.faults++
	g.least, g.most = now.Add(max(cooldown, wait)), now.Add(max(cooldown+cooldown/4, wait))
}

// modelFleet is a transport with several gateways, and a model of the client that uses them.
type modelFleet struct {
	gateways []*modelGateway
	asked    []string
	answers  fake
}

const modelWait = 5 * time.Second // Retry-After of a draining gateway

func (f *modelFleet) RoundTrip(r *http.Request) (*http.Response, error) {
	g := f.gateways[slices.IndexFunc(f.gateways, func(g *modelGateway) bool { return g.host == r.URL.Host })]
	what := g.host
	if r.URL.Path == "/readyz" {
		what = "probe " + what
	}
	f.asked = append(f.asked, what)
	w := httptest.NewRecorder()
	switch {
	case g.mode == "down":
		return nil, errDown
	case r.URL.Path == "/readyz", g.mode == "up":
		return transport{&f.answers}.RoundTrip(r)
	case g.mode == "absent":
		refuse(w, http.StatusNotFound, map[string]any{"code": client.CodeNotFound})
	case g.mode == "draining":
		refuse(w, http.StatusServiceUnavailable, map[string]any{"code": client.CodeDraining, "retryable": true, "retry_after_ms": modelWait.Milliseconds()})
	case g.mode == "store":
		refuse(w, http.StatusServiceUnavailable, map[string]any{"code": client.CodeStoreUnavailable, "retryable": true})
	}
	return w.Result(), nil
}

// preferred returns the home of a rank, followed by the other gateways in the rank's order.
func (f *modelFleet) preferred(home int, rank uint64) []*modelGateway {
	all := slices.Clone(f.gateways)
	home = min(max(home, 0), len(all)-1)
	all[0], all[home] = all[home], all[0]
	out := all[:1:1]
	for i := range all[1:] {
		out = append(out, all[1+(int(rank)+i)%(len(all)-1)])
	}
	return out
}

// read returns the gateways from which the client requests a batch, in order, up to the first one
// that sends it. If the first gateway's cooldown is over, the client probes it first.
func (f *modelFleet) read(all []*modelGateway) (asked []string) {
	now := time.Now()
	due := func(g *modelGateway) bool { return !g.well() && !now.Before(g.most) }
	if lead := all[0]; due(lead) && len(all) > 1 {
		asked = append(asked, "probe "+lead.host)
		if lead.mode == "down" {
			lead.rest(0)
		} else {
			lead.least = time.Time{}
		}
	}
	var order []*modelGateway
	for _, belongs := range []func(*modelGateway) bool{(*modelGateway).well, due, func(g *modelGateway) bool { return !g.well() && !due(g) }} {
		for _, g := range all {
			if belongs(g) {
				order = append(order, g)
			}
		}
	}
	for _, g := range order {
		asked = append(asked, g.host)
		switch g.mode {
		case "up":
			g.faults, g.least = 0, time.Time{}
			return asked
		case "down", "absent":
			g.rest(0)
		case "draining":
			g.rest(modelWait)
		}
	}
	return asked
}

// settle waits until each gateway's cooldown is certainly over or certainly not over.
func (f *modelFleet) settle() {
	for _, g := range f.gateways {
		if now := time.Now(); !g.well() && !now.Before(g.least) && now.Before(g.most) {
			pause(g.most.Sub(now))
			f.settle()
		}
	}
}

// modelStep is a request after a pause, for one of four ranks or for none, with a mode for each
// gateway.
type modelStep struct {
	pause  time.Duration
	modes  []string
	ranked bool
	rank   uint64
}

func drawnModelStep(r *rapid.T, gateways int) modelStep {
	s := modelStep{
		pause:  rapid.SampledFrom([]time.Duration{0, 0, time.Second, 4 * time.Second, time.Minute}).Draw(r, "pause"),
		ranked: rapid.Bool().Draw(r, "of a rank"),
		rank:   rapid.Uint64Range(0, 3).Draw(r, "rank"),
	}
	for range gateways {
		s.modes = append(s.modes, rapid.SampledFrom([]string{"up", "down", "absent", "draining", "store"}).Draw(r, "mode"))
	}
	s.modes[rapid.IntRange(0, gateways-1).Draw(r, "one that is up")] = "up"
	return s
}

// TestClient_ChoosesGatewaysAsAModelDoes compares the client's choice of gateways with a model,
// while gateways fail and recover in every mode, for ranks of every home.
func TestClient_ChoosesGatewaysAsAModelDoes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(r, "gateways")
		homes := rapid.SliceOfN(rapid.IntRange(-1, n), 4, 4).Draw(r, "homes")
		steps := make([]modelStep, rapid.IntRange(1, 12).Draw(r, "requests"))
		for i := range steps {
			steps[i] = drawnModelStep(r, n)
		}
		bubble.Test(t, func(t *testing.T) {
			f := &modelFleet{answers: fake{batches: 1, generation: "g"}}
			cfg := client.Config{HTTP: &http.Client{Transport: f}}
			for i := range n {
				f.gateways = append(f.gateways, &modelGateway{host: fmt.Sprint("gw", i)})
				cfg.Gateways = append(cfg.Gateways, f.gateways[i].host)
			}
			cfg.Home = func(rank, worldSize uint64, gateways int) int {
				if worldSize != 4 || gateways != n {
					r.Errorf("Home was asked for rank %d of %d and %d gateways", rank, worldSize, gateways)
				}
				return homes[rank]
			}
			c := newClient(t, cfg)
			for i, s := range steps {
				pause(s.pause)
				f.settle()
				for i, g := range f.gateways {
					g.mode = s.modes[i]
				}
				f.asked = nil
				order, err := f.gateways, error(nil)
				if s.ranked {
					order = f.preferred(homes[s.rank], s.rank)
					_, err = c.Batch(t.Context(), client.Options{Generation: "g", Rank: s.rank, WorldSize: 4}, 0)
				} else {
					err = c.JSON(t.Context(), "/v1/datasets", nil, new(any))
				}
				if want := f.read(order); err != nil || !slices.Equal(f.asked, want) {
					r.Errorf("request %d: got %v after asking %q, want %q", i, err, f.asked, want)
					return
				}
			}
		})
	})
}

// TestGatewayThatUsedUpTheDeadlineRests: the client avoids a gateway for as long as its attempt
// took. A call that the caller cancels does not count against the gateway.
func TestGatewayThatUsedUpTheDeadlineRests(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(map[string]time.Duration{})
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
		c := newClient(t, client.Config{Gateways: []string{"a", "b"}, Home: inOrder, Deadline: 10 * time.Second, HTTP: &http.Client{Transport: wedged}})
		batch := func(ctx context.Context, asked string) error {
			t.Helper()
			_, err := c.Batch(ctx, client.Options{}, 0)
			if got := f.asked(); got != asked {
				t.Errorf("got batches %s, want %s", got, asked)
			}
			return err
		}
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if err := batch(ctx, "map[a:1]"); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want %v", err, context.Canceled)
			}
		}
		if err := batch(t.Context(), "map[a:1]"); err == nil || !strings.Contains(err.Error(), "no answer before the deadline") {
			t.Errorf("got %v, want that the deadline was over", err)
		}
		pause(9 * time.Second)
		if err := batch(t.Context(), "map[b:1]"); err != nil {
			t.Errorf("while a rests: %v", err)
		}
	})
}

// TestProbeThatIsAnsweredCounts: a successful probe counts even if the call that sent it is
// cancelled meanwhile.
func TestProbeThatIsAnsweredCounts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(map[string]time.Duration{})
		probed := func() {}
		c := newClient(t, client.Config{Gateways: []string{"a", "b"}, Home: inOrder, HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			resp, err := f.RoundTrip(r)
			if r.URL.Path == "/readyz" {
				probed()
			}
			return resp, err
		})}})
		f.set("a", 0, true)
		readSome(t, c, client.Options{}, 1)
		f.set("a", 0, false)
		pause(2 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		probed = cancel
		_, _ = c.Batch(ctx, client.Options{}, 0) // the transport may ignore ctx
		probed = func() {}
		f.asked()
		readSome(t, c, client.Options{}, 1)
		if got := f.asked(); got != "map[a:1]" || f.probes["a"] != 1 {
			t.Errorf("got batches %s and %d probes, want map[a:1] and 1", got, f.probes["a"])
		}
	})
}

// TestNearGatewayThatIsGoneIsForgotten: after the nearest gateway is removed, the client prefers
// the next gateway that responds. It changes only to a gateway that is considerably nearer.
func TestNearGatewayThatIsGoneIsForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(map[string]time.Duration{"10.0.0.1:80": time.Millisecond, "10.0.0.2:80": 2 * time.Millisecond, "10.0.0.3:80": 2400 * time.Microsecond})
		addresses := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}
		lookup := func(context.Context, string) ([]string, error) { return addresses, nil }
		c := newClient(t, client.Config{Gateways: []string{"dns:gw:80"}, Lookup: lookup, HTTP: &http.Client{Transport: f}})
		readSome(t, c, client.Options{}, 1)
		addresses = addresses[1:]
		pause(31 * time.Second)
		readSome(t, c, client.Options{}, 2) // the first gateway, during the lookup of the name
		if got := f.asked(); got != "map[10.0.0.1:80:2 10.0.0.2:80:1]" {
			t.Errorf("got batches %s, want one of the second gateway", got)
		}
		f.set("10.0.0.3:80", 1500*time.Microsecond, false)
		for range 4 {
			pause(61 * time.Second)
			readSome(t, c, client.Options{}, 2)
			if got := f.asked(); got != "map[10.0.0.2:80:2]" {
				t.Errorf("got batches %s, want all of the second gateway", got)
			}
		}
	})
}

func TestNearer(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		a, b    time.Duration
		want    bool
		compare int
	}{
		{0, 0, false, 0},
		{1, 0, true, -1},
		{0, 1, false, 1},
		{ms, 2 * ms, true, -1},
		{2 * ms, ms, false, 1},
		{7 * ms, 10 * ms, false, -1}, // not below the required share
		{7*ms - 1, 10 * ms, true, -1},
		{ms / 10, ms/10 + ms/2, false, -1}, // the gain is too small
		{ms / 10, ms/10 + ms/2 + 1, true, -1},
		{9 * ms, 10 * ms, false, -1},
	} {
		if got, compare := client.Nearer(c.a, c.b), client.CompareNear(c.a, c.b); got != c.want || compare != c.compare {
			t.Errorf("%v and %v: got %t, %d, want %t, %d", c.a, c.b, got, compare, c.want, c.compare)
		}
	}
}
