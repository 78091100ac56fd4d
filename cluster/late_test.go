package cluster

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
)

// TestLateFailureOfOldRead: a read that began before a member was ejected, and fails after its
// readmission, does not eject it again.
func TestLateFailureOfOldRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.fleet(2)[0]
		c := ofOwner(t, a, "gw-1")
		first := true
		w.mu.Lock()
		w.read = func(_, _ string) error {
			w.mu.Lock()
			slow := first
			first = false
			w.mu.Unlock()
			if slow {
				time.Sleep(10 * time.Second)
			}
			return peer.ErrDown
		}
		w.mu.Unlock()
		var late sync.WaitGroup
		late.Go(func() {
			if _, err := ask(t, a, c); !errors.Is(err, peer.ErrDown) {
				t.Errorf("got %v, want %v", err, peer.ErrDown)
			}
		})
		synctest.Wait()
		if _, err := ask(t, a, c); !errors.Is(err, peer.ErrDown) || states(a)["gw-1"] != Ejected {
			t.Fatalf("got %v and %v, want gw-1 ejected", err, states(a))
		}
		w.pass(5 * time.Second)
		if got := states(a)["gw-1"]; got != Alive {
			t.Fatalf("got %v, want it back", got)
		}
		w.pass(6 * time.Second)
		late.Wait()
		if got := states(a)["gw-1"]; got != Alive {
			t.Errorf("got %v after a read that began long ago, want %v", got, Alive)
		}
	})
}
