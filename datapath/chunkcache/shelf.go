package chunkcache

// Shelf is a cache without bytes, budget and loads: it knows which chunks are in memory and who holds them, and chooses those
// that go as a Cache does. A simulation runs this code under its own clock: it makes room with Evict until a chunk fits,
// calls Put when the chunk has come, and Lease and Release around its use. It is not safe for concurrent use.
type Shelf[K comparable] struct {
	entries map[K]*entry[K]
	idle    idle[K]
	next    func(e *entry[K], names []place[K], enough int64) int64
	bytes   int64
	evicted func(K)
}

// NewShelf returns an empty shelf. due says when a chunk is needed next, the larger the later; nil:
// never. evicted is told of every chunk that goes; nil: nobody wants to know.
//
// Of the idle chunks that are asked (idle.go), the one that is due last goes first. If all are asked,
// chunks are equal and the whole future is known, no other choice loads less (Belady, A Study of
// Replacement Algorithms for a Virtual-Storage Computer, IBM Systems Journal 1966). Without due the
// least recently used chunk goes.
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

// Has reports whether a chunk is there.
func (s *Shelf[K]) Has(key K) bool { return s.entries[key] != nil }

// Bytes returns the sizes of the chunks that are there.
func (s *Shelf[K]) Bytes() int64 { return s.bytes }

// Put puts a chunk there that has come, with the leases of those who waited for it. It must not be
// there.
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

// Lease holds a chunk until Release, if it is there.
func (s *Shelf[K]) Lease(key K) bool {
	e := s.entries[key]
	if e != nil {
		s.idle.lease(e)
	}
	return e != nil
}

// Release ends one lease and reports whether it was the last one.
func (s *Shelf[K]) Release(key K) bool { return s.idle.release(s.entries[key]) }

// Goes reports whether an idle chunk would go for one that is due at a time.
func (s *Shelf[K]) Goes(due int64) bool { return s.last(due) != nil }

func (s *Shelf[K]) last(due int64) *entry[K] {
	for {
		if e, more := s.idle.last(due, s.next); !more {
			return e
		}
	}
}

// Evict takes chunks away for n bytes that are due at a time, and returns the bytes: chunks that are
// due later, the last of them first, and those that nobody comes for. It takes none if those that it
// finds are not enough.
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

// EvictSome is Evict, but for that it takes what goes where that is not enough.
func (s *Shelf[K]) EvictSome(n, due int64) (bytes int64) {
	chosen, bytes := s.choose(n, due)
	s.drop(chosen)
	return bytes
}

// choose takes entries off the idle ones that go for n bytes that are due at a time, or what there is.
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
