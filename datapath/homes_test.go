//go:build !race

package datapath

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/shuffle"
)

// Without a cluster, several gateways together read each byte from the store once if samples are
// shared by homes, with one home per gateway. Each gateway prefetches and keeps the chunks at home
// with its ranks, and reads nothing again in the next epoch. Some samples move between homes,
// because the ranks do not divide evenly among them. These are read by their ranges.
func TestPlainGatewaysReadTheStoreOnce(t *testing.T) {
	const gateways, batch = 4, 256
	d := newDataset(t, 70, same(400*16, 1500), 1600, 31<<10)
	chunks := int64(d.index.Chunks())
	if chunks < 300 { // each border between homes may split a chunk, which two gateways then read
		t.Fatalf("got %d chunks, want at least 300", chunks)
	}
	var size int64
	for c := range d.index.Chunks() {
		size += d.index.Chunk(c).Stored
	}
	for _, ranks := range []uint64{4, 6, 32} {
		for _, share := range []int64{25, 400} { // percentage of the data that each gateway may keep for readers
			t.Run(fmt.Sprintf("%d ranks, memory %d%%", ranks, share), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					d.store.SetFault(slow(5 * time.Millisecond))
					defer d.store.SetFault(nil)
					plan := d.plan(t, shuffle.Slot, 64)
					moved := plan.Moved(shuffle.Batching{Samples: plan.Samples(), BatchSize: batch}, ranks, gateways)
					read := d.sharedByHomes(t, plan, ranks, gateways, batch, d.room(chunks*share/100))
					for epoch, most := range []float64{1.01 + moved, .005 + moved} {
						got := float64(read[epoch]) / float64(size)
						t.Logf("epoch %d: %.4f of the data read, %.4f of the samples move", epoch, got, moved)
						if got > most {
							t.Errorf("epoch %d: got %.3f of the data read from the store, want at most %.3f", epoch, got, most)
						}
					}
				})
			})
		}
	}
}

// sharedByHomes reads two epochs with each rank at the gateway of its group. It returns the number
// of bytes that the store sent in each epoch.
func (d *dataset) sharedByHomes(t *testing.T, plan *shuffle.Plan, ranks, gateways, batch uint64, memory int64) (read [2]int64) {
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	sources := make([]*Source, gateways)
	for i := range sources {
		p := newPath(t, Config{Budget: bud(memory)})
		sources[i] = p.Open(d.index, d.store, "set/")
		run.Go(func() { _ = p.Run(ctx) })
	}
	before := d.store.Stats().BytesRead
	for epoch := range read {
		e := plan.Epoch(uint64(epoch))
		var readers sync.WaitGroup
		for rank := range ranks {
			readers.Go(func() { d.readHome(t, sources[rank*gateways/ranks], plan, e, rank, ranks, gateways, batch) })
		}
		readers.Wait()
		after := d.store.Stats().BytesRead
		read[epoch], before = after-before, after
	}
	stop()
	run.Wait()
	return read
}

// readHome reads the shares of one rank in an epoch.
func (d *dataset) readHome(t *testing.T, s *Source, plan *shuffle.Plan, e *shuffle.Epoch, rank, ranks, homes, batch uint64) {
	for first := uint64(0); first < plan.Samples(); first += batch {
		all := shuffle.Share{First: first, Count: min(batch, plan.Samples()-first)}
		var samples []uint64
		for _, place := range e.DealHomes(all, rank, ranks, homes) {
			samples = append(samples, e.At(first+uint64(place)))
		}
		if len(samples) > 0 {
			chunks := d.ranges(t, samples)
			at := shuffle.Cursor{
				Plan: plan, Epoch: e, First: first, End: first + all.Count, BatchSize: batch,
				Rank: rank, WorldSize: ranks, Sharing: shuffle.Locality, Homes: homes,
			}
			body, err := s.Read(t.Context(), at, chunks)
			must(t, err)
			must(t, d.check(chunks, body))
			body.Close()
		}
		time.Sleep(20 * time.Millisecond) // fake time
	}
}
