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
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/millrace-data/millrace/chunkindex/codec/arrowbatch"
	"github.com/millrace-data/millrace/chunkindex/codec/rowgroup"
)

// Codec says how an object is compressed. The numbers are those of docs/index-format.md.
type Codec uint32

// The codecs.
const (
	None    Codec = 0
	Gzip    Codec = 1 // RFC 1952, of any number of members
	Zstd    Codec = 2 // RFC 8878, of any number of frames, without dictionaries
	Parquet Codec = 3 // row groups, decoded into rows as docs/rows.md describes them
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

// String returns "none", "gzip", "zstd" and the like, and says where a line feed is added.
func (c Codec) String() string {
	if c&LineFeed != 0 {
		return fmt.Sprintf("%v and a line feed", c&^LineFeed)
	}
	switch c {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Zstd:
		return "zstd"
	case Parquet:
		return "parquet"
	case Xz:
		return "xz"
	case Zip:
		return "zip"
	case Arrow:
		return "arrow"
	}
	return fmt.Sprintf("codec %d", uint32(c))
}

// Known says whether this program can decode it.
func (c Codec) Known() bool {
	switch c &^ LineFeed {
	case None, Gzip, Zstd, Parquet, Xz, Zip, Arrow:
		return true
	}
	return false
}

// Described says whether chunks of the codec have parameters, which their index holds: what of them decoding needs beside their stored
// bytes. Frames of gzip and zstd say all of it themselves; of xz, the header of a stream says what check its blocks have, and of
// Parquet and zip, what stands at a file's end says how its row groups or its members are decoded, and of Arrow, its schema does.
func (c Codec) Described() bool { return c&^LineFeed == Xz || c == Parquet || c == Zip || c == Arrow }

// Whole says whether chunks of the codec are whole frames, so that no frame is part of two of them.
func (c Codec) Whole() bool { return c == Parquet || c == Arrow }

// Beside returns the bytes of memory that it takes to decode a chunk, beside the decoded bytes themselves: the stored bytes, and what
// the decoder works in.
func (c Codec) Beside(stored, decoded int64) int64 {
	switch {
	case c == None:
		return 0
	case c == Parquet:
		return stored + rowgroup.Room(decoded)
	case c == Arrow:
		return stored + arrowbatch.Room(decoded)
	case c&^LineFeed == Xz:
		return stored + MaxDictionary
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
	if c == Parquet || c == Zip || c == Arrow {
		return decodeWhole(c, params, stored, skip, dst)
	}
	in, done, err := open(c, params, bytes.NewReader(stored))
	if err != nil {
		return fmt.Errorf("decode %v: %w", c, err)
	}
	defer done()
	if _, err = io.CopyN(io.Discard, in, skip); err == nil {
		_, err = io.ReadFull(in, dst)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("decode %v: %w", c, err)
	}
	return nil
}

// decodeWhole fills dst with the rows of whole row groups and record batches, or the contents of whole members.
func decodeWhole(c Codec, params, stored []byte, skip int64, dst []byte) error {
	if skip != 0 {
		return fmt.Errorf("decode %v: %d bytes to pass over, where a chunk begins with a frame", c, skip)
	}
	decode := rowgroup.Decode
	switch c {
	case Arrow:
		decode = arrowbatch.Decode
	case Zip:
		decode = decodeMembers
	}
	if err := decode(params, stored, dst); err != nil {
		return fmt.Errorf("decode %v: %w", c, err)
	}
	return nil
}

// open starts decoding a row of frames.
func open(c Codec, params []byte, in io.Reader) (decoded io.Reader, done func(), err error) {
	switch c {
	case None:
		return in, func() {}, nil
	case Gzip:
		z, err := gzip.NewReader(in)
		return z, func() {}, err
	case Zstd:
		z, err := newZstd(in)
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	case Xz:
		x, err := insideXz(params, in)
		return x, func() {}, err
	}
	return nil, nil, fmt.Errorf("%v is not known", c)
}
