package shuffle

// Sequence has all chunks in the order in which an epoch needs them. For Window it is the sequence
// of chunks. For Slot it is the concatenation of one sequence per lane, each from the chunk at
// which the lane's turn begins. A chunk that several lanes share is listed in the first of them.
// Chunks without samples are last in Slot.
type Sequence struct {
	Chunks []uint32 // place -> chunk; shared, must not be changed
	Lanes  []uint32 // for Slot: the first place of each lane, and the place after the last lane
}

// Sequence returns the sequence of the epoch's chunks. ok is false if the epoch has none, since it
// follows the stored order (None) or takes samples from all chunks at once (Full).
func (e *Epoch) Sequence() (s Sequence, ok bool) {
	switch {
	case e.window != nil:
		return Sequence{Chunks: e.window.order}, true
	case e.slot != nil:
		return e.slot.sequence(), true
	}
	return Sequence{}, false
}

func (o *slotOrder) sequence() Sequence {
	n := o.chunks.len()
	s := Sequence{Chunks: make([]uint32, 0, n), Lanes: make([]uint32, 0, len(o.turn)+1)}
	taken := make([]bool, n)
	take := func(chunk uint32) {
		if !taken[chunk] {
			taken[chunk] = true
			s.Chunks = append(s.Chunks, chunk)
		}
	}
	for lane := range o.turn {
		s.Lanes = append(s.Lanes, uint32(len(s.Chunks)))
		from, to := int(o.firstPiece[lane]), int(o.firstPiece[lane+1])
		_, first := o.read(lane, 0)
		for i := range to - from {
			place := first + i
			if place >= to {
				place -= to - from
			}
			take(o.pieceChunk[o.pieces[place]])
		}
	}
	s.Lanes = append(s.Lanes, uint32(len(s.Chunks)))
	for chunk := range uint32(n) {
		take(chunk)
	}
	return s
}

// WindowRange is one window of an epoch of a Window order.
type WindowRange struct {
	Number   uint64 // from 0
	From, To uint64 // its positions
	Place    uint64 // first place of the window in the sequence of chunks
}

// WindowAt returns the window of position t. ok is false if the epoch has no windows, or no such
// position.
func (e *Epoch) WindowAt(t uint64) (w WindowRange, ok bool) {
	o := e.window
	if o == nil || t >= e.plan.samples {
		return w, false
	}
	i := o.holding(placeIn(o.start, 0, len(o.order), t))
	lo, hi := o.bound(i), o.bound(i+1)
	return WindowRange{Number: i, From: o.start[lo], To: o.start[hi], Place: uint64(lo)}, true
}
