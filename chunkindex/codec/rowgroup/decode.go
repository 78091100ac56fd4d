// Package rowgroup decodes row groups of Parquet files into rows (package rows). It needs the bytes
// of a row group and its description from the file's footer.
//
// Both are untrusted input. The package never allocates memory only because a header claims a
// length, and the caller limits the size of pages and dictionaries.
package rowgroup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// Decoder decodes the rows of one row group sequentially.
type Decoder struct {
	columns  []*column
	repeated []*column // columns inside lists
	lists    []*list
	row      *record
	columnar *columnar // decodes the rows; nil: row does
	left     int64     // rows left
	unpack   unpacker
	mem      memory
	room     int64
	err      error // the error that Next returned
}

// NewDecoder returns a decoder of a row group. The decoder uses at most room bytes for pages and
// dictionaries, in addition to stored. It first uses the memory behind stored, up to its capacity,
// and then the heap.
func NewDecoder(f *Frame, stored []byte, room int64) (*Decoder, error) {
	return newDecoder(f, stored, memory{arena: stored[len(stored):cap(stored)], left: room})
}

func newDecoder(f *Frame, stored []byte, mem memory) (d *Decoder, err error) {
	defer catch("", &err)
	if int64(len(stored)) != f.Length {
		return nil, fmt.Errorf("row group has %d bytes, not the expected %d: %w", len(stored), f.Length, errPage)
	}
	d = &Decoder{left: f.Rows, mem: mem, room: mem.left}
	paths := paths(f.Fields)
	for i, c := range f.chunks {
		d.columns = append(d.columns, &column{
			name: columnName(paths[i], i), index: i, leaf: f.leaves[i], codec: c.codec, pages: stored[c.offset : c.offset+c.length], values: c.values,
			unpack: &d.unpack, mem: &d.mem,
		})
	}
	d.mem.take(columnarMemory + columnMemory*int64(len(d.columns)))
	p := planner{columns: d.columns}
	row, err := p.record(f.Fields, levels{})
	if err != nil {
		return nil, err
	}
	d.row, d.lists = row, p.lists
	for _, c := range d.columns {
		if c.most.rep > 0 {
			d.repeated = append(d.repeated, c)
		}
	}
	return d, nil
}

// Map makes the decoder convert its rows; a nil mapping changes nothing.
func (d *Decoder) Map(m *rows.Mapping) error { return d.row.builder.Map(m) }

// columnMemory is the memory that a column needs in addition to its pages: three batches of levels
// and dictionary numbers.
const columnMemory = 4 << 10

// Close releases the decompressors.
func (d *Decoder) Close() { d.unpack.close() }

// Next appends the next row to dst, which must not exceed limit. It returns io.EOF after the last
// row.
func (d *Decoder) Next(dst []byte, limit int64) (_ []byte, err error) {
	if d.err != nil {
		return dst, d.err
	}
	defer func() {
		if err != nil && !errors.Is(err, rows.ErrLimit) && !errors.Is(err, io.EOF) {
			err = fmt.Errorf("column %s: %w", d.columns[d.mem.reading].name, err)
		}
		d.err = err
	}()
	defer catch("", &err)
	return d.next(dst, limit)
}

func (d *Decoder) next(dst []byte, limit int64) ([]byte, error) {
	if d.left == 0 {
		return dst, d.finish()
	}
	if d.columnar != nil {
		return d.columnar.next(dst, limit), nil
	}
	d.left--
	for _, l := range d.lists {
		l.buf = l.buf[:0]
	}
	for _, c := range d.repeated {
		if c.must().rep != 0 {
			c.fail(errLevels)
		}
	}
	d.row.read(limit - int64(len(dst)))
	return d.row.builder.Append(dst, limit)
}

// finish returns io.EOF if all columns have been read to their end.
func (d *Decoder) finish() error {
	for _, c := range d.columns {
		if _, more := c.peek(); more {
			c.fail(errRagged)
		}
	}
	return io.EOF
}

// Fits returns an error if decoding the row group needed more memory than Room allows. The caller
// must have read all rows; decoded is their total length.
func (d *Decoder) Fits(decoded int64) error {
	if d.room-d.mem.left > Room(decoded) {
		return errMemory
	}
	return nil
}

// Room returns the memory limit for decoding rows of this total length, in addition to the rows and
// the stored bytes. Pages are about as long as their rows. The rest is for levels, for dictionaries
// of which few values are used, and for small row groups of many columns.
func Room(decoded int64) int64 { return decoded + decoded/2 + 4<<20 }

// Decode fills dst with the rows of consecutive row groups, converted by a mapping if it is not nil.
// params contains the Params of each row group, each preceded by its length.
func Decode(params, stored, dst []byte, m *rows.Mapping) error {
	at := 0
	mem := memory{arena: stored[len(stored):cap(stored)], left: Room(int64(len(dst)))}
	for first := true; len(params) > 0; first = false {
		n, k := binary.Uvarint(params)
		if k <= 0 || n > uint64(len(params)-k) {
			return errParams
		}
		f, err := ParseParams(params[k : k+int(n)])
		if err != nil {
			return err
		}
		params = params[k+int(n):]
		if first {
			f.Gap = 0
		}
		if f.Gap > int64(len(stored)) || f.Length > int64(len(stored))-f.Gap {
			return fmt.Errorf("row group does not fit into the remaining %d bytes of the chunk: %w", len(stored), errPage)
		}
		group := stored[f.Gap : f.Gap+f.Length]
		stored = stored[f.Gap+f.Length:]
		if at, err = decode(f, group, dst, at, mem, m); err != nil {
			return err
		}
	}
	if at < len(dst) || len(stored) > 0 {
		return fmt.Errorf("row groups end %d bytes before the end of the chunk, with %d stored bytes left: %w", len(dst)-at, len(stored), io.ErrUnexpectedEOF)
	}
	return nil
}

// decode writes all rows of a row group to dst[at:] and returns the offset after them.
func decode(f *Frame, stored, dst []byte, at int, mem memory, m *rows.Mapping) (int, error) {
	d, err := newDecoder(f, stored, mem)
	if err != nil {
		return at, err
	}
	defer d.Close()
	if m == nil {
		d.columnar = newColumnar(d)
	}
	if err := d.Map(m); err != nil {
		return at, err
	}
	for {
		b, err := d.Next(dst[:at], int64(len(dst)))
		if errors.Is(err, io.EOF) {
			return at, nil
		}
		if err != nil {
			return at, err
		}
		at = len(b)
	}
}
