package tfrecord

import (
	"encoding/binary"

	"github.com/millrace-data/millrace/chunkindex/format"
)

const (
	headSize = 12 // length and its checksum
	footSize = 4  // checksum of the data
)

// scan scans the records of one TFRecord file.
func scan(shard format.Object, c *format.Cursor) error {
	stem := stem(shard.Key)
	for n := uint64(0); ; n++ {
		head, err := c.Peek(headSize)
		if err != nil || len(head) == 0 {
			return err
		}
		if len(head) < headSize {
			return c.Fail("record %d is truncated: only %d bytes of its header", n, len(head))
		}
		if err := record(c, stem, n, head); err != nil {
			return err
		}
	}
}

// record passes record n, which begins with head, to the cursor.
func record(c *format.Cursor, stem string, n uint64, head []byte) error {
	size, err := length(head)
	if err != nil {
		return c.Fail("record %d: %v", n, err)
	}
	if size > format.MaxSample-headSize-footSize {
		return c.Fail("record %d: %d bytes exceed the limit of a sample, %d", n, size, format.MaxSample)
	}
	if err := c.Begin(format.Numbered(stem, n)); err != nil {
		return err
	}
	c.Ahead(headSize + int64(size) + footSize)
	if err := c.Data(headSize); err != nil {
		return err
	}
	if err := c.Part(Part, int64(size)); err != nil {
		return err
	}
	foot, err := c.Peek(footSize)
	if err != nil {
		return err
	}
	if len(foot) == footSize && binary.LittleEndian.Uint32(foot) != masked(c.LastPart().CRC32C) {
		return c.Fail("record %d: checksum of the data does not match", n)
	}
	if err := c.Data(footSize); err != nil {
		return err
	}
	return c.End()
}
