package lookahead

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

const (
	behindBatches = 2                // minimum lag, in batches behind the fastest rank, for which chunks stay due; if the slowest rank is further behind, its lag and one more batch
	readerNew     = 30 * time.Second // time after which a reader that requested only one batch is forgotten
	readerComes   = 10 * time.Minute // time after which an announced reader is forgotten
	readerLeft    = time.Second / 4  // time after which a reader that all its ranks have left is forgotten
	readerGone    = 2 * time.Second  // minimum time after which a reader that has advanced is forgotten; for a slow reader,
	readerGaps    = 8                // this many times its longest recent gap between batches
	nearBatches   = 8                // maximum distance of requests that belong to one reader: the ranks of one job
	lateBatches   = 32               // number of skipped batches that may still be requested
)

// reader is the position of one job in one plan. Its ranks count as one reader.
type reader struct {
	dataset                Dataset
	at                     shuffle.Cursor // position of the request furthest ahead
	firstEpoch, firstBatch uint64         // epoch and position of its first batch
	next                   *shuffle.Epoch // the epoch after at.Epoch, once needed
	coming                 uint64         // number of the epoch that is being prepared for next; 0: none
	reading                int            // requests that wait for bytes; a reader that waits for the store has not ended
	seen                   time.Time      // time when the last request began or was answered
	step                   time.Time      // time when the reader last advanced
	gap                    time.Duration  // recent longest time between advances; 0: it has not advanced
	lag                    uint64         // recent maximum of the number of samples by which a request was behind the one furthest ahead
	missed                 []uint64       // starts of skipped batches: a client with several connections may request them late
	state                  state
	ranks                  int   // number of ranks that belong to it, at any gateway
	fastest                *rank // the rank with the highest demand, which counts as the reader's demand; nil: unknown

	here   map[group]time.Time // time when a rank of each group last read at this gateway
	groups groups              // groups whose chunks the reader needs here

	needList
	position atomic.Pointer[position] // position, for callers that must not lock the table
}

// state is how far a reader has come with its first batch.
type state uint8

const (
	announced state = iota // no request yet; the caller of Announce loads its chunks
	opening                // its first batch waits for chunks: until they arrive, few other reads share the link
	alone                  // its first batch is read by sample ranges, and waits for no prefetched chunk
	served                 // it has received a batch
)

// opens reports whether a request is for the reader's first batch, or for an earlier one, since
// connections may send requests in any order. All ranks have a share of the first batch, and may
// request their shares one by one.
func (x *reader) opens(at shuffle.Cursor) bool {
	if at.Epoch.Number() != x.firstEpoch || at.First > x.firstBatch {
		return false
	}
	x.firstBatch = at.First
	return true
}

// near reports whether a request for the reader's plan belongs to this reader.
func (x *reader) near(at shuffle.Cursor) bool {
	near := nearBatches * max(at.BatchSize, 1)
	here, there := x.at.Epoch.Number(), at.Epoch.Number()
	total := at.Plan.Samples()
	switch {
	case here == there:
		return at.First <= x.at.First+near && x.at.First <= at.First+near || slices.Contains(x.missed, at.First)
	case here+1 == there:
		return x.at.First+near >= total && at.First <= near
	case there+1 == here:
		return at.First+near >= total && x.at.First <= near
	}
	return false
}

// advance records that the reader has reached a batch that none of its ranks has requested before.
func (x *reader) advance(at shuffle.Cursor, now time.Time) {
	x.gap = max(now.Sub(x.step), x.gap/10*9)
	x.lag -= min(x.lag, x.lag/64+1)
	x.skip(at)
	x.at, x.step = at, now
}

// skip records the batches between the reader's position and its next request, since ranks may
// request them late.
func (x *reader) skip(at shuffle.Cursor) {
	size := max(at.BatchSize, 1)
	if at.Epoch.Number() != x.at.Epoch.Number() || at.First-x.at.First > lateBatches*size {
		x.missed = x.missed[:0]
		return
	}
	for p := x.at.First + size; p < at.First; p += size {
		x.missed = append(x.missed, p)
	}
	x.missed = x.missed[max(len(x.missed)-lateBatches, 0):]
}

// late records a request at an earlier position than the one furthest ahead.
func (x *reader) late(at shuffle.Cursor) {
	x.lag = max(x.lag, min(x.at.First-at.First, lateBatches*at.BatchSize))
	x.missed = slices.DeleteFunc(x.missed, func(p uint64) bool { return p == at.First })
}

// patience returns how long the reader's share of the memory is kept after a request. A reader that
// has ended must not hold memory for long. A reader that computes between two batches must not lose
// its chunks.
func (x *reader) patience() time.Duration {
	switch {
	case x.state == announced:
		return readerComes
	case x.ranks == 0:
		return readerLeft
	case x.gap == 0:
		return readerNew
	}
	return max(readerGone, readerGaps*x.gap)
}

// last returns the position in the reader's epoch from which its ranks still need chunks.
func (x *reader) last() uint64 {
	last := x.at.First - min(max(behindBatches*x.at.BatchSize, x.lag+x.at.BatchSize), x.at.First)
	from, _ := x.at.BlockOf(last)
	return from
}

// needs returns the positions of the batch furthest ahead. With buckets these are the positions of
// its block, because a batch has samples from all chunks of its block.
func (x *reader) needs() (from, to uint64) {
	from, to = x.at.BlockOf(x.at.First)
	return from, max(to, x.at.End)
}

// currentPosition returns the position of the reader.
func (x *reader) currentPosition() position {
	first, _ := x.needs()
	return position{
		plan: x.at.Plan, epoch: x.at.Epoch, first: first, last: x.last(), total: x.at.Plan.Samples(),
		soon: x.horizon(), rate: x.rate(), groups: x.groups, straggler: x.lag > 0,
	}
}

// quick is the demand of a rank without a known think time, in samples per second. It is so high
// that its chunks are due immediately, in order of position.
const quick = 1e9

// rate returns how fast the reader would proceed without waiting, in samples per second: the rate
// of its fastest rank. Ranks that train together wait for each other, so the other ranks appear to
// think longer.
func (x *reader) rate() float64 {
	if x.fastest == nil {
		return quick
	}
	return x.fastest.demand.rate()
}

// thought records a rank's demand.
func (x *reader) thought(k *rank, now time.Time) {
	if f := x.fastest; f == nil || f.reader != x || now.Sub(f.seen) > readerGone || k.demand.rate() > f.demand.rate() {
		x.fastest = k
	}
}

// demand measures how fast a rank would proceed without waiting. Its sums decay.
type demand struct{ samples, seconds float64 }

// note adds one request: the samples at its position, and the think time before it.
func (d *demand) note(thought time.Duration, at shuffle.Cursor) {
	const fade = .9
	d.samples, d.seconds = d.samples*fade+float64(at.End-at.First), d.seconds*fade+thought.Seconds()
}

// rate returns samples per second of think time.
func (d *demand) rate() float64 {
	if d.seconds*quick <= d.samples {
		return quick
	}
	return d.samples / d.seconds
}

// takes returns the time that a reader with this rate takes for the given number of samples.
func takes(samples uint64, rate float64) time.Duration {
	const most = 1 << 62 // about 146 years
	return time.Duration(min(math.Round(float64(samples)/rate*float64(time.Second)), most))
}
