package simulate

import (
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// rank is one reader: it computes on one batch after another, and requests up to ReadAhead batches
// in advance.
type rank struct {
	run     *run
	number  int
	gateway *gateway
	think   float64 // seconds per sample
	ahead   readAhead

	asked    uint64 // number of steps requested
	at       uint64 // the step that it computes on, or waits for
	there    []bool // for each requested step from at on: whether it has arrived
	thinking bool
	since    time.Duration // time when it began to wait
}

// start begins an epoch.
func (k *rank) start() {
	k.asked, k.at, k.there = 0, 0, k.there[:0]
	k.thinking, k.since = false, k.run.clock.now
	k.ask()
	k.compute()
}

// ask requests batches up to the limit.
func (k *rank) ask() {
	for s := k.run.set; k.asked < k.run.batching.Batches() && k.asked <= k.at+uint64(s.ReadAhead); {
		step := k.asked
		k.asked++
		k.there = append(k.there, false)
		k.request(step)
	}
}

// share returns the rank's share of a batch.
func (k *rank) share(step uint64) shuffle.Share {
	return k.run.batching.Share(step, uint64(k.number), uint64(k.run.set.Ranks))
}

// request requests one batch.
func (k *rank) request(step uint64) {
	r := k.run
	arrived := func() {
		k.there[step-k.at] = true
		k.compute()
	}
	if k.share(step).Count == 0 {
		r.clock.after(0, arrived)
		return
	}
	batch := r.batching.Share(step, 0, 1)
	q := &request{
		at: shuffle.Cursor{
			Plan: r.plan, Epoch: r.epoch, First: batch.First, End: batch.First + batch.Count, BatchSize: r.set.BatchSize,
			Rank: uint64(k.number), WorldSize: uint64(r.set.Ranks), Sharing: r.set.Sharing,
		},
		uses: r.data.usesOf(k.samples(batch, step)),
	}
	q.ready = func() {
		k.gateway.send(q.bytes, func() {
			k.gateway.close(q)
			arrived()
		})
	}
	if !r.set.NoReadAhead && r.set.cluster() > 1 && r.epoch.Local() {
		q.ahead = &k.ahead
	}
	k.gateway.read(q)
}

// samples returns the samples of the rank's share of a batch.
func (k *rank) samples(batch shuffle.Share, step uint64) []uint64 {
	r := k.run
	if r.set.Sharing != shuffle.Locality {
		return r.epoch.AppendShare(nil, k.share(step))
	}
	all, ranks := r.epoch.AppendShare(nil, batch), uint64(r.set.Ranks)
	places := r.epoch.DealHomes(batch, uint64(k.number), ranks, ranks)
	samples := make([]uint64, len(places))
	for i, at := range places {
		samples[i] = all[at]
	}
	return samples
}

// compute begins the next batch if it has arrived and the previous one is done.
func (k *rank) compute() {
	r := k.run
	if k.thinking || len(k.there) == 0 || !k.there[0] {
		return
	}
	r.result.Epochs[len(r.result.Epochs)-1].Ranks[k.number].waited(r.clock.now - k.since)
	r.waits = append(r.waits, r.clock.now-k.since)
	k.thinking = true
	r.clock.after(seconds(k.think*float64(k.share(k.at).Count)), func() {
		k.thinking, k.since = false, r.clock.now
		k.at++
		k.there = k.there[1:]
		if k.at == r.batching.Batches() {
			r.arrived()
			return
		}
		k.ask()
		k.compute()
	})
}
