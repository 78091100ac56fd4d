//go:build !race

package clustersim

import (
	"encoding/json"
	"testing"
)

// TestLimited plays a job on slow network cards in every configuration. If clients share the card
// of their gateway with the other gateways, peers gain less than independent gateways with routing
// by rank.
func TestLimited(t *testing.T) {
	l := NewLimited()
	d, err := l.NewData(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	warm := map[string]float64{}
	for _, w := range l.Ways {
		o := l.Outcome(d, w, right(t, l.History(d, w)))
		line, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("figure: %s", line)
		if w.Think == 0 && w.Share == 0 && w.Gateways <= 2 {
			warm[w.Name] = o.Epochs[1].Seconds
		}
	}
	if got := warm["one"] / warm["plain, by rank"]; got < 1.95 || got > 2.05 {
		t.Errorf("two plain gateways by rank: got %.2f x one, want twice", got)
	}
}
