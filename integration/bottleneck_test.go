package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// bottlenecks are scenes by the code of what limits the readers there. A disk, a network or a gateway that limits is not made here: on one
// machine the readers would be what limits.
func bottlenecks() map[string]func(*testing.T) scene {
	return map[string]func(*testing.T) scene{
		"nobody": func(t *testing.T) scene {
			return scene{func(context.Context) {}, []*harness.Gateway{serve(t, packed(t, "dir"))}}
		},
		"store":       slowReads,
		"store-fails": func(t *testing.T) scene { return storeFails(t, denies) },
		"rank":        slowRank,
		"readers":     func(t *testing.T) scene { return computes(t, 4*think) },
		"memory":      fullBudget,
		"cache":       thrashFar,
		"peers":       silentPeer,
	}
}

// computes is a rank that reads what is in memory.
func computes(t *testing.T, think time.Duration) scene {
	g := serve(t, packed(t, "dir"))
	for m := range 25 {
		g.MustGet(t, batchPath(0, m)+share(16, 0, 1))
	}
	return scene{trains(g, 25, think, share(16, 0, 1)), []*harness.Gateway{g}}
}

// thrashFar is memory that is too small for its readers, before a store that is slow.
func thrashFar(t *testing.T) scene {
	var fault atomic.Pointer[http.HandlerFunc]
	files, _ := harness.Files(t, 800, 64<<10)
	store := harness.Open(t, "versitygw")
	harness.Pack(t, store, files, dataset, "--shard-size", "8MiB", "--chunk-size", "256KiB", "--batch-size", "8")
	g := harness.Serve(t, behind(t, store, &fault), dataset, "--cache-size", "16MiB")
	slow := slowStore(&atomic.Bool{})
	fault.Store(&slow)
	var loads []func(context.Context)
	for seed := range 6 {
		loads = append(loads, trains(g, 100, think/10, fmt.Sprintf("?batch_size=8&seed=%d", seed)))
	}
	return scene{together(loads...), []*harness.Gateway{g}}
}

// again is how often in a row, a second apart, a gateway has to say the same.
const again = 3

// TestBottlenecks puts gateways into situations, and asks the first one of each what limits its readers, until it says so and stays
// with it.
func TestBottlenecks(t *testing.T) {
	for want, meet := range bottlenecks() {
		t.Run(want, func(t *testing.T) {
			s := meet(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			var loading sync.WaitGroup
			loading.Go(func() { s.load(ctx) })
			defer loading.Wait()
			defer cancel()
			var said []string
			for right := 0; ; {
				var stats struct {
					Limits struct{ Code, Sentence, Do string }
				}
				r, err := s.gateways[0].TryAdmin(ctx, "/v1/stats")
				if err == nil {
					err = json.Unmarshal(r.Body, &stats)
				}
				if err != nil {
					t.Fatalf("got %v, before that %v", err, said)
				}
				said = append(said, stats.Limits.Code)
				if right++; stats.Limits.Code != want {
					right = 0
				}
				if right == again {
					t.Logf("figure: %s (%s)", stats.Limits.Sentence, stats.Limits.Do)
					return
				}
				pause(ctx, time.Second)
			}
		})
	}
}
