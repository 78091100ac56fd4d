package arrowbatch

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// flat reads an untrusted flatbuffer. A read out of bounds fails.
type flat struct{ b []byte }

func (f *flat) bytes(at, n int) []byte {
	if at < 0 || n < 0 || at > len(f.b) || n > len(f.b)-at {
		fail(errMessage)
	}
	return f.b[at : at+n]
}

func (f *flat) u16(at int) int { return int(binary.LittleEndian.Uint16(f.bytes(at, 2))) }

func (f *flat) u32(at int) int { return int(binary.LittleEndian.Uint32(f.bytes(at, 4))) }

func (f *flat) i64(at int) int64 { return int64(binary.LittleEndian.Uint64(f.bytes(at, 8))) }

// table is a table of a flatbuffer. The zero table represents a missing table, in which all entries
// have their default values.
type table struct {
	f      *flat
	at     int
	places int // offset of the list of entry offsets
	size   int // length of this list in bytes
}

// root returns the root table of a flatbuffer.
func (f *flat) root() table { return f.table(f.u32(0)) }

func (f *flat) table(at int) table {
	t := table{f: f, at: at, places: at - int(int32(f.u32(at)))}
	t.size = f.u16(t.places)
	return t
}

// entry returns the offset of an entry, or 0 if the entry is absent.
func (t table) entry(i int) int {
	if t.f == nil || 4+2*i+2 > t.size {
		return 0
	}
	if off := t.f.u16(t.places + 4 + 2*i); off != 0 {
		return t.at + off
	}
	return 0
}

// u8, i16, i32 and i64 return the number in an entry, or def if the entry is absent.
func (t table) u8(i int, def byte) byte {
	if at := t.entry(i); at != 0 {
		return t.f.bytes(at, 1)[0]
	}
	return def
}

func (t table) i16(i, def int) int {
	if at := t.entry(i); at != 0 {
		return int(int16(t.f.u16(at)))
	}
	return def
}

func (t table) i32(i, def int) int {
	if at := t.entry(i); at != 0 {
		return int(int32(t.f.u32(at)))
	}
	return def
}

func (t table) i64(i int) int64 {
	if at := t.entry(i); at != 0 {
		return t.f.i64(at)
	}
	return 0
}

// has reports whether an entry is present.
func (t table) has(i int) bool { return t.entry(i) != 0 }

// table returns the table that an entry refers to.
func (t table) table(i int) table {
	at := t.entry(i)
	if at == 0 {
		return table{}
	}
	return t.f.table(at + t.f.u32(at))
}

// vector returns the offset of a vector's elements and their number. Each element has the given
// size.
func (t table) vector(i, size int) (at, n int) {
	ref := t.entry(i)
	if ref == 0 {
		return 0, 0
	}
	at = ref + t.f.u32(ref)
	n = t.f.u32(at)
	if n > len(t.f.b)/size {
		fail(errMessage)
	}
	t.f.bytes(at+4, n*size)
	return at + 4, n
}

// tables returns the elements of a vector of tables.
func (t table) tables(i int) []table {
	at, n := t.vector(i, 4)
	if n > rows.MaxNodes {
		fail(errMessage)
	}
	all := make([]table, n)
	for k := range all {
		ref := at + 4*k
		all[k] = t.f.table(ref + t.f.u32(ref))
	}
	return all
}

func (t table) text(i int) string {
	at, n := t.vector(i, 1)
	if n == 0 {
		return ""
	}
	return string(t.f.bytes(at, n))
}

// failure is a panic that catch returns as an error.
type failure struct{ err error }

// fail raises an error. Decoding untrusted bytes can fail at each value, and only the callers of the
// package handle the error.
//
//go:noinline
func fail(err error) { panic(failure{err}) }

// failIn raises an error of a column.
func failIn(n *rows.Node, err error) { fail(fmt.Errorf("column %.100q: %w", n.Name, err)) }

// catch sets the error of a function that called fail.
func catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = r.err
	default:
		panic(r)
	}
}
