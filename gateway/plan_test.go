package gateway

import (
	"errors"
	"testing"

	"github.com/millrace-data/millrace/shuffle"
)

func TestPlanThatPanickedIsPreparedAnew(t *testing.T) {
	p := newPlans(1 << 20)
	key := planKey{params: shuffle.Params{Seed: 1}}
	broken := p.entry(key, 100)
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("got panic %v, want boom", v)
			}
		}()
		p.prepare(broken, func() { panic("boom") })
	}()
	p.prepare(broken, func() { t.Error("an entry was prepared twice") })
	if !errors.Is(broken.err, errUnprepared) {
		t.Errorf("got %v for those that waited, want %v", broken.err, errUnprepared)
	}
	if got := p.size(); got != 0 {
		t.Errorf("got %d bytes held, want 0", got)
	}
	next := p.entry(key, 100)
	if next == broken {
		t.Fatal("got the broken entry again, want a new one")
	}
	ran := false
	p.prepare(next, func() { ran, next.err = true, nil })
	if !ran || next.err != nil || p.size() != 100 {
		t.Errorf("got prepared %v, error %v, %d bytes, want true, nil and 100", ran, next.err, p.size())
	}
}
