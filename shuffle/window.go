package shuffle

import (
	"math/bits"
	"sync"
)

// windowOrder is the order of one epoch of the window shuffle.
type windowOrder struct {
	chunks  chunkTable
	windows uint64   // n
	rows    uint64   // rows of the sequence; a window has whole rows. R with strata; otherwise a row is one place
	width   uint64   // places in a row: the number of strata, or 1
	strata  []uint32 // chunk -> stratum; nil: no strata
	order   []uint32 // place -> chunk
	start   []uint64 // place -> first position of the chunk's samples in its window's region; len is places+1
	key     key      // key of a window, without its number

	once   sync.Once
	places []uint32 // chunk -> place, computed at the first use
}

func newWindowOrder(p *Plan, epoch uint64) *windowOrder {
	n := p.chunks.len()
	w := &windowOrder{
		chunks: p.chunks,
		rows:   uint64(n),
		width:  1,
		strata: p.strata,
		order:  make([]uint32, n),
		start:  make([]uint64, n+1),
		key:    newKey("window", p.params.Seed, epoch),
	}
	if w.strata != nil {
		w.width = p.params.Strata
		w.rows = ceilDiv(uint64(n), w.width)
	}
	w.windows = p.windows()
	for i := range w.order {
		w.order[i] = uint32(i)
	}
	shuffleAll(newKey("chunks", p.params.Seed, epoch), w.order)
	if w.strata != nil {
		w.order = stratify(newKey("strata-row", p.params.Seed, epoch), w.order, w.strata, w.width)
	}
	var sum uint64
	for i, c := range w.order {
		w.start[i] = sum
		sum += p.chunks.size(c)
	}
	w.start[n] = sum
	return w
}

// windows returns the number of windows of a window order.
func (p *Plan) windows() uint64 {
	width := max(1, p.params.Strata)
	return ceilDiv(ceilDiv(uint64(p.chunks.len()), width), p.params.Window/width)
}

// placeNear returns the same as placeIn for a place that is probably near guess: the search widens
// from there.
func placeNear(start []uint64, lo, hi, guess int, x uint64) int {
	guess = max(lo, min(guess, hi-1))
	if start[guess] <= x {
		lo = guess
		for step := 1; lo+step < hi; step *= 2 {
			if start[lo+step] > x {
				hi = lo + step
				break
			}
			lo += step
		}
		return placeIn(start, lo, hi, x)
	}
	hi = guess
	for step := 1; hi-step > lo; step *= 2 {
		if start[hi-step] <= x {
			lo = hi - step
			break
		}
		hi -= step
	}
	return placeIn(start, lo, hi, x)
}

// placeIn returns the place, from lo to hi-1, whose chunk contains position x of the unshuffled
// sequence.
func placeIn(start []uint64, lo, hi int, x uint64) int {
	for hi-lo > 1 {
		mid := int(uint(lo+hi) >> 1)
		if start[mid] <= x {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// oneWindow is one window of an order.
type oneWindow struct {
	lo, hi int     // places
	base   uint64  // first position
	pace   float64 // places per sample
	perm   perm
}

// bound returns the first place of window i, which is that of row floor(i*R/n), or N for i = n.
func (w *windowOrder) bound(i uint64) int {
	return int(min(uint64(len(w.order)), mulDiv(i, w.rows, w.windows)*w.width))
}

// holding returns the number of the window that contains a place.
func (w *windowOrder) holding(place int) uint64 {
	return holding(uint64(place)/w.width, w.windows, w.rows)
}

func (w *windowOrder) window(i uint64) oneWindow {
	lo, hi := w.bound(i), w.bound(i+1)
	n := w.start[hi] - w.start[lo]
	return oneWindow{lo: lo, hi: hi, base: w.start[lo], pace: float64(hi-lo) / float64(max(1, n)), perm: newPerm(w.key.with(i), n)}
}

// find returns the window of position t.
func (w *windowOrder) find(t uint64) oneWindow {
	return w.window(w.holding(placeIn(w.start, 0, len(w.order), t)))
}

// sample returns the v-th of the window's samples, counted in the sequence of the window's chunks.
func (w *windowOrder) sample(in *oneWindow, v uint64) uint64 {
	place := w.placeOf(in, v)
	return w.chunks[w.order[place]] + (in.base + v - w.start[place])
}

// placeOf returns the place whose chunk contains element v.
func (w *windowOrder) placeOf(in *oneWindow, v uint64) int {
	return placeNear(w.start, in.lo, in.hi, in.lo+int(float64(v)*in.pace), in.base+v)
}

func (w *windowOrder) at(t uint64) uint64 {
	in := w.find(t)
	return w.sample(&in, in.perm.at(t-in.base))
}

func (w *windowOrder) appendRange(dst []uint64, lo, hi uint64) []uint64 {
	for lo < hi {
		in := w.find(lo)
		end := min(hi, in.base+in.perm.n)
		from := len(dst)
		dst = in.perm.appendRange(dst, lo-in.base, end-in.base)
		for i := from; i < len(dst); i++ {
			dst[i] = w.sample(&in, dst[i])
		}
		lo = end
	}
	return dst
}

func (w *windowOrder) position(sample uint64) uint64 {
	w.once.Do(func() { w.places = invert(w.order) })
	c := w.chunks.of(sample)
	place := int(w.places[c])
	in := w.window(w.holding(place))
	return in.base + in.perm.place(w.start[place]+(sample-w.chunks[c])-in.base)
}

// invert returns the inverse of a permutation.
func invert(order []uint32) []uint32 {
	inverse := make([]uint32, len(order))
	for i, v := range order {
		inverse[v] = uint32(i)
	}
	return inverse
}

// ceilDiv returns a/b, rounded up.
func ceilDiv(a, b uint64) uint64 {
	if a == 0 {
		return 0
	}
	return (a-1)/b + 1
}

// holding returns the last i for which i*n div parts is at most x < n, which is the part that
// contains x if n things are divided into parts.
func holding(x, parts, n uint64) uint64 {
	hi, lo := bits.Mul64(x+1, parts)
	lo, borrow := bits.Sub64(lo, 1, 0)
	i, _ := bits.Div64(hi-borrow, lo, n)
	return i
}

// mulDiv returns floor(a*b/c) for a result below 2^64.
func mulDiv(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	q, _ := bits.Div64(hi, lo, c)
	return q
}
