//go:build !race

package datapath

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/millrace-data/millrace/shuffle"
)

func TestEveryOrderAndCacheGivesTheStoredBytes(t *testing.T) {
	lengths := make([]int, 600)
	for i := range lengths {
		lengths[i] = i * 37 % 3000 // the first sample is empty
	}
	for _, form := range forms() {
		t.Run(form, func(t *testing.T) {
			perShard := 150
			if form == gzips {
				perShard = 10 // each shard is one chunk
			}
			everyOrderAndCache(t, newDatasetOf(t, form, 1, lengths, perShard, 16<<10))
		})
	}
}

func everyOrderAndCache(t *testing.T, d *dataset) {
	for _, name := range []string{shuffle.None, shuffle.Window, shuffle.Slot, shuffle.Full} {
		for _, cache := range []int64{200 << 10, 400 << 10, 8 << 20} {
			for _, ahead := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%dKiB/ahead=%v", name, cache>>10, ahead), func(t *testing.T) {
					p := newPath(t, Config{Budget: bud(cache), PartSize: 64 << 10, CheckSHA: true, NoPrefetch: !ahead})
					ctx, cancel := context.WithCancel(t.Context())
					var wg sync.WaitGroup
					wg.Go(func() { p.Run(ctx) })
					s := p.Open(d.index, d.store, "set/")
					plan := d.plan(t, name, 8)
					d.readEpoch(t, s, plan, 0, 40)
					d.readEpoch(t, s, plan, 1, 40)
					cancel()
					wg.Wait()
					if got := p.Stats().BudgetPeak; got > cache {
						t.Errorf("got a peak of %d bytes, want at most %d", got, cache)
					}
				})
			}
		}
	}
}
