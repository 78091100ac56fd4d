// Package format is the interface between the index and the formats of stored shards. A format
// consists of a scanner, which finds the samples of a shard, and a framing, which produces the
// bytes around the samples of a batch. Only indexing scans shards; serving does not.
package format

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

// Limits of all formats.
const (
	MaxKey    = 4096    // maximum bytes of a key or of a part's extension
	MaxSample = 1 << 30 // maximum bytes of a sample, and therefore of a chunk
	MaxParts  = 1 << 20 // maximum number of parts in one sample

	MaxPartBytes = 8 << 20 // maximum bytes of one sample's parts in an index: names, offsets and checksums
)

// Format reads shards of one format. The package of a format has a function Format that returns it;
// chunkindex/build/formats.go lists them.
type Format struct {
	// Name is the identifier of the format, such as "tar", in the index, the API and options. It
	// never changes.
	Name string
	// Shards describes briefly how the format's shards are recognised, for messages: "names in
	// .tar, .tar.gz".
	Shards string
	// Takes lists the options that the format uses. Other options are rejected.
	Takes []Option
	// Changes counts the changes of Scan's rules since the first release of the format.
	// Increment it when a shard would yield different samples, so that an index never mixes
	// scans of older and newer rules.
	Changes int
	// Last formats are tried only if no other format claims part of the dataset.
	Last bool
	// Survey examines a dataset by names and content before it is scanned. It returns nil if
	// the dataset does not have this format. If the dataset has this format but cannot be read,
	// Survey returns an error that names the object.
	Survey func(ctx context.Context, l Listing, o Options) (*Dataset, error)
}

// Rules returns the version of Scan's rules, from 1.
func (f *Format) Rules() int { return 1 + f.Changes }

// Listing is a format's view of the objects of a dataset. All bytes are decoded if the object's
// name indicates compression. Returned slices are shared; do not modify them. It is safe for
// concurrent use.
type Listing interface {
	// Objects returns the objects in byte order of their keys. The slice is shared; do not modify
	// it.
	Objects() []Object
	// First returns the first n bytes of an object, or the whole object if it is shorter. Head,
	// EachHead and Read are common uses.
	First(ctx context.Context, key string, n int64) ([]byte, error)
	// Open reads an object sequentially from an offset to its end.
	Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error)
}

// Object is a stored object.
type Object struct {
	Key  string // key relative to the dataset's prefix
	Size int64  // stored bytes
}

// Dataset is the result of a survey.
type Dataset struct {
	Shards  []Shard         // in byte order of their keys
	Framing json.RawMessage // constants for the framing, in canonical encoding; nil: none
	Beside  []string        // keys of objects that describe the shards, such as an index.json; they are neither shards nor ignored objects
	Told    bool            // the format's own index or fixed names determine the shards, so no data is lost by ignoring other objects
	Overlap int64           // maximum bytes that a sample may share with the end of the preceding sample
	Loose   bool            // each shard is one unmodified sample, and a chunk is a run of shards

	// Scan reads the decoded bytes of one shard, given by its number, once and sequentially. It
	// passes every byte in order to out, as a gap or as data. Several shards may be scanned
	// concurrently.
	Scan func(ctx context.Context, shard int, in io.Reader, out Sink) error

	// Decode starts decoding one non-empty shard, given by its number. A format sets it if the
	// bytes that Scan reads are not a stream decompression of the stored bytes. in reads ranges
	// of the stored bytes. nil: the shard's name determines its compression.
	Decode func(ctx context.Context, shard int, in Ranges) (Decoded, error)

	// LeftOut returns the number of a shard's tokens outside of its windows, as far as they are
	// known without reading the shard again. nil: samples are not windows.
	LeftOut func(shard int, windows uint64) int64

	// Assumed describes, after all scans, the assumptions that were made and the flag that
	// overrides each. It returns "" if there are none. nil: the format makes no assumptions.
	Assumed func() string

	// HiddenMembers returns the number of hidden archive members that scans have skipped so
	// far. nil: the shards are not archives.
	HiddenMembers func() int64
}

// Ranges reads ranges of a stored object.
type Ranges interface {
	// ReadRange fills p with the bytes that begin at an offset.
	ReadRange(ctx context.Context, offset int64, p []byte) error
}

// Listed reads ranges of an object through a listing.
type Listed struct {
	Listing
	Key string
}

func (l Listed) ReadRange(ctx context.Context, offset int64, p []byte) error {
	in, err := l.Open(ctx, l.Key, offset)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.ReadFull(in, p)
	return err
}

// Stored returns a reader of a stored object of this size.
func Stored(ctx context.Context, in Ranges, size int64) *io.SectionReader {
	return io.NewSectionReader(readerAt{ctx, in}, 0, size)
}

// readerAt reads ranges of a stored object.
type readerAt struct {
	ctx context.Context
	in  Ranges
}

func (r readerAt) ReadAt(p []byte, off int64) (int, error) {
	if err := r.in.ReadRange(r.ctx, off, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Decoded is a shard while its format decodes it.
type Decoded struct {
	io.ReadCloser             // reads the decoded bytes sequentially
	Codec         codec.Codec // codec of the shard's chunks
	Frames        Frames      // nil with codec.None; remains in use after Close
}

// Frames provides the stored locations and decoding parameters of a shard's decoded bytes.
type Frames interface {
	// At returns the frame that contains a decoded byte, if that frame is already known.
	At(off int64) (codec.Frame, bool)
	// Keep declares which of the frames before from will be used again: only those that contain
	// one of these bytes.
	Keep(from int64, bytes [4]int64)
	// Params returns the decoding parameters of a chunk, given its first and last decoded byte,
	// and the stored ranges to read. pieces is nil if the chunk is stored contiguously from the
	// start of its first frame to the end of its last frame. The chunk's frames are already
	// known, and calls are in the order of the chunks.
	Params(first, last int64) (params []byte, pieces []rows.Range)
}

// Shard is an object that holds samples.
type Shard struct {
	Object
	Says string // other objects' statements about the shard that affect a scan; a stored scan is reused only if they are equal
}

// Sink receives the contents of a shard from a scanner, every byte in order. It computes the
// digests of chunks and samples and cuts the chunks. Scanners write to it through a Cursor.
type Sink interface {
	// Gap receives bytes between samples.
	Gap(p []byte) error
	// Data receives the next bytes of a sample. The first call starts the sample. s is the same
	// until the sample ends.
	Data(s *Sample, p []byte) error
	// End ends the sample.
	End(s *Sample) error
}

// Sample describes a sample to a Sink.
type Sample struct {
	Key    string
	Shared int    // bytes at the sample's start that it shares with the end of the preceding sample; the first Data call includes them
	Ahead  int64  // minimum number of bytes that follow the bytes of this call
	Parts  []Part // parts that have ended; all parts when End is called
	// LineFeed is set when End is called if the sample needs a line feed that the shard lacks.
	// Only the last sample of a shard can need it.
	LineFeed bool
}

// Part is a named piece of a sample, such as one member of a tar sample.
type Part struct {
	Ext    string
	Offset int64 // offset in the sample
	Length int64
	CRC32C uint32
}

// Error locates an error in a shard.
type Error struct {
	Offset int64  // offset in the shard's decoded bytes
	Name   string // name of the member or sample, if known
	Reason string
}

func (e *Error) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("at offset %d: %s", e.Offset, e.Reason)
	}
	name := e.Name
	if len(name) > 200 {
		name = name[:200] + "..."
	}
	return fmt.Sprintf("%q at offset %d: %s", name, e.Offset, e.Reason)
}
