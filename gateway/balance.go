package gateway

import (
	"net/http"
	"strconv"

	"github.com/millrace-data/millrace/shuffle"
)

// The values of the parameter balance: what the shares of a global batch are to be alike in.
const (
	balanceSamples = "samples" // each rank takes a contiguous run of positions; neutral, so no URL holds it
	balanceBytes   = "bytes"   // the samples are dealt to the ranks by length (docs/order.md)
)

// deals says whether the samples of a global batch are dealt by length. One rank takes them all.
func (p planRequest) deals() bool { return p.balance == balanceBytes && p.worldSize > 1 }

// share returns what the rank consumes of the global batch, and the positions that have to be located to know which those
// are: where shares are scattered, all of them. Then share.First means nothing, and how many samples of the share only pad
// the batch is known once it is shared out, unless none do.
func (b batchRequest) share() (share, located shuffle.Share) {
	share = b.batching().Share(b.batch, b.rank, b.worldSize)
	if !b.scattered() {
		return share, share
	}
	located = b.batching().Share(b.batch, 0, 1)
	if b.follows() {
		return shuffle.Share{First: located.First, Count: share.Count}, located
	}
	return shuffle.Share{First: located.First, Count: dealt(located.Count, b.rank, b.worldSize)}, located
}

// dealt returns how many of n samples a rank gets that are dealt to and fro, whatever their lengths: one of each whole turn,
// and of the last turn, which comes from the end if it is an odd one, as many as there are left.
func dealt(n, rank, worldSize uint64) uint64 {
	turns, rest := n/worldSize, n%worldSize
	if turns%2 == 1 {
		rank = worldSize - 1 - rank
	}
	if rank < rest {
		turns++
	}
	return turns
}

// deal leaves the samples of one rank in l, which holds those of the whole global batch.
func (l *located) deal(rank, worldSize uint64) {
	l.places = shuffle.Deal(l.lengths, rank, worldSize)
	for i, place := range l.places { // ascending, so that i never passes place
		l.samples[i], l.lengths[i] = l.samples[place], l.lengths[place]
	}
	l.samples, l.lengths = l.samples[:len(l.places)], l.lengths[:len(l.places)]
}

// position returns the position of sample i of the answer in its epoch.
func (l *located) position(i int) uint64 {
	if l.scattered {
		i = l.places[i]
	}
	return l.first + uint64(i)
}

// describePadding sets how many samples of a scattered share only pad the batch.
func (l *located) describePadding(h http.Header, samples uint64) {
	h.Set("Millrace-Padded", strconv.FormatUint(l.padded(samples), 10))
}

// padded returns how many samples lie beyond the end of the epoch, which has so many, and only pad the batch.
func (l *located) padded(samples uint64) (n uint64) {
	for i := range l.samples {
		if l.position(i) >= samples {
			n++
		}
	}
	return n
}
