package zip

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"sort"

	"github.com/klauspost/compress/flate"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/codec/zipmember"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

// block is the number of bytes to read at a time. A store request costs about as much as reading a
// few megabytes.
const block = 4 << 20

// headerLength returns the length of a member's header including name and extra field. b contains
// the first bytes of the header.
func headerLength(b []byte) int64 {
	return zipmember.HeaderSize + int64(binary.LittleEndian.Uint16(b[26:])) + int64(binary.LittleEndian.Uint16(b[28:]))
}

// checker compares the bytes of an archive, written to it in order, with the archive's directory.
// Each member's header must agree with it. The checksum of a member must agree too if the member is
// stored uncompressed.
type checker struct {
	members []member // members whose bytes are not complete yet
	off     int64
	header  []byte // bytes of the first member's header received so far
	content int64  // offset of the first member's content, once known
	sum     hash.Hash32
}

func (c *checker) Write(p []byte) (int, error) {
	all := len(p)
	for len(p) > 0 && len(c.members) > 0 {
		m := &c.members[0]
		if pass := min(m.head-c.off, int64(len(p))); pass > 0 {
			p, c.off = p[pass:], c.off+pass
			continue
		}
		n, err := c.take(m, p)
		if err != nil {
			return 0, err
		}
		p, c.off = p[n:], c.off+int64(n)
	}
	return all, nil
}

// take receives the next bytes of a member's header or content.
func (c *checker) take(m *member, p []byte) (n int, err error) {
	if c.content == 0 {
		want := int64(zipmember.HeaderSize)
		if len(c.header) >= zipmember.HeaderSize {
			want = headerLength(c.header)
		}
		n = int(min(want-int64(len(c.header)), int64(len(p))))
		c.header = append(c.header, p[:n]...)
		if len(c.header) < zipmember.HeaderSize {
			return n, nil
		}
		if err := m.fits(c.header); err != nil {
			return 0, err
		}
		if int64(len(c.header)) < headerLength(c.header) {
			return n, nil
		}
		if err := m.agrees(c.header); err != nil {
			return 0, err
		}
		c.content, c.sum, c.header = m.head+int64(len(c.header)), crc32.NewIEEE(), c.header[:0]
		return n, c.ended(m, c.content)
	}
	n = int(min(c.content+m.stored-c.off, int64(len(p))))
	_, _ = c.sum.Write(p[:n]) // a hash accepts all bytes
	return n, c.ended(m, c.off+int64(n))
}

// ended advances to the next member if the current member ends at the offset next.
func (c *checker) ended(m *member, next int64) error {
	if next < c.content+m.stored {
		return nil
	}
	if m.method == zipmember.Stored && m.kind == dataMember && c.sum.Sum32() != m.crc {
		return m.fail("its checksum is wrong")
	}
	c.members, c.content = c.members[1:], 0
	return nil
}

// fits rejects a header that is invalid or that does not end before the next member. Otherwise the
// checker would miss the following members while it waits for the header's end.
func (m *member) fits(header []byte) error {
	if string(header[:4]) != zipmember.Magic {
		return m.fail("there is no header at the offset in the directory")
	}
	if m.head+headerLength(header)+m.stored > m.next {
		return m.fail("it extends into the next member or the directory")
	}
	return nil
}

// agrees compares a member's own header with the directory.
func (m *member) agrees(header []byte) error {
	const (
		encrypted = 1
		described = 1 << 3 // checksum and lengths follow the content; the header may not contain them
	)
	name := header[zipmember.HeaderSize : zipmember.HeaderSize+int(binary.LittleEndian.Uint16(header[26:]))]
	sum, stored, decoded := binary.LittleEndian.Uint32(header[14:]), binary.LittleEndian.Uint32(header[18:]), binary.LittleEndian.Uint32(header[22:])
	says := func(short uint32, long int64) bool { return short == 1<<32-1 || int64(short) == long }
	flags := binary.LittleEndian.Uint16(header[6:])
	switch {
	case m.kind != dataMember:
		return nil
	case string(name) != m.name || binary.LittleEndian.Uint16(header[8:]) != m.method || (flags^m.flags)&(described|encrypted) != 0:
		return m.fail("its header and the directory entry differ")
	case flags&described == 0 && (sum != m.crc || !says(stored, m.stored) || !says(decoded, m.decoded)):
		return m.fail("its header and the directory entry differ in length or checksum")
	}
	return nil
}

// contents reads the concatenated contents of the data members.
type contents struct {
	raw     *bufio.Reader
	off     int64 // of raw
	members []member
	inflate io.ReadCloser // nil: not needed yet

	member  *member   // current member; nil: the reader is between two members
	stored  io.Reader // stored bytes of the current member
	content io.Reader // decoded bytes of the current member
	sum     hash.Hash32
	decoded int64
}

func (c *contents) Read(p []byte) (int, error) {
	for {
		if c.member == nil {
			if err := c.begin(); err != nil {
				return 0, err
			}
		}
		n, err := c.content.Read(p)
		_, _ = c.sum.Write(p[:n]) // a hash accepts all bytes
		c.decoded += int64(n)
		switch {
		case c.decoded > c.member.decoded:
			return 0, c.member.fail("it has more bytes than the directory records")
		case errors.Is(err, io.EOF):
			err = c.finish()
		case errors.As(err, new(flate.CorruptInputError)), errors.Is(err, io.ErrUnexpectedEOF):
			err = c.member.fail("its content does not decode: %v", err)
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// begin advances to the content of the next member.
func (c *contents) begin() error {
	for len(c.members) > 0 && c.members[0].kind != dataMember {
		c.members = c.members[1:]
	}
	if len(c.members) == 0 {
		_, err := io.Copy(io.Discard, c.raw) // read the rest so that the checker receives all bytes
		if err == nil {
			err = io.EOF
		}
		return err
	}
	m := &c.members[0]
	c.members = c.members[1:]
	if err := c.pass(m.head - c.off); err != nil {
		return err
	}
	b, err := c.raw.Peek(zipmember.HeaderSize)
	if err != nil {
		return err
	}
	if err := c.pass(headerLength(b)); err != nil {
		return err
	}
	c.member, c.sum, c.decoded = m, crc32.NewIEEE(), 0
	c.stored = io.LimitReader(c.raw, m.stored)
	c.content = c.stored
	c.off += m.stored
	if m.method == zipmember.Deflated {
		c.content, err = c.inflated(c.stored)
	}
	return err
}

// inflated returns a decoder of deflated bytes. The decoder is created once and then reused.
func (c *contents) inflated(in io.Reader) (io.Reader, error) {
	if c.inflate == nil {
		c.inflate = flate.NewReader(nil)
	}
	resetter, ok := c.inflate.(flate.Resetter)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return c.inflate, resetter.Reset(in, nil)
}

func (c *contents) pass(n int64) error {
	if n < 0 {
		return io.ErrUnexpectedEOF
	}
	got, err := io.CopyN(io.Discard, c.raw, n)
	c.off += got
	return err
}

// finish ends the current member after all of its content was read.
func (c *contents) finish() error {
	m := c.member
	c.member = nil
	if _, err := io.Copy(io.Discard, c.stored); err != nil {
		return err
	}
	if c.decoded != m.decoded || c.sum.Sum32() != m.crc {
		return m.fail("it has %d bytes and the directory records %d, or its checksum does not match", c.decoded, m.decoded)
	}
	return nil
}

// frames locates the stored members. Each data member is a frame. A frame extends from the member's
// header to the maximum end of its data, because only the header determines the exact length.
type frames struct {
	list    []codec.Frame
	members []zipmember.Member // the member of each frame in list
}

func newFrames(a *archive) *frames {
	f := &frames{}
	off := int64(0)
	for _, m := range a.members {
		if m.kind != dataMember {
			continue
		}
		const extra, descriptor = 1<<16 - 1, 24 // at most
		end := min(m.next, m.head+zipmember.HeaderSize+int64(len(m.name))+extra+m.stored+descriptor)
		f.list = append(f.list, codec.Frame{Stored: m.head, StoredEnd: end, Decoded: off, DecodedEnd: off + m.decoded})
		f.members = append(f.members, zipmember.Member{Method: int(m.method), Stored: m.stored, Decoded: m.decoded})
		off += m.decoded
	}
	return f
}

// find returns the index of the frame that contains a decoded byte.
func (f *frames) find(off int64) int {
	return sort.Search(len(f.list), func(i int) bool { return f.list[i].DecodedEnd > off })
}

// At implements format.Frames. All frames are known from the beginning.
func (f *frames) At(off int64) (codec.Frame, bool) {
	if i := f.find(off); i < len(f.list) {
		return f.list[i], true
	}
	return codec.Frame{}, false
}

// Keep implements format.Frames. It does nothing, because the directory stays in memory anyway.
func (f *frames) Keep(int64, [4]int64) {}

// Params implements format.Frames.
func (f *frames) Params(first, last int64) (params []byte, pieces []rows.Range) {
	begin := f.find(first)
	end := f.find(last)
	for i := begin; i <= end; i++ {
		m := f.members[i]
		if i > begin {
			m.Ahead = f.list[i].Stored - f.list[i-1].Stored
		}
		params = zipmember.Append(params, m)
	}
	return params, nil
}
