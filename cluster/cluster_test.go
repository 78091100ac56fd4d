package cluster

import (
	"bytes"
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
				t.Errorf("%s: got %v, want four members and nobody else", n.cfg.ID, got)
			}
		}
		if sum < .999 || sum > 1.001 {
			t.Errorf("got shares that add up to %v, want 1", sum)
		}
	})
}

// A gateway may be greeted before it greets others itself: it does not forget who did.
func TestHelloBeforeRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		b := w.join(1, nil, nil)
		w.early = func(c *Cluster) {
			if _, err := c.Met(b.Self(), at(1)); err != nil {
				t.Error(err)
			}
		}
		a := w.join(0, nil, nil)
		w.pass(time.Second)
		if got := states(a)["gw-1"]; got != Alive {
			t.Errorf("got %v, want %v", got, Alive)
		}
	})
}

func TestOneSideIsEnoughToFindTheOther(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(0, nil, nil)
		b := w.join(1, []int{0}, nil)
		w.pass(3 * time.Second)
		for _, n := range []*node{a, b} {
			if got := owned(n); got["gw-0"] == 0 || got["gw-1"] == 0 {
				t.Errorf("%s: got owners %v, want both", n.cfg.ID, got)
			}
		}
	})
}

// Whoever reaches us but is not reached by us owns nothing, as far as we are concerned; and we, as far as it is.
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
		a := w.join(0, []int{0, 7}, nil) // a list names ourselves too
		w.pass(time.Minute)
		st := a.Status()
		if len(st.Members) != 0 || len(st.Others) != 1 || st.Others[0].State != Unknown {
			t.Errorf("got %+v, want no member and one address where nobody is", st)
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
			t.Errorf("got %+v, want what each serves, and what of ours it owns", of)
		}
	})
}

// TestStrangersAreRefused: each is refused by name, on both sides, and shown with the reason.
func TestStrangersAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Config)
		hello  func(*peer.Hello)
		want   string
	}{
		"another cluster":    {change: func(c *Config) { c.Name = "job-b" }, want: "belongs to cluster"},
		"no cluster":         {hello: func(h *peer.Hello) { h.Cluster = "" }, want: "a hello's cluster: want a name"},
		"our name":           {change: func(c *Config) { c.ID = "gw-0" }, want: `two gateways are called "gw-0", one at 10.0.0.`},
		"no name":            {hello: func(h *peer.Hello) { h.ID = "" }, want: "a hello's member name: want a name"},
		"a name with a line": {hello: func(h *peer.Hello) { h.ID = "a\nb" }, want: "want letters"},
		"another order":      {hello: func(h *peer.Hello) { h.OrderVersion++ }, want: fmt.Sprintf("has version %d of the order", shuffle.OrderVersion+1)},
		"no boot":            {hello: func(h *peer.Hello) { h.Boot = "" }, want: "without the name of its boot"},
		"our address":        {hello: func(h *peer.Hello) { h.Address = at(0) }, want: "which is the address of gateway"},
		"loopback":           {hello: func(h *peer.Hello) { h.Address = "127.0.0.1:7946" }, want: "advertises 127.0.0.1:7946, which only itself can reach"},
		"every address":      {hello: func(h *peer.Hello) { h.Address = "0.0.0.0:7946" }, want: "nobody can be reached there"},
		"no port":            {hello: func(h *peer.Hello) { h.Address = "10.0.0.2" }, want: "want HOST:PORT"},
		"port 0":             {hello: func(h *peer.Hello) { h.Address = "10.0.0.2:0" }, want: "want a port from 1 to 65535"},
		"no host":            {hello: func(h *peer.Hello) { h.Address = ":7946" }, want: "want a host"},
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
						continue // it does not know what was made of its words
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

func TestLoopbackFitsLoopback(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(0, nil, func(c *Config) { c.Address = "127.0.0.1:7001" })
		w.join(1, nil, func(c *Config) { c.Address, c.Discovery = "127.0.0.1:7002", list{"localhost:7001", "127.0.0.1:7001"} })
		w.pass(3 * time.Second)
		if got := states(a); got["gw-1"] != Alive {
			t.Errorf("got %v, want gw-1 as a member", got)
		}
	})
}

// A gateway that is found under one address and advertises another one is a member only if it answers there.
func TestAdvertisedAddressThatDoesNotAnswer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var right atomic.Bool
		w.hello = func(from string, h *peer.Hello) {
			if from == at(1) && !right.Load() {
				h.Address = at(9)
			}
		}
		a := w.join(0, []int{1}, nil)
		w.join(1, nil, nil)
		w.pass(30 * time.Second)
		if got := owned(a); len(got) != 1 {
			t.Errorf("got owners %v, want ourselves alone", got)
		}
		if got := strings.Join(refusals(a), "\n"); !strings.Contains(got, "but not at the address that it advertises, 10.0.0.10:7946") {
			t.Errorf("got %q, want what is wrong", got)
		}
		right.Store(true)
		w.pass(30 * time.Second)
		if got := refusals(a); len(got) != 0 || states(a)["gw-1"] != Alive {
			t.Errorf("got %q and %v, want a member", got, states(a))
		}
	})
}

// TestWhatIsServedChanges: the others hear at once of a generation that comes and goes. As long as two gateways have one in common, that
// one of them has more of them is no fault.
func TestWhatIsServedChanges(t *testing.T) {
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
		want := `dataset photos has generation g0 here and "g1" at gw-2: they share nothing of it`
		if got := a.Status().Faults; len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := strings.Count(log.String(), "they share nothing of it"); got != 1 {
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
