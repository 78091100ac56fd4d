package arrowbatch

import (
	"fmt"
	"runtime"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// table is a table of an untrusted flatbuffer. A read out of bounds panics, which catch returns as
// an error.
type table struct{ flatbuffers.Table }

// missing returns a table without entries, which represents a missing table.
func missing() table {
	return table{flatbuffers.Table{Bytes: []byte{4, 0, 4, 0, 4, 0, 0, 0}, Pos: 4}}
}

func (t table) missing() bool { return len(t.Bytes) == 8 }

// root returns the root table of a flatbuffer.
func root(b []byte) table {
	return table{flatbuffers.Table{Bytes: b, Pos: flatbuffers.GetUOffsetT(b)}}
}

func slot(i int) flatbuffers.VOffsetT { return flatbuffers.VOffsetT(4 + 2*i) }

// entry returns the offset of an entry in the table, or 0 if the entry is absent.
func (t table) entry(i int) flatbuffers.UOffsetT { return flatbuffers.UOffsetT(t.Offset(slot(i))) }

// u8, i16, i32 and i64 return the number in an entry, or def if the entry is absent.
func (t table) u8(i int, def byte) byte { return t.GetByteSlot(slot(i), def) }
func (t table) i16(i, def int) int      { return int(t.GetInt16Slot(slot(i), int16(def))) }
func (t table) i32(i, def int) int      { return int(t.GetInt32Slot(slot(i), int32(def))) }
func (t table) i64(i int) int64         { return t.GetInt64Slot(slot(i), 0) }

// has reports whether an entry is present.
func (t table) has(i int) bool { return t.entry(i) != 0 }

// table returns the table that an entry refers to.
func (t table) table(i int) table {
	if !t.has(i) {
		return missing()
	}
	return table{flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(t.Pos + t.entry(i))}}
}

// vector returns the elements of a vector. Each has the given size.
func (t table) vector(i, size int) []byte {
	if !t.has(i) {
		return nil
	}
	at, n := int(t.Vector(t.entry(i))), t.VectorLen(t.entry(i))
	if n > len(t.Bytes)/size {
		fail(errMessage)
	}
	return t.Bytes[at : at+n*size]
}

// tables returns the elements of a vector of tables.
func (t table) tables(i int) []table {
	n := len(t.vector(i, 4)) / 4
	if n > rows.MaxNodes {
		fail(errMessage)
	}
	all := make([]table, n)
	for k := range all {
		all[k] = table{flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(t.Vector(t.entry(i)) + flatbuffers.UOffsetT(4*k))}}
	}
	return all
}

func (t table) text(i int) string { return string(t.vector(i, 1)) }

// failure is a panic that catch returns as an error.
type failure struct{ err error }

// fail raises an error. Decoding untrusted bytes can fail at each value, and only the callers of the
// package handle the error.
//
//go:noinline
func fail(err error) { panic(failure{err}) }

// failIn raises an error of a column.
func failIn(n *rows.Node, err error) { fail(fmt.Errorf("column %.100q: %w", n.Name, err)) }

// catch sets the error of a function that called fail, or that read out of bounds.
func catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = r.err
	case runtime.Error:
		*err = errMessage
	default:
		panic(r)
	}
}
