package datapath

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// changing is a cluster without other gateways and with a view that changes.
type changing struct {
	alone
	view atomic.Uint64
}

func (c *changing) View() uint64 { return c.view.Load() }

// The first request after a change of the view updates the table of readers before it uses the
// table.
func TestPath_TellsItsReadersOfANewView(t *testing.T) {
	d := newDataset(t, 337, same(40, 3000), 10, 1<<20)
	peers := &changing{}
	p := newPath(t, Config{Budget: bud(8 << 20), Peers: peers, NoPrefetch: true})
	s := p.Open(d.index, d.store, "set/")
	s.Share("set")
	plan := d.plan(t, shuffle.None, 0)
	chunks := d.ranges(t, []uint64{1})
	for name, come := range map[string]func(){
		"read": func() {
			body, err := s.Read(t.Context(), first(plan, 0, 1), chunks)
			must(t, err)
			body.Close()
		},
		"answer": func() {
			body, err := p.answer(t.Context(), d.query(chunks))
			must(t, err)
			body.Close()
		},
		"heard": func() { p.Heard("set", d.index.Generation(), first(plan, 1, 20), time.Second) },
		"warm": func() {
			_, err := s.Warm(t.Context(), first(plan, 0, 20))
			must(t, err)
		},
		"request for samples that owners did not send": func() {
			b, err := s.newBatch(chunks)
			must(t, err)
			e, want := extractOf(s, b, room{bytes: make([]byte, b.bytes)})
			must(t, hereTier{b}.Load(t.Context(), &load{source: s}, fillsOf(want.chunks, e.samples)))
		},
	} {
		view := peers.view.Add(1)
		come()
		if p.view.Load() != view {
			t.Errorf("%s: got the table in view %d, want %d", name, p.view.Load(), view)
		}
	}
	p.Heard("set", d.index.Generation(), shuffle.Cursor{}, 0) // a position without a plan
	p.Heard("set", "another generation", first(plan, 1, 20), 0)
	p.idle(t, "told")
}

// Closing a source frees memory, so Run is woken to prefetch other chunks.
func TestSource_CloseMakesRunLook(t *testing.T) {
	d := newDataset(t, 338, same(40, 3000), 10, 1<<20)
	p := newPath(t, Config{Budget: bud(8 << 20), NoPrefetch: true})
	s := p.Open(d.index, d.store, "set/")
	for len(p.kick) > 0 {
		<-p.kick
	}
	if s.Close(); len(p.kick) == 0 {
		t.Error("got Run left waiting, want it told")
	}
}
