package datapath

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/shuffle"
)

// Memory is mapped before the first reader arrives, no more than the chunks need, and the chunks
// are loaded into it.
func TestMemoryIsMappedBeforeTheFirstReader(t *testing.T) {
	d := newDataset(t, 30, same(40, 30000), 10, 1<<20) // four chunks of about 300 KB
	bubble.Test(t, func(t *testing.T) {
		p := newPath(t, Config{Budget: bud(8 << 20)})
		s := p.Open(d.index, d.store, "set/")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { p.Run(ctx) })
		synctest.Wait()
		mapped := p.Stats().BudgetInUse
		if data := d.index.Bytes(); mapped < data || mapped > data*5/4 {
			t.Errorf("got %d bytes mapped for chunks of %d bytes, want a little more than those", mapped, data)
		}
		d.readEpoch(t, s, d.plan(t, shuffle.Window, 2), 0, 8)
		if got := p.Stats(); got.BudgetInUse != mapped || got.CachedChunks != 4 {
			t.Errorf("got %d bytes in use for %d chunks, want %d for 4", got.BudgetInUse, got.CachedChunks, mapped)
		}
		cancel()
		wg.Wait()
	})
}

// Chunks too small to be mapped do not prevent others from being mapped.
func TestMemoryIsMappedBehindSmallChunks(t *testing.T) {
	d := newDataset(t, 32, append(same(10, 500), same(30, 30000)...), 10, 1<<20) // one chunk of about 10 KB, and three of 300 KB
	bubble.Test(t, func(t *testing.T) {
		p := newPath(t, Config{Budget: bud(8 << 20)})
		p.Open(d.index, d.store, "set/")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { p.Run(ctx) })
		synctest.Wait()
		if got, want := p.Stats().BudgetInUse, int64(3*300_000); got < want {
			t.Errorf("got %d bytes mapped, want %d at least", got, want)
		}
		cancel()
		wg.Wait()
	})
}

// A cache smaller than the dataset leaves room for bodies.
func TestMappedMemoryLeavesRoom(t *testing.T) {
	d := newDataset(t, 31, same(100, 30000), 10, 1<<20)
	bubble.Test(t, func(t *testing.T) {
		p := newPath(t, Config{Budget: bud(2 << 20)})
		p.Open(d.index, d.store, "set/")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { p.Run(ctx) })
		synctest.Wait()
		if got := p.Stats().BudgetInUse; got == 0 || got > policy.Ahead(2<<20) {
			t.Errorf("got %d bytes mapped, want some and at most %d", got, policy.Ahead(2<<20))
		}
		cancel()
		wg.Wait()
	})
}
