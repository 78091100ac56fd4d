// Package codec reads compressed shards: gzip, zstd and xz, told by the end of an object's name and held to
// it by their magic.
//
// A compressed shard is a row of frames (gzip calls them members, xz blocks), each decoded by itself. Reader decodes a shard in
// sequence, for a scan, and says where its frames lie; Decode brings back the bytes of a chunk from the frames that hold
// it. Both take input that nobody has checked, and neither takes memory for what the input merely promises: a zstd window
// is at most MaxWindow, and a frame that decodes to more than MaxFrame is refused.
package codec

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Codec says how an object is compressed. The numbers are those of docs/spec/index-format.md.
type Codec uint32

// The codecs.
const (
	None    Codec = 0
	Gzip    Codec = 1 // RFC 1952, of any number of members
	Zstd    Codec = 2 // RFC 8878, of any number of frames, without dictionaries
	Parquet Codec = 3 // row groups, decoded into rows as docs/spec/rows.md describes them
	Xz      Codec = 4 // The .xz File Format 1.2.1, of any number of streams and blocks, with the filter LZMA2 alone
	Zip     Codec = 6 // members of a zip archive, stored or deflated
	Arrow   Codec = 7 // record batches of Arrow, decoded into rows as Parquet's are
)

// LineFeed is a flag beside a codec: what is decoded lacks one line feed at its end, which Decode adds. It belongs to the last chunk
// of lines of which the last one is not ended.
const LineFeed Codec = 1 << 8

// Limits.
const (
	MaxFrame  = 1 << 30 // bytes that one frame may decode to
	MaxWindow = 8 << 20 // of a zstd frame: what RFC 8878 asks every decoder for, and no more
)

// method returns the row of a codec in the table of methods; nil: this program does not know it.
func (c Codec) method() *method { return methods()[c&^LineFeed] }

// String returns "none", "gzip", "zstd" and the like, and says where a line feed is added.
func (c Codec) String() string {
	if c&LineFeed != 0 {
		return fmt.Sprintf("%v and a line feed", c&^LineFeed)
	}
	if m := c.method(); m != nil {
		return m.name
	}
	return fmt.Sprintf("codec %d", uint32(c))
}

// Known says whether this program can decode it.
func (c Codec) Known() bool { return c.method() != nil }

// Described says whether chunks of the codec have parameters, which their index holds: what of them decoding needs beside their stored
// bytes. Frames of gzip and zstd say all of it themselves; of xz, the header of a stream says what check its blocks have, and of
// Parquet and zip, what stands at a file's end says how its row groups or its members are decoded, and of Arrow, its schema does.
func (c Codec) Described() bool { m := c.method(); return m != nil && m.described }

// Whole says whether chunks of the codec are whole frames, so that no frame is part of two of them.
func (c Codec) Whole() bool { m := c.method(); return m != nil && m.whole }

// InPieces says whether a chunk of the codec may have several extents, since parts of its frames are left out.
func (c Codec) InPieces() bool { m := c.method(); return m != nil && m.pieces }

// Smaller says how to write a shard of smaller frames.
func (c Codec) Smaller() string { return c.method().smaller }

// Beside returns the bytes of memory that it takes to decode a chunk, beside the decoded bytes themselves: the stored bytes, and what
// the decoder works in.
func (c Codec) Beside(stored, decoded int64) int64 {
	if c == None {
		return 0
	}
	if m := c.method(); m != nil && m.room != nil {
		return stored + m.room(decoded)
	}
	return stored
}

// Packed says whether the bytes are stored in whole frames, and not as they are.
func (c Codec) Packed() bool { return c&^LineFeed != None }

// Of returns the codec that an object's name ends in, and the name without that ending: "a.tar" for "a.tar.gz" and for "a.tgz".
// A name that would have nothing left, such as "a/.gz", has no such ending.
func Of(key string) (c Codec, bare string) {
	for _, s := range []struct {
		suffix, instead string
		codec           Codec
	}{
		{".gz", "", Gzip},
		{".tgz", ".tar", Gzip},
		{".zst", "", Zstd},
		{".zstd", "", Zstd},
		{".xz", "", Xz},
		{".txz", ".tar", Xz},
	} {
		if n := len(key) - len(s.suffix); n >= 0 && strings.EqualFold(key[n:], s.suffix) {
			if bare = key[:n] + s.instead; bare == "" || strings.HasSuffix(bare, "/") {
				return None, key
			}
			return s.codec, bare
		}
	}
	if bare, ok := strings.CutSuffix(key, ".bin"); ok { // LitData puts it before its own suffix, with the level: "a.zstd.bin", "a.zstd:4.bin"
		if i := strings.LastIndex(bare, ".zstd"); i >= 0 {
			level := bare[i+len(".zstd"):]
			if level == "" || level[0] == ':' && !strings.Contains(level, "/") {
				return Zstd, bare[:i] + ".bin"
			}
		}
	}
	return None, key
}

// Decode fills dst with the decoded bytes of whole frames, after the first skip of them, or fails. What the frames hold beyond
// dst is not looked at. params are the chunk's parameters, empty unless the codec is Described. Decode takes memory for one window,
// whatever the frames promise; the memory behind stored, up to its capacity, is the decoder's to work in.
func Decode(c Codec, params, stored []byte, skip int64, dst []byte) error {
	if len(params) > 0 && !c.Described() {
		return fmt.Errorf("decode %v: %d bytes of parameters, which it does not have", c, len(params))
	}
	if skip < 0 || skip > MaxFrame {
		return fmt.Errorf("decode %v: %d bytes to pass over", c, skip)
	}
	if c&LineFeed != 0 {
		if len(dst) == 0 {
			return fmt.Errorf("decode %v: no room for the line feed", c)
		}
		dst[len(dst)-1] = '\n'
		return Decode(c&^LineFeed, params, stored, skip, dst[:len(dst)-1])
	}
	m := c.method()
	if m == nil {
		return fmt.Errorf("%v is not known", c)
	}
	if m.decode != nil && skip != 0 {
		return fmt.Errorf("decode %v: %d bytes to pass over, where a chunk begins with a frame", c, skip)
	}
	if err := m.fill(params, stored, skip, dst); err != nil {
		return fmt.Errorf("decode %v: %w", c, err)
	}
	return nil
}

// fill fills dst with the decoded bytes of whole frames, after the first skip of them.
func (m *method) fill(params, stored []byte, skip int64, dst []byte) error {
	if m.decode != nil {
		return m.decode(params, stored, dst)
	}
	in, done, err := m.open(params, bytes.NewReader(stored))
	if err != nil {
		return err
	}
	defer done()
	if _, err = io.CopyN(io.Discard, in, skip); err == nil {
		_, err = io.ReadFull(in, dst)
	}
	return whole(err)
}
