package rowgroup

import "errors"

// errMemory is returned for a row group whose pages and dictionaries need more memory than Room allows.
var errMemory = errors.New("pages and dictionaries need more memory than the rows that are made of them: write the file again, with smaller row groups (row_group_size=) or without dictionaries of values that no row has")

// memory gives out the bytes that decoding a row group holds beside its rows, and counts them. It takes the same number for the same
// row group, whether it has an arena or takes from the heap.
type memory struct {
	arena []byte // to be used before the heap
	left  int64  // bytes that may still be taken
	free  [][]byte
}

// take counts bytes that are held in another way.
func (m *memory) take(n int64) error {
	if n > m.left {
		return errMemory
	}
	m.left -= n
	return nil
}

// alloc returns n bytes, those that were given back first.
func (m *memory) alloc(n int64) ([]byte, error) {
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
		return b, nil
	}
	if err := m.take(n); err != nil {
		return nil, err
	}
	if n > int64(len(m.arena)) {
		return make([]byte, n), nil
	}
	b := m.arena[:n:n]
	m.arena = m.arena[n:]
	return b, nil
}

// giveBack takes bytes of alloc to be given out again.
func (m *memory) giveBack(b []byte) {
	if cap(b) > 0 {
		m.free = append(m.free, b)
	}
}
