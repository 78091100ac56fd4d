package chunkcache

import (
	"cmp"
	"slices"
)

// Shelf knows which chunks are in memory, who holds them and which go first, but neither their bytes nor a
// budget. A Cache keeps its chunks on one; a simulation runs the same code on a Shelf of its own, under its own
// clock: it makes room with Evict until a chunk fits, calls Put when the chunk has come, and Lease and Release around its
// use. It is not safe for concurrent use.
type Shelf[K comparable] struct {
	entries  map[K]*entry[K]
	cold     Policy[K] // unleased and wanted soon by nobody we know of: goes first
	warm     Policy[K] // unleased, but a reader is coming for it
	admitted uint64    // chunks so far
	uses     uint64    // that have ended so far
	bytes    int64
	evicted  func(K)
}

// entry is a chunk in memory.
type entry[K comparable] struct {
	key      K
	slot     *slot // nil on a shelf that is no cache's
	length   int64 // of the chunk
	cost     int64
	admitted uint64
	used     uint64 // when its last use ended
	refs     int32  // open leases; 0: the entry is in cold or warm
	warm     bool
}

// data returns the chunk's bytes.
func (e *entry[K]) data() []byte { return e.slot.buf[:e.length:e.length] }

// NewShelf returns an empty shelf. policy is called twice: for the chunks that a reader comes for soon, and for the
// others. evicted is told of every chunk that goes; nil: nobody wants to know.
func NewShelf[K comparable](policy func() Policy[K], evicted func(K)) *Shelf[K] {
	if evicted == nil {
		evicted = func(K) {}
	}
	return &Shelf[K]{entries: map[K]*entry[K]{}, cold: policy(), warm: policy(), evicted: evicted}
}

// Has reports whether a chunk is there.
func (s *Shelf[K]) Has(key K) bool { return s.entries[key] != nil }

// Len returns how many chunks are there.
func (s *Shelf[K]) Len() int { return len(s.entries) }

// Bytes returns the sizes of the chunks that are there.
func (s *Shelf[K]) Bytes() int64 { return s.bytes }

// Idle returns the sizes of those that Evict could take.
func (s *Shelf[K]) Idle(warm bool) int64 {
	if warm {
		return s.cold.Bytes() + s.warm.Bytes()
	}
	return s.cold.Bytes()
}

// Put puts a chunk there that has come, with the leases of those who waited for it. It must not be there. warm says that a
// reader comes for it soon.
func (s *Shelf[K]) Put(key K, size int64, leases int, warm bool) {
	s.put(&entry[K]{key: key, cost: size, refs: int32(leases), warm: warm})
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

// Evict takes the chunk away that should go first, if any may go: one that a reader comes for soon only if warm is set and there is no
// other.
func (s *Shelf[K]) Evict(warm bool) (key K, size int64, ok bool) {
	e := s.evict(warm)
	if e == nil {
		return key, 0, false
	}
	return e.key, e.cost, true
}

// SetWarm says that the readers have changed, and which chunks they come for soon. The policies are asked to look again when they
// need the others.
func (s *Shelf[K]) SetWarm(wanted func(K) bool) {
	for _, list := range []Policy[K]{s.cold, s.warm} {
		if r, ok := list.(refresher); ok {
			r.Refresh()
		}
	}
	var changed []*entry[K]
	for _, e := range s.entries {
		if wanted(e.key) != e.warm {
			changed = append(changed, e)
		}
	}
	s.move(changed, wanted)
}

// Rewarm is SetWarm where only the answers for some keys have changed: no policy is asked to look at the others.
func (s *Shelf[K]) Rewarm(wanted func(K) bool, keys []K) {
	var changed []*entry[K]
	for _, k := range keys {
		if e := s.entries[k]; e != nil {
			changed = append(changed, e)
		}
	}
	s.move(changed, wanted)
}

// move moves entries to the lists that they belong to. Chunks that move together keep their order of use.
func (s *Shelf[K]) move(changed []*entry[K], wanted func(K) bool) {
	slices.SortFunc(changed, func(a, b *entry[K]) int { return cmp.Compare(a.used, b.used) })
	for _, e := range changed {
		s.warmth(e, wanted(e.key))
	}
}

// warmth moves an entry to the list that it belongs to.
func (s *Shelf[K]) warmth(e *entry[K], wanted bool) {
	if wanted == e.warm {
		return
	}
	if e.refs == 0 {
		s.list(e).Remove(e.key)
	}
	e.warm = wanted
	if e.refs == 0 {
		s.add(e)
	}
}

// list returns where an unleased entry waits for its end.
func (s *Shelf[K]) list(e *entry[K]) Policy[K] {
	if e.warm {
		return s.warm
	}
	return s.cold
}

func (s *Shelf[K]) add(e *entry[K]) { s.list(e).Add(e.key, e.cost, e.admitted) }

// rest puts an entry among those that could go, as the last one used.
func (s *Shelf[K]) rest(e *entry[K]) {
	s.uses++
	e.used = s.uses
	s.add(e)
}

func (s *Shelf[K]) put(e *entry[K]) {
	if s.entries[e.key] != nil {
		panic("chunkcache: chunk put twice")
	}
	s.admitted++
	e.admitted = s.admitted
	s.entries[e.key] = e
	s.bytes += e.cost
	if e.refs == 0 {
		s.rest(e)
	}
}

func (s *Shelf[K]) lease(e *entry[K]) {
	if e.refs == 0 {
		s.list(e).Remove(e.key)
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
	s.rest(e)
	return true
}

// evict takes the entry away that should go first, nil when none can go.
func (s *Shelf[K]) evict(warm bool) *entry[K] {
	from := s.cold
	key, ok := from.Victim()
	if !ok && warm {
		from = s.warm
		key, ok = from.Victim()
	}
	if !ok {
		return nil
	}
	from.Remove(key)
	e := s.entries[key]
	delete(s.entries, key)
	s.bytes -= e.cost
	s.evicted(key)
	return e
}
