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

// TestCollectionsAreNoticed collects until that is noticed, three times: what is alive is looked at after each collection, not now and then.
func TestCollectionsAreNoticed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{}, 1)
	collections(ctx, ended)
	for n := range 3 {
		noticed := false
		for try := 0; try < 1000 && !noticed; try++ {
			runtime.GC()
			runtime.Gosched() // what is dead is cleaned up by another goroutine
			select {
			case <-ended:
				noticed = true
			default:
			}
		}
		if !noticed {
			t.Fatalf("got no notice of 1000 collections after %d, want one", n)
		}
	}
}
