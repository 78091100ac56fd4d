// Package published implements protocols as their authors published them, for comparison in
// experiments. The product solves the same problems in other ways.
package published

// Redirection is a session of Brand ("Redox" in its second version). Memory has slots, and each
// chunk belongs to one slot. A request for a sample goes to its chunk's slot. If the slot is empty,
// it loads its next chunk. The response is the requested sample if the slot contains it unread,
// otherwise another unread sample of the slot. So every loaded chunk is consumed completely, and no
// chunk is loaded twice. A session is one pass in which every sample is requested once.
type Redirection struct {
	each  int
	slots []slot
	Loads int // of chunks
}

// slot is one chunk in memory, with the chunks that follow it.
type slot struct {
	waiting []int // chunks, the next one first
	chunk   int
	unread  []int       // unread samples of the chunk
	at      map[int]int // position of each sample in unread
}

// NewRedirection starts a session over chunks of each samples, with the given number of slots.
// Chunk c belongs to slot c mod slots.
func NewRedirection(chunks, each, slots int) *Redirection {
	r := &Redirection{each: each, slots: make([]slot, slots)}
	for c := range chunks {
		s := &r.slots[c%slots]
		s.waiting = append(s.waiting, c)
	}
	return r
}

// Ask responds to a request for a sample with an unread sample of the same slot. load is the chunk
// that had to be read for the response, or -1.
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

// take removes an unread sample; the last one fills its position.
func (s *slot) take(i int) int {
	sample, last := s.unread[i], len(s.unread)-1
	s.unread[i] = s.unread[last]
	s.at[s.unread[i]] = i
	s.unread = s.unread[:last]
	delete(s.at, sample)
	return sample
}
