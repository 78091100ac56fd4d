package simulate

import (
	"fmt"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// Bounds of what is followed sample by sample: beyond them chunk by chunk, and a full order in part.
const (
	mostSamples   = 6 << 20 // of all epochs
	mostBatches   = 1 << 20 // of all epochs and ranks
	mostQuestions = 1 << 22 // to other gateways, about
	coarsePieces  = 2       // of a transfer
	coarseRanks   = 4       // of a gateway
	coarseSteps   = 25_000  // of an epoch, about, where what is in use does not stay in memory
	coarseUses    = 1 << 24 // of chunks, in an epoch, about
	coarseAhead   = 8       // chunks that one step goes on by, of the 16 that are fetched ahead
	fullSamples   = 1 << 19 // of an epoch
	mostChunks    = 1 << 17 // of all epochs; of more, a part stands for all
)

// thin follows a part of data of very many chunks. The memory for what readers come for soon stays; what lies
// beyond it is a part of its size, like the data.
func (r *run) thin(d *Data, s Setting) {
	k := (len(d.Chunks)*s.Epochs + mostChunks - 1) / mostChunks
	r.data, r.set, r.parts = d.thin(1, k), &s, 1
	if k <= 1 {
		return
	}
	r.parts = float64(d.Bytes()) / float64(r.data.Bytes())
	soon := s.Wanted(d) / aheadTenths * 10
	r.soon = min(soon, s.CacheSize)
	if s.CacheSize > soon {
		s.CacheSize = soon + int64(float64(s.CacheSize-soon)/r.parts)
	}
	s.DiskSize = int64(float64(s.DiskSize) / r.parts)
	r.say("1 chunk in %d was followed and stands for all", k)
}

// thicken makes the figures of a part those of all.
func (r *run) thicken() {
	for i := range r.result.Epochs {
		e := &r.result.Epochs[i]
		e.scale(r.parts)
		e.Counts.scale(r.fleet)
		r.asked(e)
	}
	if r.result.Peak > r.soon {
		r.result.Peak = r.soon + int64(float64(r.result.Peak-r.soon)*r.parts)
	}
}

// say notes how something was followed less finely.
func (r *run) say(format string, args ...any) {
	if r.result.Coarse != "" {
		r.result.Coarse += "; "
	}
	r.result.Coarse += fmt.Sprintf(format, args...)
}

// large reports whether there is too much to follow it sample by sample.
func (s *Setting) large(d *Data) bool {
	batches := shuffle.Batching{Samples: d.Samples(), BatchSize: s.BatchSize, Tail: shuffle.Short}.Batches()
	asked := batches * uint64(s.Epochs*s.Ranks)
	return d.Samples()*uint64(s.Epochs) > mostSamples || asked > mostBatches || asked*uint64(min(s.cluster(), int(s.BatchSize)/s.Ranks)) > mostQuestions
}

// choose decides how finely the epochs are followed, and makes the ranks.
func (r *run) choose() {
	s, samples := r.set, r.plan.Samples()
	batches := shuffle.Batching{Samples: samples, BatchSize: s.BatchSize, Tail: shuffle.Short}.Batches()
	n := s.Ranks
	r.step, r.steps = s.BatchSize, batches
	switch {
	case !r.coarse && (s.Order.Shuffle != shuffle.Full || !s.large(r.data)):
	case s.Order.Shuffle == shuffle.Full:
		follow := uint64(fullSamples)
		if !r.fits {
			follow /= 8 // every batch is like every other, and each sample a read
		}
		r.steps = min(batches, max(follow/s.BatchSize, 16))
		if r.steps < batches {
			r.say("the first %d of %d batches of each epoch were followed, and stand for all", r.steps, batches)
		}
	default:
		n = min(n, max(coarseRanks*s.Gateways/s.cluster(), s.Gateways))
		joined := max(r.coarseStep(n)/s.BatchSize, 1)
		r.step = joined * s.BatchSize
		r.steps = (batches + joined - 1) / joined
		r.say("followed chunk by chunk, not sample by sample, %d batches at a time, the %d ranks as %d", joined, s.Ranks, n)
	}
	if s.Sharing == shuffle.Locality {
		b := shuffle.Batching{Samples: samples, BatchSize: s.BatchSize, Tail: shuffle.Short}
		r.result.Moved = r.plan.Moved(b, uint64(s.Ranks), uint64(s.Ranks))
		if r.coarse && s.cluster() > 1 {
			r.moved = r.result.Moved
		}
	}
	r.think = make([]float64, n)
	_, speed := s.paces(n)
	for i := range r.think {
		r.think[i] = s.pace(i, n) * speed / s.Rate // seconds a sample: together they consume Rate
	}
	for i := range n {
		r.ranks = append(r.ranks, &rank{run: r, number: i})
	}
}

// coarseStep is how many samples a step goes on by where samples are not followed: less than what is fetched ahead, or
// readers would wait for what a gateway fetches while they think.
func (r *run) coarseStep(ranks int) uint64 {
	samples, chunks := r.plan.Samples(), uint64(len(r.data.Chunks))
	r.stays = ahead(r.set.CacheSize) >= r.set.Wanted(r.data)
	if !r.stays {
		each := uint64(ranks) * max(r.set.Order.Window, 1) // chunks that are in use, by each rank
		return samples / min(max(coarseUses/each, 1000), coarseSteps)
	}
	n := uint64(coarseAhead * r.set.cluster()) // each of them fetches ahead
	if r.set.Order.Shuffle == shuffle.Window {
		n = max(n, r.set.Order.Window/4)
	}
	return samples / chunks * n
}

// extrapolate adds what of a full order was not followed. Where all data fits into memory, it is there by then, and the rest goes on at the
// pace of the last quarter; else every batch is like every other.
func (r *run) extrapolate(e *Epoch) {
	all := (r.plan.Samples() + r.step - 1) / r.step
	if r.steps == all {
		return
	}
	more := float64(all-r.steps) / float64(r.steps)
	if !r.fits {
		e.scale(1 + more)
		return
	}
	pace := float64(r.clock.now-e.quarter) / float64(r.steps-r.steps*3/4)
	e.Time += time.Duration(pace * float64(all-r.steps))
	e.Served += int64(float64(e.Served) * more)
	for i := range e.Ranks {
		k := &e.Ranks[i]
		k.Stall += time.Duration(float64(k.late) * 4 * more)
	}
}
