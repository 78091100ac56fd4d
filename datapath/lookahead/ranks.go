package lookahead

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

const (
	maxRanks = 16384            // remembered at once, at most 12 MB: the one not heard of for longest makes room
	rankIdle = 5 * time.Minute  // after which one is no longer listed
	ofLate   = 30 * time.Second // what is longer ago than this counts for less than a third
)

// Job is a plan that somebody reads, and in how many shares.
type Job struct {
	Dataset   Dataset
	Params    shuffle.Params
	BatchSize uint64
	WorldSize uint64
}

// Reader is one rank of one job, as far as its requests tell. It is shown to people.
type Reader struct {
	Job
	Rank   uint64
	Epoch  uint64
	Batch  uint64        // the last one asked for
	Rate   float64       // samples per second of late
	Behind uint64        // batches behind the foremost rank of its job
	Left   time.Duration // to the end of the epoch at this rate; 0 while that is not known
	Think  time.Duration // from the end of an answer to the next request, the mean of late
	Waits  Shares        // of its time of late
	Spent  Spent
	Idle   time.Duration // since it last asked

	before uint64 // batches before the last one asked for, from epoch 0 on
}

type rankKey struct {
	Job
	rank uint64
}

// rank is where one rank stands and how it came there. It holds no plan and no epoch: those are large. Its sums fade.
type rank struct {
	epoch, first uint64
	total        uint64 // samples of an epoch
	seen         time.Time
	done         time.Time // when its last answer was sent
	open         int       // answers that are not sent yet
	reader       *reader   // that it stands at; nil: at none
	elsewhere    bool      // it reads at another gateway, and is not listed
	demand       demand

	clock            clock
	samples, seconds float64
	pauses, paused   float64 // seconds from answer to request, and how many of them
}

// rankOf finds or makes the rank that a request comes from.
func (r *Readers) rankOf(d Dataset, at shuffle.Cursor, now time.Time) *rank {
	key := rankKey{Job{d, at.Plan.Params(), at.BatchSize, max(at.WorldSize, 1)}, at.Rank}
	k, ok := r.ranks.Get(key)
	if !ok {
		k = &rank{seen: now}
		r.ranks.Add(key, k)
	}
	return k
}

// step takes a rank to its next request, wherever that is. It returns the rank, and how long it took from its last answer to this
// request; false: there was none.
func (r *Readers) step(d Dataset, at shuffle.Cursor, a Arrival, now time.Time) (k *rank, thought time.Duration, ok bool) {
	k = r.rankOf(d, at, now)
	k.elsewhere = false
	since := now.Sub(k.seen).Seconds()
	fade := math.Exp(-since / ofLate.Seconds())
	k.samples, k.seconds = k.samples*fade, k.seconds*fade+since
	k.pauses, k.paused = k.pauses*fade, k.paused*fade
	if since > 0 { // the samples of the very first request have taken no time yet
		k.samples += float64(at.End-at.First) / float64(max(at.WorldSize, 1))
	}
	if ok = !k.done.IsZero(); ok {
		// Of several requests at a time the one after an answer waited for that answer, and the others for nothing.
		if k.open == 0 || !k.done.Before(k.seen) {
			thought = max(now.Sub(k.done), 0) // another request of the rank may have ended since this one looked at the clock
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

// join notes where a rank stands now; nil: at no reader. A reader that its last rank has left has jumped, or ended: it
// is not waited for as long as one that has only begun.
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

// List returns the ranks heard of lately, job by job, ranks in order.
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

// heard copies what List shows, in no order. Requests wait meanwhile.
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

// batches is how many global batches lie before the one that the rank last asked for, from epoch 0 on.
func (k *rank) batches(size uint64) uint64 {
	size = max(size, 1)
	return k.epoch*((k.total+size-1)/size) + k.first/size
}

func (k *rank) describe(key rankKey, now time.Time) Reader {
	out := Reader{Job: key.Job, Rank: key.rank, Epoch: k.epoch, Batch: k.first / max(key.BatchSize, 1), Idle: now.Sub(k.seen), before: k.batches(key.BatchSize)}
	if k.seconds > 0 && k.samples > 0 {
		out.Rate = k.samples / k.seconds
		left := float64(k.total-min(k.first, k.total)) / float64(key.WorldSize) / out.Rate
		out.Left = time.Duration(min(left, math.MaxInt32) * float64(time.Second))
	}
	out.Think, out.Waits = k.think(), k.clock.shares(now)
	out.Spent = k.clock.spent // shares has brought it up to date
	return out
}

// think is how long the rank takes from the end of an answer to its next request, the mean of late; 0: that is not known.
func (k *rank) think() time.Duration {
	if k.paused == 0 {
		return 0
	}
	return time.Duration(k.pauses / k.paused * float64(time.Second))
}
