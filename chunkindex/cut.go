package chunkindex

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"

	"github.com/millrace-data/millrace/chunkindex/format"
)

const (
	maxHold         = 64 << 20 // longest sample that is held in memory until its chunk is known
	maxChunkSamples = 1 << 20  // a chunk is closed at this many samples
	maxBlock        = 8 << 20  // or when its names or parts fill this many bytes
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// cutter is the Sink of one shard: it computes all digests in one pass and cuts chunks.
//
// A chunk is closed before a sample with which it would be longer than the chunk size,
// and before a sample, or a gap, longer than maxHold. Until that is known, a sample's bytes, with the
// gap before them, are held. Whoever changes where a chunk is cut raises the Rules of every format.
type cutter struct {
	chunkSize int64
	table     *crc32.Table
	emit      func(*chunkRecord) error

	off  int64 // in the shard
	open bool  // a chunk is open
	from int64 // the offset at which it starts
	sha  hash.Hash
	rec  chunkRecord

	hold    []byte // bytes that the open chunk gets if the current sample joins it
	gap     int    // how many of them are the gap before the sample
	again   int    // how many of them the open chunk ends with already
	joined  bool   // the current sample is in the open chunk
	key     string
	start   int64 // of the sample
	length  int64
	crc     uint32
	parts   []byte // encoded
	count   int
	ext     string
	partOff int64
	partCRC uint32
	inPart  bool
}

func newCutter(chunkSize int64, emit func(*chunkRecord) error) *cutter {
	return &cutter{chunkSize: chunkSize, table: castagnoli(), emit: emit, sha: sha256.New()}
}

func (c *cutter) fail(reason string) error {
	return &format.Error{Offset: c.start, Name: c.key, Reason: reason}
}

// Gap takes bytes between samples. They lie inside a chunk if a sample follows them there.
func (c *cutter) Gap(p []byte) error {
	c.off += int64(len(p))
	if !c.open {
		return nil
	}
	if held := int64(len(c.hold) + len(p)); held > maxHold || c.rec.length+held > c.chunkSize {
		return c.closeChunk()
	}
	c.hold = append(c.hold, p...)
	return nil
}

func (c *cutter) Begin(key string) error {
	c.key, c.start, c.length, c.crc = key, c.off, 0, 0
	c.parts, c.count = c.parts[:0], 0
	if len(key) > format.MaxKey {
		return c.fail("key is too long")
	}
	if c.open && (c.rec.samples >= maxChunkSamples || len(c.rec.names) >= maxBlock || len(c.rec.parts) >= maxBlock) {
		if err := c.closeChunk(); err != nil {
			return err
		}
	}
	c.gap, c.again, c.joined = len(c.hold), 0, false
	if !c.open {
		c.openChunk()
	}
	return nil
}

func (c *cutter) openChunk() {
	c.open, c.joined, c.from = true, true, c.start
	c.sha.Reset()
	c.rec.reset()
}

func (c *cutter) closeChunk() error {
	c.open, c.hold = false, c.hold[:0]
	c.sha.Sum(c.rec.digest[:0])
	c.rec.extents = append(c.rec.extents[:0], Extent{Offset: c.from, Length: c.rec.length})
	return c.emit(&c.rec)
}

// Ahead refuses a sample that cannot fit, and cuts before it where that is known already.
func (c *cutter) Ahead(n int64) error {
	if n < 0 || c.length+n > format.MaxSample {
		return c.fail(fmt.Sprintf("sample is longer than %d bytes", format.MaxSample))
	}
	if c.joined || (c.rec.length+int64(len(c.hold))+n <= c.chunkSize && c.length+n <= maxHold) {
		return nil
	}
	held := c.hold[c.gap:]
	if err := c.closeChunk(); err != nil {
		return err
	}
	c.openChunk()
	c.feed(held)
	return nil
}

func (c *cutter) Data(p []byte) error {
	if err := c.Ahead(int64(len(p))); err != nil {
		return err
	}
	c.off += int64(len(p))
	c.length += int64(len(p))
	c.crc = crc32.Update(c.crc, c.table, p)
	if c.inPart {
		c.partCRC = crc32.Update(c.partCRC, c.table, p)
	}
	if c.joined {
		c.feed(p)
	} else {
		c.hold = append(c.hold, p...)
	}
	return nil
}

// Again takes bytes that the sample before ended with: the chunk has them already, if the sample joins it.
func (c *cutter) Again(p []byte) error {
	if c.length > 0 || c.gap > 0 {
		return c.fail("shares bytes with a sample that does not end where it begins")
	}
	n := int64(len(p))
	c.start -= n
	c.length, c.crc = n, crc32.Checksum(p, c.table)
	if c.inPart {
		c.partCRC = c.crc
	}
	if c.joined { // it opened a chunk
		c.from -= n
		c.feed(p)
		return nil
	}
	c.again = int(n)
	c.hold = append(c.hold, p...)
	return nil
}

func (c *cutter) feed(p []byte) {
	c.sha.Write(p)
	c.rec.crc = crc32.Update(c.rec.crc, c.table, p)
	c.rec.length += int64(len(p))
}

func (c *cutter) BeginPart(ext string) error {
	if len(ext) > format.MaxKey {
		return c.fail("a part's extension is too long")
	}
	if c.count >= format.MaxParts || len(c.parts) >= maxBlock {
		return c.fail("sample has too many parts")
	}
	c.ext, c.partOff, c.partCRC, c.inPart = ext, c.length, 0, true
	return nil
}

func (c *cutter) EndPart() error {
	c.inPart = false
	c.count++
	c.parts = appendPart(c.parts, Part{Ext: c.ext, Offset: uint32(c.partOff), Length: uint32(c.length - c.partOff), CRC32C: c.partCRC})
	return nil
}

func (c *cutter) End() error {
	if c.length == 0 {
		return c.fail("sample without a byte")
	}
	if !c.joined {
		c.feed(c.hold[c.again:])
	}
	c.hold = c.hold[:0]
	r := &c.rec
	r.table = binary.LittleEndian.AppendUint32(r.table, uint32(c.start-c.from))
	r.table = binary.LittleEndian.AppendUint32(r.table, uint32(c.length))
	r.table = binary.LittleEndian.AppendUint32(r.table, c.crc)
	r.names = binary.AppendUvarint(r.names, uint64(len(c.key)))
	r.names = append(r.names, c.key...)
	r.parts = binary.AppendUvarint(r.parts, uint64(c.count))
	r.parts = append(r.parts, c.parts...)
	r.samples++
	r.bytes += c.length
	r.longest = max(r.longest, c.length)
	return nil
}

// finish emits the last chunk.
func (c *cutter) finish() error {
	if !c.open {
		return nil
	}
	return c.closeChunk()
}
