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
	maxHold         = 64 << 20 // longest sample or gap that is held in memory until its chunk is known
	maxChunkSamples = 1 << 15  // a chunk is closed at this number of samples, so that a reader of a few of them needs a small table
	maxBlock        = 8 << 20  // a chunk is closed when its names or parts reach this number of bytes

	maxFrameBlock = 48 << 20 // limit for the names or parts of a chunk that cannot be closed because it is inside a frame
)

// cutterChanges is the version of the rules for cutting chunks. An index never mixes chunks of
// different versions.
const cutterChanges = 0

// cutter is the Sink of one shard or of a run of loose objects. It computes all digests in one pass
// and cuts chunks.
//
// The cutter closes a chunk before a sample that would make it longer than the chunk size, before a
// sample longer than maxHold, and after a gap longer than maxHold. It holds a sample's bytes and
// the gap before it until the sample's chunk is known.
//
// The cutter closes a chunk of a compressed shard only before a sample that begins in a later frame
// than both the chunk's first sample and the preceding chunk's last byte. No frame is thus part of
// more than two chunks. With a codec whose chunks are whole frames, the cutter closes a chunk only
// before a frame that would make it longer than the chunk size. Increment cutterChanges when
// changing these rules.
type cutter struct {
	chunkSize int64
	shard     string // key of the first shard of the run
	overlap   int64  // maximum bytes that consecutive samples may share
	codec     codec.Codec
	frames    format.Frames
	emit      func(*layout.ChunkRecord) error

	outside struct { // samples that have a part whose name leads out of a directory
		count   uint64
		example string
	}

	object int    // number of the current shard in the run
	base   int64  // offset of the current shard in the run
	off    int64  // offset of the next byte in the run
	closed uint64 // number of samples in closed chunks

	sample  sample
	hold    []byte     // bytes of the sample while its chunk is not known
	gap     []byte     // bytes before the sample; they become part of the open chunk if the sample does
	open    *openChunk // nil: no sample has begun
	closing *openChunk // preceding chunk until the end of its last frame is known; nil: none
	last    int64      // offset of the preceding chunk's last byte in the run
	spare   *openChunk // emitted chunk whose memory the next chunk reuses; nil: none
}

// openChunk is a chunk to which the cutter may add samples.
type openChunk struct {
	rec    layout.ChunkRecord
	plain  layout.PlainBlocks // blocks of its samples
	sha    hash.Hash
	from   int64 // offset of its first byte in the run of shards
	sealed bool  // closed to further samples, because the gap after its last sample is too long to hold
}

// sample is the current sample of a cutter, or the preceding one if that has ended.
type sample struct {
	state  sampleState
	key    string
	start  int64 // offset of the sample in the run of shards
	length int64
	shared int // bytes shared with the end of the preceding sample
	crc    uint32
}

type sampleState int

const (
	ended  sampleState = iota // the sample has ended and the next one has not begun
	held                      // the sample's chunk is not known yet
	joined                    // the sample is in the open chunk
)

// asStored is the frame list of an uncompressed shard, in which each byte counts as a frame.
type asStored struct{}

func (asStored) At(off int64) (codec.Frame, bool) {
	return codec.Frame{Stored: off, StoredEnd: off + 1, Decoded: off, DecodedEnd: off + 1}, true
}
func (asStored) Keep(int64, [4]int64)                       {}
func (asStored) Params(int64, int64) ([]byte, []rows.Range) { return nil, nil }

func newCutter(chunkSize int64, emit func(*layout.ChunkRecord) error) *cutter {
	return &cutter{chunkSize: chunkSize, emit: emit, frames: asStored{}}
}

// begin starts the next shard of the run.
func (c *cutter) begin(object int) { c.object, c.base = object, c.off }

func (c *cutter) fail(reason string, args ...any) error {
	return &format.Error{Offset: c.sample.start - c.base, Name: c.sample.key, Reason: fmt.Sprintf(reason, args...)}
}

// Gap receives bytes between samples. They become part of a chunk if the next sample is in the same
// chunk.
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

// Data receives the next bytes of a sample.
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

// beginSample starts a sample. shared is the end of the preceding sample, so the open chunk already
// contains these bytes.
func (c *cutter) beginSample(key string, shared []byte) error {
	n := len(shared)
	c.sample = sample{state: held, key: key, start: c.off - int64(n), length: int64(n), shared: n, crc: crc32.Checksum(shared, layout.Castagnoli())}
	if n > 0 && (c.open == nil || c.open.sealed || len(c.gap) > 0) {
		return c.fail("sample shares bytes with another sample that does not end where this sample begins")
	}
	c.hold = append(c.hold, shared...)
	if c.open == nil {
		c.openChunk()
	}
	return nil
}

// openChunk opens a chunk that begins with the current sample.
func (c *cutter) openChunk() {
	c.open, c.spare = c.spare, nil
	if c.open == nil {
		c.open = &openChunk{sha: sha256.New()}
	}
	c.open.reset(c.sample.start)
	c.sample.state, c.gap = joined, c.gap[:0]
}

// closeChunk closes the open chunk. All frames of the preceding chunk are already known, because
// the open chunk begins in a frame that has ended.
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
		return c.fail("the compressed frame with the chunk's first byte is not known")
	}
	c.open, c.closing, c.last = nil, k, k.from+k.rec.Extents[0].Length-1
	k.rec.Codec, k.rec.Skip = k.rec.Codec|c.codec, k.from-first.Decoded
	params, pieces := c.frames.Params(k.from, c.last)
	if len(params) > layout.MaxTable {
		return c.fail("the decoding parameters of a chunk take %d bytes, more than %d: choose a smaller --chunk-size, or %s", len(params), layout.MaxTable, c.codec.Smaller())
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

// release emits the closed compressed chunk once the end of its last frame is known.
func (c *cutter) release() error {
	k := c.closing
	if k == nil {
		return nil
	}
	c.closing, c.spare = nil, k
	last, ok := c.frames.At(c.last)
	if !ok || last.StoredEnd == 0 {
		return c.fail("the compressed frame with the last byte of the last chunk is not known")
	}
	if e := &k.rec.Extents[0]; e.Length == 0 {
		e.Length = last.StoredEnd - e.Offset
	}
	return c.emit(&k.rec)
}

// ahead rejects a sample that would be too long with n more bytes. It assigns the sample to a chunk
// if its chunk can be determined.
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
		return c.fail("the samples of one compressed frame have more than %d bytes in total: %s", layout.MaxChunkSize, c.codec.Smaller())
	}
	return nil
}

// place decides whether the current sample, with at least n more bytes to come, belongs to the open
// chunk or to a new chunk, and adds it there. If this cannot be decided yet, place does nothing.
func (c *cutter) place(n int64) error {
	s, k := &c.sample, c.open
	full := k.sealed || k.reaches(maxChunkSamples, maxBlock)
	length := k.rec.Length + int64(len(c.gap)+len(c.hold)-s.shared) + n
	if !c.codec.Whole() && !full && length <= c.chunkSize && s.length+n <= maxHold {
		return nil
	}
	own, known := c.frames.At(s.start)
	if !known {
		return nil // no byte of the sample has been decoded yet; the next call decides
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

// join adds the sample to the open chunk, which cannot be closed before this sample.
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

// take moves the held sample and gap into the open chunk.
func (c *cutter) take() {
	c.open.feed(c.gap)
	c.open.feed(c.hold[c.sample.shared:])
	c.sample.state, c.gap, c.hold = joined, c.gap[:0], c.hold[:0]
}

// End ends a sample.
func (c *cutter) End(s *format.Sample) error {
	if c.sample.state == ended {
		return &format.Error{Offset: c.off - c.base, Name: s.Key, Reason: "empty sample"}
	}
	end := c.off // without the line feed, which is not stored
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
	c.forget(c.sample.start) // the next sample may begin here if it shares bytes with this sample
	return nil
}

// checkNames counts the sample if the tar name of one of its parts leads out of a directory.
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

// forget removes the frames before an offset, except those that are still needed: the frames of the
// first and last byte of the open chunk, of the preceding chunk's last byte and of the sample's
// first byte.
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

// reaches reports whether the chunk has reached this number of samples, or this number of bytes in
// its names or parts.
func (k *openChunk) reaches(samples uint32, block int) bool {
	return k.rec.Samples >= samples || len(k.plain.Names) >= block || len(k.plain.Parts) >= block
}

func (k *openChunk) feed(p []byte) {
	k.sha.Write(p)
	k.rec.CRC = crc32.Update(k.rec.CRC, layout.Castagnoli(), p)
	k.rec.Length += int64(len(p))
}

// add records a sample that ends at the end of the chunk's bytes. at is the sample's stored
// location. A chunk has one extent per shard.
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
