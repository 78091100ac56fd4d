package webdataset

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/naming"
)

const (
	maxExtended = 1 << 20 // maximum bytes of one extended header
	maxHeld     = 1 << 20 // maximum bytes of hidden members held until the next member determines their sample
)

// scan scans the samples of a shard. It skips hidden members and counts them in hidden, or treats
// them like other members if hidden is nil.
func scan(c *format.Cursor, hidden *atomic.Int64) error {
	s := &scanner{Cursor: c, hidden: hidden}
	return s.run()
}

// scanner reads one shard. It leaves a member's headers and any preceding hidden members unread in
// the cursor until it can assign them to a sample.
type scanner struct {
	*format.Cursor

	open  bool // a sample has begun
	group naming.Group

	hidden *atomic.Int64 // counts hidden members; nil: treat them like other members
	held   int64         // bytes of hidden members after the open sample; they become part of it if its next member follows

	head int64  // bytes of the current member's headers, including extension headers; they follow the hidden members
	long string // name from a GNU header; empty: none
	path string // name from a PAX header
	size int64  // size from a PAX header; -1: none
	pax  bool   // this member has a PAX header
	link bool   // this member has a GNU long link name
}

func (s *scanner) fail(name, reason string) error {
	return &format.Error{Offset: s.Offset() + s.held, Name: name, Reason: reason}
}

// at returns an error at an offset of the current member's headers.
func (s *scanner) at(head int64, reason string) error {
	return &format.Error{Offset: s.Offset() + s.held + head, Reason: reason}
}

func (s *scanner) run() error {
	s.reset()
	for {
		block, err := s.next(blockSize)
		switch {
		case err != nil:
			return err
		case len(block) == 0 && s.head == 0:
			return s.finish() // clean boundary without end-of-archive blocks
		case s.head > 0 && (len(block) == 0 || zero(block)):
			return s.fail("", "archive ends after an extension header")
		case len(block) < blockSize:
			return s.at(s.head, fmt.Sprintf("archive is truncated: only %d bytes of a header", len(block)))
		case zero(block):
			if err := s.finish(); err != nil {
				return err
			}
			return s.trailer()
		}
		h, err := parseHeader(block)
		if err != nil {
			return s.at(s.head, err.Error())
		}
		s.head += blockSize
		if err := s.member(h); err != nil {
			return err
		}
	}
}

// reset discards the headers of the last member.
func (s *scanner) reset() {
	s.head, s.long, s.path, s.size, s.pax, s.link = 0, "", "", -1, false, false
}

// next returns the n bytes after the headers read so far, or fewer at the end of the archive.
func (s *scanner) next(n int64) ([]byte, error) {
	before := s.held + s.head
	b, err := s.Peek(before + n)
	return b[min(before, int64(len(b))):], err
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// trailer reads from the first zero block to the end of the shard, which must all be zeros. Other
// readers would silently ignore other data there.
func (s *scanner) trailer() error {
	for {
		b, err := s.Peek(blockSize)
		if err != nil || len(b) == 0 {
			return err
		}
		if !zero(b) {
			return s.fail("", "data follows a zero block, the end of the archive")
		}
		if err := s.Gap(int64(len(b))); err != nil {
			return err
		}
	}
}

// finish ends the open sample. Hidden members after the sample become a gap.
func (s *scanner) finish() error {
	if !s.open {
		return nil
	}
	s.open = false
	if err := s.End(); err != nil {
		return err
	}
	held := s.held
	s.held = 0
	return s.Gap(held)
}

func (s *scanner) member(h header) error {
	switch h.kind {
	case 'x', 'L', 'K', 'g':
		return s.extension(h)
	}
	if err := s.resolve(&h); err != nil {
		return err
	}
	if h.kind == 0 && strings.HasSuffix(h.name, "/") {
		h.kind = '5' // a directory; archivers from before 1988 had no type for it
	}
	switch h.kind {
	case '5':
		if h.size != 0 {
			return s.fail(h.name, "directory with content")
		}
		return s.gap()
	case 'V':
		if h.size != 0 {
			return s.fail(h.name, "volume label with content")
		}
		return s.gap()
	case 0, '0', '7':
		if s.hidden != nil && format.Hidden(h.name) {
			return s.leaveOut(h)
		}
		return s.regular(h)
	}
	return s.fail(h.name, refusal(h.kind))
}

func refusal(kind byte) string {
	what := map[byte]string{
		'1': "hard link (tar --hard-dereference writes files instead)", '2': "symbolic link", '3': "character device", '4': "block device", '6': "FIFO",
		'S': "sparse file", 'D': "GNU incremental directory", 'M': "continuation of another volume",
		'X': "Solaris extended header",
	}[kind]
	if what == "" {
		what = fmt.Sprintf("member of unknown type %q", kind)
	}
	return what + " is not supported: only regular files and directories are"
}

// gap ends the open sample and skips the headers read.
func (s *scanner) gap() error {
	if err := s.finish(); err != nil {
		return err
	}
	if err := s.Gap(s.head); err != nil {
		return err
	}
	s.reset()
	return nil
}

// extension reads the payload of an extension header, which is small, and stores its contents.
func (s *scanner) extension(h header) error {
	if h.size > maxExtended {
		return s.fail(h.name, fmt.Sprintf("extension header of %d bytes is longer than %d", h.size, maxExtended))
	}
	payload, err := s.next(padded(h.size))
	if err != nil {
		return err
	}
	if int64(len(payload)) < padded(h.size) {
		return s.fail(h.name, "archive is truncated in an extension header")
	}
	s.head += padded(h.size)
	payload = payload[:h.size]
	switch h.kind {
	case 'L':
		if s.long != "" {
			return s.fail(h.name, "two long names for one member")
		}
		if s.long = text(payload); s.long == "" {
			return s.fail(h.name, "long name is empty")
		}
	case 'K':
		if s.link {
			return s.fail(h.name, "two long link names for one member")
		}
		s.link = true
	case 'x':
		if s.pax {
			return s.fail(h.name, "two extended headers for one member")
		}
		s.pax = true
		return s.paxHeader(payload)
	case 'g':
		return s.global(payload)
	}
	return nil
}

func (s *scanner) paxHeader(payload []byte) error {
	err := paxRecords(payload, func(key, value string) error {
		switch {
		case strings.HasPrefix(key, "GNU.sparse."):
			return errors.New("sparse file is not supported: only regular files and directories are")
		case key == "path":
			if strings.IndexByte(value, 0) >= 0 {
				return errors.New("extended header is malformed")
			}
			s.path = value
		case key == "size" && value == "":
			s.size = -1
		case key == "size":
			n, err := strconv.ParseUint(value, 10, 62)
			if err != nil {
				return errors.New("extended header has a malformed size")
			}
			s.size = int64(n)
		}
		return nil
	})
	if err != nil {
		return s.fail(s.path, err.Error())
	}
	return nil
}

// global skips a global header, unless it affects the members' names or data.
func (s *scanner) global(payload []byte) error {
	err := paxRecords(payload, func(key, _ string) error {
		if key == "path" || key == "size" || strings.HasPrefix(key, "GNU.sparse.") {
			return fmt.Errorf("global extended header sets %q for all members, which is not supported", key)
		}
		return nil
	})
	if err != nil {
		return s.fail("", err.Error())
	}
	if s.pax || s.long != "" || s.link {
		return s.fail("", "global extended header between an extension header and its member")
	}
	return s.gap()
}

// resolve applies the extension headers to the member's header.
func (s *scanner) resolve(h *header) error {
	switch {
	case s.long != "" && s.path != "" && s.long != s.path:
		return s.fail(s.path, "two different long names for one member")
	case s.long != "":
		h.name = s.long
	case s.path != "":
		h.name = s.path
	}
	if s.size >= 0 {
		h.size = s.size
	}
	if h.name == "" {
		return s.fail("", "member without a name")
	}
	if len(h.name) > format.MaxKey {
		return s.fail(h.name, fmt.Sprintf("name of %d bytes is longer than %d", len(h.name), format.MaxKey))
	}
	return nil
}

func (s *scanner) regular(h header) error {
	if strings.HasSuffix(h.name, "/") {
		return s.fail(h.name, "regular file whose name ends in a slash")
	}
	if h.size > format.MaxSample {
		return s.fail(h.name, fmt.Sprintf("%d bytes exceed the limit of a sample, %d", h.size, format.MaxSample))
	}
	key, ext := naming.Member(h.name) // a name without a dot joins the group of its key, as in millrace pack
	if !s.open || key != s.group.Key {
		if err := s.finish(); err != nil {
			return err
		}
		if err := s.Begin(key); err != nil {
			return err
		}
		s.open, s.group = true, naming.Group{Key: key}
	}
	ext = strings.Clone(ext) // do not retain the whole name, because there can be a million
	if err := s.group.Add(h.name, ext); err != nil {
		return s.fail(h.name, err.Error())
	}
	s.Ahead(s.held + s.head + padded(h.size))
	if err := s.Data(s.held + s.head); err != nil { // includes hidden members between two members of this sample
		return err
	}
	s.held = 0
	if err := s.Part(ext, h.size); err != nil {
		return err
	}
	if err := s.Data(padded(h.size) - h.size); err != nil {
		return err
	}
	s.reset()
	return nil
}

// leaveOut skips a hidden member. It does not end the open sample, except when the hidden members
// are too long to hold until the next member shows whether the sample continues.
func (s *scanner) leaveOut(h header) error {
	s.hidden.Add(1)
	n := s.head + padded(h.size)
	if s.held+n > maxHeld {
		if err := s.finish(); err != nil {
			return err
		}
	}
	s.reset()
	if !s.open {
		return s.Gap(n)
	}
	if _, err := s.Peek(s.held + n); err != nil {
		return err
	}
	s.held += n
	return nil
}

func padded(n int64) int64 { return (n + blockSize - 1) &^ (blockSize - 1) }
