//go:build !race

package simulate

import (
	"testing"

	"github.com/millrace-data/millrace/shuffle"
)

// readsOf returns the chunks that each gateway needs in an epoch, from the shares of its ranks.
func readsOf(d *Data, plan *shuffle.Plan, batchSize, ranks, homes uint64, gateways int) map[[2]int]bool {
	reads := map[[2]int]bool{}
	e := plan.Epoch(3)
	batching := shuffle.Batching{Samples: plan.Samples(), BatchSize: batchSize, Tail: shuffle.Short}
	for b := range batching.Batches() {
		batch := batching.Share(b, 0, 1)
		all := e.AppendShare(nil, batch)
		for rank := range ranks {
			for _, place := range e.DealHomes(batch, rank, ranks, homes) {
				reads[[2]int{GatewayOf(rank, ranks, gateways), int(d.chunkOf(all[place]))}] = true
			}
		}
	}
	return reads
}

// TestTakeOver_AgreesWithShares checks that the predicted additional reads equal the chunks that
// the shares of a real epoch need from gateways that did not need them before.
func TestTakeOver_AgreesWithShares(t *testing.T) {
	d := uniform(t, 128*64, 64, 4096)
	for _, order := range []shuffle.Params{{Shuffle: shuffle.Slot, Window: 32, Seed: 1}, {Shuffle: shuffle.Slot, Window: 48, Seed: 2}} {
		plan, err := shuffle.NewPlan(order, d.First)
		if err != nil {
			t.Fatal(err)
		}
		batch := order.Window * 8
		for _, c := range []struct {
			ranks, homes  uint64
			before, after int
		}{{8, 4, 4, 3}, {8, 4, 4, 5}, {8, 4, 4, 8}, {8, 4, 4, 1}, {8, 4, 3, 4}, {8, 8, 4, 6}, {8, 2, 2, 2}} {
			was, is := readsOf(d, plan, batch, c.ranks, c.homes, c.before), readsOf(d, plan, batch, c.ranks, c.homes, c.after)
			want := Takeover{}
			for pair := range is {
				if !was[pair] {
					want.Chunks++
					want.Bytes += d.Chunks[pair[1]].Length
				}
			}
			if got := d.TakeOver(plan, c.ranks, c.homes, c.before, c.after); got != want || (c.before != c.after) == (got.Chunks == 0) {
				t.Errorf("%v %+v: got %+v, want %+v", order, c, got, want)
			}
		}
	}
}
