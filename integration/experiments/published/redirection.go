// Package published implements protocols as their authors published them, where the product does
// the same differently. They are only for comparison in experiments.
package published

// Redirection is the session of Brand ("Redox" in its second version): memory slots, each shared by some of the
// chunks. A request for a sample goes to its chunk's slot. A drained slot is refilled with its next chunk. If the
// sample is there and unread, it is the answer; else another unread one of that slot is. So a loaded chunk is
// consumed whole and none is loaded twice. It works for one pass in which every sample is asked for once.
type Redirection struct {
	each  int
	slots []slot
	Loads int // of chunks
}

// slot is one chunk in memory, and the chunks that follow it.
type slot struct {
	waiting []int // chunks, the next one first
	chunk   int
	unread  []int       // of the chunk's samples
	at      map[int]int // of a sample among the unread
}

// NewRedirection starts a session over chunks of each samples, with so many slots. Chunk c belongs to slot c mod slots.
func NewRedirection(chunks, each, slots int) *Redirection {
	r := &Redirection{each: each, slots: make([]slot, slots)}
	for c := range chunks {
		s := &r.slots[c%slots]
		s.waiting = append(s.waiting, c)
	}
	return r
}

// Ask answers a request for a sample with a sample of the same slot that was not returned before.
// load is the chunk that had to be read for it, or -1.
func (r *Redirection) Ask(sample int) (answer, load int) {
	s := &r.slots[sample/r.each%len(r.slots)]
	load = -1
	if len(s.unread) == 0 {
		s.refill(r.each)
		load = s.chunk
		r.Loads++
	}
	i, ok := s.at[sample]
	if !ok {
		i = len(s.unread) - 1
	}
	return s.take(i), load
}

func (s *slot) refill(each int) {
	if len(s.waiting) == 0 {
		panic("published: more requests for a slot than its chunks have samples")
	}
	s.chunk, s.waiting = s.waiting[0], s.waiting[1:]
	s.at = make(map[int]int, each)
	for i := range each {
		s.at[s.chunk*each+i] = i
		s.unread = append(s.unread, s.chunk*each+i)
	}
}

// take removes an unread sample; the last one takes its place.
func (s *slot) take(i int) int {
	sample, last := s.unread[i], len(s.unread)-1
	s.unread[i] = s.unread[last]
	s.at[s.unread[i]] = i
	s.unread = s.unread[:last]
	delete(s.at, sample)
	return sample
}
