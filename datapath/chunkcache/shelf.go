package chunkcache

// Shelf knows which chunks are in memory, who holds them and which go first, but neither their
// bytes nor a budget. A Cache keeps its chunks on one; a simulation runs the same code on a Shelf of
// its own, under its own clock: it makes room with Evict until a chunk fits, calls Put when the
// chunk has come, and Lease and Release around its use. It is not safe for concurrent use.
type Shelf[K comparable] struct {
	entries map[K]*entry[K]
	idle    idle[K]
	bytes   int64
	evicted func(*entry[K])
}

// entry is a chunk in memory.
type entry[K comparable] struct {
	key    K
	slot   *slot // nil on a shelf that is no cache's
	length int64 // of the chunk
	cost   int64
	refs   int32 // open leases; 0: the entry is idle
	coming bool  // it stands for a load on its way
	place  int   // in one of the lists of idle entries, if it is idle
	due    int64 // when it was due as it was chosen to go
	places []place[K]
}

// data returns the chunk's bytes.
func (e *entry[K]) data() []byte { return e.slot.buf[:e.length:e.length] }

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
	return newShelf(func(e *entry[K], _ int64) int64 { return due(e.key) }, func(e *entry[K]) { evicted(e.key) })
}

func newShelf[K comparable](due func(e *entry[K], enough int64) int64, evicted func(*entry[K])) *Shelf[K] {
	return &Shelf[K]{entries: map[K]*entry[K]{}, idle: newIdle(due), evicted: evicted}
}

// Has reports whether a chunk is there.
func (s *Shelf[K]) Has(key K) bool { return s.entries[key] != nil }

// Len returns how many chunks are there.
func (s *Shelf[K]) Len() int { return len(s.entries) }

// Bytes returns the sizes of the chunks that are there.
func (s *Shelf[K]) Bytes() int64 { return s.bytes }

// Idle returns the sizes of those that nobody holds.
func (s *Shelf[K]) Idle() int64 { return s.idle.bytes }

// Put puts a chunk there that has come, with the leases of those who waited for it. It must not be
// there.
func (s *Shelf[K]) Put(key K, size int64, leases int) {
	s.put(&entry[K]{key: key, cost: size, refs: int32(leases)})
}

// Lease holds a chunk until Release, if it is there.
func (s *Shelf[K]) Lease(key K) bool {
	e := s.entries[key]
	if e != nil {
		s.lease(e)
	}
	return e != nil
}

// Release ends one lease and reports whether it was the last one.
func (s *Shelf[K]) Release(key K) bool { return s.release(s.entries[key]) }

// Evict takes chunks away for n bytes that are due at a time, and returns the bytes: chunks that are
// due later, the last of them first, and those that nobody comes for. It takes none if those that it
// finds are not enough.
func (s *Shelf[K]) Evict(n, due int64) (bytes int64) { return s.dropAll(s.choose(n, due)) }

// EvictSome is Evict, but for that it takes what goes where that is not enough.
func (s *Shelf[K]) EvictSome(n, due int64) (bytes int64) { return s.dropAll(s.some(n, due)) }

func (s *Shelf[K]) dropAll(chosen []*entry[K]) (bytes int64) {
	for _, e := range chosen {
		bytes += e.cost
		s.drop(e)
	}
	return bytes
}

// Goes reports whether an idle chunk would go for one that is due at a time.
func (s *Shelf[K]) Goes(due int64) bool { return s.idle.last(due) != nil }

// choose takes entries off the idle ones that go for n bytes that are due at a time: none if those
// that it finds are not enough.
func (s *Shelf[K]) choose(n, due int64) []*entry[K] {
	if n > s.idle.bytes {
		return nil
	}
	chosen := s.some(n, due)
	for _, e := range chosen {
		n -= e.cost
	}
	if n > 0 {
		for _, e := range chosen {
			s.idle.add(e)
		}
		return nil
	}
	return chosen
}

// some takes entries off the idle ones that go for n bytes that are due at a time, or what there is.
func (s *Shelf[K]) some(n, due int64) (chosen []*entry[K]) {
	for n > 0 {
		e := s.next(due)
		if e == nil {
			break
		}
		chosen = append(chosen, e)
		n -= e.cost
	}
	return chosen
}

// next takes the entry off the idle ones that goes first, nil if none goes for what is due then.
func (s *Shelf[K]) next(due int64) *entry[K] {
	e := s.idle.last(due)
	if e != nil {
		s.idle.remove(e)
	}
	return e
}

// drop forgets an entry that was chosen.
func (s *Shelf[K]) drop(e *entry[K]) {
	delete(s.entries, e.key)
	s.bytes -= e.cost
	s.evicted(e)
}

func (s *Shelf[K]) put(e *entry[K]) {
	if s.entries[e.key] != nil {
		panic("chunkcache: chunk put twice")
	}
	s.entries[e.key] = e
	s.bytes += e.cost
	if e.refs == 0 {
		s.idle.add(e)
	}
}

func (s *Shelf[K]) lease(e *entry[K]) {
	if e.refs == 0 {
		s.idle.remove(e)
	}
	e.refs++
}

// release ends one lease and reports whether the chunk can go now.
func (s *Shelf[K]) release(e *entry[K]) bool {
	if e.refs <= 0 {
		panic("chunkcache: lease closed twice")
	}
	e.refs--
	if e.refs > 0 {
		return false
	}
	s.idle.add(e)
	return true
}
