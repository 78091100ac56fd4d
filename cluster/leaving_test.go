package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
)

// TestLeaving: all members learn of a drain at once, and each gets exactly the list of chunks that
// it owns from now on.
func TestLeaving(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		fleet := w.fleet(4)
		if got := w.peers[at(0)]; got != 3 {
			t.Errorf("got %d gateways to ask, want 3", got)
		}
		var held []peer.Chunk
		for i := range 200 {
			if fleet[3].Owner(chunk(i)) == "" {
				held = append(held, chunk(i))
			}
		}
		fleet[3].Drain(held)
		fleet[3].Drain(held[:1])
		w.pass(0)
		told := 0
		for _, n := range fleet[:3] {
			if got := states(n)["gw-3"]; got != Draining {
				t.Errorf("%s: got %v, want %v", n.cfg.ID, got, Draining)
			}
			var got []int
			all := w.told[n.cfg.ID]
			if len(all) != 1 || len(all["gw-3"]) != 1 || all["gw-3"][0].Generation != generation {
				t.Fatalf("got %+v, want chunks of one generation from gw-3", all)
			}
			for _, i := range all["gw-3"][0].Chunks {
				got = append(got, int(i))
				if owner := n.Owner(chunk(int(i))); owner != "" {
					t.Errorf("%s was told of chunk %d, which is %s's", n.cfg.ID, i, owner)
				}
			}
			if told += len(got); !slices.IsSorted(got) {
				t.Errorf("got %v, want them in the order in which they are needed", got)
			}
			for _, c := range held[:5] {
				if n.Owner(c) == "" && n.Former(c) != "gw-3" {
					t.Errorf("got former owner %q, want gw-3", n.Former(c))
				}
			}
		}
		if told != len(held) {
			t.Errorf("got %d told, want %d", told, len(held))
		}
		if got := owned(fleet[3]); got["gw-3"] != 0 || fleet[3].Status().Self.State != Draining {
			t.Errorf("got %v, want nothing owned by who leaves", got)
		}
		if err := fleet[0].Read(t.Context(), "gw-3", query(held[0]), nil, nil); err != nil {
			t.Errorf("got %v, want who drains to answer still", err)
		}
		view := fleet[0].View()
		fleet[3].end()
		w.pass(15 * time.Second)
		if got := fleet[0].Former(held[0]); got == "gw-3" {
			t.Error("got a former owner that is gone")
		}
		if got := fleet[0].View(); got != view {
			t.Errorf("got view %d when a member without chunks is gone, want %d, since every chunk has the same owner", got, view)
		}
	})
}

// TestDrain_ListIsBounded: the answer to a hello is bounded. The chunks needed last are omitted.
func TestDrain_ListIsBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		fleet := w.fleet(2)
		one := chunk(7)
		one.Number = -1
		held := []peer.Chunk{one}
		for i := range peer.MostHeld + 2 {
			one.Number = i
			held = append(held, one)
		}
		fleet[1].Drain(held)
		w.pass(0)
		if got := w.told["gw-0"]["gw-1"][0].Chunks; len(got) != peer.MostHeld || got[0] != 0 || got[len(got)-1] != peer.MostHeld-1 {
			t.Errorf("got %d chunks, the first %d and the last %d, want the first %d", len(got), got[0], got[len(got)-1], peer.MostHeld)
		}
	})
}

// TestRestart: after a restart at the same address the member has a new boot and owns the same
// chunks. The restarted gateway returns the former owner of its chunks.
func TestRestart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		fleet := w.fleet(3)
		before := owned(fleet[0])
		fleet[1].end()
		w.pass(500 * time.Millisecond) // too short for the others to notice its absence
		again := w.join(1, []int{0, 1, 2}, func(c *Config) { c.Boot = "boot-1b" })
		w.pass(3 * time.Second)
		if got := owned(fleet[0]); got["gw-1"] != before["gw-1"] {
			t.Errorf("got %v, want %v", got, before)
		}
		for _, m := range fleet[0].Status().Members {
			if m.ID == "gw-1" && m.Boot != "boot-1b" {
				t.Errorf("got boot %q, want the new one", m.Boot)
			}
		}
		c := ofOwner(t, again, "")
		if got := again.Former(c); got == "" || got == "gw-1" {
			t.Errorf("got former owner %q, want another one", got)
		}
		w.pass(6 * time.Minute)
		if got := again.Former(c); got != "" {
			t.Errorf("after five minutes: got former owner %q, want none", got)
		}
	})
}

// TestSeveralComeBackTogether: gateways that restart together are empty, so none of them is a
// former owner. The members that did not restart hold the chunks.
func TestSeveralComeBackTogether(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		fleet := w.fleet(6)
		for _, n := range fleet[:3] {
			n.end()
		}
		w.pass(15 * time.Second)
		const chunks = 300
		held := map[int]string{}
		for i := range chunks {
			if held[i] = fleet[5].Owner(chunk(i)); held[i] == "" {
				held[i] = "gw-5"
			}
		}
		var again []*node
		for i := range 3 {
			again = append(again, w.join(i, []int{0, 1, 2, 3, 4, 5}, func(c *Config) { c.Boot += "b" }))
			w.pass(300 * time.Millisecond)
		}
		w.pass(3 * time.Second)
		for _, n := range again {
			own := 0
			for i := range chunks {
				if n.Owner(chunk(i)) != "" {
					continue
				}
				own++
				if got := n.Former(chunk(i)); got != held[i] {
					t.Fatalf("%s: chunk %d: got former owner %q, want %q", n.address, i, got, held[i])
				}
			}
			if own == 0 {
				t.Errorf("%s owns nothing", n.address)
			}
		}
	})
}

// TestTwins: two machines use the same name. The second one is refused until the first one no
// longer answers.
func TestTwins(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(0, []int{1, 5}, nil)
		first := w.join(1, nil, nil)
		w.pass(3 * time.Second)
		w.join(5, []int{0}, func(c *Config) { c.ID = "gw-1" })
		w.pass(15 * time.Second)
		where := func() string { return a.Status().Members[0].Address }
		if got := strings.Join(refusals(a), "\n"); where() != at(1) || !strings.Contains(got, `two gateways have the name "gw-1"`) {
			t.Errorf("got a member at %s and %q, want the first one, and the second refused", where(), got)
		}
		first.end()
		w.pass(30 * time.Second)
		if got := refusals(a); where() != at(5) || len(got) != 0 {
			t.Errorf("got a member at %s and %q, want the second one", where(), got)
		}
	})
}

// TestStandstill: a stopped gateway does not answer hellos. It is suspect first, then gone, and a
// member again once it continues.
func TestStandstill(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.fleet(2)[0]
		w.mu.Lock()
		w.cut = func(from, to string) bool { return true }
		w.mu.Unlock()
		for range 120 { // until the next hello
			if w.pass(100 * time.Millisecond); states(a)["gw-1"] != Alive {
				break
			}
		}
		if got := states(a)["gw-1"]; got != Suspect {
			t.Errorf("got %v, want %v", got, Suspect)
		}
		w.pass(3 * time.Second)
		if got := states(a)["gw-1"]; got != Gone || len(owned(a)) != 1 {
			t.Errorf("got %v, want %v", got, Gone)
		}
		w.mu.Lock()
		w.cut = nil
		w.mu.Unlock()
		w.pass(15 * time.Second)
		if got := states(a)["gw-1"]; got != Alive || len(owned(a)) != 2 {
			t.Errorf("got %v, want %v", got, Alive)
		}
	})
}
