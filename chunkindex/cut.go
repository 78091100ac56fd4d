package chunkindex

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
)

const (
	maxHold         = 64 << 20 // longest sample that is held in memory until its chunk is known
	maxChunkSamples = 1 << 20  // a chunk is closed at this many samples
	maxBlock        = 8 << 20  // or when its names or parts fill this many bytes

	maxFrameSamples = 4 << 20  // what a chunk that cannot be closed, inside a frame, may have of them
	maxFrameBlock   = 48 << 20 // and how long its names or parts may be
)

// cutterChanges counts how often the rules have changed by which chunks are cut. What older rules made is not mixed with newer ones.
const cutterChanges = 0

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// cutter is the Sink of one shard, or of a run of loose objects: it computes all digests in one pass and cuts chunks.
//
// A chunk is closed before a sample with which it would be longer than the chunk size,
// and before a sample, or a gap, longer than maxHold. Until that is known, a sample's bytes, with the
// gap before them, are held. In a compressed shard it is closed only before a sample that begins in another frame than its
// first one, so that no frame is part of more than two chunks. With a codec whose chunks are whole frames it is closed only where a frame
// begins, and before a frame with which it would be longer than the chunk size. A change of where chunks are cut raises cutterChanges.
type cutter struct {
	chunkSize int64
	table     *crc32.Table
	emit      func(*chunkRecord) error
	codec     codec.Codec
	frames    format.Frames // nil: the shard is stored as it is
	loose     bool          // each sample is an object, and an extent
	object    int           // the loose object at hand, by its place in the run

	off   int64 // in the shard
	open  bool  // a chunk is open
	full  bool  // the open chunk takes no other sample, if it can be closed
	lost  bool  // the gap before the next sample was too long to hold: the open chunk must be closed
	from  int64 // the offset at which it starts
	added bool  // its last byte is a line feed that the shard does not have
	sha   hash.Hash
	rec   chunkRecord
	plain plainBlocks // of its samples

	shard   string // the shard's key
	overlap int64  // bytes that its samples may share
	samples uint64 // of the chunks that were closed

	waiting bool // a closed chunk waits for the end of its last frame
	waits   chunkRecord
	last    int64 // its last byte

	hold   []byte // bytes that the open chunk gets if the current sample joins it
	gap    int    // how many of them are the gap before the sample
	again  int    // how many of them the open chunk ends with already
	joined bool   // the current sample is in the open chunk
	key    string
	inside bool  // a sample has begun
	start  int64 // of the sample
	length int64
	crc    uint32
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
	c.forget(c.off)
	if !c.open || c.lost {
		return nil
	}
	held := int64(len(c.hold) + len(p))
	switch {
	case c.frames == nil && (held > maxHold || c.rec.length+held > c.chunkSize):
		return c.closeChunk()
	case held > maxHold:
		c.lost, c.hold = true, c.hold[:0]
		return nil
	}
	c.hold = append(c.hold, p...)
	return nil
}

// begin notes where a sample begins.
func (c *cutter) begin(key string) {
	c.inside, c.key, c.start, c.length, c.crc = true, key, c.off, 0, 0
	c.full = c.open && (c.lost || c.rec.samples >= maxChunkSamples || len(c.plain.names) >= maxBlock || len(c.plain.parts) >= maxBlock)
	c.gap, c.again, c.joined = len(c.hold), 0, false
	if !c.open {
		c.openChunk()
	}
}

func (c *cutter) openChunk() {
	c.open, c.full, c.lost, c.joined, c.again, c.from = true, false, false, true, 0, c.start
	c.sha.Reset()
	c.rec.reset()
	c.plain.reset()
}

// closeChunk ends the open chunk. The frames of the one before it are all known by now, since this one could not be closed
// before the frame in which it begins had ended.
func (c *cutter) closeChunk() error {
	c.open, c.hold = false, c.hold[:0]
	c.sha.Sum(c.rec.digest[:0])
	if err := c.rec.encode(&c.plain, c.overlap, c.shard, c.samples); err != nil {
		return err
	}
	c.samples += uint64(c.rec.samples)
	if c.loose {
		return c.emit(&c.rec)
	}
	stored := c.rec.length
	if c.added {
		stored--
		c.rec.codec = codec.LineFeed
	}
	c.rec.extents = append(c.rec.extents[:0], Extent{Offset: c.from, Length: stored})
	if c.frames == nil {
		return c.emit(&c.rec)
	}
	if err := c.release(); err != nil {
		return err
	}
	first, ok := c.frames.At(c.from)
	if !ok {
		return c.fail("frame of the chunk's first byte is not known")
	}
	c.rec.codec, c.rec.skip = c.rec.codec|c.codec, c.from-first.Decoded
	c.rec.extents[0].Offset = first.Stored
	c.waiting, c.last = true, c.from+stored-1
	c.rec.params = append(c.rec.params[:0], c.frames.Params(c.from, c.last)...)
	c.waits, c.rec = c.rec, c.waits
	return nil
}

// release emits the chunk that waited for the end of its last frame.
func (c *cutter) release() error {
	if !c.waiting {
		return nil
	}
	c.waiting = false
	last, ok := c.frames.At(c.last)
	if !ok || last.StoredEnd == 0 {
		return c.fail("frame of the last chunk's last byte is not known")
	}
	e := &c.waits.extents[0]
	e.Length = last.StoredEnd - e.Offset
	return c.emit(&c.waits)
}

// ahead refuses a sample that cannot fit with n more bytes, and cuts before it where that is known already.
func (c *cutter) ahead(n int64) error {
	if n < 0 || c.length+n > format.MaxSample {
		return c.fail(fmt.Sprintf("sample is longer than %d bytes", format.MaxSample))
	}
	held := int64(len(c.hold) - c.again)
	if c.joined || (!c.codec.Whole() && !c.full && c.rec.length+held+n <= c.chunkSize && c.length+n <= maxHold) {
		return c.within(held + n)
	}
	if c.codec.Whole() {
		if cut, err := c.beforeFrame(n); err != nil || !cut {
			return err
		}
	} else if c.frames != nil {
		own, known := c.frames.At(c.start)
		if !known {
			return nil // no byte of the sample has come yet: asked again when one does
		}
		if !c.after(own, c.from) || c.waiting && !c.after(own, c.last) {
			return c.join(held + n)
		}
	}
	sample := c.hold[c.gap:]
	if err := c.closeChunk(); err != nil {
		return err
	}
	c.openChunk()
	c.feed(sample)
	return nil
}

// beforeFrame says whether the open chunk is to be closed before the current sample, of n more bytes so far, since a frame begins there
// that does not fit. It takes any other sample into the chunk.
func (c *cutter) beforeFrame(n int64) (bool, error) {
	own, known := c.frames.At(c.start)
	if !known {
		return false, nil
	}
	fits := own.StoredEnd > 0 && c.rec.length+own.DecodedEnd-own.Decoded <= c.chunkSize
	if own.Decoded == c.start && (c.full || !fits) {
		return true, nil
	}
	return false, c.join(int64(len(c.hold)) + n)
}

// within refuses n more bytes in a chunk that cannot be closed before them.
func (c *cutter) within(n int64) error {
	if c.rec.length+n > maxChunkSize {
		return c.fail(fmt.Sprintf("samples that lie in one compressed frame are longer than %d bytes: %s", maxChunkSize, c.smaller()))
	}
	return nil
}

// smaller says how to make a shard of smaller frames.
func (c *cutter) smaller() string {
	switch c.codec {
	case codec.Parquet:
		return "write the file again with smaller row groups (row_group_size=)"
	case codec.Arrow:
		return "write the file again in smaller record batches"
	}
	return "recompress the shard in smaller frames"
}

// join takes the current sample, of n more bytes so far, into the open chunk, because it begins in the frame in which the chunk does.
func (c *cutter) join(n int64) error {
	if c.lost {
		return c.fail(fmt.Sprintf("more than %d bytes between two samples of one compressed frame: recompress the shard in smaller frames", maxHold))
	}
	if c.rec.samples >= maxFrameSamples || len(c.plain.names) >= maxFrameBlock || len(c.plain.parts) >= maxFrameBlock {
		return c.fail("too many samples in one compressed frame: " + c.smaller())
	}
	if err := c.within(n); err != nil {
		return err
	}
	c.feed(c.hold[c.again:])
	c.hold, c.again, c.joined = c.hold[:0], 0, true
	return nil
}

// after says whether a frame comes after the one that holds a byte.
func (c *cutter) after(f codec.Frame, off int64) bool {
	other, ok := c.frames.At(off)
	return ok && f.Stored > other.Stored
}

// Data takes the next bytes of a sample.
func (c *cutter) Data(s *format.Sample, p []byte) error {
	if !c.inside {
		c.begin(s.Key)
		if s.Shared > 0 {
			if err := c.share(p[:s.Shared]); err != nil {
				return err
			}
			p = p[s.Shared:]
		}
	}
	return c.data(p, s.Ahead)
}

func (c *cutter) data(p []byte, more int64) error {
	if err := c.ahead(int64(len(p)) + more); err != nil {
		return err
	}
	c.off += int64(len(p))
	c.length += int64(len(p))
	c.crc = crc32.Update(c.crc, c.table, p)
	if c.joined {
		c.feed(p)
	} else {
		c.hold = append(c.hold, p...)
	}
	c.forget(c.off)
	return nil
}

// share takes bytes that the sample before ended with: the chunk has them already, if the sample joins it.
func (c *cutter) share(p []byte) error {
	if c.gap > 0 {
		return c.fail("shares bytes with a sample that does not end where it begins")
	}
	n := int64(len(p))
	c.start -= n
	c.length, c.crc = n, crc32.Checksum(p, c.table)
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

// End ends a sample.
func (c *cutter) End(s *format.Sample) error {
	if !c.inside {
		c.begin(s.Key)
	}
	if s.LineFeed {
		if err := c.data([]byte{'\n'}, 0); err != nil {
			return err
		}
		c.added = true // after what that may have closed
	}
	if c.length == 0 {
		return c.fail("sample without a byte")
	}
	if !c.joined {
		c.feed(c.hold[c.again:])
	}
	c.inside, c.hold = false, c.hold[:0]
	r, b := &c.rec, &c.plain
	b.table = binary.LittleEndian.AppendUint32(b.table, uint32(c.start-c.from))
	b.table = binary.LittleEndian.AppendUint32(b.table, uint32(c.length))
	b.table = binary.LittleEndian.AppendUint32(b.table, c.crc)
	b.names = binary.AppendUvarint(b.names, uint64(len(c.key)))
	b.names = append(b.names, c.key...)
	b.parts = binary.AppendUvarint(b.parts, uint64(len(s.Parts)))
	for _, p := range s.Parts {
		b.parts = appendPart(b.parts, Part{p.Ext, uint32(p.Offset), uint32(p.Length), p.CRC32C})
	}
	if c.loose {
		r.extents = append(r.extents, Extent{Shard: c.object, Length: c.length})
	}
	r.samples++
	c.forget(c.start) // where the next sample may begin, if it shares bytes
	return nil
}

// forget drops the frames before an offset but those of the first and the last byte of the open chunk, of the last byte of the one that
// waits, and of the current sample's first byte: no others are asked for.
func (c *cutter) forget(before int64) {
	if c.frames != nil {
		c.frames.Keep(before, [4]int64{c.from, c.from + c.rec.length - 1, c.last, c.start})
	}
}

// finish emits the last chunk.
func (c *cutter) finish() error {
	if c.open {
		if err := c.closeChunk(); err != nil {
			return err
		}
	}
	return c.release()
}
