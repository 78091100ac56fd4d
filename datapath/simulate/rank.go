package simulate

import (
	"slices"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// rank is one reader: it computes on one batch after another, and asks for as many ahead as ReadAhead says.
type rank struct {
	run     *run
	number  int
	gateway *gateway
	pace    pace
	due     dues
	ahead   readAhead

	asked    uint64 // steps asked for
	at       uint64 // the step that it computes on, or waits for
	there    []bool // from at on
	thinking bool
	since    time.Duration // when it began to wait
}

// start begins an epoch.
func (k *rank) start() {
	r := k.run
	k.gateway = r.gateways[GatewayOf(uint64(k.number), uint64(len(r.ranks)), len(r.gateways))]
	if k.ahead.gateway == nil {
		k.ahead.gateway = k.gateway
		k.gateway.aheads = append(k.gateway.aheads, &k.ahead)
	}
	k.asked, k.at, k.pace, k.due, k.there = 0, 0, pace{}, make(dues, len(k.gateway.cluster.members)), k.there[:0]
	k.thinking, k.since = false, r.clock.now
	k.ask()
	k.compute()
}

// ask asks for as many batches as it may.
func (k *rank) ask() {
	ahead := uint64(k.run.set.ReadAhead)
	if k.run.coarse && k.run.readsAhead() {
		ahead = max(ahead, 1) // what others own is asked for in the background
	}
	for k.asked < k.run.steps && k.asked <= k.at+ahead {
		step := k.asked
		k.asked++
		k.there = append(k.there, false)
		k.request(step)
	}
}

// share is what the rank consumes of a step.
func (k *rank) share(step uint64) shuffle.Share {
	r := k.run
	b := shuffle.Batching{Samples: r.plan.Samples(), BatchSize: r.step, Tail: shuffle.Short}
	return b.Share(step, uint64(k.number), uint64(len(r.ranks)))
}

// request asks for one batch.
func (k *rank) request(step uint64) {
	r := k.run
	lo := step * r.step
	hi := min(lo+r.step, r.plan.Samples())
	share := k.share(step)
	arrived := func() {
		k.there[step-k.at] = true
		k.compute()
	}
	var uses []use
	if r.coarse {
		uses = r.course.usesBetween(&k.pace, lo, hi, k.number, len(r.ranks))
	} else {
		uses = r.data.usesOf(r.course.samples(lo, hi, share, k.number, len(r.ranks)))
	}
	if share.Count == 0 {
		r.clock.after(0, arrived)
		return
	}
	q := &request{
		at: shuffle.Cursor{
			Plan: r.plan, Epoch: r.course.epoch, First: lo, End: hi, BatchSize: r.step,
			Rank: uint64(k.number), WorldSize: uint64(len(r.ranks)), Sharing: r.set.Sharing,
		},
		uses: uses,
	}
	if r.coarse {
		q.bytes = int64(r.mean * float64(share.Count))
		if c := k.gateway.cluster; len(c.members) > 1 {
			q.from = k.dues(uses, q.bytes)
		}
	}
	q.ready = func() {
		k.gateway.send(q.bytes, func() {
			k.gateway.close(q)
			arrived()
		})
	}
	if !r.coarse && r.readsAhead() {
		q.ahead = &k.ahead
	}
	k.gateway.read(q)
}

// readsAhead reports whether the next batches of ranks are asked for.
func (r *run) readsAhead() bool {
	return !r.set.NoReadAhead && r.set.cluster() > 1 && r.course.epoch.Local()
}

// dues returns how many bytes of a step come from each owner. What the repair of locality moves comes from the gateway
// next to its own.
func (k *rank) dues(uses []use, bytes int64) []int64 {
	c, r := k.gateway.cluster, k.run
	for _, u := range uses {
		k.due[c.owners[u.chunk]] += r.mean * float64(u.samples)
	}
	moved := int64(r.moved * float64(bytes))
	from := k.due.pay(bytes - moved)
	if moved > 0 {
		from[(slices.Index(c.members, k.gateway)+1)%len(c.members)] += moved
	}
	return from
}

// compute begins the next batch if it is there and the last one is done.
func (k *rank) compute() {
	r := k.run
	if k.thinking || len(k.there) == 0 || !k.there[0] {
		return
	}
	late := k.at >= r.steps*3/4
	e := &r.result.Epochs[len(r.result.Epochs)-1]
	if late && e.quarter == 0 {
		e.quarter = r.clock.now
	}
	e.Ranks[k.number].waited(r.clock.now-k.since, late)
	r.waits = append(r.waits, r.clock.now-k.since)
	k.thinking = true
	r.clock.after(seconds(r.think[k.number]*float64(k.share(k.at).Count)), func() {
		k.thinking, k.since = false, r.clock.now
		k.at++
		k.there = k.there[1:]
		if k.at == r.steps {
			r.arrived()
			return
		}
		k.ask()
		k.compute()
	})
}
