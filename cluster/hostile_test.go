package cluster

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
)

// TestMet_NoHelloForAnother: a hostile member announces that another member leaves. Only a member's
// own announcement counts.
func TestMet_NoHelloForAnother(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.fleet(3)[0]
		before := owned(a)
		victim := a.Status().Members[0]
		h := peer.Hello{
			Cluster: "job-a", ID: victim.ID, Boot: victim.Boot, OrderVersion: a.Self().OrderVersion,
			Weight: 1, Draining: true, Held: []peer.ChunkList{{DatasetGeneration: peer.DatasetGeneration{Dataset: "photos", Generation: generation}, Chunks: []uint32{1}}},
		}
		if _, err := a.Met(h, at(2)); err != nil {
			t.Fatal(err)
		}
		if got := states(a)[victim.ID]; got != Alive {
			t.Errorf("after a hello in its name: got %v, want %v", got, Alive)
		}
		synctest.Wait()
		if got := w.told[a.cfg.ID]; len(got) != 0 {
			t.Errorf("got %v to take over, want nothing that another one offers in its name", got)
		}
		if got := owned(a); states(a)[victim.ID] != Alive || got[victim.ID] != before[victim.ID] {
			t.Errorf("got %v, owners %v, want as before, %v", states(a), got, before)
		}
	})
}

// TestStrangersNameNoAddresses: a stranger cannot make a gateway dial an address that its discovery
// does not list, nor prevent it from meeting others.
func TestStrangersNameNoAddresses(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(0, []int{1}, nil)
		for i := range 10_000 {
			h := peer.Hello{Cluster: "job-a", ID: fmt.Sprintf("evil-%d", i), Boot: "b", OrderVersion: a.Self().OrderVersion}
			if _, err := a.Met(h, fmt.Sprintf("10.9.9.9:%d", 1024+i)); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(time.Second)
		if got := a.Status().Others; len(got) != 1 || got[0].Address != at(1) {
			t.Errorf("got addresses %v, want the one that the discovery knows", got)
		}
		w.join(1, []int{0}, nil)
		w.pass(3 * time.Second)
		if got := states(a)["gw-1"]; got != Alive {
			t.Errorf("got %v of an honest one, want %v", got, Alive)
		}
	})
}

// TestAnotherGatewayAtTheAddress: pods change their names and keep their addresses. A member at
// whose address another gateway answers is gone, as if it had been stopped.
func TestAnotherGatewayAtTheAddress(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		fleet := w.fleet(3)
		fleet[1].end()
		w.join(1, []int{0, 1, 2}, func(c *Config) { c.ID, c.Boot = "gw-1-new", "boot-new" })
		w.pass(3 * time.Second)
		got := states(fleet[0])
		if got["gw-1"] != Gone || got["gw-1-new"] != Alive {
			t.Errorf("got %v, want gw-1 gone and gw-1-new there", got)
		}
		if got := owned(fleet[0]); got["gw-1"] != 0 || got["gw-1-new"] == 0 {
			t.Errorf("got owners %v, want nothing with who is gone", got)
		}
	})
}

func TestHugeClaimsAreRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(0, nil, nil)
		for want, change := range map[string]func(*peer.Hello){
			"serves 100000 datasets":                   func(h *peer.Hello) { h.Serves = make([]peer.DatasetGeneration, 100_000) },
			"have more than":                           func(h *peer.Hello) { h.Serves = []peer.DatasetGeneration{{Dataset: strings.Repeat("x", 1<<20)}} },
			"must consist of letters, digits and sign": func(h *peer.Hello) { h.ID = "e\x1b[31mvil\n" },
		} {
			h := peer.Hello{Cluster: "job-a", ID: "evil", Boot: "b", OrderVersion: a.Self().OrderVersion}
			change(&h)
			if _, err := a.Met(h, at(9)); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 500 {
				t.Errorf("got %.600v, want %q", err, want)
			}
		}
	})
}
