package datapath

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// A call of Warm that ends early returns its error and the places that it took, and the next call
// loads the missing chunks.
func TestWarm_EndedEarlyGivesItsPlacesBack(t *testing.T) {
	d := newDataset(t, 340, same(40, 3000), 10, 1<<20) // four chunks
	gone := errors.New("the client has gone")
	trial := func(name string, total int64, body func(t *testing.T, p *Path, s *Source, warm func(ctx context.Context) error)) {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				defer d.store.SetFault(nil)
				p := newPath(t, Config{Budget: bud(total), NoPrefetch: true, Fetchers: 2})
				s := p.Open(d.index, d.store, "set/")
				plan := d.plan(t, shuffle.None, 0)
				warm := func(ctx context.Context) error {
					_, err := s.Warm(ctx, first(plan, 0, 10))
					synctest.Wait()
					return err
				}
				body(t, p, s, warm)
				p.idle(t, "ended early")
				d.store.SetFault(nil)
				if s.uses.closing.Err() != nil {
					return
				}
				time.Sleep(retryAhead)
				w, err := s.Warm(t.Context(), first(plan, 0, 10))
				must(t, err)
				for i := range d.index.Chunks() {
					if !s.Resident(i) && !w.Full {
						t.Errorf("got %+v without chunk %d", w, i)
					}
				}
				p.idle(t, "warmed")
			})
		})
	}
	for n := range 4 {
		trial("the store fails", 8<<20, func(t *testing.T, _ *Path, _ *Source, warm func(context.Context) error) {
			if !d.faultAt(t, n, memstore.Fault{Err: objstore.ErrDenied}, warm) {
				t.Errorf("got fewer than %d store reads", n+1)
			}
		})
		trial("the caller has gone", 8<<20, func(t *testing.T, _ *Path, _ *Source, warm func(context.Context) error) {
			ctx, leave := context.WithCancelCause(t.Context())
			d.faultAt(t, n, memstore.Fault{Before: func() { leave(gone) }, Stall: true, Err: gone}, func(context.Context) error { return warm(ctx) })
		})
	}
	trial("the caller had gone before", 8<<20, func(t *testing.T, _ *Path, _ *Source, warm func(context.Context) error) {
		ctx, leave := context.WithCancelCause(t.Context())
		if leave(gone); !errors.Is(warm(ctx), gone) || d.store.InFlight() != 0 {
			t.Error("got no error of a caller who has gone")
		}
	})
	trial("no place comes free", 8<<20, func(t *testing.T, p *Path, s *Source, _ func(context.Context) error) {
		for range 2 {
			must(t, p.gate.enter(t.Context(), s.store))
		}
		begun := time.Now()
		w, err := s.Warm(t.Context(), first(d.plan(t, shuffle.None, 0), 0, 10))
		if err != nil || time.Since(begun) != warmFor || w.Chunks != 0 || w.Full || w.Next != 0 {
			t.Errorf("got %+v, %v after %v; want nothing brought in %v, to go on from the first position", w, err, time.Since(begun), warmFor)
		}
		for range 2 {
			p.gate.leave(s.store)
		}
	})
	trial("no memory", 60<<10, func(t *testing.T, p *Path, s *Source, _ func(context.Context) error) {
		w, err := s.Warm(t.Context(), first(d.plan(t, shuffle.None, 0), 0, 10))
		if err != nil || w.Chunks != 1 || !w.Full || w.Next != 10 || w.Bytes != d.index.Chunk(0).Length {
			t.Errorf("got %+v, %v; want one chunk, full, to go on from position 10", w, err)
		}
	})
	trial("closed", 8<<20, func(t *testing.T, _ *Path, s *Source, warm func(context.Context) error) {
		d.store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Stall: true} })
		ended := make(chan error)
		go func() { ended <- warm(t.Context()) }()
		synctest.Wait()
		s.Close()
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("got %v, want %v", err, ErrClosed)
		}
	})
}

// The chunks of a leaving member are pulled while there is memory and a place, and as long as the
// member answers. Nothing else is kept.
func TestPull_EndedEarlyGivesItsPlacesBack(t *testing.T) {
	d := newDataset(t, 341, same(40, 3000), 10, 1<<20)
	for name, c := range map[string]struct {
		answer  answerScript
		before  func(t *testing.T, p *Path, s *Source) (after func())
		brought int
	}{
		"sent":        {sends, nil, 4},
		"wrong bytes": {sendsOthers, nil, 4}, // read from the store instead
		"silent":      {fails, nil, 4},       // likewise
		"no place": {sends, func(t *testing.T, p *Path, s *Source) func() {
			must(t, p.gate.enter(t.Context(), s.store))
			return func() { p.gate.leave(s.store) }
		}, 0},
		"no memory": {sends, func(t *testing.T, p *Path, _ *Source) func() {
			all, err := p.budget.Reserve(t.Context(), p.budget.Total())
			must(t, err)
			return all.Release
		}, 0},
		"memory for two": {sends, func(t *testing.T, p *Path, s *Source) func() {
			all, err := p.budget.Reserve(t.Context(), policy.Ahead(p.budget.Total())-2*s.Cost(0)-100)
			must(t, err)
			return all.Release
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				peers := &leaving{scripted{dataset: d, answers: map[string]answerScript{"a": func(ctx context.Context, s *scripted, q *peer.Query, dst [][]byte, _ Instead) error {
					return c.answer(ctx, s, q, dst, nil)
				}}}}
				p := newPath(t, Config{Budget: bud(8 << 20), Peers: peers, NoPrefetch: true, Fetchers: 1})
				s := p.Open(d.index, d.store, "set/")
				s.Share("set")
				held := peer.ChunkList{DatasetGeneration: peer.DatasetGeneration{Dataset: "set", Generation: d.index.Generation()}, Chunks: []uint32{0, 1, 2, 3, 99}}
				after := func() {}
				if c.before != nil {
					after = c.before(t, p, s)
				}
				ctx, leave := context.WithTimeout(t.Context(), time.Minute)
				defer leave()
				p.Pull(ctx, "a", held)
				synctest.Wait()
				after()
				brought := 0
				for i := range d.index.Chunks() {
					if s.Resident(i) {
						brought++
					}
				}
				if brought != c.brought {
					t.Errorf("got %d chunks, want %d", brought, c.brought)
				}
				p.idle(t, "pulled")
				p.Pull(ctx, "a", peer.ChunkList{DatasetGeneration: peer.DatasetGeneration{Dataset: "other"}})
				p.idle(t, "another dataset")
			})
		})
	}
}

// leaving is a cluster whose member a held all chunks before they moved to this gateway.
type leaving struct{ scripted }

func (*leaving) Owner(peer.Chunk, ...string) string { return "" }
func (*leaving) Former(peer.Chunk) string           { return "a" }
