package cluster

import (
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// TestCutEndsForAllAtOnce: when a network partition heals, all gateways meet again as soon as one
// gateway of each side has met the other. If they came back one by one, views would differ and
// chunks would be read twice.
func TestCutEndsForAllAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		fleet := w.fleet(8)
		want := owned(fleet[0])
		var whole atomic.Bool
		left := func(address string) bool { return slices.Contains([]string{at(0), at(1), at(2), at(3)}, address) }
		w.mu.Lock()
		w.cut = func(from, to string) bool { return !whole.Load() && left(from) != left(to) }
		w.mu.Unlock()
		w.pass(time.Minute)
		for _, n := range fleet {
			if got := len(owned(n)); got != 4 {
				t.Fatalf("%s: got %d owners while the network is cut, want 4", n.cfg.ID, got)
			}
		}
		whole.Store(true)
		met := func(n *node) bool { return len(owned(n)) > 4 }
		for begun := time.Now(); !slices.ContainsFunc(fleet, met); w.pass(10 * time.Millisecond) {
			if time.Since(begun) > 12*time.Second {
				t.Fatal("no gateway has met another")
			}
		}
		w.pass(100 * time.Millisecond)
		for _, n := range fleet {
			if got := owned(n); !maps.Equal(got, want) {
				t.Errorf("%s: got owners %v, want %v", n.cfg.ID, got, want)
			}
		}
	})
}
