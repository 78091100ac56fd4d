package lookahead

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

const (
	behindBatches = 2                // how far behind the foremost rank chunks are due, or a batch more than the last rank is
	readerNew     = 30 * time.Second // after which a reader that asked for one batch is forgotten
	readerComes   = 10 * time.Minute // after which one that was announced is not waited for any more
	readerLeft    = time.Second / 4  // one whose ranks have all gone on elsewhere: unless one comes back, it was no reader
	readerGone    = 2 * time.Second  // at the least, one that went on; or, if it is slow,
	readerGaps    = 8                // so many times as long as it took from batch to batch of late
	nearBatches   = 8                // requests this near each other belong to one reader: the ranks of one job
	lateBatches   = 32               // and a request for one of so many batches that the reader has passed over
)

// reader is where one job stands in one plan. Its ranks count as one.
type reader struct {
	dataset                Dataset
	at                     shuffle.Cursor // of the foremost request
	firstEpoch, firstBatch uint64         // epoch and position of the batch that it began with
	next                   *shuffle.Epoch // the epoch after at.Epoch, once it is needed
	coming                 uint64         // number of the epoch that is prepared for next now; 0: none is
	reading                int            // requests that wait for bytes: who waits for the store has not gone
	seen                   time.Time      // when the last one began or was answered
	step                   time.Time      // when the reader last moved on
	gap                    time.Duration  // between two such, the longest of late; 0: it has not moved on
	lag                    uint64         // samples by which a request was behind the foremost one, the most of late
	missed                 []uint64       // where batches begin that the reader has passed over: who reads over several connections may ask late
	state                  state
	ranks                  int   // that stand here, wherever they read
	fastest                *rank // of those that stand here: its demand is the reader's; nil: none is known

	here   map[group]time.Time // when a rank of each group last read at this gateway
	groups groups              // those that come for chunks here

	ahead
	stands atomic.Pointer[standing] // where the reader stands, for who must not wait for the table
}

// state is how far a reader has come to its first batch.
type state uint8

const (
	announced state = iota // it has not come yet, and who announces it brings what it needs
	opening                // its first batch waits for chunks: until these are there little shares the line with them
	alone                  // its first batch is read sample by sample, and waits for nothing that is fetched ahead
	served                 // it has had a batch
)

// opens reports whether a request is for the reader's first batch, or for one before that: connections may ask in any order. All ranks
// have a share of it, and may ask for theirs one by one.
func (x *reader) opens(at shuffle.Cursor) bool {
	if at.Epoch.Number() != x.firstEpoch || at.First > x.firstBatch {
		return false
	}
	x.firstBatch = at.First
	return true
}

// near reports whether a request of the reader's plan belongs to it.
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

// advance notes that the reader has come to a batch that none of its ranks has asked for before.
func (x *reader) advance(at shuffle.Cursor, now time.Time) {
	x.gap = max(now.Sub(x.step), x.gap/10*9)
	x.lag -= min(x.lag, x.lag/64+1)
	x.skip(at)
	x.at, x.step = at, now
}

// skip notes which batches the reader leaves out on its way to the next one: ranks may ask for them late.
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

// late notes a request behind the foremost one.
func (x *reader) late(at shuffle.Cursor) {
	x.lag = max(x.lag, min(x.at.First-at.First, lateBatches*at.BatchSize))
	x.missed = slices.DeleteFunc(x.missed, func(p uint64) bool { return p == at.First })
}

// patience is how long the reader's share of the memory is kept for it after a request. One that is gone must not
// hold up the others for long, and one that computes between two batches must not lose its chunks.
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

// last returns the position, in the reader's epoch, from which on its ranks still need chunks.
func (x *reader) last() uint64 {
	return x.at.First - min(max(behindBatches*x.at.BatchSize, x.lag+x.at.BatchSize), x.at.First)
}

// standing returns where the reader stands.
func (x *reader) standing() standing {
	return standing{
		plan: x.at.Plan, epoch: x.at.Epoch, first: x.at.First, last: x.last(), total: x.at.Plan.Samples(),
		soon: x.horizon(), rate: x.rate(), groups: x.groups, straggler: x.lag > 0,
	}
}

// quick is the demand of a rank that is not known to take any time, in samples per second: what it needs is due at
// once, in order of position.
const quick = 1e9

// rate is how fast the reader would go on if nothing kept it waiting, in samples per second: as fast as the fastest of
// its ranks, for those that have to wait for another one, as ranks that train together do, seem to think longer.
func (x *reader) rate() float64 {
	if x.fastest == nil {
		return quick
	}
	return x.fastest.demand.rate()
}

// thought notes a rank's demand.
func (x *reader) thought(k *rank, now time.Time) {
	if f := x.fastest; f == nil || f.reader != x || now.Sub(f.seen) > readerGone || k.demand.rate() > f.demand.rate() {
		x.fastest = k
	}
}

// demand is how fast a rank would go on if nothing kept it waiting. Its sums fade.
type demand struct{ samples, seconds float64 }

// note adds the time that a rank took from an answer to the request at a position.
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

// takes returns how long a reader of this demand takes for so many samples.
func takes(samples uint64, rate float64) time.Duration {
	const most = 1 << 62 // a century and a half
	return time.Duration(min(math.Round(float64(samples)/rate*float64(time.Second)), most))
}
