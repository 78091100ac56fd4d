package rowgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Compressions of pages, as Parquet numbers them.
const (
	packNone   = 0
	packSnappy = 1
	packGzip   = 2
	packLZO    = 3
	packBrotli = 4
	packLZ4    = 5
	packZstd   = 6
	packRawLZ4 = 7
)

// checkPack refuses the compressions that are not read.
func checkPack(codec int64) error {
	switch codec {
	case packNone, packSnappy, packGzip, packBrotli, packZstd, packRawLZ4:
		return nil
	case packLZO:
		return errors.New("it is compressed by LZO, which is not supported: write it again with snappy or zstd")
	case packLZ4:
		return errors.New("it is compressed by LZ4 in Hadoop's framing, which is not supported: write it again with LZ4_RAW, snappy or zstd")
	}
	return fmt.Errorf("it is compressed by codec %d, which is not known", codec)
}

// most returns the most bytes that so many compressed ones can decode to, so that no memory is taken for a length that is only
// promised: about 21 for 1 of snappy, 255 of LZ4, 1,032 of gzip. Blocks of zstd and brotli can be one repeated byte.
func most(codec int64, compressed int) int64 {
	factor := map[int64]int64{packSnappy: 64, packRawLZ4: 256, packGzip: 1100, packZstd: 1 << 16, packBrotli: 1 << 16}[codec]
	return factor*int64(compressed) + 64
}

// unpacker decompresses the pages of one row group.
type unpacker struct {
	zstd   *zstd.Decoder
	gzip   *gzip.Reader
	brotli *brotli.Reader
}

func (u *unpacker) close() {
	if u.zstd != nil {
		u.zstd.Close()
	}
}

// unpack fills dst with the decompressed bytes of src, or fails. It writes nothing beyond dst, whatever src decodes to.
func (u *unpacker) unpack(codec int64, dst, src []byte) error {
	n, err := 0, error(nil)
	switch codec {
	case packSnappy:
		if n, err = snappy.DecodedLen(src); err == nil && n == len(dst) {
			_, err = snappy.Decode(dst, src)
		}
	case packRawLZ4:
		n, err = lz4.UncompressBlock(src, dst)
	case packZstd:
		n, err = u.unzstd(dst, src)
	case packGzip:
		if u.gzip == nil {
			u.gzip, err = gzip.NewReader(bytes.NewReader(src))
		} else {
			err = u.gzip.Reset(bytes.NewReader(src))
		}
		if err == nil {
			n, err = whole(u.gzip, dst)
		}
	case packBrotli:
		if u.brotli == nil {
			u.brotli = brotli.NewReader(nil)
		}
		if err = u.brotli.Reset(bytes.NewReader(src)); err == nil {
			n, err = whole(u.brotli, dst)
		}
	}
	if err == nil && n != len(dst) {
		err = fmt.Errorf("it decompresses to %d bytes, not to the %d that its header says", n, len(dst))
	}
	return err
}

// unzstd decompresses into dst and no further.
func (u *unpacker) unzstd(dst, src []byte) (int, error) {
	if u.zstd == nil {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return 0, err
		}
		u.zstd = z
	}
	b, err := u.zstd.DecodeAll(src, dst[:0])
	return len(b), err
}

// whole reads all that a stream has into dst. A byte more than dst takes counts as one.
func whole(in io.Reader, dst []byte) (int, error) {
	n, err := io.ReadFull(in, dst)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return n, nil
	}
	if err != nil {
		return n, err
	}
	var more [1]byte
	k, err := io.ReadFull(in, more[:])
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n + k, err
}
