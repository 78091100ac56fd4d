package shuffle

// abreast is the number of elements that pass through Feistel networks together. A larger number is
// not faster.
const abreast = 16

// walk is an element passing through a Feistel network.
type walk struct {
	perm
	l, r uint64 // its current pair
}

// pass passes elements through their networks once, like at does, but several together. A step of
// an element depends on its previous step, but not on other elements, so the processor works on
// several elements at a time.
func pass(some []walk) {
	for c := uint64(0); c < rounds<<32; c += 2 << 32 {
		for i := range some {
			w := &some[i]
			l := w.l + w.round(c, w.r, w.a)
			if l >= w.a {
				l -= w.a
			}
			w.l = l
		}
		for i := range some {
			w := &some[i]
			r := w.r + w.round(c+1<<32, w.l, w.b)
			if r >= w.b {
				r -= w.b
			}
			w.r = r
		}
	}
}

// halves are the pairs of elements that pass through one network together.
type halves struct{ l, r [abreast]uint64 }

// pass passes n elements through one network together.
func (p *perm) pass(some *halves, n int) {
	l := some.l[:n]
	r := some.r[:len(l)]
	for c := uint64(0); c < rounds<<32; c += 2 << 32 {
		p.step(c, p.a, l, r)
		p.step(c+1<<32, p.b, r, l)
	}
}

// step adds the hash of one half of each element to the other half, modulo n.
func (p *perm) step(c, n uint64, to, from []uint64) {
	from = from[:len(to)]
	for i, half := range from {
		sum := to[i] + p.round(c, half, n)
		if sum >= n {
			sum -= n
		}
		to[i] = sum
	}
}

// end returns the value of an element after one pass. It repeats the pass until the value is below
// n.
func (w *walk) end() uint64 {
	v := w.l*w.b + w.r
	if v >= w.n {
		v = w.at(v)
	}
	return v
}

// walks collects elements of any permutations, and passes them through their networks together.
type walks struct {
	n    int
	walk [abreast]walk
	to   [abreast]int // the index in dst for each element
}

// add adds the element at place i of p to dst[to], immediately or at the latest when finish is
// called.
func (w *walks) add(dst []uint64, to int, p *perm, i uint64) {
	if p.n <= exact {
		dst[to] += p.trace(i)
		return
	}
	if w.n == abreast {
		w.finish(dst)
	}
	e := &w.walk[w.n]
	e.perm, e.l, e.r = *p, i/p.b, i%p.b
	w.to[w.n] = to
	w.n++
}

// finish passes the collected elements through their networks and completes dst.
func (w *walks) finish(dst []uint64) {
	some := w.walk[:w.n]
	pass(some)
	for i := range some {
		dst[w.to[i]] += some[i].end()
	}
	w.n = 0
}
