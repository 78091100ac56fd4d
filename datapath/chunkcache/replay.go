package chunkcache

import "iter"

// Replayed is what became of a trace's uses.
type Replayed struct {
	Hits, Loads int
	LoadBytes   int64
}

// Replay runs a trace of uses, each a key and its chunk's size, against a policy: as if each chunk was asked for alone, used, and let go
// before the next. A chunk that is not there is loaded and kept, whatever has to go for it; only one larger than the
// capacity passes through. A policy that looks ahead may read the trace's own position: uses is asked for the next one
// when all is done for the one before.
func Replay[K comparable](policy func() Policy[K], capacity int64, uses iter.Seq2[K, int64]) Replayed {
	var r Replayed
	s := NewShelf(policy, nil)
	for key, size := range uses {
		if s.Lease(key) {
			r.Hits++
			s.Release(key)
			continue
		}
		r.Loads++
		r.LoadBytes += size
		if size > capacity {
			continue
		}
		for s.Bytes()+size > capacity {
			if _, _, ok := s.Evict(false); !ok {
				panic("chunkcache: the policy lost a chunk")
			}
		}
		s.Put(key, size, 0, false)
	}
	return r
}
