package lookahead

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

const (
	maxRanks = 16384            // ranks remembered, at most 12 MB; a new rank replaces the least recently seen one
	rankIdle = 5 * time.Minute  // time without a request after which a rank is no longer listed
	ofLate   = 30 * time.Second // decay time of the means: older values count for less than a third
)

// Job is a plan that is being read with a batch size and a world size.
type Job struct {
	Dataset   Dataset
	Params    shuffle.Params
	BatchSize uint64
	WorldSize uint64
}

// Reader describes one rank of one job, derived from its requests, for display.
type Reader struct {
	Job
	Rank   uint64
	Epoch  uint64
	Batch  uint64        // last requested batch
	Rate   float64       // recent samples per second; it falls while the next request is overdue
	Behind uint64        // batches behind the fastest rank of its job
	Left   time.Duration // time to the end of the epoch at its usual rate; 0: unknown
	Think  time.Duration // recent mean time from the end of an answer to the next request
	Waits  float64       // share of its recent time that it waited for bytes
	Spent  Spent
	Idle   time.Duration // time since its last request

	before uint64 // number of batches before the last requested one, counted from epoch 0 on
}

type rankKey struct {
	Job
	rank uint64
}

// rank is the position of one rank, with its recent timing. It holds no plan and no epoch, since
// those are large. Its sums decay.
type rank struct {
	epoch, first uint64
	total        uint64 // number of samples in an epoch
	seen         time.Time
	done         time.Time // time at which its last answer was sent
	open         int       // answers not sent completely yet
	reader       *reader   // the reader that it belongs to; nil: none
	elsewhere    bool      // it reads at another gateway, and is not listed
	demand       demand

	clock            clock
	samples, seconds float64
	pauses, paused   float64 // sum of the times from an answer to the next request, in seconds, and their number
}

// rankOf returns the rank of a request, and adds it if it is new.
func (r *Readers) rankOf(d Dataset, at shuffle.Cursor, now time.Time) *rank {
	key := rankKey{Job{d, at.Plan.Params(), at.BatchSize, max(at.WorldSize, 1)}, at.Rank}
	k, ok := r.ranks.Get(key)
	if !ok {
		k = &rank{seen: now}
		r.ranks.Add(key, k)
	}
	return k
}

// step moves a rank to its next request, which may be at any position. It returns the rank and the
// time from its last answer to this request. ok is false if there was no answer yet.
func (r *Readers) step(d Dataset, at shuffle.Cursor, a Arrival, now time.Time) (k *rank, thought time.Duration, ok bool) {
	k = r.rankOf(d, at, now)
	k.elsewhere = false
	since := now.Sub(k.seen).Seconds()
	fade := math.Exp(-since / ofLate.Seconds())
	k.samples, k.seconds = k.samples*fade, k.seconds*fade+since
	k.pauses, k.paused = k.pauses*fade, k.paused*fade
	if since > 0 { // the samples of the very first request have not taken any time yet
		k.samples += float64(at.End-at.First) / float64(max(at.WorldSize, 1))
	}
	if ok = !k.done.IsZero(); ok {
		// With several open requests, only the first request after an answer depends on
		// that answer. The time before the other requests is not think time.
		if k.open == 0 || !k.done.Before(k.seen) {
			thought = max(now.Sub(k.done), 0) // another request of the rank may have ended after now was read
			k.pauses += thought.Seconds()
			k.paused++
			k.clock.spent.Pauses += thought.Seconds()
			k.clock.spent.Paused++
		}
	}
	number := at.Epoch.Number()
	k.clock.asked(a.from(now), now, a.Ahead, number < k.epoch || number == k.epoch && at.First <= k.first)
	k.open++
	k.epoch, k.first = number, at.First
	k.total, k.seen = at.Plan.Samples(), now
	return k, thought, ok
}

// join assigns a rank to a reader, or to none if x is nil. A reader without ranks has jumped or
// ended, so it is forgotten sooner than a new one.
func (r *Readers) join(k *rank, x *reader) {
	if k.reader == x {
		return
	}
	if k.reader != nil {
		k.reader.ranks--
	}
	if k.reader = x; x != nil {
		x.ranks++
	}
}

// List returns the recently seen ranks, sorted by job and rank.
func (r *Readers) List(now time.Time) []Reader {
	out, foremost := r.heard(now), map[Job]uint64{}
	for _, x := range out {
		foremost[x.Job] = max(foremost[x.Job], x.before)
	}
	for i, x := range out {
		out[i].Behind = foremost[x.Job] - x.before
	}
	slices.SortFunc(out, func(a, b Reader) int {
		return cmp.Or(
			a.Params.Compare(b.Params),
			cmp.Compare(a.BatchSize, b.BatchSize), cmp.Compare(a.WorldSize, b.WorldSize), cmp.Compare(a.Rank, b.Rank))
	})
	return out
}

// heard returns the ranks for List, unsorted. Requests wait for the lock meanwhile, so it only
// copies.
func (r *Readers) heard(now time.Time) []Reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	out, ranks := make([]Reader, 0, r.ranks.Len()), r.ranks.Values()
	for i, key := range r.ranks.Keys() {
		switch k := ranks[i]; {
		case now.Sub(k.seen) > rankIdle:
			r.ranks.Remove(key)
		case !k.elsewhere:
			out = append(out, k.describe(key, now))
		}
	}
	return out
}

// batches returns the number of global batches before the one that the rank last requested, from
// epoch 0 on.
func (k *rank) batches(size uint64) uint64 {
	size = max(size, 1)
	return k.epoch*((k.total+size-1)/size) + k.first/size
}

func (k *rank) describe(key rankKey, now time.Time) Reader {
	out := Reader{Job: key.Job, Rank: key.rank, Epoch: k.epoch, Batch: k.first / max(key.BatchSize, 1), Idle: now.Sub(k.seen), before: k.batches(key.BatchSize)}
	if k.seconds > 0 && k.samples > 0 {
		late := 0.0 // seconds by which its next request is overdue
		if k.paused > 0 {
			late = max(0, out.Idle.Seconds()-k.seconds/k.paused)
		}
		out.Rate = k.samples / (k.seconds + late)
		left := float64(k.total-min(k.first, k.total)) / float64(key.WorldSize) * k.seconds / k.samples
		out.Left = time.Duration(min(left, math.MaxInt32) * float64(time.Second))
	}
	out.Think, out.Waits = k.think(), k.clock.waits(now)
	out.Spent = k.clock.spent // waits has just updated it
	return out
}

// think returns the recent mean time from the end of an answer to the rank's next request; 0:
// unknown.
func (k *rank) think() time.Duration {
	if k.paused == 0 {
		return 0
	}
	return time.Duration(k.pauses / k.paused * float64(time.Second))
}
