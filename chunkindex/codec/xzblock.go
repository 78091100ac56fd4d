package codec

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"

	"github.com/ulikunitz/xz/lzma"
)

// xzHeader is the header of a block.
type xzHeader struct {
	length          int64 // length of the header itself
	stored, decoded int64 // lengths of the data; -1: not declared
	dictionary      int64 // bytes
}

// parseXzHeader parses the header of a block. The caller has read the length in its first byte.
func parseXzHeader(b []byte) (xzHeader, error) {
	h := xzHeader{length: int64(len(b)), stored: -1, decoded: -1}
	malformed := fmt.Errorf("%w: header of a block", errXz)
	end := len(b) - 4
	if end < 2 || crc32.ChecksumIEEE(b[:end]) != binary.LittleEndian.Uint32(b[end:]) {
		return h, malformed
	}
	flags, in := b[1], bytes.NewReader(b[2:end])
	if flags&0x3c != 0 {
		return h, malformed
	}
	if err := h.sizes(flags, in); err != nil {
		return h, err
	}
	id, err1 := xzNumber(in)
	if err1 == nil && (id != lzma2ID || flags&3 != 0) {
		return h, errors.New("it uses a filter other than LZMA2: recompress the object without options such as --x86 and --delta")
	}
	size, err2 := xzNumber(in)
	bits, err3 := in.ReadByte()
	if errors.Join(err1, err2, err3) != nil || size != 1 || bits > 40 || !zeros(b[end-in.Len():end]) {
		return h, malformed
	}
	h.dictionary = math.MaxUint32
	if bits < 40 {
		h.dictionary = (2 | int64(bits&1)) << (bits/2 + 11)
	}
	if h.dictionary > MaxDictionary {
		return h, fmt.Errorf("its dictionary is larger than %d bytes: recompress the object by xz -9 or less, or by zstd", MaxDictionary)
	}
	return h, nil
}

// sizes reads the sizes whose presence the flags declare.
func (h *xzHeader) sizes(flags byte, in io.ByteReader) error {
	for _, s := range []struct {
		flag byte
		size *int64
	}{{0x40, &h.stored}, {0x80, &h.decoded}} {
		if flags&s.flag == 0 {
			continue
		}
		n, err := xzNumber(in)
		if err != nil {
			return fmt.Errorf("%w: header of a block", errXz)
		}
		*s.size = int64(n) // n has at most 63 bits
	}
	return nil
}

// xzBlock decodes the data of one block.
type xzBlock struct {
	header  xzHeader
	body    lzma2
	lzma    *lzma.Reader2
	sum     hash.Hash
	decoded int64
}

// open creates the decoder. Its dictionary is no larger than the declared decoded size of the
// block.
func (k *xzBlock) open() (err error) {
	size := k.header.dictionary
	if k.header.decoded >= 0 {
		size = min(size, k.header.decoded)
	}
	k.lzma, err = lzma.Reader2Config{DictCap: int(max(size, lzma.MinDictCap))}.NewReader2(&k.body)
	return err
}

func (k *xzBlock) Read(p []byte) (int, error) {
	n, err := k.lzma.Read(p)
	_, _ = k.sum.Write(p[:n]) // a hash accepts all bytes
	k.decoded += int64(n)
	return n, err
}

// lzma2 reads exactly the LZMA2 data of one block. It only parses the lengths of LZMA2's chunks.
type lzma2 struct {
	in    *bufio.Reader
	left  int64 // unread bytes of the current chunk
	taken int64
	last  bool // the end marker was read
}

// ended reports whether all data of the block was read.
func (l *lzma2) ended() bool { return l.last && l.left == 0 }

func (l *lzma2) Read(p []byte) (int, error) {
	if l.left == 0 {
		if l.last {
			return 0, io.EOF
		}
		if err := l.measure(); err != nil {
			return 0, err
		}
	}
	n, err := l.in.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	l.taken += int64(n)
	if n > 0 || err == nil {
		return n, nil
	}
	return 0, whole(err)
}

// measure determines the length of the next chunk.
func (l *lzma2) measure() error {
	b, err := l.in.Peek(1)
	if err != nil {
		return whole(err)
	}
	control := b[0]
	switch {
	case control == 0:
		l.left, l.last = 1, true
		return nil
	case control == 1 || control == 2: // an uncompressed chunk
		if b, err = l.in.Peek(3); err == nil {
			l.left = 3 + int64(binary.BigEndian.Uint16(b[1:])) + 1
		}
	case control >= 0x80:
		if b, err = l.in.Peek(5); err == nil {
			l.left = 5 + int64(binary.BigEndian.Uint16(b[3:])) + 1
		}
		if control >= 0xc0 {
			l.left++ // properties byte
		}
	default:
		return fmt.Errorf("%w: LZMA2 data", errXz)
	}
	return whole(err)
}
