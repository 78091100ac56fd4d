package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
)

// fails makes every read from a gateway fail, while the gateway still answers hellos normally.
func (w *world) fails(address string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read = func(_, to string) error {
		if to == address {
			return err
		}
		return nil
	}
}

// ask reads a chunk from its owner, and returns the owner.
func ask(t *testing.T, n *node, c peer.Chunk) (string, error) {
	t.Helper()
	id := n.Owner(c)
	if id == "" {
		return "", nil
	}
	return id, n.Read(t.Context(), id, query(c), [][]byte{make([]byte, 1000)}, nil)
}

// TestFailedReadEjects: a failed read ejects a silent member at once, and the second choice owns
// the chunk. The member gets no question until its ejection is over and it has answered a hello.
func TestFailedReadEjects(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.fleet(3)[0]
		c := ofOwner(t, a, "gw-1")
		others := owned(a)
		w.fails(at(1), peer.ErrDown)
		view := a.View()
		if id, err := ask(t, a, c); id != "gw-1" || !errors.Is(err, peer.ErrDown) {
			t.Fatalf("got %q, %v, want gw-1 and %v", id, err, peer.ErrDown)
		}
		if a.View() == view {
			t.Error("got the same view, want another one")
		}
		if got := a.Owner(c); got == "gw-1" {
			t.Errorf("got owner %q, want the second choice", got)
		}
		if got := owned(a); got["gw-2"] <= others["gw-2"] || got["gw-0"] <= others["gw-0"] || got["gw-1"] != 0 {
			t.Errorf("got %v, want those of gw-1 spread over the others of %v", got, others)
		}
		if got := states(a); got["gw-1"] != Ejected || got["gw-2"] != Alive {
			t.Errorf("got %v, want gw-1 ejected", got)
		}
		w.asked()
		for range 15 { // 1.5 s
			if err := a.Read(t.Context(), "gw-1", query(c), nil, nil); !errors.Is(err, errEjected) {
				t.Errorf("got %v, want %v", err, errEjected)
			}
			w.pass(100 * time.Millisecond)
		}
		if got := w.asked(); len(got) != 0 {
			t.Errorf("got reads %v while it is ejected, want none", got)
		}
		w.fails("", nil)
		w.pass(time.Second)
		if got := a.Owner(c); got != "gw-1" {
			t.Errorf("got owner %q, want gw-1 again", got)
		}
		if _, err := ask(t, a, c); err != nil {
			t.Errorf("got %v, want it answered", err)
		}
	})
}

// TestEjectedMemberMustAnswerAHello: a member that does not answer a hello stays ejected when its
// ejection time is over, and is removed in the end.
func TestEjectedMemberMustAnswerAHello(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		fleet := w.fleet(3)
		c := ofOwner(t, fleet[0], "gw-1")
		fleet[1].end()
		if _, err := ask(t, fleet[0], c); !errors.Is(err, peer.ErrDown) {
			t.Fatalf("got %v, want %v", err, peer.ErrDown)
		}
		w.pass(10 * time.Second)
		if got := states(fleet[0])["gw-1"]; got != Gone {
			t.Errorf("got %v, want %v", got, Gone)
		}
		if got := owned(fleet[0]); got["gw-1"] != 0 {
			t.Errorf("got %v, want nothing owned by a gateway that is down", got)
		}
		if got := len(w.asked()); got != 1 {
			t.Errorf("got %d reads, want the first one only", got)
		}
		w.pass(6 * time.Minute)
		if got, known := states(fleet[0])["gw-1"]; known {
			t.Errorf("got %v, want it forgotten", got)
		}
	})
}

// cooling returns how long a member stays ejected, rounded to a tenth of a second.
func (w *world) cooling(n *node, id string) (d time.Duration) {
	for states(n)[id] == Ejected {
		w.pass(100 * time.Millisecond)
		d += 100 * time.Millisecond
	}
	return d
}

func TestCoolDownDoubles(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.fleet(2)[0]
		c := ofOwner(t, a, "gw-1")
		w.fails(at(1), peer.ErrDown)
		for _, want := range []time.Duration{2, 4, 8, 16, 30, 30} {
			if _, err := ask(t, a, c); err == nil {
				t.Fatal("got an answer, want it to fail")
			}
			if got := w.cooling(a, "gw-1"); got.Round(time.Second) != want*time.Second {
				t.Errorf("got %v, want %d s", got, want)
			}
		}
		w.pass(2 * forgiven)
		if _, err := ask(t, a, c); err == nil {
			t.Fatal("got an answer, want it to fail")
		}
		if got := w.cooling(a, "gw-1"); got.Round(time.Second) != coolFirst {
			t.Errorf("after it was well for long: got %v, want %v", got, coolFirst)
		}
	})
}

// TestReadsThatFailTogether: many reads that fail at the same time count as one failure.
func TestReadsThatFailTogether(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.fleet(2)[0]
		c := ofOwner(t, a, "gw-1")
		w.read = func(_, _ string) error {
			time.Sleep(500 * time.Millisecond)
			return peer.ErrDown
		}
		for range 50 {
			go func() { _ = a.Read(t.Context(), "gw-1", query(c), nil, nil) }()
		}
		w.pass(500 * time.Millisecond)
		if got := w.cooling(a, "gw-1"); got.Round(time.Second) != coolFirst {
			t.Errorf("got %v, want %v", got, coolFirst)
		}
	})
}

func TestLiarIsLeftAloneForLong(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.fleet(2)[0]
		c := ofOwner(t, a, "gw-1")
		a.Lied("gw-1")
		a.Lied("nobody")
		if got := a.Owner(c); got != "" {
			t.Errorf("got owner %q, want ourselves", got)
		}
		if got := w.cooling(a, "gw-1"); got.Round(time.Second) != coolLie {
			t.Errorf("got %v, want %v", got, coolLie)
		}
		w.fails(at(1), peer.ErrDown)
		_, _ = ask(t, a, c) // ejected for 4 s
		a.Lied("gw-1")      // another read of the same burst got wrong bytes
		if got := w.cooling(a, "gw-1"); got.Round(time.Second) != coolLie {
			t.Errorf("ejected already: got %v, want %v", got, coolLie)
		}
	})
}

// TestRefusalsInOrderAreNoFault: errors that say nothing about the member do not change its state.
func TestRefusalsInOrderAreNoFault(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.fleet(2)[0]
		c := ofOwner(t, a, "gw-1")
		for _, fine := range []error{
			peer.ErrNotHere, peer.ErrNotServed, peer.ErrMismatch, peer.ErrNoRoom, fmt.Errorf("a: %w", peer.ErrNotHere),
			&peer.RefusalError{Code: peer.CodeTimeout}, &peer.RefusalError{Code: peer.CodeStore},
		} {
			w.fails(at(1), fine)
			if _, err := ask(t, a, c); !errors.Is(err, fine) {
				t.Errorf("got %v, want %v", err, fine)
			}
			if got := states(a)["gw-1"]; got != Alive {
				t.Errorf("after %v: got %v, want %v", fine, got, Alive)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Read(ctx, "gw-1", query(c), nil, nil); !errors.Is(err, context.Canceled) || states(a)["gw-1"] != Alive {
			t.Errorf("got %v and %v, want %v and a member", err, states(a), context.Canceled)
		}
		for _, fault := range []error{peer.ErrDown, peer.ErrMalformed, errors.New("connection reset"), &peer.RefusalError{Code: peer.CodeInvalid}} {
			w.fails(at(1), fault)
			if _, err := ask(t, a, c); !errors.Is(err, fault) {
				t.Errorf("got %v, want %v", err, fault)
			}
			if got := states(a)["gw-1"]; got != Ejected {
				t.Errorf("after %v: got %v, want %v", fault, got, Ejected)
			}
			w.cooling(a, "gw-1")
		}
	})
}

func TestTrafficIsCounted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.fleet(2)[0]
		c := ofOwner(t, a, "gw-1")
		w.read = func(_, _ string) error {
			time.Sleep(time.Second)
			return nil
		}
		if err := a.Read(t.Context(), "gw-1", query(c), [][]byte{make([]byte, 1<<20), make([]byte, 1<<20)}, nil); err != nil {
			t.Fatal(err)
		}
		a.Answered("gw-1", 77)
		a.Answered("nobody", 1)
		m := a.Status().Members[0]
		if m.Asked != (Traffic{Requests: 1, Bytes: 2 << 20}) || m.Answered != (Traffic{Requests: 1, Bytes: 77}) || m.LinkRate != 2<<20 {
			t.Errorf("got %+v, want 2 MiB asked for in a second, and 77 bytes answered", m)
		}
	})
}

// TestSilenceOfAllEjectsHalf: if nearly all members are silent, because this machine is stopped or
// overloaded, half of them remain owners. Hellos find the members that are gone. A draining member
// owns nothing in any case.
func TestSilenceOfAllEjectsHalf(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.fleet(8)[0]
		count := func(want State) (n int) {
			for _, s := range states(a) {
				if s == want {
					n++
				}
			}
			return n
		}
		w.read = func(string, string) error { return peer.ErrDown }
		for range 3 {
			for i := 1; i < 8; i++ {
				_ = a.Read(t.Context(), fmt.Sprintf("gw-%d", i), query(chunk(i)), nil, nil)
			}
		}
		if got := count(Ejected); got != 4 {
			t.Errorf("got %d of 8 ejected, want 4", got)
		}
		w.pass(time.Second)
		if got := count(Gone) + count(Suspect); got != 0 {
			t.Errorf("got %d members missed, want none: they answer hellos", got)
		}
		w.mu.Lock()
		w.cut = func(from, _ string) bool { return from == at(0) }
		w.mu.Unlock()
		for i := 1; i < 8; i++ {
			_ = a.Read(t.Context(), fmt.Sprintf("gw-%d", i), query(chunk(i)), nil, nil)
		}
		w.pass(6 * time.Second)
		if got := count(Gone); got != 7 {
			t.Errorf("got %d gone, want all 7", got)
		}
	})
}

// TestStrangerThatIsGone: the status shows the address of a refused gateway that has stopped as one
// without a member.
func TestStrangerThatIsGone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(0, []int{1}, nil)
		b := w.join(1, nil, func(c *Config) { c.Name = "job-b" })
		w.pass(3 * time.Second)
		if got := refusals(a); len(got) != 1 {
			t.Fatalf("got %q, want it refused", got)
		}
		b.end()
		w.pass(10 * time.Second)
		if got := a.Status().Others; len(got) != 1 || got[0].State != Unknown {
			t.Errorf("got %+v, want an address without a gateway", got)
		}
	})
}

// TestEjectedMemberIsBackInTime: an ejected member is readmitted when its time is over, regardless
// of when the last hello was sent.
func TestEjectedMemberIsBackInTime(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.fleet(2)[0]
		for round := range 12 {
			a.mu.Lock()
			m := a.members["gw-1"]
			a.eject(m, time.Now(), 0, "it is sick")
			a.mu.Unlock()
			if got := w.cooling(a, "gw-1"); got.Round(time.Second) != coolFirst {
				t.Errorf("round %d: got %v, want %v", round, got, coolFirst)
			}
			w.pass(2*forgiven + time.Duration(round)*time.Second) // the ejection of each round begins at a different time between two hellos
		}
	})
}

// TestStuckMemberIsEjected: a member whose store hangs sends signs of life for ever. It must not
// delay every batch if others can answer.
func TestStuckMemberIsEjected(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.fleet(2)[0]
		hangs := true
		w.read = func(string, string) error {
			if hangs {
				time.Sleep(5*time.Second + time.Millisecond)
				return context.DeadlineExceeded
			}
			return nil
		}
		ask := func() {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_ = a.Read(ctx, "gw-1", query(chunk(1)), nil, func(_ context.Context, concurrent bool) error {
				if concurrent {
					return peer.ErrNoRoom
				}
				return nil
			})
		}
		var together sync.WaitGroup
		for range 8 {
			together.Go(ask)
		}
		together.Wait()
		if ask(); states(a)["gw-1"] != Alive {
			t.Errorf("after two times: got %v, want %v", states(a)["gw-1"], Alive)
		}
		hangs = false
		ask()
		hangs = true
		ask()
		if ask(); states(a)["gw-1"] != Alive {
			t.Errorf("after an answer and two times: got %v, want %v", states(a)["gw-1"], Alive)
		}
		ask()
		if got := a.Status().Members[0]; got.State != Ejected || !strings.Contains(got.Reason, "it failed 3 consecutive requests") {
			t.Errorf("after three times: got %v, %q, want %v", got.State, got.Reason, Ejected)
		}
		w.pass(5 * time.Second)
		if got := states(a)["gw-1"]; got != Alive {
			t.Fatalf("got %v, want it let in again", got)
		}
		if ask(); states(a)["gw-1"] != Ejected {
			t.Errorf("stuck again: got %v, want %v", states(a)["gw-1"], Ejected)
		}
	})
}

// TestManyRestartsInGoodOrder: a gateway that drains and restarts is a member again at once,
// however often it does so.
func TestManyRestartsInGoodOrder(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		fleet := w.fleet(3)
		again := fleet[1]
		for i := range 6 {
			again.Drain(nil)
			w.pass(time.Second)
			again.end()
			again = w.join(1, []int{0, 1, 2}, func(c *Config) { c.Boot = fmt.Sprintf("boot-%d", 100+i) })
			w.pass(2 * time.Second)
			if got := states(fleet[0])["gw-1"]; got != Alive {
				t.Fatalf("after restart %d: got %v, want %v", i, got, Alive)
			}
		}
	})
}

// TestStatus_CurrentReason: a refused member that has stopped is gone because it does not answer.
// The status shows this reason instead of the first one.
func TestStatus_CurrentReason(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		fleet := w.fleet(2)
		reason := func() string { return fleet[0].Status().Members[0].Reason }
		fleet[1].end()
		b := w.join(1, nil, func(c *Config) { c.Name = "job-b" })
		w.pass(15 * time.Second)
		if got := reason(); !strings.Contains(got, "job-b") {
			t.Fatalf("got %q, want that it belongs to another cluster", got)
		}
		b.end()
		w.pass(15 * time.Second)
		if got := reason(); !strings.Contains(got, "dial 10.0.0.2:7946") {
			t.Errorf("got %q, want the reason that there is no answer", got)
		}
	})
}

// TestStatus_ReasonWithoutAnswer: the status contains the reason why an address does not answer.
func TestStatus_ReasonWithoutAnswer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(0, []int{1}, nil)
		w.pass(5 * time.Second)
		got := a.Status().Others
		if len(got) != 1 || got[0].State != Unknown || !strings.Contains(got[0].Reason, "dial 10.0.0.2:7946") {
			t.Errorf("got %+v, want why there is no answer", got)
		}
		w.join(1, nil, nil)
		w.pass(15 * time.Second)
		if got := a.Status().Others; len(got) != 0 {
			t.Errorf("got %+v, want none", got)
		}
	})
}
