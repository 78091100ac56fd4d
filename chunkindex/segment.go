package chunkindex

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
)

// Segment is a run of shards whose index data is one stored object. An index is a list of segments,
// so an index run writes only those that changed.
type Segment struct {
	Ref    layout.SegmentRef
	Shards int // number of shards

	First int // number of its first shard in the index
	chunk int // number of its first chunk in the index
	head  layout.Header
	pages *pages
}

// segmentFile is the local file of segments.
type segmentFile struct {
	file   *os.File
	recent *recent
}

// open verifies the header and the digests of a segment, which begins at an offset of the file.
// from fetches missing pages. If whole is set, open compares all pages with their digests
// immediately, otherwise on first read.
func (f segmentFile) open(base int64, ref layout.SegmentRef, from fetch, whole bool) (Segment, error) {
	s := Segment{Ref: ref}
	head := make([]byte, layout.HeaderSize)
	if _, err := f.file.ReadAt(head, base); err != nil {
		return s, err
	}
	if sha256.Sum256(head) != ref.Digest {
		return s, errors.New("the header does not match its digest")
	}
	h, err := layout.DecodeHeader(head, ref.Size)
	if err != nil {
		return s, err
	}
	if h.Resident() != ref.Resident {
		return s, fmt.Errorf("length of the resident part: %w", layout.ErrMalformed)
	}
	digests := make([]byte, h.Sections[layout.SecDigests].Length)
	if _, err := f.file.ReadAt(digests, base+layout.HeaderSize); err != nil {
		return s, err
	}
	if sha256.Sum256(digests) != h.Digest {
		return s, errors.New("the page digests do not match the header")
	}
	s.head, s.Shards = *h, int(h.Shards)
	s.pages = &pages{
		name: ref.Name(), file: f.file, base: base, from: from, begin: h.Sections[layout.SecDigests].End(), end: ref.Size,
		digests: digests, proved: make([]bool, len(digests)/sha256.Size), complete: whole, recent: f.recent,
	}
	if !whole {
		return s, nil
	}
	found, err := layout.SumPages(s.pages.file, base+s.pages.begin, base+ref.Size)
	if err == nil && !bytes.Equal(found, digests) {
		err = errPage
	}
	return s, err
}

// Reader returns a reader of the segment as stored, for a segment in a local file.
func (s *Segment) Reader() io.ReaderAt {
	return io.NewSectionReader(s.pages.file, s.pages.base, s.Ref.Size)
}

// readAt reads the segment as stored. Its header and digests are local and were verified on open.
func (s *Segment) readAt(p []byte, off int64) (n int, err error) {
	if local := s.pages.begin; off < local {
		if n, err = s.pages.file.ReadAt(p[:min(int64(len(p)), local-off)], s.pages.base+off); err != nil || n == len(p) {
			return n, err
		}
	}
	k, err := s.pages.ReadAt(p[n:], off+int64(n))
	return n + k, err
}

// Segments returns the segments in the order of their shards. The slice is shared; do not modify
// it.
func (x *Index) Segments() []Segment { return x.segments }

// segmentOf returns the segment of a chunk.
func (x *Index) segmentOf(chunk int) *Segment {
	return &x.segments[sort.Search(len(x.segments), func(i int) bool { return x.segments[i].chunk > chunk })-1]
}

// segmentOfShard returns the segment of a shard.
func (x *Index) segmentOfShard(shard int) *Segment {
	return &x.segments[sort.Search(len(x.segments), func(i int) bool { return x.segments[i].First > shard })-1]
}
