package datapath

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// way is one method of reading the bytes of a dataset.
type way struct {
	name   string
	form   string
	budget int64 // 0: plenty
	full   error // the error if there is no memory
	read   func(ctx context.Context, p *Path, s *Source, d *dataset, chunks []batch.ChunkRanges) (*batch.Body, error)
}

func ways() []way {
	plain := func(ctx context.Context, _ *Path, s *Source, _ *dataset, chunks []batch.ChunkRanges) (*batch.Body, error) {
		return s.Read(ctx, shuffle.Cursor{}, chunks)
	}
	planned := func(ctx context.Context, _ *Path, s *Source, d *dataset, chunks []batch.ChunkRanges) (*batch.Body, error) {
		plan, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.None}, d.index.First())
		if err != nil {
			return nil, err
		}
		return s.Read(ctx, shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: 20, BatchSize: 20}, chunks)
	}
	mixed := func(ctx context.Context, p *Path, s *Source, d *dataset, chunks []batch.ChunkRanges) (*batch.Body, error) {
		other := p.Open(d.index, d.store, "set/")
		defer other.Close()
		body, err := Mix([]*Path{p}, []Part{{"a", other}, {"b", s}}).Read(ctx, shuffle.Cursor{}, shifted(chunks, d.index.Chunks()))
		if err == nil {
			err = d.compare(chunks, body)
			body.Close()
		}
		if err != nil {
			return nil, err
		}
		return s.Read(ctx, shuffle.Cursor{}, chunks)
	}
	answered := func(ctx context.Context, p *Path, _ *Source, d *dataset, chunks []batch.ChunkRanges) (*batch.Body, error) {
		return p.answer(ctx, d.query(chunks))
	}
	return []way{
		{"samples by range", tars, 0, budget.ErrOverloaded, plain},
		{"whole chunks", tars, 0, budget.ErrOverloaded, planned},
		{"objects", objects, 0, budget.ErrOverloaded, planned},
		{"compressed chunks", gzips, 0, budget.ErrOverloaded, planned},
		{"compressed chunks that find no room", gzips, 88 << 10, budget.ErrOverloaded, planned},
		{"a mixture", tars, 0, budget.ErrOverloaded, mixed},
		{"answers to a peer", tars, 0, peer.ErrNoRoom, answered},
	}
}

// shifted renumbers chunks so that they follow those of another source.
func shifted(chunks []batch.ChunkRanges, by int) []batch.ChunkRanges {
	out := make([]batch.ChunkRanges, len(chunks))
	for i, c := range chunks {
		out[i] = batch.ChunkRanges{Chunk: c.Chunk + by, Ranges: c.Ranges}
	}
	return out
}

// If any of its store reads fails, a read returns the reason, releases all that it took, and
// succeeds the next time.
func TestReads_RefusedGiveBackAllTheyTook(t *testing.T) {
	for _, w := range ways() {
		d := newDatasetOf(t, w.form, 300, same(40, 3000), 10, 16<<10)
		chunks := d.ranges(t, []uint64{1, 12, 33})
		trial := func(name string, body func(t *testing.T, p *Path, read func(ctx context.Context) error)) {
			t.Run(w.name+"/"+name, func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					total := w.budget
					if total == 0 {
						total = 8 << 20
					}
					p := newPath(t, Config{Budget: bud(total), NoPrefetch: true, Peers: alone{}})
					s := p.Open(d.index, d.store, "set/")
					s.Share("set")
					defer s.Close()
					defer d.store.SetFault(nil)
					read := func(ctx context.Context) error {
						got, err := w.read(ctx, p, s, d, chunks)
						if err == nil {
							err = d.check(chunks, got)
							got.Close()
						}
						synctest.Wait() // wait until abandoned loads have ended
						return err
					}
					body(t, p, read)
					p.idle(t, "refused")
					d.store.SetFault(nil)
					time.Sleep(retryAhead)
					must(t, read(t.Context()))
					p.idle(t, "read")
				})
			})
		}
		gone := errors.New("the client has gone")
		trial("ended before", func(t *testing.T, _ *Path, read func(context.Context) error) {
			ctx, leave := context.WithCancelCause(t.Context())
			leave(gone)
			if err := read(ctx); !errors.Is(err, gone) {
				t.Errorf("got %v, want %v", err, gone)
			}
		})
		trial("no memory", func(t *testing.T, p *Path, read func(context.Context) error) {
			all, err := p.budget.Reserve(t.Context(), p.budget.Total()-p.budget.InUse())
			must(t, err)
			defer all.Release()
			if err := read(t.Context()); !errors.Is(err, w.full) {
				t.Errorf("got %v, want %v", err, w.full)
			}
		})
		for n, reached := 0, true; reached; n++ {
			trial(fmt.Sprintf("store read %d fails", n), func(t *testing.T, _ *Path, read func(context.Context) error) {
				if reached = d.faultAt(t, n, memstore.Fault{Err: objstore.ErrDenied}, read); !reached {
					return
				}
			})
			trial(fmt.Sprintf("gone at store read %d", n), func(t *testing.T, _ *Path, read func(context.Context) error) {
				ctx, leave := context.WithCancelCause(t.Context())
				d.faultAt(t, n, memstore.Fault{Before: func() { leave(gone) }, Stall: true, Err: gone}, func(context.Context) error { return read(ctx) })
			})
		}
	}
}

// faultAt calls read and lets its n-th store read fail. It reports whether read made that many
// store reads. read must then return the fault's error.
func (d *dataset) faultAt(t *testing.T, n int, fault memstore.Fault, read func(context.Context) error) (reached bool) {
	t.Helper()
	calls := 0
	d.store.SetFault(func(memstore.Call) memstore.Fault {
		if calls++; calls == n+1 {
			reached = true
			return fault
		}
		return memstore.Fault{}
	})
	if err := read(t.Context()); reached && !errors.Is(err, fault.Err) || !reached && err != nil {
		t.Errorf("store read %d: got %v, want %v", n, err, fault.Err)
	}
	return reached
}
