package cluster

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/shuffle"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestViewsAgreeOnceAllKnowEachOther(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		fleet := w.fleet(5)
		want := owned(fleet[0])
		if len(want) != 5 {
			t.Errorf("got owners %v, want all five", want)
		}
		sum := 0.0
		for _, n := range fleet {
			if got := owned(n); !maps.Equal(got, want) {
				t.Errorf("%s: got %v, want %v as the others", n.cfg.ID, got, want)
			}
			sum += n.Share(generation)
			if got := n.Status(); len(got.Members) != 4 || len(got.Others) != 0 {
				t.Errorf("%s: got %v, want only the four members", n.cfg.ID, got)
			}
		}
		if sum < .999 || sum > 1.001 {
			t.Errorf("got shares that add up to %v, want 1", sum)
		}
	})
}

// TestHelloBeforeRun checks that a gateway remembers the sender of a hello that it received before
// its own Run.
func TestHelloBeforeRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		b := w.join(1, nil, nil)
		w.early = func(c *Cluster) {
			if _, err := c.Met(b.Self(), at(1)); err != nil {
				t.Error(err)
			}
		}
		a := w.join(0, []int{1}, nil)
		w.pass(time.Second)
		if got := states(a)["gw-1"]; got != Alive {
			t.Errorf("got %v, want %v", got, Alive)
		}
	})
}

// growing is a discovery whose list of addresses grows. It counts the requests for another lookup.
type growing struct {
	more  chan []string
	again atomic.Int32
}

func (g *growing) Again() { g.again.Add(1) }

func (g *growing) Run(ctx context.Context, found func([]string)) error {
	for {
		select {
		case all := <-g.more:
			found(all)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestOnlyKnownAddressesAreGreeted: a hello from an unknown host causes another lookup. The sender
// gets a hello only once the discovery lists its address.
func TestOnlyKnownAddressesAreGreeted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		knows := &growing{more: make(chan []string)}
		a := w.join(0, nil, func(c *Config) { c.Discovery = knows })
		knows.more <- []string{at(0)}
		w.join(1, []int{0}, nil)
		w.pass(time.Minute)
		if got := a.Status(); len(got.Members)+len(got.Others) != 0 || knows.again.Load() == 0 {
			t.Errorf("got %+v and %d repeated lookups, want no member and some lookups", got, knows.again.Load())
		}
		if got := a.Status().Self.Address; got != at(0) {
			t.Errorf("got %q as the address of its own, want %q", got, at(0))
		}
		knows.more <- []string{at(0), at(1)}
		w.pass(time.Second)
		if got := owned(a); got["gw-1"] == 0 {
			t.Errorf("got owners %v, want both", got)
		}
	})
}

// TestAsymmetricLink: a gateway that can reach this one but cannot be reached owns nothing in this
// gateway's view. In its own view both gateways own chunks.
func TestAsymmetricLink(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cut = func(from, to string) bool { return from == at(0) && to == at(1) }
		a, b := w.join(0, []int{1}, nil), w.join(1, []int{0}, nil)
		w.pass(10 * time.Second)
		if got := owned(a); got["gw-1"] != 0 {
			t.Errorf("got %v, want nothing owned by a gateway that cannot be reached", got)
		}
		if got := owned(b); got["gw-0"] == 0 {
			t.Errorf("got %v, want both of them", got)
		}
		w.mu.Lock()
		w.cut = nil
		w.mu.Unlock()
		w.pass(15 * time.Second)
		if got, want := owned(a), owned(b); !maps.Equal(got, want) {
			t.Errorf("got %v, want %v once the link is there", got, want)
		}
	})
}

func TestAlone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(0, []int{0, 7}, nil) // a list may contain the gateway itself
		w.pass(time.Minute)
		st := a.Status()
		if len(st.Members) != 0 || len(st.Others) != 1 || st.Others[0].State != Unknown {
			t.Errorf("got %+v, want no member and one address without a gateway", st)
		}
		if got := a.Owner(chunk(1)); got != "" || a.Share(generation) != 1 || a.Former(chunk(1)) != "" {
			t.Errorf("got owner %q, share %v, want all chunks ours", got, a.Share(generation))
		}
	})
}

func TestGenerationsAreOwnedByThoseWhoServeThem(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(0, []int{1, 2}, nil)
		w.join(1, nil, func(c *Config) {
			c.Serves = map[peer.DatasetGeneration]int{{Dataset: "photos", Generation: "g1"}: 1000}
		})
		w.join(2, nil, nil)
		w.pass(3 * time.Second)
		if got := owned(a); got["gw-1"] != 0 || got["gw-2"] == 0 {
			t.Errorf("got %v, want nothing owned by a gateway with another generation", got)
		}
		if got := states(a); got["gw-1"] != Alive {
			t.Errorf("got %v, want it shown as a member", got)
		}
		var of []OwnershipStatus
		for _, m := range a.Status().Members {
			of = append(of, m.Serves...)
		}
		if len(of) != 2 || of[0] != (OwnershipStatus{Dataset: "photos", Generation: "g1"}) || of[1].Share == 0 || of[1].Chunks == 0 {
			t.Errorf("got %+v, want the generations of each, and its share of ours", of)
		}
	})
}

// TestStrangersAreRefused checks that both sides refuse each stranger and report the reason.
func TestStrangersAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Config)
		hello  func(*peer.Hello)
		want   string
	}{
		"another cluster":    {change: func(c *Config) { c.Name = "job-b" }, want: "belongs to cluster"},
		"no cluster":         {hello: func(h *peer.Hello) { h.Cluster = "" }, want: "a hello's cluster: the name is empty"},
		"our name":           {change: func(c *Config) { c.ID = "gw-0" }, want: `two gateways have the name "gw-0", this one and one at 10.0.0.`},
		"no name":            {hello: func(h *peer.Hello) { h.ID = "" }, want: "a hello's member name: the name is empty"},
		"a name with a line": {hello: func(h *peer.Hello) { h.ID = "a\nb" }, want: "must consist of letters"},
		"another order":      {hello: func(h *peer.Hello) { h.OrderVersion++ }, want: fmt.Sprintf("has version %d of the order", shuffle.OrderVersion+1)},
		"no boot":            {hello: func(h *peer.Hello) { h.Boot = "" }, want: "its hello has no boot name"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.hello = func(from string, h *peer.Hello) {
					if from == at(1) && tc.hello != nil {
						tc.hello(h)
					}
				}
				a := w.join(0, []int{1}, nil)
				b := w.join(1, []int{0}, tc.change)
				w.pass(10 * time.Second)
				if got := owned(a); len(got) != 1 {
					t.Errorf("got owners %v, want ourselves alone", got)
				}
				for _, n := range []*node{a, b} {
					got := refusals(n)
					if tc.hello != nil && n == b {
						continue // this side does not see the result of its hello
					}
					if len(got) == 0 || n == a && !strings.Contains(strings.Join(got, "\n"), tc.want) {
						t.Errorf("%s: got %q, want %q", n.address, got, tc.want)
					}
				}
				h := b.Self()
				if tc.hello != nil {
					tc.hello(&h)
				}
				if _, err := a.Met(h, at(1)); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
			})
		})
	}
}

// TestTwoAddressesOfOneGateway: a gateway that is found at two addresses is one member. It is
// reached at the first address that answers, until that one stops answering.
func TestTwoAddressesOfOneGateway(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		b := w.join(1, nil, nil)
		w.nodes[at(9)] = b
		w.slow = map[string]time.Duration{at(9): time.Millisecond}
		a := w.join(0, []int{1, 9}, nil)
		where := func() string {
			st := a.Status()
			if len(st.Members) != 1 || len(st.Others) > 1 {
				t.Errorf("got %+v, want one member", st)
			}
			return st.Members[0].Address
		}
		w.pass(30 * time.Second)
		if got := where(); got != at(1) || len(a.Status().Others) != 0 {
			t.Errorf("got a member at %s and %v, want it at the address that answered first", got, a.Status().Others)
		}
		view := a.View()
		w.mu.Lock()
		delete(w.nodes, at(1))
		w.mu.Unlock()
		w.pass(30 * time.Second)
		if got := where(); got != at(9) || states(a)["gw-1"] != Alive {
			t.Errorf("got a member at %s, %v, want it at the other address", got, states(a))
		}
		if _, err := ask(t, a, ofOwner(t, a, "gw-1")); err != nil || a.View() < view {
			t.Errorf("got %v, want it answered there", err)
		}
	})
}

// TestServe_ChangesOwners: the other gateways learn at once of an added or removed generation. Two
// gateways with a common generation are no fault, even if one of them serves additional
// generations.
func TestServe_ChangesOwners(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		nodes := w.fleet(2)
		a, b := nodes[0], nodes[1]
		old, fresh := peer.DatasetGeneration{Dataset: "photos", Generation: generation}, peer.DatasetGeneration{Dataset: "photos", Generation: "g1"}
		shares := func(of peer.DatasetGeneration) (n int) {
			for _, at := range nodes {
				for _, s := range at.Status().Self.Serves {
					if s.Dataset == of.Dataset && s.Generation == of.Generation && s.Share < 1 {
						n++
					}
				}
			}
			return n
		}
		a.Serve(map[peer.DatasetGeneration]int{old: 1000, fresh: 1000})
		w.pass(time.Second)
		if got := append(a.Status().Faults, b.Status().Faults...); len(got) != 0 || shares(old) != 2 || shares(fresh) != 0 {
			t.Errorf("got faults %q, and %d that share the old one and %d the new one; want none, 2 and 0", got, shares(old), shares(fresh))
		}
		b.Serve(map[peer.DatasetGeneration]int{old: 1000, fresh: 1000})
		w.pass(time.Second)
		if shares(fresh) != 2 {
			t.Errorf("%d share the new generation, want both", shares(fresh))
		}
		a.Serve(map[peer.DatasetGeneration]int{fresh: 1000})
		b.Serve(map[peer.DatasetGeneration]int{old: 1000})
		w.pass(time.Second)
		if len(a.Status().Faults) != 1 || len(b.Status().Faults) != 1 || shares(old)+shares(fresh) != 0 {
			t.Errorf("got %q and %q, want to be told that they share nothing", a.Status().Faults, b.Status().Faults)
		}
	})
}

func TestGenerationsThatDiffer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var log bytes.Buffer
		all := []int{0, 1, 2}
		a := w.join(0, all, func(c *Config) { c.Log = zerolog.New(&log) })
		w.join(1, all, nil)
		b := w.join(2, all, func(c *Config) {
			c.Serves = map[peer.DatasetGeneration]int{{Dataset: "photos", Generation: "g1"}: 1000}
		})
		w.pass(20 * time.Second)
		want := `dataset photos has generation g0 here, but "g1" at gw-2: these gateways do not share its data`
		if got := a.Status().Faults; len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := strings.Count(log.String(), "these gateways do not share its data"); got != 1 {
			t.Errorf("got %d lines, want one", got)
		}
		if got := b.Status().Faults; len(got) != 1 || !strings.Contains(got[0], "at gw-0, gw-1") {
			t.Errorf("got %q, want the names of both", got)
		}
		b.end()
		w.join(2, all, func(c *Config) { c.Boot = "boot-2b" })
		w.pass(20 * time.Second)
		if got := a.Status().Faults; len(got) != 0 {
			t.Errorf("got %q, want none", got)
		}
	})
}

func TestNamesAreNames(t *testing.T) {
	for _, name := range []string{"job-a", "gw_0.example", "A~b+c", strings.Repeat("a", 128)} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: got %v, want it taken", name, err)
		}
	}
	for _, name := range []string{"", "a b", "a/b", "a\n", "å", `a"b`, `a\b`, "\x00", strings.Repeat("a", 129)} {
		if err := CheckName(name); err == nil {
			t.Errorf("%q: got it taken, want it refused", name)
		}
	}
}
