package simulate

import (
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/shuffle"
)

// Requests is about how many reads of the store an epoch costs one gateway that delivers all of it: one for every chunk, or part of a
// chunk, that the order needs. Chunks that lie side by side may be fetched together, and one chunk in several parts while
// fetchers are idle, and of a chunk that a lane begins or ends in, a few samples each by itself: nothing of that is counted.
type Requests struct {
	Cold  uint64 // of an epoch that finds the cache empty
	Later uint64 // of every epoch after it, where Known
	Known bool   // else the cache is smaller than what the order needs at one time, and what is read twice hangs on moments
}

// CountRequests counts the requests of a plan for batches of batchSize samples with a cache of so many bytes, 0 for none, and reads of
// at most partSize bytes. From the second epoch on the cache keeps the same chunks, apart from the room that the order needs.
func CountRequests(plan *shuffle.Plan, d *Data, batchSize uint64, cache, partSize int64) Requests {
	s := Setting{Order: plan.Params(), BatchSize: batchSize, Ranks: 1, Gateways: 1}
	var filled, reads uint64 // chunks, and the reads of all of them
	for i := range d.Chunks {
		if c := &d.Chunks[i]; c.Length > 0 {
			filled++
			reads += uint64(max(1, c.Extents, (c.stored()+partSize-1)/partSize))
		}
	}
	all, full := d.cost(), s.Order.Shuffle == shuffle.Full
	switch wanted := s.Wanted(d); {
	case full && policy.Ahead(cache) >= all: // chunks come whole
		return Requests{Cold: reads, Known: true}
	case full: // samples come one by one, and none of them stays
		return Requests{Cold: plan.Reads(), Later: plan.Reads(), Known: true}
	case cache >= all+s.body(d):
		return Requests{Cold: plan.Reads() + reads - filled, Known: true}
	case cache >= wanted:
		cold := plan.Reads() + reads - filled
		return Requests{Cold: cold, Later: uint64(float64(cold) * (1 - float64(cache-wanted)/float64(all))), Known: true}
	default:
		return Requests{Cold: plan.Reads() + reads - filled}
	}
}
