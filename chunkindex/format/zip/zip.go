// Package zip reads zip archives. Members are put together to samples as those of a tar are, by WebDataset's convention: adjacent ones
// whose names differ only after the first dot of the base name are one sample.
//
// The directory at an archive's end says which members there are, and where. It parses directories itself, because it needs the offsets
// of headers, which archive/zip keeps to itself, and because what readers disagree about is refused here.
package zip

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/codec/zipmember"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/naming"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

const suffix = ".zip"

// Format reads zip archives.
func Format() format.Format {
	return format.Format{
		Name:   framing.Zip,
		Shards: "names in .zip, and nothing else",
		Takes:  []format.Option{format.Key},
		Survey: survey,
	}
}

// survey takes objects that are called as zip archives are, where nothing else lies but what describes data: an archive beside shards often
// holds something else. If the format was asked for by
// name every object that holds data is a shard.
func survey(_ context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	hidden := new(atomic.Int64)
	d := &dataset{each: o.Key == format.KeyPath, hidden: hidden}
	var says []string // a scan under other options is another one
	if o.Hidden {
		d.hidden, says = nil, append(says, "hidden members are taken")
	}
	if d.each {
		says = append(says, "each member is a sample")
	}
	for _, object := range format.Data(l.Objects()) {
		if !o.Named && format.Ext(object.Key) != suffix {
			return nil, nil
		}
		if object.Key != format.Plain(object.Key) {
			return nil, fmt.Errorf("object %s: a zip archive that is compressed as a whole is not read: decompress it, since its members are compressed", object.Key)
		}
		d.shards = append(d.shards, format.Shard{Object: object, Says: strings.Join(says, ", ")})
	}
	if len(d.shards) == 0 {
		return nil, nil
	}
	d.archives = make([]*archive, len(d.shards))
	return &format.Dataset{Shards: d.shards, Decode: d.decode, Scan: d.scan, HiddenMembers: hidden.Load, Assumed: d.assumed}, nil
}

// dataset is what a survey found.
type dataset struct {
	shards   []format.Shard
	archives []*archive    // of the shards that are being scanned
	each     bool          // each member is a sample, though some may belong together
	hidden   *atomic.Int64 // members that were left out; nil: they are taken

	mu     sync.Mutex
	shard  int    // the first one of which a sample has several members
	joined string // the members of that sample; empty: each sample has one
}

// assumed names a sample of several members, which may be those of one picture, or pictures whose names have dots.
func (d *dataset) assumed() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.joined == "" {
		return ""
	}
	return fmt.Sprintf("put members whose names are the same up to the first dot together, such as %s: --sample-key path makes a sample of each", d.joined)
}

// join notes members of a shard that are one sample.
func (d *dataset) join(shard int, members string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.joined == "" || shard < d.shard {
		d.shard, d.joined = shard, members
	}
}

// decode reads an archive's directory. An archive of stored members needs no decoding.
func (d *dataset) decode(ctx context.Context, shard int, in format.Ranges) (format.Decoded, error) {
	size := d.shards[shard].Size
	a, err := readArchive(ctx, in, size, d.hidden != nil)
	if err == nil {
		err = a.name(d.each)
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
		if err := s.member(&a.members[i]); err != nil {
			return err
		}
	}
	if err := s.finish(); err != nil {
		return err
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
	if s.joined != "" {
		d.join(shard, s.joined)
	}
	return nil
}

// maxBetween bounds the hidden members between two members of a sample, which become bytes of the sample. A tar has the same bound.
const maxBetween = 1 << 20

// scanner finds samples, in the bytes of an archive as they are, or in the contents of its members alone.
type scanner struct {
	*format.Cursor
	plain bool

	first  *member // of the open sample; nil: none is open
	group  naming.Group
	bytes  int64  // of the open sample's members
	joined string // two members that are one sample; empty: there are none
}

// member takes the next member of the archive. A directory ends a sample, and a hidden member does not.
func (s *scanner) member(m *member) error {
	switch m.kind {
	case hiddenMember:
		return nil
	case directoryMember:
		return s.finish()
	}
	if s.first != nil && (m.key != s.group.Key || s.plain && m.head-s.Offset() > maxBetween) {
		if err := s.finish(); err != nil {
			return err
		}
	}
	if err := s.begin(m); err != nil {
		return err
	}
	if err := s.group.Add(m.name, m.ext); err != nil {
		return m.fail("%v", err)
	}
	s.bytes += m.decoded
	return s.Part(m.ext, m.decoded)
}

// begin begins a sample, if none is open, and goes to the content of a member. What lies between two members of a sample is part of it.
func (s *scanner) begin(m *member) error {
	pass := s.Data
	if s.first == nil {
		pass = s.Gap
	} else if s.joined == "" {
		s.joined = fmt.Sprintf("%.100q and %.100q", s.first.name, m.name)
	}
	if s.plain {
		if err := pass(m.head - s.Offset()); err != nil {
			return err
		}
		b, err := s.Peek(zipmember.HeaderSize)
		if err != nil {
			return err
		}
		if len(b) < zipmember.HeaderSize {
			return m.fail("archive is truncated in its header")
		}
		if err := pass(headerLength(b)); err != nil {
			return err
		}
	}
	if s.first != nil {
		return nil
	}
	s.first, s.group, s.bytes = m, naming.Group{Key: m.key}, 0
	return s.Begin(m.key)
}

// finish ends the open sample.
func (s *scanner) finish() error {
	if s.first == nil {
		return nil
	}
	if s.bytes == 0 {
		return s.first.fail("neither it nor another member of its sample has a byte: remove it from the archive, as zip -d does")
	}
	s.first = nil
	return s.End()
}
