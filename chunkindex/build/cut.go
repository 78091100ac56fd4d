package build

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

const (
	maxHold         = 64 << 20 // longest sample, or gap, that is held in memory until its chunk is known
	maxChunkSamples = 1 << 20  // a chunk is closed at this many samples
	maxBlock        = 8 << 20  // or when its names or parts fill this many bytes

	maxFrameBlock = 48 << 20 // how long the names or parts of a chunk that cannot be closed, inside a frame, may be
)

// cutterChanges counts how often the rules have changed by which chunks are cut. What older rules made is not mixed with newer ones.
const cutterChanges = 0

// cutter is the Sink of one shard, or of a run of loose objects: it computes all digests in one pass and cuts chunks.
//
// A chunk is closed before a sample with which it would be longer than the chunk size, and before a sample, or
// after a gap, longer than maxHold. Until the chunk of a sample is known, its bytes and the gap before it are held.
//
// A chunk of a compressed shard is closed only before a sample that begins in a later frame than the chunk's first
// sample does, and in a later frame than that in which the chunk before ends: so no frame is part of more than two
// chunks. With a codec whose chunks are whole frames, a chunk is closed only before a frame with which it would be
// longer than the chunk size. A change of where chunks are cut raises cutterChanges.
type cutter struct {
	chunkSize int64
	shard     string // key of the first shard of the run
	overlap   int64  // bytes that a sample may share with the sample before it
	codec     codec.Codec
	frames    format.Frames
	emit      func(*layout.ChunkRecord) error

	outside struct { // samples with a part whose name leads out of a directory
		count   uint64
		example string
	}

	object int    // the shard at hand, by its place in the run
	base   int64  // where that shard begins in the run
	off    int64  // of the next byte in the run
	closed uint64 // samples of the chunks that were closed

	sample  sample
	hold    []byte     // bytes of the sample, while its chunk is not known
	gap     []byte     // bytes before the sample, which the open chunk gets if the sample joins it
	open    *openChunk // nil: no sample has begun
	closing *openChunk // the chunk before it, until the end of its last frame is known; nil: none
	last    int64      // where the last byte of the chunk before it lies in the run
	spare   *openChunk // a chunk that was emitted, whose memory the next one uses; nil: none
}

// openChunk is a chunk that may get more samples.
type openChunk struct {
	rec    layout.ChunkRecord
	plain  layout.PlainBlocks // of its samples
	sha    hash.Hash
	from   int64 // where it begins in the run of shards
	sealed bool  // more bytes than can be held follow its last sample, so it cannot get another one
}

// sample is the sample that a cutter reads, or the one that it read last.
type sample struct {
	state  sampleState
	key    string
	start  int64 // in the run of shards
	length int64
	shared int // bytes at its beginning that the sample before it ended with
	crc    uint32
}

type sampleState int

const (
	ended  sampleState = iota // the sample has ended, and no other has begun
	held                      // its chunk is not known
	joined                    // it is in the open chunk
)

// asStored are the frames of a shard that is not compressed: each byte is one.
type asStored struct{}

func (asStored) At(off int64) (codec.Frame, bool) {
	return codec.Frame{Stored: off, StoredEnd: off + 1, Decoded: off, DecodedEnd: off + 1}, true
}
func (asStored) Keep(int64, [4]int64)                       {}
func (asStored) Params(int64, int64) ([]byte, []rows.Range) { return nil, nil }

func newCutter(chunkSize int64, emit func(*layout.ChunkRecord) error) *cutter {
	return &cutter{chunkSize: chunkSize, emit: emit, frames: asStored{}}
}

// begin begins the next shard of the run.
func (c *cutter) begin(object int) { c.object, c.base = object, c.off }

func (c *cutter) fail(reason string, args ...any) error {
	return &format.Error{Offset: c.sample.start - c.base, Name: c.sample.key, Reason: fmt.Sprintf(reason, args...)}
}

// Gap takes bytes between samples. They lie inside a chunk if a sample follows them there.
func (c *cutter) Gap(p []byte) error {
	c.off += int64(len(p))
	c.forget(c.off)
	if c.open == nil || c.open.sealed {
		return nil
	}
	most := int64(maxHold)
	if c.codec == codec.None {
		most = min(most, c.chunkSize-c.open.rec.Length)
	}
	if int64(len(c.gap)+len(p)) > most {
		c.open.sealed, c.gap = true, c.gap[:0]
	} else {
		c.gap = append(c.gap, p...)
	}
	return nil
}

// Data takes the next bytes of a sample.
func (c *cutter) Data(s *format.Sample, p []byte) error {
	if c.sample.state == ended {
		if err := c.beginSample(s.Key, p[:s.Shared]); err != nil {
			return err
		}
		p = p[s.Shared:]
	}
	if err := c.ahead(int64(len(p)) + s.Ahead); err != nil {
		return err
	}
	c.off += int64(len(p))
	c.sample.length += int64(len(p))
	c.sample.crc = crc32.Update(c.sample.crc, layout.Castagnoli(), p)
	if c.sample.state == joined {
		c.open.feed(p)
	} else {
		c.hold = append(c.hold, p...)
	}
	c.forget(c.off)
	return nil
}

// beginSample notes where a sample begins. The sample before it ended with the shared bytes, so the open chunk has them.
func (c *cutter) beginSample(key string, shared []byte) error {
	n := len(shared)
	c.sample = sample{state: held, key: key, start: c.off - int64(n), length: int64(n), shared: n, crc: crc32.Checksum(shared, layout.Castagnoli())}
	if n > 0 && (c.open == nil || c.open.sealed || len(c.gap) > 0) {
		return c.fail("shares bytes with a sample that does not end where it begins")
	}
	c.hold = append(c.hold, shared...)
	if c.open == nil {
		c.openChunk()
	}
	return nil
}

// openChunk opens a chunk that begins with the sample.
func (c *cutter) openChunk() {
	c.open, c.spare = c.spare, nil
	if c.open == nil {
		c.open = &openChunk{sha: sha256.New()}
	}
	c.open.reset(c.sample.start)
	c.sample.state, c.gap = joined, c.gap[:0]
}

// closeChunk ends the open chunk. All frames of the chunk before it are known by now: the open chunk was not closed
// before the frame in which it begins had ended.
func (c *cutter) closeChunk() error {
	k := c.open
	k.sha.Sum(k.rec.Digest[:0])
	if err := k.rec.Encode(&k.plain, c.overlap, c.shard, c.closed); err != nil {
		return err
	}
	c.closed += uint64(k.rec.Samples)
	if c.codec == codec.None {
		c.open, c.spare = nil, k
		return c.emit(&k.rec)
	}
	if err := c.release(); err != nil {
		return err
	}
	first, ok := c.frames.At(k.from)
	if !ok {
		return c.fail("frame of the chunk's first byte is not known")
	}
	c.open, c.closing, c.last = nil, k, k.from+k.rec.Extents[0].Length-1
	k.rec.Codec, k.rec.Skip = k.rec.Codec|c.codec, k.from-first.Decoded
	params, pieces := c.frames.Params(k.from, c.last)
	if len(params) > layout.MaxTable {
		return c.fail("what a chunk's codec needs beside the stored bytes has %d bytes, more than %d: choose a smaller --chunk-size, or %s", len(params), layout.MaxTable, c.codec.Smaller())
	}
	k.rec.Params = append(k.rec.Params[:0], params...)
	k.rec.Extents[0] = layout.Extent{Offset: first.Stored} // release sets the length
	if len(pieces) > 0 {
		k.rec.Extents = k.rec.Extents[:0]
	}
	for _, p := range pieces {
		k.rec.Extents = append(k.rec.Extents, layout.Extent{Offset: p.Offset, Length: p.Length})
	}
	return nil
}

// release emits a compressed chunk, once the end of its last frame is known.
func (c *cutter) release() error {
	k := c.closing
	if k == nil {
		return nil
	}
	c.closing, c.spare = nil, k
	last, ok := c.frames.At(c.last)
	if !ok || last.StoredEnd == 0 {
		return c.fail("frame of the last chunk's last byte is not known")
	}
	if e := &k.rec.Extents[0]; e.Length == 0 {
		e.Length = last.StoredEnd - e.Offset
	}
	return c.emit(&k.rec)
}

// ahead refuses a sample that is too long with n more bytes, and finds its chunk if that can be known.
func (c *cutter) ahead(n int64) error {
	if n < 0 || c.sample.length+n > format.MaxSample {
		return c.fail("sample is longer than %d bytes", format.MaxSample)
	}
	if c.sample.state == held {
		if err := c.place(n); err != nil {
			return err
		}
	}
	if c.sample.state == joined && c.open.rec.Length+n > layout.MaxChunkSize {
		return c.fail("samples that lie in one compressed frame are longer than %d bytes: %s", layout.MaxChunkSize, c.codec.Smaller())
	}
	return nil
}

// place has the sample, of n more bytes at least, join the open chunk or begin the next one, if it is known which.
func (c *cutter) place(n int64) error {
	s, k := &c.sample, c.open
	full := k.sealed || k.reaches(maxChunkSamples, maxBlock)
	length := k.rec.Length + int64(len(c.gap)+len(c.hold)-s.shared) + n
	if !c.codec.Whole() && !full && length <= c.chunkSize && s.length+n <= maxHold {
		return nil
	}
	own, known := c.frames.At(s.start)
	if !known {
		return nil // no byte of the sample has come yet: asked again when one does
	}
	first, _ := c.frames.At(k.from)
	last, _ := c.frames.At(c.last)
	cut := own.Stored > max(first.Stored, last.Stored)
	if c.codec.Whole() {
		fits := own.StoredEnd > 0 && k.rec.Length+own.DecodedEnd-own.Decoded <= c.chunkSize
		cut = own.Decoded == s.start && (full || !fits)
	}
	if !cut {
		return c.join()
	}
	if err := c.closeChunk(); err != nil {
		return err
	}
	c.openChunk()
	c.open.feed(c.hold)
	c.hold = c.hold[:0]
	return nil
}

// join takes the sample into the open chunk, which cannot be closed before it.
func (c *cutter) join() error {
	if c.open.sealed {
		return c.fail("more than %d bytes between two samples of one compressed frame: recompress the shard in smaller frames", maxHold)
	}
	if c.open.reaches(layout.MaxFrameSamples, maxFrameBlock) {
		return c.fail("too many samples in one compressed frame: %s", c.codec.Smaller())
	}
	c.take()
	return nil
}

// take gives the open chunk the sample and the gap that are held.
func (c *cutter) take() {
	c.open.feed(c.gap)
	c.open.feed(c.hold[c.sample.shared:])
	c.sample.state, c.gap, c.hold = joined, c.gap[:0], c.hold[:0]
}

// End ends a sample.
func (c *cutter) End(s *format.Sample) error {
	if c.sample.state == ended {
		return &format.Error{Offset: c.off - c.base, Name: s.Key, Reason: "sample without a byte"}
	}
	end := c.off // before the line feed, which is not stored
	if s.LineFeed {
		if err := c.Data(&format.Sample{}, []byte{'\n'}); err != nil {
			return err
		}
		c.open.rec.Codec = codec.LineFeed
	}
	if c.sample.state == held {
		c.take()
	}
	c.sample.state = ended
	c.checkNames(s.Parts)
	c.open.add(&c.sample, s.Parts, layout.Extent{Shard: c.object, Offset: c.sample.start - c.base, Length: end - c.sample.start})
	c.forget(c.sample.start) // where the next sample may begin, if it shares bytes
	return nil
}

// checkNames counts the sample if the name of a part, as a tar of it has it, leads out of a directory.
func (c *cutter) checkNames(parts []format.Part) {
	name := c.sample.key
	if !format.Outside(name) {
		at := slices.IndexFunc(parts, func(p format.Part) bool {
			return strings.Contains(p.Ext, "/") && format.Outside(c.sample.key+"."+p.Ext)
		})
		if at < 0 {
			return
		}
		name += "." + parts[at].Ext
	}
	if c.outside.count++; c.outside.count == 1 {
		c.outside.example = name
	}
}

// forget drops the frames before an offset, but keeps those of the first and the last byte of the open chunk, of the
// last byte of the chunk before it, and of the sample's first byte: no others are asked for.
func (c *cutter) forget(before int64) {
	needed := [4]int64{c.last, c.sample.start}
	if c.open != nil {
		needed[2], needed[3] = c.open.from, c.open.from+c.open.rec.Length-1
	}
	c.frames.Keep(before, needed)
}

// finish emits the last chunk.
func (c *cutter) finish() error {
	if c.open != nil {
		if err := c.closeChunk(); err != nil {
			return err
		}
	}
	return c.release()
}

func (k *openChunk) reset(from int64) {
	k.from, k.sealed = from, false
	k.sha.Reset()
	k.rec.Reset()
	k.plain.Reset()
}

// reaches says whether the chunk has this many samples, or this many bytes of their names or parts.
func (k *openChunk) reaches(samples uint32, block int) bool {
	return k.rec.Samples >= samples || len(k.plain.Names) >= block || len(k.plain.Parts) >= block
}

func (k *openChunk) feed(p []byte) {
	k.sha.Write(p)
	k.rec.CRC = crc32.Update(k.rec.CRC, layout.Castagnoli(), p)
	k.rec.Length += int64(len(p))
}

// add notes a sample that ends where the chunk's bytes end. at is where the sample is stored. A chunk has one extent in
// each of its shards.
func (k *openChunk) add(s *sample, parts []format.Part, at layout.Extent) {
	b := &k.plain
	b.Table = binary.LittleEndian.AppendUint32(b.Table, uint32(k.rec.Length-s.length))
	b.Table = binary.LittleEndian.AppendUint32(b.Table, uint32(s.length))
	b.Table = binary.LittleEndian.AppendUint32(b.Table, s.crc)
	b.Names = binary.AppendUvarint(b.Names, uint64(len(s.key)))
	b.Names = append(b.Names, s.key...)
	b.Parts = binary.AppendUvarint(b.Parts, uint64(len(parts)))
	for _, p := range parts {
		b.Parts = layout.AppendPart(b.Parts, layout.Part{Ext: p.Ext, Offset: uint32(p.Offset), Length: uint32(p.Length), CRC32C: p.CRC32C})
	}
	k.rec.Samples++
	if n := len(k.rec.Extents) - 1; n >= 0 && k.rec.Extents[n].Shard == at.Shard {
		k.rec.Extents[n].Length = at.Offset + at.Length - k.rec.Extents[n].Offset
	} else {
		k.rec.Extents = append(k.rec.Extents, at)
	}
}
