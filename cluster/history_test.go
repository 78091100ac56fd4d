package cluster

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/internal/testing/seeds"
)

// TestHistories: gateways start, die, drain and restart, lose links in one or both directions, fail
// reads and send wrong bytes, all determined by a seed. At any time a gateway reads only from
// members that are healthy in its view, or from an ejected member whose ejection is over. Some time
// after the last fault all views are the same.
func TestHistories(t *testing.T) {
	from, to, _ := seeds.Range(t, 60, 3000)
	for seed := from; seed < to; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) { newHistory(w, seed).run(t) })
		})
	}
}

type history struct {
	*world
	rng   *rand.Rand
	size  int
	boots int
	alive map[int]*node

	mu     sync.Mutex
	broken map[[2]string]bool // links
	sick   map[string]bool    // addresses of gateways whose reads fail
}

func newHistory(w *world, seed uint64) *history {
	h := &history{
		world: w, rng: rand.New(rand.NewPCG(seed, 1)), alive: map[int]*node{}, broken: map[[2]string]bool{}, sick: map[string]bool{},
	}
	h.size = 2 + h.rng.IntN(5)
	w.cut = func(from, to string) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.broken[[2]string{from, to}]
	}
	w.read = func(_, to string) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.sick[to] {
			return peer.ErrDown
		}
		return nil
	}
	for i := range h.size {
		h.start(i)
	}
	return h
}

func (h *history) start(i int) {
	if h.alive[i] != nil {
		return
	}
	h.boots++
	var all []int
	for o := range h.size {
		all = append(all, o)
	}
	h.alive[i] = h.join(i, all, func(c *Config) { c.Boot = fmt.Sprintf("boot-%d-%d", i, h.boots) })
}

func (h *history) run(t *testing.T) {
	for range 40 {
		h.step(t)
		h.pass(time.Duration(h.rng.IntN(1500)) * time.Millisecond)
	}
	h.mu.Lock()
	clear(h.broken)
	clear(h.sick)
	h.mu.Unlock()
	for i := range h.size {
		if n := h.alive[i]; n != nil && n.Status().Self.State == Draining {
			n.end()
			delete(h.alive, i)
		}
		h.start(i)
	}
	h.pass(coolMost + 10*time.Second)
	want := owned(h.alive[0])
	if len(want) != h.size {
		t.Errorf("got owners %v, want %d of them", want, h.size)
	}
	for _, n := range h.alive {
		if got := owned(n); !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v as the first one", n.cfg.ID, got, want)
		}
	}
}

// halfOut reports whether so many members are ejected already that silence ejects no further
// member.
func (n *node) halfOut() bool {
	all, out := 1, 1 // this gateway, and one more
	for _, state := range states(n) {
		if state != Gone {
			all++
		}
		if state == Ejected {
			out++
		}
	}
	return 2*out > all
}

// step performs one random event.
func (h *history) step(t *testing.T) {
	i, o := h.rng.IntN(h.size), h.rng.IntN(h.size)
	n := h.alive[i]
	h.mu.Lock()
	switch h.rng.IntN(12) {
	case 0:
		h.broken[[2]string{at(i), at(o)}] = true
	case 1:
		h.broken[[2]string{at(i), at(o)}], h.broken[[2]string{at(o), at(i)}] = true, true
	case 2, 3:
		clear(h.broken)
	case 4:
		h.sick[at(i)] = true
	case 5:
		clear(h.sick)
	}
	h.mu.Unlock()
	switch what := h.rng.IntN(12); {
	case n == nil:
		h.start(i)
	case what == 0:
		n.end()
		delete(h.alive, i)
	case what == 1:
		n.Drain([]peer.Chunk{chunk(1), chunk(2)}) // some members may be out of reach
	case what == 2:
		n.Lied(fmt.Sprintf("gw-%d", o))
	default:
		h.ask(t, n)
	}
}

// ask reads some chunks, and compares the results with each member's state before the read.
func (h *history) ask(t *testing.T, n *node) {
	for range 5 {
		c := chunk(h.rng.IntN(1000))
		for _, who := range []func(peer.Chunk) string{func(ch peer.Chunk) string { return n.Owner(ch) }, n.Former} {
			synctest.Wait() // a running hello may readmit a member
			id := who(c)
			if id == "" {
				continue
			}
			state, half := states(n)[id], n.halfOut()
			if state != Alive && state != Suspect && state != Draining {
				t.Errorf("%s takes %s for the owner, which is %v", n.cfg.ID, id, state)
			}
			if err := n.Read(t.Context(), id, query(c), nil, nil); err != nil && states(n)[id] != Ejected && states(n)[id] != Gone && !half {
				t.Errorf("%s: got %v and %v, want it ejected", n.cfg.ID, err, states(n)[id])
			}
		}
	}
	synctest.Wait()
	h.asked()
	for _, m := range n.Status().Members {
		if m.State != Ejected && m.State != Gone {
			continue
		}
		err := n.Read(t.Context(), m.ID, query(chunk(1)), nil, nil)
		if !errors.Is(err, errEjected) && !errors.Is(err, peer.ErrDown) || len(h.asked()) > 0 {
			t.Errorf("%s: got %v from %s, which is %v, want it not asked", n.cfg.ID, err, m.ID, m.State)
		}
	}
}
