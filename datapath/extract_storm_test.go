package datapath

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/seeds"
	"github.com/millrace-data/millrace/shuffle"
)

// Mixtures over two paths share samples, including hot and empty ones, with stores that fail, send
// wrong bytes and are slow. By its deadline each read gets the stored bytes or an error of its own,
// and nothing stays pinned.
func TestExtracts_MixedStorm(t *testing.T) {
	lengths := make([]int, 120)
	for i := range lengths {
		lengths[i] = i * 531 % 15000
	}
	a := newDataset(t, 1, lengths, 30, 32<<10)
	b := newDatasetOf(t, gzips, 2, lengths, 30, 32<<10)
	c := newDataset(t, 3, lengths, 30, 512<<10)
	sets := []*dataset{a, b, c}
	from, to, _ := seeds.Range(t, 20, 2000)
	ended := map[string]int{}
	hits := uint64(0)
	for seed := from; seed < to; seed++ {
		bubble.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 5))
			for _, d := range sets {
				d.store.SetFault(script(rnd.Uint64(), rnd.IntN(3)))
				defer d.store.SetFault(nil)
			}
			var paths []*Path
			for range 2 {
				paths = append(paths, newPath(t, Config{NoPrefetch: rnd.IntN(2) == 0, Budget: budget.New(int64(500<<10<<rnd.IntN(5)), 2*time.Second), Fetchers: 1 + rnd.IntN(5)}))
			}
			src := []*Source{paths[0].Open(a.index, a.store, "set/"), paths[0].Open(b.index, b.store, "set/"), paths[1].Open(c.index, c.store, "set/")}
			m := Mix(paths, []Part{{"a", src[0]}, {"b", src[1]}, {"c", src[2]}})
			var mu sync.Mutex
			var readers sync.WaitGroup
			for range 2 + rnd.IntN(7) {
				own := rand.New(rand.NewPCG(rnd.Uint64(), 32))
				readers.Go(func() {
					for range 1 + own.IntN(5) {
						time.Sleep(time.Duration(own.IntN(20)) * time.Millisecond)
						limit := time.Duration(1+own.IntN(4000)) * time.Millisecond
						ctx, cancel := context.WithTimeout(t.Context(), limit)
						stop := func() bool { return true }
						if own.IntN(3) == 0 {
							stop = time.AfterFunc(time.Duration(own.IntN(30))*time.Millisecond, cancel).Stop
						}
						var all []batch.ChunkRanges
						before, seq := 0, 0
						type w struct {
							d *dataset
							c int
							r batch.Range
						}
						var want []w
						for i, d := range sets {
							if own.IntN(3) > 0 {
								samples := make([]uint64, 1+own.IntN(6))
								for k := range samples {
									samples[k] = own.Uint64N(12) * (1 + 9*own.Uint64N(2))
								}
								for _, ch := range d.ranges(t, samples) {
									ch.Ranges = slices.Clone(ch.Ranges)
									for k := range ch.Ranges {
										ch.Ranges[k].Seq += seq
										ch.Ranges[k].Hot = own.IntN(2) == 0
										if own.IntN(10) == 0 {
											ch.Ranges[k].Length = 0
											ch.Ranges[k].CRC32C = 0
										}
										want = append(want, w{d, ch.Chunk, ch.Ranges[k]})
									}
									ch.Chunk += before
									all = append(all, ch)
								}
								seq += len(samples)
							}
							before += src[i].index.Chunks()
						}
						if seq == 0 {
							cancel()
							continue
						}
						begun := time.Now()
						body, err := m.Read(ctx, shuffle.Cursor{}, all)
						if took := time.Since(begun); took > limit+time.Second {
							t.Errorf("limit %v took %v: %v", limit, took, err)
						}
						kind := "bytes"
						if err != nil {
							kind = readEnd(ctx, t, err)
						} else {
							for _, settled := range []bool{false, true, true} {
								for _, x := range want {
									if got := body.Segments[x.r.Seq]; string(got) != string(x.d.stored(x.c, x.r)) {
										t.Errorf("segment %d: other bytes", x.r.Seq)
									}
								}
								time.Sleep(time.Duration(own.IntN(40)) * time.Millisecond)
								if settled {
									body.Settle()
								}
							}
							var sum int64
							for _, tier := range body.Tiers {
								if tier.Bytes < 0 {
									t.Errorf("tier %+v", tier)
								}
								sum += tier.Bytes
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
			synctest.Wait()
			for _, p := range paths {
				hits += p.hot.hits.Load()
				p.idle(t, "read")
				held := 0
				for _, e := range p.hot.kept {
					held += len(e.samples)
					if e.pins != 1 {
						t.Errorf("hot extract has %d pins", e.pins)
					}
				}
				if n := p.extracted(); int(n) > held {
					t.Errorf("%d samples found, %d hot", n, held)
				}
				if n := p.budget.Pinned(); n != 0 && n != chunkcache.Cost(p.decoding.size.Load()) {
					t.Errorf("%d pinned", n)
				}
			}
			for _, s := range src {
				if rnd.IntN(2) == 0 {
					s.Close()
				}
			}
		})
		if t.Failed() {
			t.Fatalf("storm %d", seed)
		}
	}
	t.Log(ended, hits)
}
