package datapath

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// However a wait for decoding memory ends, the next batch gets its turn.
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

// TestDecoding_KeepsMemoryOfItsSize checks that the size of the decoding memory follows the largest
// open dataset. If there is no memory for a larger size, the smaller one stays.
func TestDecoding_KeepsMemoryOfItsSize(t *testing.T) {
	const page = 128 << 10
	p := newPath(t, Config{Budget: bud(8 << 20)})
	d := p.decoding
	steps := []struct {
		size int64
		full bool // all other memory is in use
		want int64
	}{{page, false, page}, {page, true, page}, {4 * page, true, page}, {4 * page, false, 4 * page}, {2 * page, true, 2 * page}, {2 * page, false, 2 * page}, {0, false, 0}, {page, true, 0}}
	for i, c := range steps {
		p.cache.Reclaim(p.budget.Total(), chunkcache.AnyDue)
		var all *budget.Reservation
		if c.full {
			var err error
			all, err = p.budget.Reserve(t.Context(), p.budget.Total()-p.budget.InUse())
			must(t, err)
		}
		d.size.Store(c.size)
		d.grow()
		kept := <-d.kept
		var got int64
		if kept != nil {
			got = int64(len(kept.Bytes()))
		}
		d.kept <- kept
		if got != c.want {
			t.Errorf("step %d: got %d bytes kept, want %d", i, got, c.want)
		}
		if all != nil {
			all.Release()
		}
	}
}

// TestDecoding_ErrorNamesMissingBytes checks the error for a chunk without memory to decode in: it
// contains the size.
func TestDecoding_ErrorNamesMissingBytes(t *testing.T) {
	p := newPath(t, Config{Budget: bud(1 << 20)})
	all, err := p.budget.Reserve(t.Context(), 1<<20)
	must(t, err)
	defer all.Release()
	_, _, err = p.decoding.enter(t.Context(), 12345)
	if want := fmt.Sprintf("decode a chunk of 12345 bytes, stored and decoded: %v", budget.ErrOverloaded); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
