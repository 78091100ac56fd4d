// Package zip reads zip archives. Members form samples like those of a tar, by WebDataset's
// convention: adjacent members whose names differ only after the first dot of the base name form
// one sample.
//
// The directory at an archive's end lists the members and their offsets. The package parses
// directories itself because it needs the offsets of headers, which archive/zip does not expose,
// and because it rejects input that readers interpret differently.
package zip

import (
	"bufio"
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

// Format returns the format of zip archives.
func Format() format.Format {
	return format.Format{
		Name:   framing.Zip,
		Shards: "names in .zip, and nothing else",
		Takes:  []format.Option{format.Key},
		Survey: survey,
	}
}

// survey claims objects by name if all other objects only describe data, because an archive next to
// shards often contains something else. If the user names the format, survey claims all objects
// that can hold samples.
func survey(_ context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	hidden := new(atomic.Int64)
	d := &dataset{each: o.Key == format.KeyPath, hidden: hidden}
	var says []string // a scan depends on these options
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
			return nil, fmt.Errorf("object %s: a zip archive that is compressed as a whole is not supported: decompress it, since its members are compressed", object.Key)
		}
		d.shards = append(d.shards, format.Shard{Object: object, Says: strings.Join(says, ", ")})
	}
	if len(d.shards) == 0 {
		return nil, nil
	}
	d.archives = make([]*archive, len(d.shards))
	return &format.Dataset{Shards: d.shards, Decode: d.decode, Scan: d.scan, HiddenMembers: hidden.Load, Assumed: d.assumed}, nil
}

// dataset is the result of a survey.
type dataset struct {
	shards   []format.Shard
	archives []*archive    // directories of the shards being scanned, by shard number
	each     bool          // each member is a sample, even if the names of some members have a common key
	hidden   *atomic.Int64 // number of skipped hidden members; nil: they are included

	mu     sync.Mutex
	shard  int    // first shard that has a sample with several members
	joined string // names of the members of that sample; empty: each sample has one member
}

// assumed returns an example of a sample with several members. The members may be parts of one
// sample, or images whose names contain dots.
func (d *dataset) assumed() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.joined == "" {
		return ""
	}
	return fmt.Sprintf("combined members whose names agree up to the first dot, such as %s: use --sample-key path to make each member a sample", d.joined)
}

// join records that several members of a shard form one sample.
func (d *dataset) join(shard int, members string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.joined == "" || shard < d.shard {
		d.shard, d.joined = shard, members
	}
}

// decode reads an archive's directory. If all members are stored without compression, the archive
// needs no decoding.
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
	r := newReader(a, bufio.NewReaderSize(format.Stored(ctx, in, size), int(min(size, block))))
	if a.plain() {
		return format.Decoded{ReadCloser: r, Codec: codec.None}, nil
	}
	return format.Decoded{ReadCloser: r, Codec: codec.Zip, Frames: newFrames(a)}, nil
}

// scan scans the samples of an archive. decode has already read the archive's directory.
func (d *dataset) scan(ctx context.Context, shard int, in io.Reader, out format.Sink) error {
	a := d.archives[shard]
	if a == nil {
		return nil // an empty shard
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
	ended, err := s.Ended() // the reader has then validated the rest of the archive
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

// maxBetween limits the length of the hidden members between two members of a sample, because they
// become bytes of the sample. A tar has the same limit.
const maxBetween = 1 << 20

// scanner finds samples in the bytes of an uncompressed archive, or in the concatenated contents of
// its members.
type scanner struct {
	*format.Cursor
	plain bool

	first  *member // first member of the open sample; nil: no sample is open
	group  naming.Group
	bytes  int64  // total bytes of the open sample's members
	joined string // names of two members that form one sample; empty: there are none
}

// member handles the next member of the archive. A directory ends the open sample; a hidden member
// does not.
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

// begin starts a sample unless a sample is open, and advances to the content of a member. Bytes
// between two members of a sample are part of the sample.
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
		return s.first.fail("all members of its sample are empty: remove them from the archive, for example with zip -d")
	}
	s.first = nil
	return s.End()
}
