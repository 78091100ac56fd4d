package datapath

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

const (
	maxRanks = 1024             // remembered at once: the one not heard of for longest makes room
	rankIdle = 5 * time.Minute  // after which one is no longer listed
	ofLate   = 30 * time.Second // what is longer ago than this counts for less than a third
)

// Job is a plan that somebody reads, and in how many shares.
type Job struct {
	Source    *Source
	Params    shuffle.Params
	BatchSize uint64
	WorldSize uint64
}

// Reader is one rank of one job, as far as its requests tell. It is shown to people and changes no byte.
type Reader struct {
	Job
	Rank    uint64
	Epoch   uint64
	Batch   uint64        // the last one asked for
	Rate    float64       // samples per second of late
	Behind  uint64        // batches behind the foremost rank of its job
	Left    time.Duration // to the end of the epoch at this rate; 0 while that is not known
	Think   time.Duration // from the end of an answer to the next request, the mean of late
	Waiting float64       // share of its time that it waited for bytes of late, 0 to 1
	Idle    time.Duration // since it last asked
}

// ranks is what is known of those who read. It holds no plan and no epoch: those are large.
type ranks struct {
	mu    sync.Mutex // guards known and what is in it
	known map[rankKey]*rank
}

type rankKey struct {
	Job
	rank uint64
}

// rank is where one rank stands and how it came there. Its sums fade.
type rank struct {
	epoch, batch, first uint64
	total               uint64 // samples of an epoch
	seen                time.Time
	done                time.Time // when its last answer was sent
	open                int       // answers that are not sent yet

	samples, seconds float64
	waited           float64 // of seconds
	pauses, paused   float64 // seconds from answer to request, and how many of them
}

// visit is one request of a rank.
type visit struct {
	of    *ranks
	rank  *rank
	begun time.Time
}

// asked notes a request of a plan.
func (rs *ranks) asked(s *Source, at shuffle.Cursor, now time.Time) visit {
	key := rankKey{Job{s, at.Plan.Params(), at.BatchSize, max(at.WorldSize, 1)}, at.Rank}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.known[key]
	if r == nil {
		if len(rs.known) >= maxRanks {
			rs.dropOldest()
		}
		r = &rank{seen: now}
		rs.known[key] = r
	}
	r.step(at, key, now)
	r.open++
	return visit{rs, r, now}
}

// step takes a rank to its next request, wherever that is: one out of order moves it all the same.
func (r *rank) step(at shuffle.Cursor, key rankKey, now time.Time) {
	since := now.Sub(r.seen).Seconds()
	fade := math.Exp(-since / ofLate.Seconds())
	r.samples, r.seconds, r.waited = r.samples*fade, r.seconds*fade+since, r.waited*fade
	r.pauses, r.paused = r.pauses*fade, r.paused*fade
	if since > 0 { // the samples of the very first request have taken no time yet
		r.samples += float64(at.End-at.First) / float64(key.WorldSize)
	}
	if r.open == 0 && !r.done.IsZero() {
		r.pauses += now.Sub(r.done).Seconds()
		r.paused++
	}
	r.epoch, r.batch, r.first = at.Epoch.Number(), at.First/max(at.BatchSize, 1), at.First
	r.total, r.seen = at.Plan.Samples(), now
}

// answered notes that the bytes are there, or that they will not come.
func (v visit) answered(now time.Time) {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	v.rank.waited += now.Sub(v.begun).Seconds()
}

// ended notes that the answer is sent.
func (v visit) ended(now time.Time) {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	v.rank.open--
	v.rank.done = now
}

func (rs *ranks) dropOldest() {
	var oldest rankKey
	var seen time.Time
	for k, r := range rs.known {
		if seen.IsZero() || r.seen.Before(seen) {
			oldest, seen = k, r.seen
		}
	}
	delete(rs.known, oldest)
}

// list returns those heard of lately, job by job, ranks in order.
func (rs *ranks) list(now time.Time) []Reader {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	foremost := map[Job]uint64{}
	out := make([]Reader, 0, len(rs.known))
	for k, r := range rs.known {
		if now.Sub(r.seen) > rankIdle {
			delete(rs.known, k)
			continue
		}
		foremost[k.Job] = max(foremost[k.Job], r.batches(k.BatchSize))
		out = append(out, r.describe(k, now))
	}
	for i := range out {
		r := rs.known[rankKey{out[i].Job, out[i].Rank}]
		out[i].Behind = foremost[out[i].Job] - r.batches(out[i].BatchSize)
	}
	slices.SortFunc(out, func(a, b Reader) int {
		return cmp.Or(
			cmp.Compare(a.Source.place, b.Source.place), cmp.Compare(a.Params.Shuffle, b.Params.Shuffle),
			cmp.Compare(a.Params.Window, b.Params.Window), cmp.Compare(a.Params.Seed, b.Params.Seed),
			cmp.Compare(a.BatchSize, b.BatchSize), cmp.Compare(a.WorldSize, b.WorldSize), cmp.Compare(a.Rank, b.Rank))
	})
	return out
}

// batches is how many global batches lie before the one that the rank last asked for, from epoch 0 on.
func (r *rank) batches(size uint64) uint64 {
	size = max(size, 1)
	return r.epoch*((r.total+size-1)/size) + r.batch
}

func (r *rank) describe(k rankKey, now time.Time) Reader {
	out := Reader{Job: k.Job, Rank: k.rank, Epoch: r.epoch, Batch: r.batch, Idle: now.Sub(r.seen)}
	if r.seconds > 0 && r.samples > 0 {
		out.Rate = r.samples / r.seconds
		out.Waiting = min(r.waited/r.seconds, 1)
		left := float64(r.total-min(r.first, r.total)) / float64(k.WorldSize) / out.Rate
		out.Left = time.Duration(min(left, math.MaxInt32) * float64(time.Second))
	}
	if r.paused > 0 {
		out.Think = time.Duration(r.pauses / r.paused * float64(time.Second))
	}
	return out
}
