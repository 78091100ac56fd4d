package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
)

// other stands for another gateway or the store, and answers in a member's place.
type other struct {
	err        error
	concurrent int // number of calls while the member was late
	after      int // number of calls after the member had failed
}

func (o *other) instead(_ context.Context, concurrent bool) error {
	if concurrent {
		o.concurrent++
	} else {
		o.after++
	}
	return o.err
}

// sample returns a query for one sample.
func sample(c peer.Chunk) *peer.Query {
	q := query(c)
	q.Chunks = []peer.ChunkQuery{{Chunk: c.Number, Digest: c.Digest, Ranges: []peer.Range{{Offset: 512, Length: 1000}}}}
	return q
}

func sicknesses() map[string]error {
	return map[string]error{
		"overloaded": &peer.RefusalError{Status: 503, Code: peer.CodeOverloaded},
		"store":      &peer.RefusalError{Status: 502, Code: peer.CodeStore},
		"timeout":    &peer.RefusalError{Status: 504, Code: peer.CodeTimeout},
	}
}

// TestRefusalsForAQuota: a member whose quota for a dataset is full is not ejected, even if others answer in
// its place: it can answer for other datasets.
func TestRefusalsForAQuota(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.fleet(3)[0]
		w.fails(at(1), &peer.RefusalError{Status: 503, Code: peer.CodeQuota})
		c := sample(ofOwner(t, a, "gw-1"))
		for range 10 * sickAfter {
			if err := a.Read(t.Context(), "gw-1", c, nil, (&other{}).instead); !errors.Is(err, peer.ErrOutdone) {
				t.Fatalf("got %v, want %v", err, peer.ErrOutdone)
			}
			w.pass(time.Millisecond)
		}
		if got := states(a)["gw-1"]; got != Alive {
			t.Errorf("got %v, want %v", got, Alive)
		}
	})
}

// TestRefusalsThatOthersDoNotGive: a member that refuses questions is ejected if another gateway
// can answer them. If the others cannot answer either, for example because the store is down, the
// member counts as healthy.
func TestRefusalsThatOthersDoNotGive(t *testing.T) {
	for name, refusal := range sicknesses() {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				a := w.fleet(3)[0]
				w.fails(at(1), refusal)
				c := sample(ofOwner(t, a, "gw-1"))
				down := &other{err: errors.New("the store is down")}
				for range 100 {
					if err := a.Read(t.Context(), "gw-1", c, nil, down.instead); !errors.Is(err, refusal) || errors.Is(err, peer.ErrOutdone) {
						t.Fatalf("got %v, want %v", err, refusal)
					}
					w.pass(time.Millisecond)
				}
				if got := states(a)["gw-1"]; got != Alive || down.after != 100 {
					t.Errorf("while all fail: got %v after %d attempts elsewhere, want %v after 100", got, down.after, Alive)
				}
				up := &other{}
				for n := range sickAfter {
					if got := states(a)["gw-1"]; got != Alive {
						t.Errorf("after %d of %d: got %v, want %v", n, sickAfter, got, Alive)
					}
					if err := a.Read(t.Context(), "gw-1", c, nil, up.instead); !errors.Is(err, peer.ErrOutdone) {
						t.Fatalf("got %v, want %v", err, peer.ErrOutdone)
					}
					w.pass(time.Millisecond)
				}
				if got := states(a)["gw-1"]; got != Ejected {
					t.Errorf("after %d that another one answered: got %v, want %v", sickAfter, got, Ejected)
				}
			})
		})
	}
}

// TestLateMemberIsEjected: a member whose answers are late is ejected. Other gateways are asked
// concurrently as long as that is rare.
func TestLateMemberIsEjected(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.fleet(3)[0]
		var slow atomic.Int64 // time that an answer takes
		w.read = func(string, string) error { time.Sleep(time.Duration(slow.Load())); return nil }
		o := &other{}
		ask := func() error {
			return a.Read(t.Context(), "gw-1", sample(chunk(1)), [][]byte{make([]byte, 1000)}, o.instead)
		}
		slow.Store(int64(promptFloor / 2))
		for range 10 {
			if err := ask(); err != nil {
				t.Fatal(err)
			}
		}
		if o.concurrent != 0 {
			t.Errorf("got %d hedges while the member was prompt, want none", o.concurrent)
		}
		slow.Store(int64(300 * time.Millisecond))
		for range sickAfter {
			if got := states(a)["gw-1"]; got != Alive {
				t.Errorf("got %v, want %v", got, Alive)
			}
			if err := ask(); !errors.Is(err, peer.ErrOutdone) {
				t.Fatalf("got %v, want %v", err, peer.ErrOutdone)
			}
		}
		if got := states(a)["gw-1"]; got != Ejected || o.concurrent != sickAfter || o.after != 0 {
			t.Errorf("got %v after %d and %d elsewhere, want %v after %d and 0", got, o.concurrent, o.after, Ejected, sickAfter)
		}
		// The gateway sends it probes, and readmits it only when the answers are prompt
		// again.
		w.pass(5 * time.Minute)
		if got := states(a)["gw-1"]; got != Ejected {
			t.Errorf("still slow: got %v, want %v", got, Ejected)
		}
		if tried := len(w.asked()); tried < 10 || tried > 40 {
			t.Errorf("got %d questions in five minutes in which it was tried, want some ten", tried)
		}
		slow.Store(0)
		w.pass(coolMost + 3*time.Second)
		if got := states(a)["gw-1"]; got != Alive {
			t.Errorf("prompt again: got %v, want %v", got, Alive)
		}
	})
}

// TestLateMemberOfAPairStays: of two gateways, neither ejects the other for being late, since no
// third one can tell which of them is slow.
func TestLateMemberOfAPairStays(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.fleet(2)[0]
		w.read = func(string, string) error { time.Sleep(300 * time.Millisecond); return nil }
		o := &other{}
		for range 10 * sickAfter {
			if err := a.Read(t.Context(), "gw-1", sample(chunk(1)), [][]byte{make([]byte, 1000)}, o.instead); err != nil && !errors.Is(err, peer.ErrOutdone) {
				t.Fatal(err)
			}
			w.pass(10 * time.Second) // enough time to earn credit for more hedges
		}
		if got := states(a)["gw-1"]; got != Alive || o.concurrent < 2*sickAfter {
			t.Errorf("got %v after %d answers of others that were faster, want %v after many", got, o.concurrent, Alive)
		}
	})
}

// TestHellosOfALateMemberAreNoMeasure: the late one of three gateways has late hellos too. They do
// not raise the timeout for its answers.
func TestHellosOfALateMemberAreNoMeasure(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.slow = map[string]time.Duration{at(1): 300 * time.Millisecond}
		a := w.fleet(3)[0]
		w.pass(time.Minute)
		w.read = func(string, string) error { time.Sleep(300 * time.Millisecond); return nil }
		o := &other{}
		for range sickAfter {
			if err := a.Read(t.Context(), "gw-1", sample(chunk(1)), [][]byte{make([]byte, 1000)}, o.instead); !errors.Is(err, peer.ErrOutdone) {
				t.Fatalf("got %v, want %v", err, peer.ErrOutdone)
			}
		}
		if got := states(a)["gw-1"]; got != Ejected {
			t.Errorf("got %v, want %v", got, Ejected)
		}
	})
}

// TestRefusingMemberOfAPairIsEjected: in a pair of gateways, one that refuses requests is ejected
// as in a larger cluster.
func TestRefusingMemberOfAPairIsEjected(t *testing.T) {
	for name, refusal := range sicknesses() {
		inWorld(t, func(t *testing.T, w *world) {
			a := w.fleet(2)[0]
			w.fails(at(1), refusal)
			c, o := sample(ofOwner(t, a, "gw-1")), &other{}
			for range sickAfter {
				if err := a.Read(t.Context(), "gw-1", c, nil, o.instead); !errors.Is(err, peer.ErrOutdone) {
					t.Fatalf("%s: got %v, want %v", name, err, peer.ErrOutdone)
				}
				w.pass(time.Millisecond)
			}
			if got := states(a)["gw-1"]; got != Ejected {
				t.Errorf("%s: got %v, want %v", name, got, Ejected)
			}
		})
	}
}

// TestHedgesAreFew: however many questions are late, only a few of them are hedged.
func TestHedgesAreFew(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.fleet(3)[0]
		w.read = func(string, string) error { time.Sleep(300 * time.Millisecond); return nil }
		o := &other{err: errors.New("neither can this one")}
		const questions = 1000
		for range questions {
			if err := a.Read(t.Context(), "gw-1", sample(chunk(1)), [][]byte{make([]byte, 1000)}, o.instead); err != nil {
				t.Fatal(err)
			}
		}
		if most := hedgeBurst + int(questions*hedgeShare); o.concurrent > most+1 || o.concurrent < most/2 {
			t.Errorf("got %d hedges of %d questions, want at most %d", o.concurrent, questions, most)
		}
		if got := states(a)["gw-1"]; got != Alive {
			t.Errorf("late, but no other is faster: got %v, want %v", got, Alive)
		}
	})
}

// TestAQuestionIsHedgedOnce: a question is hedged once, even if the hedge fails and the member
// sends a sign of life afterwards.
func TestAQuestionIsHedgedOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.fleet(3)[0]
		w.mute, w.loads = 5*promptFloor, 2*loadCold
		o := &other{err: errors.New("neither can this one")}
		if err := a.Read(t.Context(), "gw-1", sample(chunk(1)), [][]byte{make([]byte, 1000)}, o.instead); err != nil || o.concurrent != 1 {
			t.Errorf("got %v and %d hedges, want one", err, o.concurrent)
		}
	})
}

// TestHalfOfTheMembersStay: at most half of the members are ejected for faults that may have a
// common cause.
func TestHalfOfTheMembersStay(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.fleet(8)[0]
		w.read = func(string, string) error { return &peer.RefusalError{Status: 503, Code: peer.CodeOverloaded} }
		o := &other{}
		for i := 1; i < 8; i++ {
			for range 2 * sickAfter {
				_ = a.Read(t.Context(), "gw-"+string(rune('0'+i)), sample(chunk(i)), nil, o.instead)
				w.pass(time.Millisecond)
			}
		}
		out := 0
		for _, s := range states(a) {
			if s == Ejected {
				out++
			}
		}
		if out != 4 {
			t.Errorf("got %d of 8 ejected, want 4", out)
		}
		for _, m := range a.Status().Members {
			if m.State == Ejected && !strings.Contains(m.Reason, "consecutive requests") {
				t.Errorf("%s: got %q, want why", m.ID, m.Reason)
			}
		}
	})
}

// TestEjection_NotIfAllAreSlow: if all members are slow or refuse requests, none is ejected, even
// though this gateway is faster itself. A member that stays slow after the others have recovered is
// ejected.
func TestEjection_NotIfAllAreSlow(t *testing.T) {
	for name, refusal := range map[string]error{"late": nil, "overloaded": &peer.RefusalError{Status: 503, Code: peer.CodeOverloaded}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				a := w.fleet(8)[0]
				var well atomic.Bool // all but gw-1 are fast
				w.read = func(_, to string) error {
					if well.Load() && to != at(1) {
						return nil
					}
					time.Sleep(300 * time.Millisecond)
					return refusal
				}
				round := func() {
					var together sync.WaitGroup
					for i := 1; i < 8; i++ {
						together.Go(func() {
							time.Sleep(time.Duration(i) * 50 * time.Millisecond)
							_ = a.Read(t.Context(), fmt.Sprintf("gw-%d", i), sample(chunk(i)), [][]byte{make([]byte, 1000)},
								func(context.Context, bool) error { time.Sleep(50 * time.Millisecond); return nil })
						})
					}
					together.Wait()
					w.pass(time.Second)
				}
				for n := range 20 {
					round()
					for id, s := range states(a) {
						if s == Ejected {
							t.Fatalf("round %d, all are slow: %s is %v", n, id, s)
						}
					}
				}
				well.Store(true)
				ejected := map[string]bool{}
				for range 60 {
					round()
					for id, s := range states(a) {
						ejected[id] = ejected[id] || s == Ejected
					}
				}
				for id, was := range ejected {
					if want := id == "gw-1"; was != want {
						t.Errorf("one is slow: got %s ejected: %v, want %v", id, was, want)
					}
				}
			})
		})
	}
}

// TestColdStoreIsWaitedFor: a cold store is slow for all members. The first answers are awaited
// without a hedge.
func TestColdStoreIsWaitedFor(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.fleet(3)[0]
		w.loads = time.Second
		o := &other{}
		for range 8 {
			if err := a.Read(t.Context(), "gw-1", sample(chunk(1)), [][]byte{make([]byte, 1000)}, o.instead); err != nil {
				t.Fatal(err)
			}
		}
		w.loads = 1900 * time.Millisecond // still within the limit
		if err := a.Read(t.Context(), "gw-1", sample(chunk(1)), [][]byte{make([]byte, 1000)}, o.instead); err != nil || o.concurrent != 0 {
			t.Errorf("got %v and %d hedges, want none", err, o.concurrent)
		}
		w.loads *= 4
		if err := a.Read(t.Context(), "gw-1", sample(chunk(1)), [][]byte{make([]byte, 1000)}, o.instead); !errors.Is(err, peer.ErrOutdone) || o.concurrent != 1 {
			t.Errorf("got %v and %d hedges, want one", err, o.concurrent)
		}
	})
}

// TestEjectedMemberIsNotGreetedWithoutEnd: an ejected member gets an early hello at the end of its
// ejection. If the gateway that answers there is no member, or is another member, hellos return to
// their normal interval.
func TestEjectedMemberIsNotGreetedWithoutEnd(t *testing.T) {
	for name, change := range map[string]func(h *peer.Hello){
		"another release": func(h *peer.Hello) { h.OrderVersion++ },
		"another name":    func(h *peer.Hello) { h.ID = "gw-9" },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				a := w.fleet(2)[0]
				var hellos atomic.Int64
				w.hello = func(from string, h *peer.Hello) {
					if from == at(1) {
						time.Sleep(10 * time.Millisecond)
						hellos.Add(1)
						change(h)
					}
				}
				w.fails(at(1), fmt.Errorf("cut off: %w", peer.ErrDown))
				if err := a.Read(t.Context(), "gw-1", sample(chunk(1)), nil, nil); err == nil {
					t.Fatal("got an answer of a member that gives none")
				}
				w.pass(time.Minute)
				if got := hellos.Load(); got > 40 {
					t.Errorf("got %d hellos in a minute, want one in some seconds", got)
				}
			})
		})
	}
}
