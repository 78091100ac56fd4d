package webdataset

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/millrace-data/millrace/chunkindex/format"
)

const (
	maxExtended = 1 << 20 // bytes of one extended header
	maxHeld     = 1 << 20 // bytes of hidden members that are held until the next member tells whose they are
	bufferSize  = 256 << 10
)

// Scan finds the samples of one tar shard.
func Scan(ctx context.Context, shard io.Reader, out format.Sink) error {
	return scan(ctx, shard, out, bufferSize, new(atomic.Int64))
}

// scan finds the samples of a shard through buffers of so many bytes, a block at least. It counts the hidden members that it
// leaves out; without a counter they are members like any others.
func scan(ctx context.Context, shard io.Reader, out format.Sink, buffer int, hidden *atomic.Int64) error {
	s := &scanner{ctx: ctx, r: bufio.NewReaderSize(shard, buffer), out: out, buf: make([]byte, buffer), hidden: hidden}
	return s.run()
}

// buffer is how long buffers for a shard need to be: there may be hundreds of thousands of tiny ones.
func buffer(o format.Object) int {
	if o.Key != format.Plain(o.Key) { // compressed: its bytes are more than its size
		return bufferSize
	}
	return int(max(blockSize, min(o.Size, bufferSize)))
}

type scanner struct {
	ctx context.Context
	r   *bufio.Reader
	out format.Sink
	buf []byte
	off int64 // of the next byte

	open bool // a sample has begun
	key  string
	exts map[string]string // extensions in the open sample, by their lower case

	hidden *atomic.Int64 // counts hidden members; nil: they are members like any others
	held   []byte        // hidden members after the open sample, which belong to it if its next member follows

	head  []byte // the headers of the member being read, extension headers included
	start int64  // offset of head
	long  string // name from a GNU header, empty: none
	path  string // name from a PAX header
	size  int64  // from a PAX header, -1: none
	pax   bool   // a PAX header was read for this member
	link  bool   // a GNU long link name was
}

func (s *scanner) fail(name, reason string) error {
	return &format.Error{Offset: s.start, Name: name, Reason: reason}
}

func (s *scanner) run() error {
	s.reset()
	for {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		block, err := s.block()
		switch {
		case err == io.EOF && len(s.head) == 0: //nolint:errorlint // a reader ends with io.EOF itself; a wrapped one is a fault
			return s.finish() // no end-of-archive blocks, but a clean boundary
		case err == io.EOF: //nolint:errorlint // a reader ends with io.EOF itself; a wrapped one is a fault
			return s.fail("", "archive ends after an extension header")
		case err != nil:
			return err
		case zero(block):
			if len(s.head) > 0 {
				return s.fail("", "archive ends after an extension header")
			}
			if err := s.finish(); err != nil {
				return err
			}
			return s.trailer(block)
		}
		if err := s.member(block); err != nil {
			return err
		}
	}
}

// reset forgets the headers of the last member.
func (s *scanner) reset() {
	s.head, s.start = s.head[:0], s.off
	s.long, s.path, s.size, s.pax, s.link = "", "", -1, false, false
}

// block reads one header block. io.EOF means that the archive ended before it.
func (s *scanner) block() ([]byte, error) {
	b := s.buf[:blockSize]
	n, err := io.ReadFull(s.r, b)
	if err == io.ErrUnexpectedEOF {
		return nil, &format.Error{Offset: s.off, Reason: fmt.Sprintf("archive is truncated: %d bytes of a header", n)}
	}
	if err != nil {
		return nil, err
	}
	s.off += blockSize
	return b, nil
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// trailer reads from the first zero block to the end of the shard, which must all be zeros: what
// other readers would pass over silently is refused.
func (s *scanner) trailer(first []byte) error {
	if err := s.out.Gap(first); err != nil {
		return err
	}
	for {
		n, err := s.r.Read(s.buf)
		if n > 0 {
			if !zero(s.buf[:n]) {
				return &format.Error{Offset: s.off, Reason: "data follows a zero block, the end of the archive"}
			}
			if err := s.out.Gap(s.buf[:n]); err != nil {
				return err
			}
			s.off += int64(n)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// finish ends the open sample. Hidden members after it lie between samples.
func (s *scanner) finish() error {
	if !s.open {
		return nil
	}
	s.open = false
	if err := s.out.End(); err != nil || len(s.held) == 0 {
		return err
	}
	held := s.held
	s.held = s.held[:0]
	return s.out.Gap(held)
}

func (s *scanner) member(block []byte) error {
	h, err := parseHeader(block)
	if err != nil {
		return &format.Error{Offset: s.off - blockSize, Reason: err.Error()}
	}
	s.head = append(s.head, block...)
	switch h.kind {
	case 'x', 'L', 'K', 'g':
		return s.extension(h)
	}
	if err := s.resolve(&h); err != nil {
		return err
	}
	if h.kind == 0 && strings.HasSuffix(h.name, "/") {
		h.kind = '5' // as archivers before 1988 wrote directories
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

// gap ends the open sample and passes over the headers read.
func (s *scanner) gap() error {
	if err := s.finish(); err != nil {
		return err
	}
	if err := s.out.Gap(s.head); err != nil {
		return err
	}
	s.reset()
	return nil
}

// extension reads the payload of an extension header, which is small, and keeps what it says.
func (s *scanner) extension(h header) error {
	if h.size > maxExtended {
		return s.fail(h.name, fmt.Sprintf("extension header of %d bytes is longer than %d", h.size, maxExtended))
	}
	at := len(s.head)
	s.head = append(s.head, make([]byte, padded(h.size))...)
	n, err := io.ReadFull(s.r, s.head[at:])
	s.off += int64(n)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return s.fail(h.name, "archive is truncated in an extension header")
	}
	if err != nil {
		return err
	}
	payload := s.head[at : at+int(h.size)]
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
				return errors.New("extended header has a size that cannot be read")
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

// global passes over a global header that does not say where the members' names and bytes are: owners, times and comments do not.
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

// resolve applies what extension headers said of the member.
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
		return s.fail(h.name, fmt.Sprintf("%d bytes are more than a sample can have, %d", h.size, format.MaxSample))
	}
	if meta(h.name) {
		return s.fail(h.name, "WebDataset's reader passes over members of such names: leave it out of the shard, or name it otherwise")
	}
	key, ext := Split(h.name) // a name without a dot belongs to the group that pack puts it in
	if !s.open || key != s.key {
		if err := s.finish(); err != nil {
			return err
		}
		if err := s.out.Begin(key); err != nil {
			return err
		}
		s.open, s.key = true, key
		s.exts = map[string]string{}
	}
	if err := s.extend(h.name, ext); err != nil {
		return err
	}
	if len(s.held) > 0 { // hidden members between two members of this sample
		if err := s.out.Data(s.held); err != nil {
			return err
		}
		s.held = s.held[:0]
	}
	if err := s.out.Ahead(int64(len(s.head)) + padded(h.size)); err != nil {
		return err
	}
	if err := s.out.Data(s.head); err != nil {
		return err
	}
	if err := s.out.BeginPart(ext); err != nil {
		return err
	}
	if err := s.copy(h.name, h.size, s.out.Data); err != nil {
		return err
	}
	if err := s.out.EndPart(); err != nil {
		return err
	}
	if err := s.copy(h.name, padded(h.size)-h.size, s.out.Data); err != nil {
		return err
	}
	s.reset()
	return nil
}

// leaveOut passes over a hidden member. It does not end the open sample, unless it is too long to be held until the next member
// tells whether the sample goes on.
func (s *scanner) leaveOut(h header) error {
	if int64(len(s.held)+len(s.head))+padded(h.size) > maxHeld {
		if err := s.finish(); err != nil {
			return err
		}
	}
	take := s.out.Gap
	if s.open {
		take = func(p []byte) error {
			s.held = append(s.held, p...)
			return nil
		}
	}
	if err := take(s.head); err != nil {
		return err
	}
	if err := s.copy(h.name, padded(h.size), take); err != nil {
		return err
	}
	s.hidden.Add(1)
	s.reset()
	return nil
}

// extend notes that the open sample has a member of this extension, if WebDataset's own reader could take it: that one tells
// no capitals from others, and keeps things of its own beside the members.
func (s *scanner) extend(name, ext string) error {
	lower := strings.ToLower(ext)
	switch before, twice := s.exts[lower]; {
	case twice && before == ext:
		return s.fail(name, "two members of this name in one sample")
	case twice:
		return s.fail(name, fmt.Sprintf("two members in one sample whose extensions, %.100q and %.100q, differ in capitals alone, which WebDataset's reader does not tell apart", before, ext))
	case lower == "__key__", lower == "__url__", lower == "__local_path__", lower == "__bad__":
		return s.fail(name, "extension is one that WebDataset's reader keeps for itself")
	}
	s.exts[strings.Clone(lower)] = strings.Clone(ext) // not the whole name with it, of which there can be a million
	return nil
}

// meta says whether WebDataset's reader passes over a name, as one of data about the data: __name__, or anything in a directory of such a
// name at the top.
func meta(name string) bool {
	first, _, nested := strings.Cut(name, "/")
	if !strings.HasPrefix(first, "__") {
		return false
	}
	return strings.HasSuffix(first, "__") && (len(first) >= 4 || !nested && len(first) >= 2)
}

// copy hands n bytes of content or padding to take.
func (s *scanner) copy(name string, n int64, take func([]byte) error) error {
	for n > 0 {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		b := s.buf[:min(n, int64(len(s.buf)))]
		got, err := io.ReadFull(s.r, b)
		s.off += int64(got)
		n -= int64(got)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return s.fail(name, fmt.Sprintf("archive is truncated at offset %d, %d bytes before the member's end", s.off, n))
		}
		if err != nil {
			return err
		}
		if err := take(b); err != nil {
			return err
		}
	}
	return nil
}

func padded(n int64) int64 { return (n + blockSize - 1) &^ (blockSize - 1) }
