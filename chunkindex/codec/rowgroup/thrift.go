package rowgroup

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// thrift reads untrusted values in Thrift's compact protocol. It allocates no memory for claimed
// lengths, because each element of a list needs at least one byte.
type thrift struct {
	b     []byte
	off   int
	depth int
}

// errThrift is the error for malformed or truncated metadata.
var errThrift = errors.New("metadata is malformed")

// Types of the compact protocol.
const (
	typeTrue   = 1
	typeFalse  = 2
	typeByte   = 3
	typeDouble = 7
	typeBinary = 8
	typeList   = 9
	typeSet    = 10
	typeMap    = 11
	typeStruct = 12
	typeUUID   = 13
)

// maxNesting limits the nesting of structs and lists. Parquet needs six levels.
const maxNesting = 32

func (t *thrift) uvarint() uint64 {
	v, n := binary.Uvarint(t.b[t.off:])
	if n <= 0 {
		fail(errThrift)
	}
	t.off += n
	return v
}

// int reads an integer of any width.
func (t *thrift) int() int64 {
	v := t.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (t *thrift) take(n uint64) []byte {
	if n > uint64(len(t.b)-t.off) {
		fail(errThrift)
	}
	t.off += int(n)
	return t.b[t.off-int(n) : t.off]
}

func (t *thrift) byte() byte { return t.take(1)[0] }

func (t *thrift) bytes() []byte { return t.take(t.uvarint()) }

func (t *thrift) nest() {
	if t.depth++; t.depth > maxNesting {
		fail(fmt.Errorf("%w: nested too deeply", errThrift))
	}
}

// structure reads a struct. It calls field for each field, which must read or skip the value.
func (t *thrift) structure(field func(id int, kind byte)) {
	t.nest()
	for id := int64(0); ; {
		head := t.byte()
		if head == 0 {
			break
		}
		if delta := int64(head >> 4); delta > 0 {
			id += delta
		} else {
			id = t.int()
		}
		if id < 0 || id > 1<<15 {
			fail(errThrift)
		}
		field(int(id), head&15)
	}
	t.depth--
}

// list reads a list. It calls element for each element; all elements have the same type.
func (t *thrift) list(element func(kind byte)) {
	t.nest()
	head := t.byte()
	n := uint64(head >> 4)
	if n == 15 {
		n = t.uvarint()
	}
	if n > uint64(len(t.b)-t.off) {
		fail(errThrift)
	}
	for range n {
		element(head & 15)
	}
	t.depth--
}

// skip skips the value of a struct's field.
func (t *thrift) skip(kind byte) {
	if kind != typeTrue && kind != typeFalse { // these contain the value
		t.skipElement(kind)
	}
}

func (t *thrift) skipElement(kind byte) {
	switch kind {
	case typeTrue, typeFalse, typeByte:
		t.byte()
	case 4, 5, 6:
		t.uvarint()
	case typeDouble:
		t.take(8)
	case typeBinary:
		t.bytes()
	case typeList, typeSet:
		t.list(t.skipElement)
	case typeMap:
		t.skipMap()
	case typeStruct:
		t.structure(func(_ int, kind byte) { t.skip(kind) })
	case typeUUID:
		t.take(16)
	default:
		fail(errThrift)
	}
}

func (t *thrift) skipMap() {
	n := t.uvarint()
	if n == 0 {
		return
	}
	t.nest()
	kinds := t.byte()
	if n > uint64(len(t.b)-t.off) {
		fail(errThrift)
	}
	for range n {
		t.skipElement(kinds >> 4)
		t.skipElement(kinds & 15)
	}
	t.depth--
}

// structFields are the destinations of a struct's fields by their ids, as in thrift.read.
type structFields map[int]any

// read reads the value of a struct's field. into is a pointer to an integer, a string or a boolean,
// the fields of a struct, a function that returns the destination of each element of a list, or a
// function that reads the value. nil skips the value.
func (t *thrift) read(kind byte, into any) {
	ok := true
	switch v := into.(type) {
	case nil:
		t.skip(kind)
	case *int64:
		switch kind {
		case typeByte:
			*v = int64(int8(t.byte()))
		case 4, 5, 6:
			*v = t.int()
		default:
			ok = false
		}
	case *string:
		if ok = kind == typeBinary; ok {
			*v = string(t.bytes())
		}
	case *bool:
		ok = kind == typeTrue || kind == typeFalse
		*v = kind == typeTrue
	case structFields:
		if ok = kind == typeStruct; ok {
			t.structure(func(id int, kind byte) { t.read(kind, v[id]) })
		}
	case func() any:
		if ok = kind == typeList || kind == typeSet; ok {
			t.list(func(kind byte) { t.read(kind, v()) })
		}
	case func(kind byte):
		v(kind)
	}
	if !ok {
		fail(errThrift)
	}
}
