package node

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// garbage is the amount of garbage that triggers a collection. Chunks and bodies are
	// outside Go's heap, so the amount of live data depends on the sample tables, which may be
	// small or large. Go's default allows as much garbage as live data. With small tables it
	// would collect dozens of times per second; with large tables the process would exceed its
	// budget.
	garbage       = 12 << 20
	minCollection = 25 // percent of live data; with less, the collector would run constantly
	maxCollection = 800
)

// paceCollector keeps the amount of garbage near the constant garbage, for any amount of live data,
// until ctx ends. It adjusts the percentage after each collection, since live data may have grown
// tenfold, and the next garbage with them.
func paceCollector(ctx context.Context) {
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
			return
		}
	}
}

// collections sends a token to ended after each collection, until ctx ends. The runtime reports no
// collections, but each one runs the cleanup of an unreachable object.
func collections(ctx context.Context, ended chan<- struct{}) {
	type canary struct{ _ *canary } // has a pointer, so that the allocator does not batch it with other objects
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

// collectAt returns the collector's percentage for a number of live bytes. It changes in steps,
// since each change stops the world.
func collectAt(alive uint64) int {
	percent := garbage * 100 / max(alive, 1<<20)
	return int(min(max(percent/25*25, minCollection), maxCollection))
}
