package rowgroup

import (
	"errors"
	"fmt"
)

// footer holds the parts of a file's metadata that this package needs. Field names follow Parquet's
// specification.
type footer struct {
	schema    []element
	rows      int64
	groups    []group
	notes     map[string]string // the file's free-form metadata
	encrypted bool
}

type element struct {
	name       string
	physical   int64 // physical type; -1: the element is a group
	length     int64 // length in bytes of a FIXED_LEN_BYTE_ARRAY
	repetition int64 // repetition; -1: none, which is valid for the root
	children   int64
	converted  int64 // -1: none
	scale      int64
	precision  int64
	logical    logical
}

// logical is a logical type. It consists of the field number in Parquet's union and the parameters
// of the types.
type logical struct {
	kind      int
	scale     int64
	precision int64
	utc       bool
	unit      int // 1 ms, 2 us, 3 ns
	bits      int64
	signed    bool
}

type group struct {
	columns []chunk
	bytes   int64
	rows    int64
}

// chunk is a column chunk.
type chunk struct {
	elsewhere  string // path of another file that contains the column chunk
	hasMeta    bool
	encrypted  bool
	physical   int64
	codec      int64
	values     int64
	raw        int64 // decompressed bytes
	compressed int64
	data       int64 // offset of the first data page
	dictionary int64 // offset of the dictionary page; 0: there is none
}

// begin returns the offset of a column chunk's first page.
func (c *chunk) begin() int64 {
	if c.dictionary > 0 && c.dictionary < c.data {
		return c.dictionary
	}
	return c.data
}

// errEncrypted is the error for a file that is fully or partly encrypted.
var errEncrypted = errors.New("it is encrypted, which is not supported: write the file without encryption and have the store encrypt")

// parseFooter parses a file's metadata.
func parseFooter(b []byte) (*footer, error) {
	f := &footer{notes: map[string]string{}}
	t := &thrift{b: b}
	err := t.structure(func(id int, kind byte) error {
		switch id {
		case 2:
			return t.list(kind, func(kind byte) error {
				f.schema = append(f.schema, element{physical: -1, converted: -1, repetition: -1})
				return t.element(kind, &f.schema[len(f.schema)-1])
			})
		case 3:
			return t.fieldInt(kind, &f.rows)
		case 4:
			return t.list(kind, func(kind byte) error {
				f.groups = append(f.groups, group{})
				return t.group(kind, &f.groups[len(f.groups)-1])
			})
		case 5:
			return t.list(kind, func(kind byte) error {
				return t.note(kind, f.notes)
			})
		case 8:
			f.encrypted = true
		}
		return t.skip(kind)
	})
	if err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	if f.encrypted {
		return nil, errEncrypted
	}
	return f, nil
}

// note parses an entry of a file's free-form metadata.
func (t *thrift) note(kind byte, notes map[string]string) error {
	var key, value string
	err := t.fieldStruct(kind, func(id int, kind byte) error {
		switch id {
		case 1:
			return t.fieldString(kind, &key)
		case 2:
			return t.fieldString(kind, &value)
		}
		return t.skip(kind)
	})
	notes[key] = value
	return err
}

func (t *thrift) element(kind byte, e *element) error {
	return t.fieldStruct(kind, func(id int, kind byte) error {
		switch id {
		case 1:
			return t.fieldInt(kind, &e.physical)
		case 2:
			return t.fieldInt(kind, &e.length)
		case 3:
			return t.fieldInt(kind, &e.repetition)
		case 4:
			return t.fieldString(kind, &e.name)
		case 5:
			return t.fieldInt(kind, &e.children)
		case 6:
			return t.fieldInt(kind, &e.converted)
		case 7:
			return t.fieldInt(kind, &e.scale)
		case 8:
			return t.fieldInt(kind, &e.precision)
		case 10:
			return t.logical(kind, &e.logical)
		}
		return t.skip(kind)
	})
}

func (t *thrift) logical(kind byte, l *logical) error {
	return t.fieldStruct(kind, func(id int, kind byte) error {
		l.kind = id
		return t.fieldStruct(kind, func(id int, kind byte) error {
			switch {
			case l.kind == logicalDecimal && id == 1:
				return t.fieldInt(kind, &l.scale)
			case l.kind == logicalDecimal && id == 2:
				return t.fieldInt(kind, &l.precision)
			case (l.kind == logicalTime || l.kind == logicalTimestamp) && id == 1:
				return fieldBool(kind, &l.utc)
			case (l.kind == logicalTime || l.kind == logicalTimestamp) && id == 2:
				return t.fieldStruct(kind, func(id int, kind byte) error {
					l.unit = id
					return t.skip(kind)
				})
			case l.kind == logicalInteger && id == 1:
				return t.fieldInt(kind, &l.bits)
			case l.kind == logicalInteger && id == 2:
				return fieldBool(kind, &l.signed)
			}
			return t.skip(kind)
		})
	})
}

func (t *thrift) group(kind byte, g *group) error {
	return t.fieldStruct(kind, func(id int, kind byte) error {
		switch id {
		case 1:
			return t.list(kind, func(kind byte) error {
				g.columns = append(g.columns, chunk{})
				return t.chunk(kind, &g.columns[len(g.columns)-1])
			})
		case 2:
			return t.fieldInt(kind, &g.bytes)
		case 3:
			return t.fieldInt(kind, &g.rows)
		}
		return t.skip(kind)
	})
}

func (t *thrift) chunk(kind byte, c *chunk) error {
	return t.fieldStruct(kind, func(id int, kind byte) error {
		switch id {
		case 1:
			return t.fieldString(kind, &c.elsewhere)
		case 3:
			c.hasMeta = true
			return t.columnMeta(kind, c)
		case 8, 9:
			c.encrypted = true
		}
		return t.skip(kind)
	})
}

func (t *thrift) columnMeta(kind byte, c *chunk) error {
	return t.fieldStruct(kind, func(id int, kind byte) error {
		into := map[int]*int64{1: &c.physical, 4: &c.codec, 5: &c.values, 6: &c.raw, 7: &c.compressed, 9: &c.data, 11: &c.dictionary}[id]
		if into == nil {
			return t.skip(kind)
		}
		return t.fieldInt(kind, into)
	})
}
