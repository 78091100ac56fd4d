package codec

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"
)

// MaxDictionary limits the dictionary of an xz block to the size that xz -9 uses.
const MaxDictionary = 64 << 20

const (
	xzMagic  = "\xfd7zXZ\x00"
	xzFooter = "YZ"
	lzma2ID  = 0x21 // the only supported filter
)

var errXz = errors.New("malformed")

// xzBlocks decodes the blocks of an xz object. Data between blocks forms separate pieces: a
// stream's header, its index with the footer, and padding.
//
// xzBlocks parses the container itself, because the library does not report the location of blocks.
// The library decodes only the LZMA2 data of single blocks.
type xzBlocks struct {
	in    *bufio.Reader
	check xzCheck
	// place determines the pieces that may come next.
	place xzPlace
	// listed hashes the sizes of the stream's blocks in the encoding that the stream's index
	// uses. It is nil if reading started inside the stream, because the preceding blocks are
	// then unknown.
	listed hash.Hash
	blocks uint64

	block *xzBlock // nil: the piece contains no data
}

// xzPlace is the position of a piece in an xz object.
type xzPlace int

const (
	betweenStreams xzPlace = iota // followed by a header, padding or the end
	inStream                      // followed by a block or the index
)

// xzCheck is the type of the check that follows each block of a stream.
type xzCheck byte

// size returns the length of a check.
func (c xzCheck) size() int { return len(c.hash().Sum(nil)) }

func (c xzCheck) known() bool { return c == 0 || c == 1 || c == 4 || c == 10 }

func (c xzCheck) hash() hash.Hash {
	switch c {
	case 1:
		return littleEndian{crc32.NewIEEE()}
	case 4:
		return littleEndian{crc64.New(crc64.MakeTable(crc64.ECMA))}
	case 10:
		return sha256.New()
	}
	return nothing{}
}

// littleEndian is a hash whose sum has its bytes reversed, as xz stores it.
type littleEndian struct{ hash.Hash }

func (l littleEndian) Sum(b []byte) []byte {
	sum := l.Hash.Sum(nil)
	for i := range sum {
		b = append(b, sum[len(sum)-1-i])
	}
	return b
}

// nothing is the hash for streams without a check.
type nothing struct{ hash.Hash }

func (nothing) Write(p []byte) (int, error) { return len(p), nil }
func (nothing) Sum(b []byte) []byte         { return b }

func isXz(head []byte) bool { return len(head) >= 4 && string(head[:4]) == xzMagic[:4] }

// insideXz returns a reader that starts at a block of an xz object. params contains the check type
// of the block's stream.
func insideXz(params []byte, in io.Reader) (*Reader, error) {
	if len(params) != 1 || !xzCheck(params[0]).known() {
		return nil, fmt.Errorf("parameters % x are not a known check", params)
	}
	r := newReader(Xz, in)
	r.frames = &xzBlocks{in: r.src.buf, check: xzCheck(params[0]), place: inStream}
	return r, nil
}

func (x *xzBlocks) close() {}

func (x *xzBlocks) Read(p []byte) (int, error) {
	if x.block == nil {
		return 0, io.EOF
	}
	n, err := x.block.Read(p)
	if errors.Is(err, io.EOF) {
		if ended := x.endBlock(); ended != nil {
			return n, ended
		}
	}
	return n, err
}

func (x *xzBlocks) begin(head []byte) (params string, err error) {
	x.block = nil
	switch {
	case x.place == inStream && len(head) == 0:
		return "", io.ErrUnexpectedEOF
	case x.place == inStream && head[0] == 0:
		return "", x.index()
	case x.place == inStream:
		return string([]byte{byte(x.check)}), x.beginBlock(head)
	case len(head) == 0:
		return "", io.EOF
	case zeros(head) && len(head) == 4: // the length of padding is a multiple of four bytes
		_, err := x.in.Discard(4)
		return "", err
	case !isXz(head):
		return "", errNoFrame
	}
	return "", x.header()
}

// header reads a stream's header.
func (x *xzBlocks) header() error {
	b, err := x.take(12)
	if err != nil {
		return err
	}
	if string(b[:6]) != xzMagic || b[6] != 0 || crc32.ChecksumIEEE(b[6:8]) != binary.LittleEndian.Uint32(b[8:]) {
		return fmt.Errorf("%w: header of a stream", errXz)
	}
	x.check = xzCheck(b[7])
	if !x.check.known() {
		return fmt.Errorf("its check has the unknown type %d", x.check)
	}
	x.place, x.listed, x.blocks = inStream, sha256.New(), 0
	return nil
}

// take reads n bytes, which are valid until the next read.
func (x *xzBlocks) take(n int) ([]byte, error) {
	b, err := x.in.Peek(n)
	if err != nil {
		return nil, whole(err)
	}
	_, err = x.in.Discard(n)
	return b, err
}

// beginBlock reads a block's header. The header's first byte encodes the header's length.
func (x *xzBlocks) beginBlock(head []byte) error {
	b, err := x.take(4 * (int(head[0]) + 1))
	if err != nil {
		return err
	}
	h, err := parseXzHeader(b)
	if err != nil {
		return err
	}
	x.block = &xzBlock{header: h, body: lzma2{in: x.in}, sum: x.check.hash()}
	return x.block.open()
}

// endBlock reads the padding and check after a block's data, and verifies the block's sizes and
// check.
func (x *xzBlocks) endBlock() error {
	k := x.block
	if !k.body.ended() {
		return io.ErrUnexpectedEOF
	}
	stored := k.body.taken
	if k.header.stored >= 0 && k.header.stored != stored || k.header.decoded >= 0 && k.header.decoded != k.decoded {
		return fmt.Errorf("%w: a block has %d bytes, and %d decoded, which does not match its header", errXz, stored, k.decoded)
	}
	padding := int(-stored & 3)
	rest, err := x.take(padding + x.check.size())
	if err != nil {
		return err
	}
	if !zeros(rest[:padding]) || !bytes.Equal(k.sum.Sum(nil), rest[padding:]) {
		return fmt.Errorf("%w: the check of a block does not match", errXz)
	}
	x.list(uint64(k.header.length+stored)+uint64(x.check.size()), uint64(k.decoded))
	return nil
}

// list adds a block to the sizes that the stream's index must contain.
func (x *xzBlocks) list(stored, decoded uint64) {
	if x.listed == nil {
		return
	}
	x.blocks++
	_, _ = x.listed.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, stored), decoded)) // a hash accepts all bytes
}

// index reads a stream's index and footer, and compares the index with the blocks that were read.
func (x *xzBlocks) index() error {
	in := &summed{in: x.in, sum: crc32.NewIEEE()}
	if _, err := in.ReadByte(); err != nil { // the zero byte that distinguishes the index from a block
		return whole(err)
	}
	count, err := in.number()
	if err != nil {
		return err
	}
	found := sha256.New()
	for range count {
		var record [16]byte
		for i := range 2 {
			n, err := in.number()
			if err != nil {
				return err
			}
			binary.LittleEndian.PutUint64(record[8*i:], n)
		}
		_, _ = found.Write(record[:])
	}
	for in.n%4 != 0 {
		if b, err := in.ReadByte(); err != nil || b != 0 {
			return errors.Join(errXz, whole(err))
		}
	}
	size, sum := in.n+4, in.sum.Sum32()
	tail, err := x.take(4)
	if err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(tail) != sum {
		return fmt.Errorf("%w: the checksum of an index does not match", errXz)
	}
	if x.listed != nil && (count != x.blocks || !bytes.Equal(found.Sum(nil), x.listed.Sum(nil))) {
		return fmt.Errorf("%w: an index does not match the blocks", errXz)
	}
	return x.footer(size)
}

// footer reads a stream's last twelve bytes. index is the length of the stream's index.
func (x *xzBlocks) footer(index int64) error {
	b, err := x.take(12)
	if err != nil {
		return err
	}
	if crc32.ChecksumIEEE(b[4:10]) != binary.LittleEndian.Uint32(b) || 4*(int64(binary.LittleEndian.Uint32(b[4:]))+1) != index ||
		b[8] != 0 || xzCheck(b[9]) != x.check || string(b[10:]) != xzFooter {
		return fmt.Errorf("%w: footer of a stream", errXz)
	}
	x.place, x.listed = betweenStreams, nil
	return nil
}

// summed is a reader that updates a checksum with the bytes read.
type summed struct {
	in  io.ByteReader
	sum hash.Hash32
	n   int64
}

func (s *summed) ReadByte() (byte, error) {
	b, err := s.in.ReadByte()
	if err == nil {
		s.n++
		_, _ = s.sum.Write([]byte{b})
	}
	return b, err
}

// number reads an integer in xz's encoding: seven bits per byte, lowest first, at most nine bytes.
func (s *summed) number() (uint64, error) {
	n, err := xzNumber(s)
	return n, whole(err)
}

func xzNumber(in io.ByteReader) (n uint64, err error) {
	for i := range 9 {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			if b == 0 && i > 0 {
				break
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("%w: an encoded number is malformed", errXz)
}
