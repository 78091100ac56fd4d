package shuffle

import (
	"math"
	"math/bits"
)

const (
	// exact is the size of the largest permutation that is an exact Fisher-Yates shuffle.
	// Larger permutations are Feistel networks, except the sequence of chunks of Window, which
	// is a Fisher-Yates shuffle of any size.
	exact = 128
	// rounds is the number of rounds of a Feistel network. A round adds a hash of one half to
	// the other half, twice.
	rounds = 8
)

// shuffleAll shuffles a sequence by Fisher-Yates, from the last place down: place i gets the
// element from perm(i).
func shuffleAll(k key, s []uint32) {
	for i := len(s) - 1; i > 0; i-- {
		j := k.draw(uint64(i), uint64(i)+1)
		s[i], s[j] = s[j], s[i]
	}
}

// perm is the permutation perm(key; n). It is stateless, so each element costs the same.
type perm struct {
	k    key
	n    uint64
	a, b uint64 // a Feistel network works on pairs (l, r), l < a and r < b, of value l*b + r
}

func newPerm(k key, n uint64) perm {
	var p perm
	p.reset(k, n)
	return p
}

// reset makes p the permutation perm(k; n). It is cheaper than newPerm if n is unchanged.
func (p *perm) reset(k key, n uint64) {
	p.k = k
	if p.n == n {
		return
	}
	p.n = n
	if n > exact {
		p.a = ceilSqrt(n)
		p.b = (n-1)/p.a + 1
	}
}

// at returns the element at place i < n.
func (p *perm) at(i uint64) uint64 {
	if p.n <= exact {
		return p.trace(i)
	}
	for {
		l, r := i/p.b, i%p.b
		for c := uint64(0); c < rounds<<32; c += 2 << 32 {
			if l += p.round(c, r, p.a); l >= p.a {
				l -= p.a
			}
			if r += p.round(c+1<<32, l, p.b); r >= p.b {
				r -= p.b
			}
		}
		if i = l*p.b + r; i < p.n {
			return i
		}
	}
}

// appendRange appends the elements at places lo to hi-1. It is cheaper than at in a loop.
func (p *perm) appendRange(dst []uint64, lo, hi uint64) []uint64 {
	if p.n <= exact {
		var table [exact]uint8
		p.table(&table)
		for _, v := range table[lo:hi] {
			dst = append(dst, uint64(v))
		}
		return dst
	}
	var some halves
	for l, r := lo/p.b, lo%p.b; lo < hi; {
		n := int(min(abreast, hi-lo))
		for i := range n {
			some.l[i], some.r[i] = l, r
			if r++; r == p.b {
				l, r = l+1, 0
			}
		}
		p.pass(&some, n)
		for i := range n {
			v := some.l[i]*p.b + some.r[i]
			if v >= p.n {
				v = p.at(v)
			}
			dst = append(dst, v)
		}
		lo += uint64(n)
	}
	return dst
}

// all yields the elements in order of their places.
func (p *perm) all(yield func(v uint64) bool) {
	for some := range p.blocks {
		for _, v := range some {
			if !yield(v) {
				return
			}
		}
	}
}

// blocks yields the elements in slices of at most exact. A slice is valid until the next one.
func (p *perm) blocks(yield func(some []uint64) bool) {
	var some [exact]uint64
	for lo := uint64(0); lo < p.n; lo += exact {
		if !yield(p.appendRange(some[:0], lo, min(p.n, lo+exact))) {
			return
		}
	}
}

// place returns the place of element v < n: the inverse of at.
func (p *perm) place(v uint64) uint64 {
	if p.n <= exact {
		return p.traceBack(v)
	}
	for {
		l, r := v/p.b, v%p.b
		for c := uint64(rounds << 32); c > 0; c -= 2 << 32 {
			f := p.round(c-1<<32, l, p.b)
			if r < f {
				r += p.b
			}
			r -= f
			f = p.round(c-2<<32, r, p.a)
			if l < f {
				l += p.a
			}
			l -= f
		}
		if v = l*p.b + r; v < p.n {
			return v
		}
	}
}

// round hashes one half into the range of the other. c is the round's number times 2^32.
func (p *perm) round(c, half, n uint64) uint64 {
	hi, _ := bits.Mul64(p.k.word(c|half), n)
	return hi
}

// trace returns one element of the Fisher-Yates shuffle without shuffling. Step i moves the element
// at a drawn place to place i. Earlier steps, for higher places, may have moved that element; the
// latest of them is the lowest.
func (p *perm) trace(i uint64) uint64 {
	v := p.k.draw(i, i+1)
	for s := i + 1; s < p.n; s++ {
		if p.k.draw(s, s+1) == v {
			v = s
		}
	}
	return v
}

// traceBack follows the element v through the same steps, from the first to the one that determines
// its place.
func (p *perm) traceBack(v uint64) uint64 {
	for s := p.n - 1; s > 0; s-- {
		switch d := p.k.draw(s, s+1); {
		case d == v:
			return s
		case s == v:
			v = d
		}
	}
	return v
}

// table writes the whole permutation, of at most exact elements, to t.
func (p *perm) table(t *[exact]uint8) {
	for i := range p.n {
		t[i] = uint8(i)
	}
	for i := p.n; i > 1; i-- {
		j := p.k.draw(i-1, i)
		t[i-1], t[j] = t[j], t[i-1]
	}
}

// ceilSqrt returns the least a with a*a >= n, for n below 2^63.
func ceilSqrt(n uint64) uint64 {
	a := uint64(math.Sqrt(float64(n)))
	for a > 0 && a*a >= n {
		a--
	}
	for a*a < n {
		a++
	}
	return a
}
