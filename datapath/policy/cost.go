package policy

import "time"

// Costs of store reads, and bounds of measurements.
const (
	// ReadCost is the cost of one more store read, in bytes of transfer, until the store is
	// measured. It was measured on one machine: reading by ranges is faster below about 13
	// needed samples in a chunk of 8 MiB.
	ReadCost = 8 << 20 / 13
	// LeastReadCost and MostReadCost bound the measured cost, since a value outside these
	// bounds is a temporary disturbance.
	LeastReadCost = 64 << 10
	MostReadCost  = 16 << 20

	RatedReads = 16       // number of reads before the measured cost is used
	RatedBytes = 64 << 10 // bytes; shorter reads do not show the stream's rate
)

// Rates is the measured speed of store reads: the time to the first bytes, and the rate of one
// stream after them. Each is a recent mean.
type Rates struct {
	Reads  int
	First  float64 // seconds
	Stream float64 // bytes per second
}

// Note records one read: the time to its first bytes, the number of bytes after them, and the time
// these took.
func (r *Rates) Note(first time.Duration, bytes int64, rest time.Duration) {
	if bytes < RatedBytes || rest <= 0 {
		return
	}
	r.Reads++
	weight := max(1/float64(r.Reads), 1./32)
	r.First += (first.Seconds() - r.First) * weight
	r.Stream += (float64(bytes)/rest.Seconds() - r.Stream) * weight
}

// Cost returns the cost of one more store read, in bytes of transfer.
func (r *Rates) Cost() int64 {
	if r.Reads < RatedReads {
		return ReadCost
	}
	return int64(min(max(r.First*r.Stream, LeastReadCost), MostReadCost))
}

// WholePays reports whether reading a whole chunk costs less than reading some of its samples by
// their ranges. The chunk has stored bytes in a number of objects; the samples have the given
// number of bytes.
func WholePays(stored, objects, bytes, samples, cost int64) bool {
	return stored-bytes < (samples-objects)*cost
}
