package codec

import (
	"slices"
	"sort"
)

// FrameList records the frames of an object that is read sequentially, as long as the frames are
// needed. The zero value is empty.
type FrameList struct {
	known []Frame
	most  int // number of known frames at which the next Keep removes some
}

// Add adds the next frame.
func (l *FrameList) Add(f Frame) { l.known = append(l.known, f) }

// Last returns the most recently added frame, to which bytes may still be added.
func (l *FrameList) Last() *Frame { return &l.known[len(l.known)-1] }

// Drop removes the most recently added frame.
func (l *FrameList) Drop() { l.known = l.known[:len(l.known)-1] }

// At returns the frame that contains a decoded byte, if the byte was read and the frame was not
// removed.
func (l *FrameList) At(off int64) (Frame, bool) {
	i := sort.Search(len(l.known), func(i int) bool { return l.known[i].DecodedEnd > off })
	if i == len(l.known) || l.known[i].Decoded > off {
		return Frame{}, false
	}
	return l.known[i], true
}

// leastKnown is the number of frames that are retained before Keep removes any. They use 128 KiB.
const leastKnown = 4 << 10

// Keep removes all frames except those that contain one of the holders' decoded bytes, or a byte at
// or after offset from. It does so only when the number of frames has doubled, so that many small
// frames cost amortized constant time each.
func (l *FrameList) Keep(from int64, holders [4]int64) {
	if len(l.known) < max(l.most, leastKnown) {
		return
	}
	last := len(l.known) - 1 // more bytes may be added to it
	kept := l.known[:0]
	for i, f := range l.known {
		if i == last || f.DecodedEnd > from || slices.ContainsFunc(holders[:], func(b int64) bool { return f.Decoded <= b && b < f.DecodedEnd }) {
			kept = append(kept, f)
		}
	}
	l.known = kept
	l.most = 2 * len(kept)
}
