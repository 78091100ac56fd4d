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

func (t *thrift) uvarint() (uint64, error) {
	v, n := binary.Uvarint(t.b[t.off:])
	if n <= 0 {
		return 0, errThrift
	}
	t.off += n
	return v, nil
}

// int reads an integer of any width.
func (t *thrift) int() (int64, error) {
	v, err := t.uvarint()
	return int64(v>>1) ^ -int64(v&1), err
}

func (t *thrift) byte() (byte, error) {
	if t.off >= len(t.b) {
		return 0, errThrift
	}
	t.off++
	return t.b[t.off-1], nil
}

func (t *thrift) bytes() ([]byte, error) {
	n, err := t.uvarint()
	if err != nil || n > uint64(len(t.b)-t.off) {
		return nil, errThrift
	}
	t.off += int(n)
	return t.b[t.off-int(n) : t.off], nil
}

// structure reads a struct. It calls field for each field, which must read or skip the value.
func (t *thrift) structure(field func(id int, kind byte) error) error {
	if t.depth++; t.depth > maxNesting {
		return fmt.Errorf("%w: nested too deeply", errThrift)
	}
	defer func() { t.depth-- }()
	for id := int64(0); ; {
		head, err := t.byte()
		if err != nil || head == 0 {
			return err
		}
		if delta := int64(head >> 4); delta > 0 {
			id += delta
		} else if id, err = t.int(); err != nil {
			return err
		}
		if id < 0 || id > 1<<15 {
			return errThrift
		}
		if err := field(int(id), head&15); err != nil {
			return err
		}
	}
}

// list reads a list. It calls element for each element; all elements have the same type.
func (t *thrift) list(kind byte, element func(kind byte) error) error {
	if kind != typeList && kind != typeSet {
		return errThrift
	}
	if t.depth++; t.depth > maxNesting {
		return fmt.Errorf("%w: nested too deeply", errThrift)
	}
	defer func() { t.depth-- }()
	head, err := t.byte()
	if err != nil {
		return err
	}
	n := uint64(head >> 4)
	if n == 15 {
		if n, err = t.uvarint(); err != nil {
			return err
		}
	}
	if n > uint64(len(t.b)-t.off) {
		return errThrift
	}
	for range n {
		if err := element(head & 15); err != nil {
			return err
		}
	}
	return nil
}

// skip skips the value of a struct's field.
func (t *thrift) skip(kind byte) error {
	if kind == typeTrue || kind == typeFalse {
		return nil // the type itself contains the value
	}
	return t.skipElement(kind)
}

func (t *thrift) skipElement(kind byte) error {
	var err error
	switch kind {
	case typeTrue, typeFalse, typeByte:
		_, err = t.byte()
	case 4, 5, 6:
		_, err = t.uvarint()
	case typeDouble:
		err = t.pass(8)
	case typeBinary:
		_, err = t.bytes()
	case typeList, typeSet:
		err = t.list(kind, t.skipElement)
	case typeMap:
		err = t.skipMap()
	case typeStruct:
		err = t.structure(func(_ int, kind byte) error { return t.skip(kind) })
	case typeUUID:
		err = t.pass(16)
	default:
		err = errThrift
	}
	return err
}

func (t *thrift) pass(n int) error {
	if n > len(t.b)-t.off {
		return errThrift
	}
	t.off += n
	return nil
}

func (t *thrift) skipMap() error {
	if t.depth++; t.depth > maxNesting {
		return fmt.Errorf("%w: nested too deeply", errThrift)
	}
	defer func() { t.depth-- }()
	n, err := t.uvarint()
	if err != nil || n == 0 {
		return err
	}
	kinds, err := t.byte()
	if err != nil || n > uint64(len(t.b)-t.off) {
		return errThrift
	}
	for range n {
		if err := t.skipElement(kinds >> 4); err != nil {
			return err
		}
		if err := t.skipElement(kinds & 15); err != nil {
			return err
		}
	}
	return nil
}

// These functions read fields of a struct and check that the metadata has the expected type.

func (t *thrift) fieldInt(kind byte, v *int64) (err error) {
	switch kind {
	case typeByte:
		var b byte
		b, err = t.byte()
		*v = int64(int8(b))
	case 4, 5, 6:
		*v, err = t.int()
	default:
		err = errThrift
	}
	return err
}

func (t *thrift) fieldString(kind byte, v *string) error {
	if kind != typeBinary {
		return errThrift
	}
	b, err := t.bytes()
	*v = string(b)
	return err
}

func fieldBool(kind byte, v *bool) error {
	if kind != typeTrue && kind != typeFalse {
		return errThrift
	}
	*v = kind == typeTrue
	return nil
}

func (t *thrift) fieldStruct(kind byte, field func(id int, kind byte) error) error {
	if kind != typeStruct {
		return errThrift
	}
	return t.structure(field)
}
