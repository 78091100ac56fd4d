package arrow

import "encoding/binary"

// Constants of the format: https://github.com/apache/arrow/tree/main/format, Message.fbs.
const (
	continuation = 0xffffffff
	metadataV5   = 4
	isSchema     = 1
	isDictionary = 2
	isRecords    = 3
)

// message returns a message. write adds its header and sets the reference to it.
func message(kind uint64, body int64, write func(f *flatbuffer, reference int)) []byte {
	f := &flatbuffer{b: make([]byte, 4)}
	start, at := f.table(value{2, metadataV5}, value{1, kind}, value{4, 0}, value{8, uint64(body)})
	f.refer(0, start)
	write(f, at[2])
	f.b = pad(f.b)
	b := binary.LittleEndian.AppendUint32(nil, continuation)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.b)))
	return append(b, f.b...)
}

func schema(columns []*Column) func(f *flatbuffer, reference int) {
	return func(f *flatbuffer, reference int) {
		start, at := f.table(value{2, 0}, value{4, 0})
		f.refer(reference, start)
		f.refer(at[1], f.fields(columns))
	}
}

// fields writes a vector of fields.
func (f *flatbuffer) fields(columns []*Column) (start int) {
	return f.references(len(columns), func(i int) int { return f.field(columns[i]) })
}

// references writes a vector of references to n objects, each written by write.
func (f *flatbuffer) references(n int, write func(i int) (start int)) (start int) {
	start = f.vector(n, 4)
	f.b = append(f.b, make([]byte, 4*n)...)
	for i := range n {
		f.refer(start+4+4*i, write(i))
	}
	return start
}

func (f *flatbuffer) field(c *Column) (start int) {
	t := c.Type
	nullable := uint64(0)
	if c.Nullable {
		nullable = 1
	}
	pairs := c.Metadata
	if t.extension.Key != "" {
		pairs = append([]Pair{{"ARROW:extension:name", t.extension.Key}, {"ARROW:extension:metadata", t.extension.Value}}, pairs...)
	}
	stored, coded := t, value{}
	if t.values != nil {
		stored, coded = *t.values, value{4, 0}
	}
	// name, nullable, kind of type, type, dictionary, children, metadata
	entries := []value{{4, 0}, {1, nullable}, {1, stored.kind}, {4, 0}, coded, {4, 0}}
	if len(pairs) > 0 {
		entries = append(entries, value{4, 0})
	}
	start, at := f.table(entries...)
	f.refer(at[0], f.text(c.Name))
	f.refer(at[3], f.parameters(stored))
	if t.values != nil {
		f.refer(at[4], f.encoding(t))
	}
	f.refer(at[5], f.fields(c.Children))
	if len(pairs) > 0 {
		f.refer(at[6], f.references(len(pairs), func(i int) int { return f.pair(pairs[i]) }))
	}
	return start
}

// encoding writes the description of a dictionary, whose numbers have type t. Dictionaries are
// counted in the order of their columns.
func (f *flatbuffer) encoding(t Type) (start int) {
	start, at := f.table(value{8, f.dictionaries}, value{4, 0})
	f.refer(at[1], f.parameters(t))
	f.dictionaries++
	return start
}

// parameters writes the table of a type.
func (f *flatbuffer) parameters(t Type) (start int) {
	entries := t.params
	if t.zone != "" {
		entries = append(entries[:len(entries):len(entries)], value{4, 0})
	}
	start, at := f.table(entries...)
	if t.zone != "" {
		f.refer(at[len(t.params)], f.text(t.zone))
	}
	return start
}

func (f *flatbuffer) pair(p Pair) (start int) {
	start, at := f.table(value{4, 0}, value{4, 0})
	f.refer(at[0], f.text(p.Key))
	f.refer(at[1], f.text(p.Value))
	return start
}

// dictionary returns a function that writes the description of a dictionary. values writes that of
// its values.
func dictionary(id uint64, values func(f *flatbuffer, reference int)) func(f *flatbuffer, reference int) {
	return func(f *flatbuffer, reference int) {
		start, at := f.table(value{8, id}, value{4, 0})
		f.refer(reference, start)
		values(f, at[1])
	}
}

// records returns a function that writes the description of a record batch: the number of values
// and nulls of each column, and the position of each buffer.
func records(rows int, columns []*Column) func(f *flatbuffer, reference int) {
	return func(f *flatbuffer, reference int) {
		// rows, columns, buffers, compression, number of buffers for each column of views
		start, at := f.table(value{8, uint64(rows)}, value{4, 0}, value{4, 0}, value{}, value{4, 0})
		f.refer(reference, start)
		f.refer(at[1], f.vector(len(columns), 8))
		var buffers []int64
		views := 0
		for _, c := range columns {
			f.number(value{8, uint64(c.Rows)})
			f.number(value{8, c.nulls()})
			if buffers = append(buffers, c.buffers()...); c.Type.views() {
				views++
			}
		}
		f.refer(at[2], f.vector(len(buffers), 8))
		offset := int64(0)
		for _, n := range buffers {
			f.number(value{8, uint64(offset)})
			f.number(value{8, uint64(n)})
			offset += padded(n)
		}
		f.refer(at[4], f.vector(views, 8))
		for range views {
			f.number(value{8, 1})
		}
	}
}
