package zip

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"iter"
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

// reader reads an archive: the decoded contents of its data members, or the whole archive if it is
// plain. It compares each member with the archive's directory.
type reader struct {
	next func() ([]byte, error, bool)
	stop func()
	rest []byte // bytes that Read has not returned yet
	err  error
}

func newReader(a *archive, raw *bufio.Reader) *reader {
	r := &reader{}
	r.next, r.stop = iter.Pull2(func(yield func([]byte, error) bool) {
		yield(nil, cmp.Or(a.copy(writer(yield), raw), io.EOF))
	})
	return r
}

func (r *reader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.rest, r.err, _ = r.next()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *reader) Close() error {
	r.stop()
	return nil
}

// writer passes bytes to a reader.
type writer func(p []byte, err error) bool

func (w writer) Write(p []byte) (int, error) {
	if !w(p, nil) {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// copy writes the bytes that a reader of the archive returns.
func (a *archive) copy(out io.Writer, raw *bufio.Reader) error {
	between := io.Discard // receives the bytes outside the contents
	if a.plain() {
		between = out
	}
	inflate, off := flate.NewReader(nil), int64(0)
	for i := range a.members {
		m := &a.members[i]
		if _, err := io.CopyN(between, raw, m.head-off); err != nil {
			return err
		}
		header, err := m.header(raw)
		if err != nil {
			return err
		}
		if _, err := io.CopyN(between, raw, header); err != nil {
			return err
		}
		off = m.head + header + m.stored
		stored := io.LimitReader(raw, m.stored)
		if m.kind == dataMember {
			err = m.decode(out, stored, inflate)
		}
		if err != nil {
			return err
		}
		if _, err := io.Copy(between, stored); err != nil {
			return err
		}
	}
	_, err := io.Copy(between, raw)
	return err
}

// header returns the length of the member's header, which raw reads next.
func (m *member) header(raw *bufio.Reader) (int64, error) {
	b, err := raw.Peek(zipmember.HeaderSize)
	if err == nil {
		err = m.fits(b)
	}
	if err != nil {
		return 0, err
	}
	n := headerLength(b)
	if b, err = raw.Peek(int(n)); err == nil {
		err = m.agrees(b)
	}
	return n, err
}

// decode writes the decoded content of the member.
func (m *member) decode(out io.Writer, stored io.Reader, inflate io.ReadCloser) error {
	decoded := stored
	if m.method == zipmember.Deflated {
		if err := inflate.(flate.Resetter).Reset(stored, nil); err != nil {
			return err
		}
		decoded = inflate
	}
	sum := crc32.NewIEEE()
	n, err := io.Copy(io.MultiWriter(out, sum), io.LimitReader(decoded, m.decoded+1))
	switch {
	case errors.As(err, new(flate.CorruptInputError)), errors.Is(err, io.ErrUnexpectedEOF):
		return m.fail("its content does not decode: %v", err)
	case err != nil:
		return err
	case n > m.decoded:
		return m.fail("it has more bytes than the directory records")
	case n < m.decoded || sum.Sum32() != m.crc:
		return m.fail("it has %d bytes and the directory records %d, or its checksum is wrong", n, m.decoded)
	}
	return nil
}

// fits rejects a header that is invalid or that does not end before the next member.
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
