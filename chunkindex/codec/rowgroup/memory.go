package rowgroup

import (
	"errors"
	"fmt"
)

// errMemory is the error for a row group whose pages and dictionaries need more memory than Room
// allows.
var errMemory = errors.New("pages and dictionaries require more memory than the rows they contain: write the file again with smaller row groups (row_group_size=) or without unused dictionary values")

// memory allocates and counts the memory that decoding a row group needs in addition to its rows.
// The count for a row group is the same with and without an arena.
type memory struct {
	arena []byte // memory that alloc uses before the heap
	left  int64  // number of bytes that may still be allocated
	free  [][]byte

	reading int // number of the column that is being read, for errors
}

// take counts n bytes that the caller holds elsewhere.
func (m *memory) take(n int64) {
	if n > m.left {
		fail(errMemory)
	}
	m.left -= n
}

// alloc returns n bytes. It prefers buffers that giveBack returned.
func (m *memory) alloc(n int64) []byte {
	best := -1
	for i, b := range m.free {
		if int64(cap(b)) >= n && (best < 0 || cap(b) < cap(m.free[best])) {
			best = i
		}
	}
	if best >= 0 {
		b := m.free[best][:n]
		last := len(m.free) - 1
		m.free[best] = m.free[last]
		m.free = m.free[:last]
		return b
	}
	m.take(n)
	if n > int64(len(m.arena)) {
		return make([]byte, n)
	}
	b := m.arena[:n:n]
	m.arena = m.arena[n:]
	return b
}

// giveBack returns a buffer from alloc for reuse.
func (m *memory) giveBack(b []byte) {
	if cap(b) > 0 {
		m.free = append(m.free, b)
	}
}

// failure is a panic that catch returns as an error.
type failure struct{ err error }

// fail raises an error. Decoding untrusted bytes can fail at each value, and only the callers of the
// package handle the error.
//
//go:noinline
func fail(err error) { panic(failure{err}) }

// catch sets the error of a function that called fail, with a prefix. Libraries may raise other
// panics.
func catch(prefix string, err *error) {
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = fmt.Errorf("%s%w", prefix, r.err)
	default:
		*err = fmt.Errorf("%sdecoder of row groups failed: %v", prefix, r)
	}
}
