package chunkcache

// Shelf is a cache without bytes, budget and loads. It records which chunks are in memory and
// leased, and chooses the chunks to evict in the same way as a Cache. A simulation runs this code
// under its own clock. It calls Evict until a chunk fits, Put when the chunk has arrived, and Lease
// and Release around its use. It is not safe for concurrent use.
type Shelf[K comparable] struct {
	entries map[K]*entry[K]
	idle    idle[K]
	next    func(e *entry[K], names []place[K], enough int64) int64
	bytes   int64
	evicted func(K)
}

// NewShelf returns an empty shelf. due returns when a chunk is needed next, with larger values for
// later times; nil: never. evicted is called for every evicted chunk; it may be nil.
//
// Of the idle chunks that are queried (idle.go), the one due last is evicted first. If all are
// queried, chunks have equal sizes and the whole future is known, no other choice loads less
// (Belady, A Study of Replacement Algorithms for a Virtual-Storage Computer, IBM Systems Journal
// 1966). Without due the least recently used chunk is evicted.
func NewShelf[K comparable](due func(K) int64, evicted func(K)) *Shelf[K] {
	if due == nil {
		due = func(K) int64 { return Never }
	}
	if evicted == nil {
		evicted = func(K) {}
	}
	next := func(e *entry[K], _ []place[K], _ int64) int64 { return due(e.key) }
	return &Shelf[K]{entries: map[K]*entry[K]{}, idle: newIdle[K](), next: next, evicted: evicted}
}

// Has reports whether a chunk is in memory.
func (s *Shelf[K]) Has(key K) bool { return s.entries[key] != nil }

// Bytes returns the total size of the chunks in memory.
func (s *Shelf[K]) Bytes() int64 { return s.bytes }

// Put adds a chunk that has arrived, with one lease for each request that waited for it. The chunk
// must not be in memory already.
func (s *Shelf[K]) Put(key K, size int64, leases int) {
	if s.Has(key) {
		panic("chunkcache: chunk put twice")
	}
	e := &entry[K]{key: key, cost: size, refs: int32(leases)}
	s.entries[key] = e
	s.bytes += size
	if leases == 0 {
		s.idle.add(e)
	}
}

// Lease holds a chunk until Release. It returns false if the chunk is not in memory.
func (s *Shelf[K]) Lease(key K) bool {
	e := s.entries[key]
	if e != nil {
		s.idle.lease(e)
	}
	return e != nil
}

// Release ends one lease and reports whether it was the last one.
func (s *Shelf[K]) Release(key K) bool { return s.idle.release(s.entries[key]) }

// Goes reports whether an idle chunk may be evicted for a chunk due at the given time.
func (s *Shelf[K]) Goes(due int64) bool { return s.last(due) != nil }

func (s *Shelf[K]) last(due int64) *entry[K] {
	for {
		if e, more := s.idle.last(due, s.next); !more {
			return e
		}
	}
}

// Evict evicts chunks to free n bytes for a chunk due at the given time, and returns the number of
// bytes freed. It evicts chunks due later, starting with the last, and chunks that no reader needs.
// It evicts none if it cannot free n bytes.
func (s *Shelf[K]) Evict(n, due int64) (bytes int64) {
	if n > s.idle.bytes {
		return 0
	}
	chosen, bytes := s.choose(n, due)
	if bytes < n {
		for _, e := range chosen {
			s.idle.add(e)
		}
		return 0
	}
	s.drop(chosen)
	return bytes
}

// EvictSome is like Evict, but also evicts if it can free fewer than n bytes.
func (s *Shelf[K]) EvictSome(n, due int64) (bytes int64) {
	chosen, bytes := s.choose(n, due)
	s.drop(chosen)
	return bytes
}

// choose removes entries from the idle lists to free n bytes for a chunk due at the given time, or
// fewer if there are not enough.
func (s *Shelf[K]) choose(n, due int64) (chosen []*entry[K], bytes int64) {
	for bytes < n {
		e := s.last(due)
		if e == nil {
			break
		}
		s.idle.remove(e)
		chosen = append(chosen, e)
		bytes += e.cost
	}
	return chosen, bytes
}

func (s *Shelf[K]) drop(chosen []*entry[K]) {
	for _, e := range chosen {
		delete(s.entries, e.key)
		s.bytes -= e.cost
		s.evicted(e.key)
	}
}
