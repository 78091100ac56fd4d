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

// Page compressions with the numbers that Parquet defines.
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

// checkPack returns an error for unsupported compressions.
func checkPack(codec int64) error {
	switch codec {
	case packNone, packSnappy, packGzip, packBrotli, packZstd, packRawLZ4:
		return nil
	case packLZO:
		return errors.New("it is compressed by LZO, which is not supported: write it again with snappy or zstd")
	case packLZ4:
		return errors.New("it is compressed by LZ4 in Hadoop's framing, which is not supported: write it again with LZ4_RAW, snappy or zstd")
	}
	return fmt.Errorf("it is compressed by the unknown codec %d", codec)
}

// most returns the maximum decompressed length for a compressed length. It prevents a false claim
// from allocating memory. The compression ratios are at most about 21 for snappy, 255 for LZ4 and
// 1,032 for gzip. Blocks of zstd and brotli can be one repeated byte, so their ratios can be far
// higher.
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

// unpack decompresses src into dst. The data must have exactly the length of dst. unpack never
// writes beyond dst.
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
		err = fmt.Errorf("it decompresses to %d bytes instead of the %d in its header", n, len(dst))
	}
	return err
}

// unzstd decompresses src into dst and does not allocate a larger buffer.
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

// whole reads a stream to its end into dst. If the stream is longer than dst, whole returns
// len(dst)+1.
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
