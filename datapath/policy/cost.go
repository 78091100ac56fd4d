package policy

import "time"

// Costs of store reads, and bounds of what is measured.
const (
	// ReadCost is what one more store read costs, in bytes of transfer, until the store is measured: on a machine of
	// our own, ranged reads win below about 13 wanted samples in a chunk of 8 MiB.
	ReadCost = 8 << 20 / 13
	// LeastReadCost and MostReadCost bound the measured cost: one beyond them says more of a bad moment than of a store.
	LeastReadCost = 64 << 10
	MostReadCost  = 16 << 20

	RatedReads = 16       // reads before the measured cost counts
	RatedBytes = 64 << 10 // shorter ones say nothing of the stream's rate
)

// Rates is what the store needs for a read: the time to the first bytes, and the rate of one stream from
// then on, each a recent mean.
type Rates struct {
	Reads  int
	First  float64 // seconds
	Stream float64 // bytes per second
}

// Note adds one read: the time to its first bytes, how many others there were, and how long those took.
func (r *Rates) Note(first time.Duration, bytes int64, rest time.Duration) {
	if bytes < RatedBytes || rest <= 0 {
		return
	}
	r.Reads++
	weight := max(1/float64(r.Reads), 1./32)
	r.First += (first.Seconds() - r.First) * weight
	r.Stream += (float64(bytes)/rest.Seconds() - r.Stream) * weight
}

// Cost returns what one more store read costs, in bytes of transfer.
func (r *Rates) Cost() int64 {
	if r.Reads < RatedReads {
		return ReadCost
	}
	return int64(min(max(r.First*r.Stream, LeastReadCost), MostReadCost))
}

// WholePays reports whether reading a whole chunk costs less than reading some of its samples by themselves: stored bytes in so many
// objects, against samples of so many bytes.
func WholePays(stored, objects, bytes, samples, cost int64) bool {
	return stored-bytes < (samples-objects)*cost
}
