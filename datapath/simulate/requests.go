package simulate

import (
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/shuffle"
)

// Requests is the approximate number of store reads per epoch of one gateway that delivers all of
// it: one for every chunk, or part of a chunk, that the order needs. Three effects are not counted.
// Adjacent chunks may be fetched together, idle fetchers may fetch one chunk in several parts, and
// a lane may read a few samples at its ends separately.
type Requests struct {
	Cold  uint64 // reads of an epoch with an empty cache
	Later uint64 // reads of every later epoch, if Known
	Known bool   // false: the cache is smaller than the order requires, and repeated reads depend on timing
}

// CountRequests counts the store reads of a plan for batches of batchSize samples, with a cache of
// cache bytes (0 for none) and reads of at most partSize bytes. From the second epoch on the cache
// keeps the same chunks, except in the memory that the order needs.
func CountRequests(plan *shuffle.Plan, d *Data, batchSize uint64, cache, partSize int64) Requests {
	s := Setting{Order: plan.Params(), BatchSize: batchSize, Ranks: 1, Gateways: 1}
	var filled, reads uint64 // non-empty chunks, and the reads of all of them
	for i := range d.Chunks {
		if c := &d.Chunks[i]; c.Length > 0 {
			filled++
			reads += uint64(max(1, c.Extents, (c.stored()+partSize-1)/partSize))
		}
	}
	all, full := d.cost(), s.Order.Shuffle == shuffle.Full
	switch wanted := s.Needed(d); {
	case full && policy.Ahead(cache) >= all: // chunks are read whole
		return Requests{Cold: reads, Known: true}
	case full: // samples are read one by one, and none stays in the cache
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
