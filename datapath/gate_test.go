package datapath

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// A store that hangs delays only its own reads. A second store gets half as many places in
// addition, and a third store a third as many.
func TestStoresShareThePlaces(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := &gate{limit: 12, idle: func() {}}
		var mu sync.Mutex // guards the variables below
		running := map[string]int{}
		ctx, cancel := context.WithCancel(t.Context())
		enter := func(store string) {
			go func() {
				if g.enter(ctx, store) == nil {
					mu.Lock()
					defer mu.Unlock()
					running[store]++
				}
			}()
			synctest.Wait()
		}
		want := func(when, store string, n int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if running[store] != n {
				t.Errorf("%s: got %d reads of the store %q under way, want %d", when, running[store], store, n)
			}
		}
		for range 20 {
			enter("hangs")
		}
		want("alone", "hangs", 12)
		for range 10 {
			enter("works")
		}
		want("with a store that hangs", "works", 6)
		for range 10 {
			enter("third")
		}
		want("with two other stores", "third", 4)
		for range 4 {
			g.leave("works")
		}
		want("after reads that ended", "works", 8) // the share of each of three stores is four places now
		g.leave("works")
		want("after one more", "works", 9)
		want("meanwhile", "hangs", 12)
		cancel()
		synctest.Wait()
		for _, store := range []string{"hangs", "works", "third"} {
			for range running[store] - map[string]int{"works": 5}[store] {
				g.leave(store)
			}
		}
		if g.demand != 0 || len(g.queue) != 0 || len(g.stores) != 0 {
			t.Errorf("got %d places taken, %d reads waiting and %d stores in the end, want none", g.demand, len(g.queue), len(g.stores))
		}
	})
}

// TestGate_GivesBackPlaceGrantedAsContextEnds lets the context of a waiting read end, and then
// grants it a place. The read returns the context's error, and its place is free for others: the
// gate calls idle.
func TestGate_GivesBackPlaceGrantedAsContextEnds(t *testing.T) {
	for name, wait := range map[string]func(g *gate, ctx context.Context) error{
		"request": func(g *gate, ctx context.Context) error { return g.enter(ctx, "store") },
		"warm":    (*gate).enterWarm,
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				told := false
				g := &gate{limit: 1, idle: func() { told = true }}
				must(t, g.enter(t.Context(), "store"))
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- wait(g, ctx) }()
				synctest.Wait()
				g.mu.Lock() // when cancel returns, the waiting read has left its select and waits for mu
				cancel()
				g.demand--
				g.count("store", share{running: -1})
				g.admit()
				g.mu.Unlock()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want the error of the context", err)
				}
				if g.demand+g.ahead+g.warm != 0 || len(g.stores) != 0 {
					t.Errorf("got %d places of requests, %d of reads ahead, %d of those that warm and %d stores, want none", g.demand, g.ahead, g.warm, len(g.stores))
				}
				if !told {
					t.Error("idle was not called for the free place")
				}
			})
		})
	}
}

// When the last read of a store ends, its place goes to a waiting read of the same store, although
// a store that hangs holds all other places.
func TestGate_PassesShareOn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := &gate{limit: 1, idle: func() {}}
		must(t, g.enter(t.Context(), "hangs"))
		must(t, g.enter(t.Context(), "works"))
		got := make(chan error, 1)
		go func() { got <- g.enter(t.Context(), "works") }()
		synctest.Wait()
		g.leave("works")
		synctest.Wait()
		select {
		case err := <-got:
			must(t, err)
		default:
			t.Fatal("a read of a store that works waits for a store that hangs")
		}
		g.leave("works")
		g.leave("hangs")
	})
}

// hangs is a store that never answers.
type hangs struct{}

func (hangs) ReadRange(ctx context.Context, _ objstore.Ref, _ int64, _ ...[]byte) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// Requests for a dataset are answered while hanging reads of another store hold all places.
func TestGate_HangingStoreKeepsOnlyItsShare(t *testing.T) {
	d := unevenChunks(t, 100)
	bubble.Test(t, func(t *testing.T) {
		x := d.trialOf(t, 240, Config{Fetchers: 4})
		read := func(ctx context.Context, s *Source) error {
			buf := make([]byte, d.index.Chunk(0).Length)
			return s.read(ctx, []*portion{s.whole(0, buf, nil)}, int64(len(buf)), nil)
		}
		ctx, cancel := context.WithCancel(t.Context())
		other := x.path.Open(d.index, hangs{}, "set/")
		ended := make(chan error, 6)
		for range cap(ended) {
			go func() { ended <- read(ctx, other) }()
		}
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- read(t.Context(), x.source) }()
		synctest.Wait()
		select {
		case err := <-done:
			must(t, err)
		default:
			t.Error("a read waits for reads of another store that hangs")
		}
		cancel()
		for range cap(ended) {
			<-ended
		}
		other.Close()
		x.stop()
	})
}
