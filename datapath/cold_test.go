//go:build !race

package datapath

import (
	"testing"

	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/shuffle"
)

// One reader of a cold epoch uses nearly the whole bandwidth of the store. The epoch is long, so
// that its last chunk hardly counts, during which nothing else is left to read.
func TestColdEpochKeepsTheLineFull(t *testing.T) {
	d := newDataset(t, 40, same(64*288, 3000), 72*8, 256<<10) // 288 chunks of slightly less than 256 KiB
	for name, window := range map[string]uint64{shuffle.None: 0, shuffle.Window: 4, shuffle.Slot: 16} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				store := distant(d)
				all := make([]int, d.index.Chunks())
				for i := range all {
					all[i] = i
				}
				straight := d.download(t, store, all, 16)
				ours := d.firstBatches(t, store, d.plan(t, name, window), 1, d.index.Samples())
				if least := 0.98; float64(straight)/float64(ours) < least {
					t.Errorf("got an epoch in %v, a straight download takes %v: want at least %.2f of its rate", ours, straight, least)
				}
			})
		})
	}
}
