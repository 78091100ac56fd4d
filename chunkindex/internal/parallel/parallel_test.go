package parallel_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/internal/parallel"
)

func TestEach_RunsEachItemOnce(t *testing.T) {
	for _, workers := range []int{1, 3, 100} {
		var done [50]atomic.Int32
		err := parallel.Each(t.Context(), workers, len(done), func(_ context.Context, worker, item int) error {
			if worker < 0 || worker >= workers {
				t.Errorf("got worker %d of %d", worker, workers)
			}
			done[item].Add(1)
			return nil
		})
		for item := range done {
			if n := done[item].Load(); err != nil || n != 1 {
				t.Errorf("%d workers: item %d was done %d times, %v", workers, item, n, err)
			}
		}
	}
}

func TestEach_EndsAtTheFirstError(t *testing.T) {
	want, done := errors.New("item 1 failed"), 0
	err := parallel.Each(t.Context(), 1, 50, func(ctx context.Context, _, item int) error {
		if done++; item == 1 {
			return want
		}
		return ctx.Err()
	})
	if !errors.Is(err, want) || done > 3 { // the next item may already be in progress
		t.Errorf("got %v after %d items, want %v", err, done, want)
	}
}
