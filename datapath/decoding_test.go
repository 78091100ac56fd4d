package datapath

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/millrace-data/millrace/internal/bubble"
	"github.com/millrace-data/millrace/internal/budget"
)

// However a wait for memory to decode in ends, the turn is there for the next batch.
func TestDecoding_GivesTheTurnBack(t *testing.T) {
	const small, large = 4 << 10, 64 << 10
	bubble.Test(t, func(t *testing.T) {
		p := newPath(t, Config{Budget: bud(1 << 20)})
		d := p.decoding
		d.size.Store(small)
		d.grow()
		all, err := p.budget.Reserve(t.Context(), p.budget.Total()-p.budget.InUse())
		must(t, err)
		for range 2 {
			if _, _, err := d.enter(t.Context(), large); !errors.Is(err, budget.ErrOverloaded) {
				t.Fatalf("more bytes than are kept: got %v, want %v", err, budget.ErrOverloaded)
			}
		}
		work, leave, err := d.enter(t.Context(), small)
		must(t, err)
		if len(work) != small {
			t.Errorf("got %d bytes to decode in, want %d", len(work), small)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := errors.New("ended")
		waits := make(chan error, 1)
		go func() {
			_, _, err := d.enter(ctx, small)
			waits <- err
		}()
		synctest.Wait()
		cancel(ended)
		if err := <-waits; !errors.Is(err, ended) {
			t.Errorf("waited until the context ended: got %v, want its cause", err)
		}
		leave()
		_, leave, err = d.enter(t.Context(), small)
		must(t, err)
		d.size.Store(0) // the last compressed dataset is closed meanwhile
		leave()
		all.Release()
		if got := p.budget.InUse(); got > p.cache.Free() {
			t.Errorf("got %d bytes in use when no dataset is compressed, want those of %d free slots", got, p.cache.Free())
		}
	})
}
