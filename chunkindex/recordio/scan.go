package recordio

import (
	"encoding/binary"

	"github.com/millrace-data/millrace/chunkindex/format"
)

const (
	magic    = 0xced7230a
	headSize = 8        // magic, and the length with the kind of the piece in its upper three bits
	maxSplit = 64 << 20 // longest record that was split: one is held until its last piece has come
)

// Kinds of pieces.
const (
	whole = iota // a record that is not split
	first
	middle
	last
)

// scan finds the records of one shard.
func scan(shard format.Object, c *format.Cursor, keys names) error {
	stem := format.Stem(shard.Key, suffix)
	for n := uint64(0); ; n++ {
		end, err := c.Ended()
		if err != nil {
			return err
		}
		if end {
			return keys.end(c)
		}
		kind, size, err := piece(c, 0)
		if err != nil {
			return err
		}
		key, err := keys.key(c, stem, n)
		if err != nil {
			return err
		}
		if err := c.Begin(key); err != nil {
			return err
		}
		switch kind {
		case whole:
			err = record(c, Part, size)
		case first:
			if size, err = pieces(c, size); err == nil {
				err = record(c, Split, size)
			}
		default:
			err = c.Fail("piece of a record that was split, without its beginning")
		}
		if err != nil {
			return err
		}
	}
}

// record hands on a record whose data has so many bytes, and the zeros that fill it up to a multiple of four.
func record(c *format.Cursor, ext string, size int64) error {
	fill := -size & 3
	c.Ahead(headSize + size + fill)
	if err := c.Data(headSize); err != nil {
		return err
	}
	if err := c.Part(ext, size); err != nil {
		return err
	}
	if err := c.Data(fill); err != nil {
		return err
	}
	return c.End()
}

// piece reads the head of the piece that begins some bytes behind the cursor.
func piece(c *format.Cursor, behind int64) (kind uint32, size int64, err error) {
	b, err := c.Peek(behind + headSize)
	if err != nil {
		return 0, 0, err
	}
	if int64(len(b)) < behind+headSize {
		return 0, 0, c.Fail("record is cut before its length")
	}
	b = b[behind:]
	if binary.LittleEndian.Uint32(b) != magic {
		return 0, 0, c.Fail("no record begins %d bytes on: the magic number of RecordIO is not there", behind)
	}
	head := binary.LittleEndian.Uint32(b[4:])
	kind, size = head>>29, int64(head&(1<<29-1))
	if kind > last {
		return 0, 0, c.Fail("piece of kind %d, which RecordIO does not have", kind)
	}
	return kind, size, nil
}

// pieces returns how many bytes a record that was split has behind its first head, of which the first piece has size.
func pieces(c *format.Cursor, size int64) (int64, error) {
	for {
		if size&3 != 0 {
			return 0, c.Fail("piece of a record that was split does not end at a multiple of four")
		}
		if size > maxSplit {
			return 0, c.Fail("record that was split is longer than %d bytes", maxSplit)
		}
		kind, more, err := piece(c, headSize+size)
		if err != nil {
			return 0, err
		}
		size += headSize + more
		switch kind {
		case last:
			return size, nil
		case middle:
		default:
			return 0, c.Fail("record that was split has no end")
		}
	}
}
