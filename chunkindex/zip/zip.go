// Package zip reads zip archives: a member is a sample, as a loose file is.
//
// The directory at an archive's end says which members there are, and where. It parses directories itself, because it needs the offsets
// of headers, which archive/zip keeps to itself, and because what readers disagree about is refused here.
package zip

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
)

// Name is what an index calls this format.
const Name = "zip"

const suffix = ".zip"

// Format reads zip archives.
func Format() format.Format {
	return format.Format{
		Name:    Name,
		Shards:  "names in .zip, and nothing else",
		Survey:  survey,
		Framing: format.AsTar,
	}
}

// survey takes objects that are called as zip archives are, where nothing else lies but what describes data: an archive beside shards often
// holds something else. If the format was asked for by
// name every object that holds data is a shard.
func survey(_ context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	hidden := new(atomic.Int64)
	d := &dataset{asked: o.Named, hidden: hidden}
	says := ""
	if o.Hidden {
		d.hidden, says = nil, "hidden members are taken" // a scan that left them out is another one
	}
	for _, object := range format.Data(l.Objects()) {
		if !o.Named && format.Ext(object.Key) != suffix {
			return nil, nil
		}
		if object.Key != format.Plain(object.Key) {
			return nil, fmt.Errorf("object %s: a zip archive that is compressed as a whole is not read: decompress it, since its members are compressed", object.Key)
		}
		d.shards = append(d.shards, format.Shard{Object: object, Says: says})
	}
	if len(d.shards) == 0 {
		return nil, nil
	}
	d.archives = make([]*archive, len(d.shards))
	return &format.Dataset{Shards: d.shards, Decode: d.decode, Scan: d.scan, HiddenMembers: hidden.Load}, nil
}

// dataset is what a survey found.
type dataset struct {
	shards   []format.Shard
	archives []*archive    // of the shards that are being scanned
	asked    bool          // for this format: each member is a sample, though some may belong together
	hidden   *atomic.Int64 // members that were left out; nil: they are taken
}

// decode reads an archive's directory. An archive of stored members needs no decoding.
func (d *dataset) decode(ctx context.Context, shard int, in format.Ranges) (format.Decoded, error) {
	size := d.shards[shard].Size
	a, err := readArchive(ctx, in, size, d.hidden != nil)
	if err == nil {
		err = a.distinguish(d.asked)
	}
	if err != nil {
		return format.Decoded{}, err
	}
	d.archives[shard] = a
	raw := io.TeeReader(newSequence(ctx, in, size), &checker{members: a.members})
	if a.plain() {
		return format.Decoded{ReadCloser: io.NopCloser(raw), Codec: codec.None}, nil
	}
	return format.Decoded{ReadCloser: io.NopCloser(newContents(raw, a)), Codec: codec.Zip, Frames: newFrames(a)}, nil
}

// scan finds the samples of an archive, whose directory decode has read.
func (d *dataset) scan(ctx context.Context, shard int, in io.Reader, out format.Sink) error {
	a := d.archives[shard]
	if a == nil {
		return nil // a shard without a byte
	}
	d.archives[shard] = nil
	s := scanner{Cursor: format.NewCursor(ctx, d.shards[shard].Object, in, out), plain: a.plain()}
	for i := range a.members {
		if m := &a.members[i]; m.kind == dataMember {
			if err := s.take(m); err != nil {
				return err
			}
		}
	}
	if s.plain {
		if err := s.Gap(d.shards[shard].Size - s.Offset()); err != nil { // the directory
			return err
		}
	}
	ended, err := s.Ended() // the rest of the archive has been held to its directory then
	if err == nil && !ended {
		err = s.Fail("more bytes follow the last member")
	}
	if err != nil {
		return err
	}
	if d.hidden != nil {
		d.hidden.Add(a.hidden)
	}
	return nil
}

// scanner finds samples, in the bytes of an archive as they are, or in the contents of its members alone.
type scanner struct {
	*format.Cursor
	plain bool
}

// take takes the next member.
func (s *scanner) take(m *member) error {
	if s.plain {
		if err := s.pass(m); err != nil {
			return err
		}
	}
	if err := s.Begin(m.key); err != nil {
		return err
	}
	if err := s.Part(m.ext, m.decoded); err != nil {
		return err
	}
	return s.End()
}

// pass hands on what is stored before a member's content.
func (s *scanner) pass(m *member) error {
	if err := s.Gap(m.head - s.Offset()); err != nil {
		return err
	}
	b, err := s.Peek(codec.MemberHeader)
	if err != nil {
		return err
	}
	if len(b) < codec.MemberHeader {
		return m.fail("archive is truncated in its header")
	}
	return s.Gap(headerLength(b))
}
