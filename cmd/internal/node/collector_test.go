package node

import (
	"context"
	"runtime"
	"testing"
)

func TestCollectAt(t *testing.T) {
	for alive, want := range map[uint64]int{
		0: 800, 1 << 20: 800, 4 << 20: 300, 12 << 20: 100, 64 << 20: 25, 1 << 40: 25,
	} {
		if got := collectAt(alive); got != want {
			t.Errorf("got %d %% for %d bytes alive, want %d %%", got, alive, want)
		}
	}
}

// TestCollections_SendsTokenAfterEach runs the collector until a token arrives, three times in a
// row.
func TestCollections_SendsTokenAfterEach(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{}, 1)
	collections(ctx, ended)
	for n := range 3 {
		noticed := false
		for try := 0; try < 1000 && !noticed; try++ {
			runtime.GC()
			runtime.Gosched() // lets another goroutine run the cleanups
			select {
			case <-ended:
				noticed = true
			default:
			}
		}
		if !noticed {
			t.Fatalf("got no token in 1000 collections after %d tokens, want one", n)
		}
	}
}
