package datapath

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/seeds"
	"github.com/millrace-data/millrace/shuffle"
)

// Ranks and readers without a plan read the same samples at three gateways, which are slow, send
// wrong bytes, and leave and join. Each reader gets the stored bytes or an error of its own read,
// and nothing stays pinned.
func TestExtracts_FleetStorm(t *testing.T) {
	lengths := make([]int, 120)
	for i := range lengths {
		lengths[i] = i * 531 % 15000
	}
	d := newDataset(t, 1, lengths, 30, 64<<10)
	from, to, _ := seeds.Range(t, 20, 2000)
	ended := map[string]int{}
	var sum Stats
	for seed := from; seed < to; seed++ {
		bubble.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			d.store.SetFault(script(rnd.Uint64(), rnd.IntN(3)))
			defer d.store.SetFault(nil)
			plan := d.plan(t, []string{shuffle.Window, shuffle.Slot, shuffle.None}[rnd.IntN(3)], 1+rnd.Uint64N(12))
			f := newFleet(t, d, plan, 3, Config{NoPrefetch: rnd.IntN(2) == 0, Fetchers: 1 + rnd.IntN(5)}, 128<<10<<rnd.IntN(6))
			for _, m := range f.members {
				m.breaks(m.storms(rand.New(rand.NewPCG(rnd.Uint64(), 102))))
			}
			var mu sync.Mutex
			var readers sync.WaitGroup
			for range 3 + rnd.IntN(8) {
				own := rand.New(rand.NewPCG(rnd.Uint64(), 32))
				m := f.members[own.IntN(2)]
				first := own.Uint64N(4) * 8
				planned := own.IntN(2) == 0
				rank := own.Uint64N(2)
				readers.Go(func() {
					for k := range uint64(1 + own.IntN(8)) {
						time.Sleep(time.Duration(own.IntN(20)) * time.Millisecond)
						limit := time.Duration(1+own.IntN(4000)) * time.Millisecond
						ctx, cancel := context.WithTimeout(t.Context(), limit)
						stop := func() bool { return true }
						if own.IntN(4) == 0 {
							stop = time.AfterFunc(time.Duration(own.IntN(30))*time.Millisecond, cancel).Stop
						}
						var at shuffle.Cursor
						var samples []uint64
						if planned {
							e := plan.Epoch(0)
							at = shuffle.Cursor{Plan: plan, Epoch: e, First: first + k*8, End: first + k*8 + 8, BatchSize: 8, Rank: rank, WorldSize: 2}
							if at.End > 120 {
								cancel()
								break
							}
							samples = e.Append(nil, at.First+rank*4, at.First+rank*4+4)
						} else {
							samples = make([]uint64, 1+own.IntN(6))
							for k := range samples {
								samples[k] = own.Uint64N(12) * (1 + 9*own.Uint64N(2))
							}
						}
						chunks := hotBatch(t, d, samples, 60)
						begun := time.Now()
						body, err := m.source.Read(ctx, at, chunks)
						if took := time.Since(begun); took > limit+time.Second {
							t.Errorf("limit %v took %v: %v", limit, took, err)
						}
						kind := "bytes"
						if err != nil {
							kind = readEnd(ctx, t, err)
						} else {
							time.Sleep(time.Duration(own.IntN(40)) * time.Millisecond)
							if err := d.check(chunks, body); err != nil {
								t.Error(err)
							}
							time.Sleep(time.Duration(own.IntN(40)) * time.Millisecond)
							for _, tier := range body.Tiers {
								if tier.Bytes < 0 {
									t.Errorf("tier %+v of %+v", tier, body.Tiers)
								}
							}
							body.Close()
						}
						mu.Lock()
						ended[kind]++
						mu.Unlock()
						stop()
						cancel()
					}
				})
			}
			readers.Wait()
			time.Sleep(15 * time.Second)
			synctest.Wait()
			for _, m := range f.members {
				p := m.path
				held := 0
				p.hot.mu.Lock()
				kept := append([]*extract(nil), p.hot.kept...)
				p.hot.mu.Unlock()
				p.ahead.mu.Lock()
				for _, r := range p.ahead.ranks {
					for _, n := range r.Runs() {
						if n.Came.extract != nil {
							kept = append(kept, n.Came.extract)
						}
					}
				}
				p.ahead.mu.Unlock()
				for _, e := range kept {
					held += len(e.samples)
					if e.pins != 1 {
						t.Errorf("extract has %d pins", e.pins)
					}
				}
				if n := p.extracted(); int(n) > held {
					t.Errorf("%d samples found, %d kept", n, held)
				}
				s := p.Stats()
				sum.CarriedHits += s.CarriedHits
				sum.HotHits += s.HotHits
				sum.PeerReads += s.PeerReads
			}
		})
		if t.Failed() {
			t.Fatalf("storm %d", seed)
		}
	}
	t.Log(ended, sum.CarriedHits, sum.HotHits, sum.PeerReads)
}
