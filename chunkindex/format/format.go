// Package format is the seam between the index and the formats of stored shards. A
// format is one scanner, which finds the samples of a shard, and one framing, which
// knows the bytes around the samples of a batch. Serving never parses.
package format

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

// Limits that hold for every format.
const (
	MaxKey    = 4096    // bytes of a key, or of a part's extension
	MaxSample = 1 << 30 // bytes of a sample, and so of a chunk
	MaxParts  = 1 << 20 // parts of one sample

	MaxPartBytes = 8 << 20 // what the parts of one sample take in an index: names, places and checksums
)

// Format reads shards of one kind. A package of a format has a function Format that returns it; chunkindex/build/formats.go lists them.
type Format struct {
	// Name is what the index, the API and users call the format: "tar". It never changes.
	Name string
	// Shards says in a few words how its shards are recognised, for messages: "names in .tar, .tar.gz".
	Shards string
	// Takes are the options that it has a use for. Any other one that a user gives is refused.
	Takes []Option
	// Changes counts how often the rules by which Scan finds samples have changed since the format was first released. It is raised when
	// a shard that was read before would give other samples, so that nothing kept from older rules is mixed with newer ones.
	Changes int
	// Last says that the format looks at a dataset only if no other one claims a part of it.
	Last bool
	// Survey looks at a dataset before it is scanned, by names and by content. It returns nil for one that is
	// not of this format, and an error for one that is but cannot be read, with the name of the culprit.
	Survey func(ctx context.Context, l Listing, o Options) (*Dataset, error)
}

// Rules is the version of the rules by which Scan finds samples, from 1.
func (f *Format) Rules() int { return 1 + f.Changes }

// Listing is what a format sees of the objects of a dataset. All bytes are decoded ones where the object's name says
// that it is compressed; they are shared and must not change. It is safe for concurrent use.
type Listing interface {
	// Objects lists them by key, in byte order. The slice is shared and must not change.
	Objects() []Object
	// First returns the first n bytes of an object, or all there are. Head, EachHead and Read ask for the usual ones.
	First(ctx context.Context, key string, n int64) ([]byte, error)
	// Open reads an object in sequence, from an offset to its end.
	Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error)
}

// Object is a stored object.
type Object struct {
	Key  string // relative to the dataset's prefix
	Size int64  // stored bytes
}

// Dataset is what a survey found.
type Dataset struct {
	Shards  []Shard         // in byte order of their keys
	Framing json.RawMessage // constants of the dataset, for its framing; canonical: the same dataset gives the same bytes. nil: none
	Beside  []string        // keys of objects that say something of the shards, such as an index.json: neither shards nor ignored
	Told    bool            // an index of the format's own, or its fixed names, say which objects are shards: any others are no loss
	Overlap int64           // bytes that a sample may share with the end of the one before
	Loose   bool            // each shard is one sample, taken as it is stored, and a chunk is a run of shards

	// Scan reads the decoded bytes of one shard, given by its number, once and in sequence, and tells out where its
	// samples lie. Every byte is handed to out, as a gap or as data, in order. It is called for several shards side by side.
	Scan func(ctx context.Context, shard int, in io.Reader, out Sink) error

	// Decode begins decoding one shard, given by its number, where no stream of the stored bytes gives the decoded ones that Scan reads.
	// in reads ranges of the stored bytes. It is not called for a shard without a byte. nil: the shard's name says how it is
	// compressed.
	Decode func(ctx context.Context, shard int, in Ranges) (Decoded, error)

	// LeftOut tells how many tokens of a shard are in none of the windows that were found in it, as far as that is known
	// without reading it again. nil: samples are no windows.
	LeftOut func(shard int, windows uint64) int64

	// Assumed tells people, after all scans, what was taken for granted, and the flag that says otherwise; empty: nothing was. nil: nothing.
	Assumed func() string

	// HiddenMembers tells how many hidden members of archives the scans so far have left out. nil: there are no archives.
	HiddenMembers func() int64
}

// Ranges reads ranges of a stored object.
type Ranges interface {
	// ReadRange fills p with the bytes from an offset on.
	ReadRange(ctx context.Context, offset int64, p []byte) error
}

// Decoded is a shard that is being decoded by its format.
type Decoded struct {
	io.ReadCloser             // gives the decoded bytes in order
	Codec         codec.Codec // of the chunks
	Frames        Frames      // nil with codec.None; asked after Close too
}

// Frames says where the decoded bytes of a shard are stored, and how they are decoded.
type Frames interface {
	// At returns the frame that holds a decoded byte, if it is known by now.
	At(off int64) (codec.Frame, bool)
	// Keep says that of the frames before from only those that hold one of these bytes will be asked for any more.
	Keep(from int64, bytes [4]int64)
	// Params returns the parameters of a chunk, which codec.Decode needs beside the stored bytes, by its first and its last decoded
	// byte, and where the stored bytes lie: nil, if that is from the first byte of its first frame to the last byte of its last one. The frames
	// of both are known by now, and it is called for one chunk after another.
	Params(first, last int64) (params []byte, pieces []rows.Range)
}

// Shard is an object that holds samples.
type Shard struct {
	Object
	Says string // what other objects say of it, as far as a scan depends on it: a scan that was kept is used only if this is the same
}

// Sink takes what a scanner finds in a shard, every byte in order. It computes the digests of chunks and samples and cuts the chunks. A
// scanner writes to it through a Cursor.
type Sink interface {
	// Gap takes bytes that lie between samples.
	Gap(p []byte) error
	// Data takes the next bytes of a sample. The first call begins the sample. s is the same until the sample ends.
	Data(s *Sample, p []byte) error
	// End ends the sample.
	End(s *Sample) error
}

// Sample is what a Sink is told of a sample.
type Sample struct {
	Key    string
	Shared int    // bytes at its beginning that the sample before it ends with: the first Data has them, though the shard holds them once
	Ahead  int64  // bytes of it that follow those of this call, at least
	Parts  []Part // those that have ended; all of them at End
	// LineFeed says at End that a line feed ends the sample that no Data has, because the shard lacks it. The shard has no further byte.
	LineFeed bool
}

// Part is a piece of a sample that a format can name, such as one member of a tar sample.
type Part struct {
	Ext    string
	Offset int64 // in the sample
	Length int64
	CRC32C uint32
}

// Error says what is wrong in a shard, and where.
type Error struct {
	Offset int64  // in the shard's decoded bytes
	Name   string // of the member or sample, where it is known
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
