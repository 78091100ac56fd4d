//go:build !race

package gateway_test

import (
	"math"
	"testing"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/gateway"
)

// TestRefusedLookupsAreAlike: refusing access to an existing dataset takes as many allocations as
// refusing a dataset that does not exist. Allocations stand for time, which varies on a busy
// machine.
func TestRefusedLookupsAreAlike(t *testing.T) {
	m := newMatrix(t, func(cfg *gateway.Config) { cfg.Log = zerolog.Nop() })
	for _, c := range []string{"nobody", "nothing", "admin of nothing", "mixer"} {
		asks, there, not := m.by("nobody"), "scans", "scanz"
		switch c {
		case "nothing", "mixer":
			asks = m.by(c)
		case "admin of nothing":
			asks = m.by("boss")
		}
		count := func(name string) float64 {
			least := math.Inf(1) // pools of other packages are sometimes empty
			for range 30 {
				least = min(least, testing.AllocsPerRun(1, func() { m.ask(m.gateway.Handler(), asks, "GET", "/v1/datasets/"+name+"/epochs/0/batches/0", "") }))
			}
			return least
		}
		if got, want := count(there), count(not); got != want {
			t.Errorf("%s: got %v allocations for what is there and %v for what is not", c, got, want)
		}
	}
}
