// Package codec reads compressed shards: gzip, zstd and xz. The suffix of an object's name
// determines the codec, and the object's magic number must match it.
//
// A compressed shard is a sequence of frames (members in gzip, blocks in xz) that are decoded
// independently. Reader decodes a shard sequentially for a scan and reports the location of its
// frames. Decode restores the bytes of a chunk from the frames that contain it.
//
// Both read untrusted input. They never allocate memory only because the input claims a length. A
// zstd window is at most MaxWindow. A frame that decodes to more than MaxFrame is rejected.
package codec

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// Codec identifies the compression of an object or chunk. The numbers are defined in
// docs/spec/index-format.md.
type Codec uint32

// Supported codecs.
const (
	None    Codec = 0
	Gzip    Codec = 1 // RFC 1952, any number of members
	Zstd    Codec = 2 // RFC 8878, any number of frames, without dictionaries
	Parquet Codec = 3 // row groups, decoded into rows (see docs/spec/rows.md)
	Xz      Codec = 4 // The .xz File Format 1.2.1, any number of streams and blocks, only with the LZMA2 filter
	Zip     Codec = 6 // members of a zip archive, stored or deflated
	Arrow   Codec = 7 // record batches of Arrow, decoded into rows like Parquet's
	JSON    Codec = 8 // values of JSON, decoded into lines
)

// LineFeed is a flag added to a codec: Decode appends a line feed to the decoded bytes. It is set
// on the last chunk of a text file whose last line is not terminated.
const LineFeed Codec = 1 << 8

// Mapped is a flag added to a codec of rows: the parameters begin with a mapping (package rows), which
// converts the rows of the file to those of its dataset.
const Mapped Codec = 1 << 9

// Limits of frames.
const (
	MaxFrame  = 1 << 30 // maximum decoded bytes of a frame
	MaxWindow = 8 << 20 // maximum window of a zstd frame, which RFC 8878 requires every decoder to support
)

// method returns the implementation of a codec, or nil if it is unknown.
func (c Codec) method() *method {
	m := methods()[c&^(LineFeed|Mapped)]
	if m != nil && m.rows == nil && c&Mapped != 0 {
		return nil
	}
	return m
}

// String returns the name of the codec, such as "zstd". If the codec has the flag LineFeed, the
// name mentions it.
func (c Codec) String() string {
	if c&Mapped != 0 {
		return fmt.Sprintf("%v with mapped columns", c&^Mapped)
	}
	if c&LineFeed != 0 {
		return fmt.Sprintf("%v and a line feed", c&^LineFeed)
	}
	if m := c.method(); m != nil {
		return m.name
	}
	return fmt.Sprintf("codec %d", uint32(c))
}

// Known reports whether this program supports the codec.
func (c Codec) Known() bool { return c.method() != nil }

// Described reports whether chunks of the codec have parameters. The index stores them because
// decoding needs them in addition to the stored bytes. gzip and zstd frames are self-contained.
// Blocks of xz need the check type from their stream's header. Parquet row groups and zip members
// need their description at the end of the file. Arrow record batches need the schema.
func (c Codec) Described() bool { m := c.method(); return m != nil && m.described }

// Whole reports whether chunks of the codec consist of whole frames.
func (c Codec) Whole() bool { m := c.method(); return m != nil && m.whole }

// InPieces reports whether a chunk of the codec may have several extents because ranges of its
// frames are omitted.
func (c Codec) InPieces() bool { m := c.method(); return m != nil && m.pieces }

// Smaller returns advice on how to write a shard with smaller frames.
func (c Codec) Smaller() string { return c.method().smaller }

// Workspace returns the memory needed to decode a chunk, in addition to the decoded bytes: the size
// of the stored bytes and of the decoder's workspace. It is 0 without compression.
func (c Codec) Workspace(stored, decoded int64) int64 {
	if c == None {
		return 0
	}
	if m := c.method(); m != nil && m.room != nil {
		return stored + m.room(decoded)
	}
	return stored
}

// Packed reports whether the chunk's stored bytes differ from its decoded bytes.
func (c Codec) Packed() bool { return c&^LineFeed != None }

// Of returns the codec that the suffix of a key indicates, and the key without the suffix: "a.tar"
// for "a.tar.gz" and "a.tgz". A name that would become empty, such as "a/.gz", does not indicate a
// codec.
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
	if bare, ok := strings.CutSuffix(key, ".bin"); ok { // LitData inserts the codec and level before its own suffix: "a.zstd.bin", "a.zstd:4.bin"
		if i := strings.LastIndex(bare, ".zstd"); i >= 0 {
			level := bare[i+len(".zstd"):]
			if level == "" || level[0] == ':' && !strings.Contains(level, "/") {
				return Zstd, bare[:i] + ".bin"
			}
		}
	}
	return None, key
}

// Decode fills dst with the decoded bytes of whole frames, after skipping the first skip bytes. It
// ignores the bytes of the frames that follow. params are the chunk's parameters, which are empty
// unless the codec is Described. Decode allocates at most one window. It may use the memory behind
// stored, up to its capacity.
func Decode(c Codec, params, stored []byte, skip int64, dst []byte) error {
	if len(params) > 0 && !c.Described() {
		return fmt.Errorf("decode %v: got %d bytes of parameters, but this codec has no parameters", c, len(params))
	}
	if skip < 0 || skip > MaxFrame {
		return fmt.Errorf("decode %v: cannot skip %d bytes", c, skip)
	}
	if c&LineFeed != 0 {
		if len(dst) == 0 {
			return fmt.Errorf("decode %v: the chunk is too short for its line feed", c)
		}
		dst[len(dst)-1] = '\n'
		return Decode(c&^LineFeed, params, stored, skip, dst[:len(dst)-1])
	}
	m := c.method()
	if m == nil {
		return fmt.Errorf("%v is not supported", c)
	}
	if (m.decode != nil || m.rows != nil) && skip != 0 {
		return fmt.Errorf("decode %v: cannot skip %d bytes: a chunk of this codec begins with a frame", c, skip)
	}
	if err := m.fill(c, params, stored, skip, dst); err != nil {
		return fmt.Errorf("decode %v: %w", c, err)
	}
	return nil
}

// fill fills dst with the decoded bytes of whole frames, after skipping the first skip bytes.
func (m *method) fill(c Codec, params, stored []byte, skip int64, dst []byte) (err error) {
	switch {
	case m.rows != nil:
		var mapping *rows.Mapping
		if c&Mapped != 0 {
			if mapping, params, err = rows.CutMapping(params); err != nil {
				return err
			}
		}
		return m.rows(params, stored, dst, mapping)
	case m.decode != nil:
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
