package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// garbage is how much Go's heap may hold beside what is alive before it is collected. Chunks and bodies live
	// outside the heap, so there is little alive: with Go's rule, as much garbage as that, small samples
	// would be collected dozens of times a second, and large sample tables would let the process grow past its budget.
	garbage       = 12 << 20
	paceInterval  = time.Second
	minCollection = 25 // percent of what is alive: below, the collector would run without end
	maxCollection = 800
)

// paceCollector keeps the garbage near that figure, whatever is alive, until ctx ends.
func paceCollector(ctx context.Context) error {
	tick := time.NewTicker(paceInterval)
	defer tick.Stop()
	alive := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for percent := 0; ; {
		metrics.Read(alive)
		if next := collectAt(alive[0].Value.Uint64()); next != percent {
			percent = next
			debug.SetGCPercent(percent)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// collectAt is the collector's percentage for so many bytes alive, in steps: each change stops the world.
func collectAt(alive uint64) int {
	percent := garbage * 100 / max(alive, 1<<20)
	return int(min(max(percent/25*25, minCollection), maxCollection))
}
