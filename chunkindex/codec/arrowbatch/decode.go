// Package arrowbatch decodes record batches of Arrow streams and files into rows (package rows). It
// needs the bytes of a record batch and the column layout from the schema.
//
// Both are untrusted input. The package never allocates memory only because a message claims a
// length, and the caller limits the size of decompressed buffers.
package arrowbatch

import (
	"errors"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// MaxBatch limits the stored length of a record batch and the length of its rows.
const MaxBatch = 1 << 30

// Room returns the memory limit for decoding rows of this total length, in addition to the rows and
// the stored bytes. Uncompressed buffers are read in place. Decompressed buffers are about as long
// as the rows, plus 64-bit offsets.
func Room(decoded int64) int64 { return 2*decoded + 4<<20 }

// Decoder decodes the rows of record batches sequentially.
type Decoder struct {
	schema *Schema
	mapped *rows.Mapping // converts rows; nil: they stay as they are
	unpack unpacker
	row    *record
	n, at  int64 // number of rows in the current batch, and number of rows returned

	dictionaries map[int64]*dictionary // dictionaries read so far, by ID
	held         int64                 // total bytes of the dictionaries
	dicts        []*dictionary         // dictionaries that the current batch uses, by column
}

// NewDecoder returns a decoder for the record batches of a schema. room limits the decompressed
// buffers of one batch.
func NewDecoder(s *Schema, room int64) *Decoder {
	return &Decoder{schema: s, unpack: unpacker{room: room}, dictionaries: map[int64]*dictionary{}}
}

// Map makes the decoder convert the rows of later batches; a nil mapping changes nothing.
func (d *Decoder) Map(m *rows.Mapping) { d.mapped = m }

// Close releases the decompressors.
func (d *Decoder) Close() { d.unpack.close() }

// Begin starts a record batch. stored is its complete message, which must not change while the
// batch is read.
func (d *Decoder) Begin(stored []byte) error {
	dicts, err := d.counted()
	if err != nil {
		return err
	}
	return d.begin(stored, dicts)
}

// split parses the head of a complete message and returns the body.
func split(stored []byte) (*Message, []byte, error) {
	n, err := HeadLength(stored)
	if err != nil || n > int64(len(stored)) {
		return nil, nil, errMessage
	}
	m, err := ParseMessage(stored[:n])
	if err != nil {
		return nil, nil, err
	}
	if int64(len(stored))-n != m.Body {
		return nil, nil, errMessage
	}
	return m, stored[n:], nil
}

// begin starts a record batch. dicts contains the dictionaries of its columns.
func (d *Decoder) begin(stored []byte, dicts []*dictionary) (err error) {
	defer catch(&err)
	m, body, err := split(stored)
	if err != nil {
		return err
	}
	if m.Kind != KindRecords {
		return errMessage
	}
	d.unpack.next()
	r, count := newBatchReader(m, m.header, body, &d.unpack)
	d.dicts, r.dicts = dicts, dicts
	var arrays []*array
	for _, l := range d.schema.all {
		a := r.array(l)
		if a.n != count {
			return errBuffer
		}
		arrays = append(arrays, a)
	}
	if r.left() {
		return errBuffer
	}
	d.n, d.at = count, 0
	if d.row, err = newRecord(arrays); err != nil {
		return err
	}
	return d.row.builder.Map(d.mapped)
}

// Next appends the next row to dst, which must not exceed limit. It returns io.EOF after the last
// row of the batch.
func (d *Decoder) Next(dst []byte, limit int64) (_ []byte, err error) {
	defer d.nameRow(&err)
	defer catch(&err)
	if d.at == d.n {
		return dst, io.EOF
	}
	d.at++
	return d.row.append(dst, d.at-1, limit), nil
}

// nameRow adds the number of the row to the error for a row that is too long.
func (d *Decoder) nameRow(err *error) {
	if errors.Is(*err, rows.ErrLimit) {
		*err = fmt.Errorf("row %d: %w", d.at-1, *err)
	}
}

// Fits returns an error if decoding the current batch needed more memory than Room allows. The
// caller must have read all rows; decoded is their total length.
func (d *Decoder) Fits(decoded int64) error {
	if d.unpack.used > Room(decoded) {
		return errMemory
	}
	return nil
}

// Decode fills dst with the rows of the record batches in stored that params describe, converted by a
// mapping if it is not nil.
func Decode(params, stored, dst []byte, m *rows.Mapping) error {
	s, batches, err := parseParams(params)
	if err != nil {
		return err
	}
	d := NewDecoder(s, Room(int64(len(dst))))
	d.Map(m)
	defer d.Close()
	at := 0
	for i, b := range batches {
		if i == 0 {
			b.Gap = 0
		}
		if b.Gap > int64(len(stored)) || b.Length > int64(len(stored))-b.Gap {
			return fmt.Errorf("record batch does not fit into the remaining %d bytes of the chunk: %w", len(stored), errMessage)
		}
		batch := stored[b.Gap : b.Gap+b.Length]
		stored = stored[b.Gap+b.Length:]
		if at, err = d.fill(batch, b.dicts, dst, at); err != nil {
			return err
		}
	}
	if at < len(dst) || len(stored) > 0 {
		return fmt.Errorf("record batches end %d bytes before the end of the chunk, with %d stored bytes left: %w", len(dst)-at, len(stored), io.ErrUnexpectedEOF)
	}
	return nil
}

// fill writes all rows of a record batch to dst[at:] and returns the offset after them.
func (d *Decoder) fill(batch []byte, dicts []*dictionary, dst []byte, at int) (_ int, err error) {
	if err := d.begin(batch, dicts); err != nil {
		return at, err
	}
	defer d.nameRow(&err)
	defer catch(&err)
	for d.at < d.n {
		d.at++
		at = len(d.row.append(dst[:at], d.at-1, int64(len(dst))))
	}
	return at, nil
}
