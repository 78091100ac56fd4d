package chunkcache

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// TestStart_ReportsLoadsToWaiters checks that each load a request waits for is reported to the
// request once, including loads of other requests. The order in which the loads end does not
// matter, and requests that give up get reports too.
func TestStart_ReportsLoadsToWaiters(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _ := newCache(t, 1<<20)
		asks := func(told *[]int, keys ...int) asking {
			a := asking{Request: Request[int]{
				Told: func(load any) { *told = append(*told, load.(int)) },
				Load: func(ctx context.Context, fills []*Fill[int]) error {
					key := fills[0].Key()
					fills[0].Say(key)
					time.Sleep(time.Duration(10-key) * time.Second) // the first chunk arrives last
					return load(ctx, fills)
				},
			}}
			for _, k := range keys {
				a.Wants = append(a.Wants, Chunk[int]{Key: k, Size: 1000})
			}
			return a
		}
		var first, second, hurried, late []int
		var running sync.WaitGroup
		ask := func(told *[]int, wait time.Duration, keys ...int) {
			running.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				defer cancel()
				l, err := acquire(ctx, c, asks(told, keys...))
				if err == nil {
					l.Close()
				} else if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		ask(&first, time.Minute, 1, 2, 3)
		ask(&second, time.Minute, 2, 4)
		ask(&hurried, time.Second, 1)
		running.Wait()
		ask(&late, time.Minute, 1, 2)
		running.Wait()
		for got, want := range map[*[]int][]int{&first: {1, 2, 3}, &second: {2, 4}, &hurried: {1}, &late: nil} {
			if !slices.Equal(*got, want) {
				t.Errorf("told of loads %v, want %v", *got, want)
			}
		}
	})
}
