package node

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// garbage is how much Go's heap may hold beside what is alive before it is collected. Chunks and bodies live
	// outside the heap, so there is little alive: with Go's rule, as much garbage as that, small samples
	// would be collected dozens of times a second, and large sample tables would let the process grow past its budget.
	garbage       = 12 << 20
	minCollection = 25 // percent of what is alive: below, the collector would run without end
	maxCollection = 800
)

// paceCollector keeps the garbage near that figure, whatever is alive, until ctx ends. It looks after each collection: what is alive
// may be ten times as much as before, and so would be the garbage until the next look.
func paceCollector(ctx context.Context) error {
	ended := make(chan struct{}, 1)
	collections(ctx, ended)
	alive := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for percent := 0; ; {
		metrics.Read(alive)
		if next := collectAt(alive[0].Value.Uint64()); next != percent {
			percent = next
			debug.SetGCPercent(percent)
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return nil
		}
	}
}

// collections sees to it that there is a token in ended after each collection, until ctx ends. The runtime tells nobody of them, but each
// one cleans up after something that nobody holds.
func collections(ctx context.Context, ended chan<- struct{}) {
	type canary struct{ _ *canary } // by itself in memory, as what has a pointer is
	runtime.AddCleanup(&canary{}, func(ended chan<- struct{}) {
		if ctx.Err() != nil {
			return
		}
		select {
		case ended <- struct{}{}:
		default:
		}
		collections(ctx, ended)
	}, ended)
}

// collectAt is the collector's percentage for so many bytes alive, in steps: each change stops the world.
func collectAt(alive uint64) int {
	percent := garbage * 100 / max(alive, 1<<20)
	return int(min(max(percent/25*25, minCollection), maxCollection))
}
