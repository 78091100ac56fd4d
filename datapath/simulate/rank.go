package simulate

import "github.com/millrace-data/millrace/shuffle"

// rank is one reader: it computes on one batch after another, and requests up to ReadAhead batches
// in advance.
type rank struct {
	run     *run
	number  int
	gateway *gateway
	think   float64 // seconds per sample
	ahead   readAhead
}

// read reads an epoch.
func (k *rank) read() {
	r := k.run
	var open []*latch // the requests that have not been consumed: whether each has arrived
	for at, asked := uint64(0), uint64(0); at < r.batching.Batches(); at++ {
		for ; asked < r.batching.Batches() && asked <= at+uint64(r.set.ReadAhead); asked++ {
			open = append(open, k.request(asked))
		}
		since := r.clock.now
		open[0].wait(r.clock)
		open = open[1:]
		waited := r.clock.now - since
		r.result.Epochs[len(r.result.Epochs)-1].Ranks[k.number].waited(waited)
		r.waits = append(r.waits, waited)
		r.clock.sleep(seconds(k.think * float64(k.share(at).Count)))
	}
	r.arrived()
}

// share returns the rank's share of a batch.
func (k *rank) share(step uint64) shuffle.Share {
	return k.run.batching.Share(step, uint64(k.number), uint64(k.run.set.Ranks))
}

// request requests one batch, and returns its arrival.
func (k *rank) request(step uint64) *latch {
	there := &latch{}
	k.run.clock.start(func() {
		if k.share(step).Count > 0 {
			k.fetch(step)
		}
		there.open(k.run.clock)
	})
	return there
}

// fetch reads one batch and receives it.
func (k *rank) fetch(step uint64) {
	r := k.run
	batch := r.batching.Share(step, 0, 1)
	q := &request{
		at: shuffle.Cursor{
			Plan: r.plan, Epoch: r.epoch, First: batch.First, End: batch.First + batch.Count, BatchSize: r.set.BatchSize,
			Rank: uint64(k.number), WorldSize: uint64(r.set.Ranks), Sharing: r.set.Sharing,
		},
		uses: r.data.usesOf(k.samples(batch, step)),
	}
	if r.set.cluster() > 1 && r.epoch.Local() {
		q.ahead = &k.ahead
	}
	k.gateway.read(q)
	k.gateway.send(q.bytes)
	k.gateway.close(q)
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
