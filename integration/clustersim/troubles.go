package clustersim

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// befall starts the faults at their times, and ends all of them at the end.
func (r *run) befall(ctx context.Context) {
	for _, f := range r.history.Faults {
		r.work.Go(func() {
			if objstore.Sleep(ctx, time.Until(r.began.Add(f.At))) == nil {
				r.trace("%v", f)
				r.strike(ctx, f)
			}
		})
	}
	r.work.Go(func() {
		if objstore.Sleep(ctx, time.Until(r.began.Add(r.history.Heal))) == nil {
			r.heal(ctx)
		}
	})
}

// heal ends all faults.
func (r *run) heal(ctx context.Context) {
	r.net.heal()
	r.store.SetFault(r.history.usual())
	for _, m := range r.machines {
		m.lies.set(func(l *lies) { l.wrong, l.mangled, l.refuse, l.full, l.late = nil, nil, false, false, 0 })
		m.view.show(nil)
		m.start(ctx)
	}
}

// strike starts one fault, and ends it after its duration.
func (r *run) strike(ctx context.Context, f Fault) {
	m := r.machines[f.Machine]
	rnd := rand.New(rand.NewPCG(f.Seed, 24))
	change := func(apply, undo func()) {
		apply()
		if objstore.Sleep(ctx, f.For) == nil {
			undo()
		}
	}
	links := func(to *linkChange) {
		change(func() { r.net.set(to.route, to.apply) }, func() { r.net.set(to.route, to.undo) })
	}
	there := route{f.Machine, f.Other}
	switch f.What {
	case Kill:
		change(func() { m.kill(f.Silently) }, func() { m.start(ctx) })
	case Drain:
		change(func() { m.drain(ctx) }, func() { m.start(ctx) })
	case Stop:
		change(func() { r.net.stop(f.Machine, true) }, func() { r.net.stop(f.Machine, false) })
	case Partition:
		side := rnd.Uint64()
		r.across(side, func(l *link) { l.cut = true })
		if objstore.Sleep(ctx, f.For) == nil {
			r.across(side, func(l *link) { l.cut = false })
		}
	case Cut:
		links(&linkChange{there, func(l *link) { l.cut = true }, func(l *link) { l.cut = false }})
	case Slow:
		links(&linkChange{there, func(l *link) { l.delay = f.Amount }, func(l *link) { l.delay = r.history.Link.delay }})
	case Trickle:
		links(&linkChange{there, func(l *link) { l.rate = 1 + rnd.Int64N(20<<10) }, func(l *link) { l.rate = 0 }})
	case Clog:
		r.clog(ctx, f, rnd)
	case StoreCut:
		links(&linkChange{route{f.Machine, theStore}, func(l *link) { l.cut = true }, func(l *link) { l.cut = false }})
	case Lie:
		change(func() { m.lies.set(func(l *lies) { l.wrong = rnd }) }, func() { m.lies.set(func(l *lies) { l.wrong = nil }) })
	case Mangle:
		change(func() { m.lies.set(func(l *lies) { l.mangled = rnd }) }, func() { m.lies.set(func(l *lies) { l.mangled = nil }) })
	case Refuse:
		change(func() { m.lies.set(func(l *lies) { l.refuse = true }) }, func() { m.lies.set(func(l *lies) { l.refuse = false }) })
	case Full:
		change(func() { m.lies.set(func(l *lies) { l.full = true }) }, func() { m.lies.set(func(l *lies) { l.full = false }) })
	case Late:
		change(func() { m.lies.set(func(l *lies) { l.late = f.Amount }) }, func() { m.lies.set(func(l *lies) { l.late = 0 }) })
	case View:
		r.flap(ctx, f, rnd)
	case StoreBad, StoreSlow:
		level, limit := 1+rnd.IntN(6), r.history.Store
		if f.What == StoreSlow {
			level, limit = 0, f.Amount
		}
		change(func() { r.store.SetFault(script(f.Seed, limit, level)) }, func() { r.store.SetFault(r.history.usual()) })
	}
}

type linkChange struct {
	route       route
	apply, undo func(*link)
}

// across changes all links between two groups of machines: those whose bit in side is set, and the
// others.
func (r *run) across(side uint64, to func(*link)) {
	for a := range r.machines {
		for b := range r.machines {
			if side>>a&1 != side>>b&1 {
				r.net.set(route{a, b}, to)
			}
		}
	}
}

// clog cuts the links of a machine one by one, and restores them in another order.
func (r *run) clog(ctx context.Context, f Fault, rnd *rand.Rand) {
	var all []route
	for b := range r.machines {
		if b != f.Machine {
			all = append(all, route{f.Machine, b}, route{b, f.Machine})
		}
	}
	step := f.For / time.Duration(2*len(all)+1)
	for _, cut := range []bool{true, false} {
		for _, i := range rnd.Perm(len(all)) {
			if objstore.Sleep(ctx, step) != nil {
				return
			}
			r.net.set(all[i], func(l *link) { l.cut = cut })
		}
	}
}

// flap shows a machine changing selections of the other machines.
func (r *run) flap(ctx context.Context, f Fault, rnd *rand.Rand) {
	v := &r.machines[f.Machine].view
	times := 1 + rnd.IntN(4)
	for range times {
		side := rnd.Uint64()
		v.show(func(m int) bool { return side>>m&1 == 1 })
		if objstore.Sleep(ctx, f.For/time.Duration(times)) != nil {
			return
		}
	}
	v.show(nil)
}
