package codec

import (
	"slices"
	"sort"
)

// FrameList knows the frames of an object that is read from its beginning to its end, as far as they are still asked for. The zero
// value knows none.
type FrameList struct {
	known []Frame
	most  int // as many of them as there may be before Keep drops some
}

// Add adds the next frame.
func (l *FrameList) Add(f Frame) { l.known = append(l.known, f) }

// Last returns the frame that was added last, which may still grow.
func (l *FrameList) Last() *Frame { return &l.known[len(l.known)-1] }

// Drop drops the frame that was added last.
func (l *FrameList) Drop() { l.known = l.known[:len(l.known)-1] }

// At returns the frame that holds a decoded byte, if that byte has been read and the frame not been forgotten.
func (l *FrameList) At(off int64) (Frame, bool) {
	i := sort.Search(len(l.known), func(i int) bool { return l.known[i].DecodedEnd > off })
	if i == len(l.known) || l.known[i].Decoded > off {
		return Frame{}, false
	}
	return l.known[i], true
}

// leastKnown is how many frames are remembered before any is dropped: 128 KiB of them.
const leastKnown = 4 << 10

// Keep drops all frames but those that hold one of some decoded bytes, or a byte from an offset on. It looks at them only when there are
// twice as many as it has left, so that many small frames cost no more than their number.
func (l *FrameList) Keep(from int64, holders [4]int64) {
	if len(l.known) < max(l.most, leastKnown) {
		return
	}
	last := len(l.known) - 1 // which is still read, perhaps
	kept := l.known[:0]
	for i, f := range l.known {
		if i == last || f.DecodedEnd > from || slices.ContainsFunc(holders[:], func(b int64) bool { return f.Decoded <= b && b < f.DecodedEnd }) {
			kept = append(kept, f)
		}
	}
	l.known = kept
	l.most = 2 * len(kept)
}
