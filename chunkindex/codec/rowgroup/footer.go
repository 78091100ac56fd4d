package rowgroup

import "errors"

// footer holds the parts of a file's metadata that this package needs. Field names follow Parquet's
// specification.
type footer struct {
	schema    []element
	rows      int64
	groups    []group
	notes     [][2]string // keys and values of the file's free-form metadata
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
func parseFooter(b []byte) (f *footer, err error) {
	defer catch("footer: ", &err)
	f = &footer{}
	t := &thrift{b: b}
	t.read(typeStruct, structFields{
		2: func() any {
			f.schema = append(f.schema, element{physical: -1, converted: -1, repetition: -1})
			return f.schema[len(f.schema)-1].fields(t)
		},
		3: &f.rows,
		4: func() any {
			f.groups = append(f.groups, group{})
			return f.groups[len(f.groups)-1].fields(t)
		},
		5: func() any {
			f.notes = append(f.notes, [2]string{})
			note := &f.notes[len(f.notes)-1]
			return structFields{1: &note[0], 2: &note[1]}
		},
		8: func(kind byte) {
			f.encrypted = true
			t.skip(kind)
		},
	})
	if f.encrypted {
		return nil, errEncrypted
	}
	return f, nil
}

// note returns an entry of the file's free-form metadata.
func (f *footer) note(key string) (value string) {
	for _, note := range f.notes {
		if note[0] == key {
			value = note[1]
		}
	}
	return value
}

func (e *element) fields(t *thrift) structFields {
	return structFields{
		1: &e.physical, 2: &e.length, 3: &e.repetition, 4: &e.name, 5: &e.children, 6: &e.converted, 7: &e.scale, 8: &e.precision,
		10: t.union(&e.logical.kind, func() structFields { return e.logical.fields(t) }),
	}
}

// union returns a function that reads a struct with one field, whose id it stores first.
func (t *thrift) union(kind *int, fields func() structFields) func(kind byte) {
	return func(of byte) {
		if of != typeStruct {
			fail(errThrift)
		}
		t.structure(func(id int, of byte) {
			*kind = id
			t.read(of, fields())
		})
	}
}

// fields returns the fields of the logical type's parameters.
func (l *logical) fields(t *thrift) structFields {
	switch l.kind {
	case logicalDecimal:
		return structFields{1: &l.scale, 2: &l.precision}
	case logicalTime, logicalTimestamp:
		return structFields{1: &l.utc, 2: t.union(&l.unit, func() structFields { return structFields{} })}
	case logicalInteger:
		return structFields{1: &l.bits, 2: &l.signed}
	}
	return structFields{}
}

func (g *group) fields(t *thrift) structFields {
	column := func() any {
		g.columns = append(g.columns, chunk{})
		return g.columns[len(g.columns)-1].fields(t)
	}
	return structFields{1: column, 2: &g.bytes, 3: &g.rows}
}

func (c *chunk) fields(t *thrift) structFields {
	encrypted := func(kind byte) {
		c.encrypted = true
		t.skip(kind)
	}
	meta := func(kind byte) {
		c.hasMeta = true
		t.read(kind, structFields{1: &c.physical, 4: &c.codec, 5: &c.values, 6: &c.raw, 7: &c.compressed, 9: &c.data, 11: &c.dictionary})
	}
	return structFields{1: &c.elsewhere, 3: meta, 8: encrypted, 9: encrypted}
}
