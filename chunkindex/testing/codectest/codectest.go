// Package codectest compresses objects for tests, frame by frame.
package codectest

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/millrace-data/millrace/chunkindex/codec"
)

// Codecs returns the codecs that compress whole shards.
func Codecs() []codec.Codec { return []codec.Codec{codec.Gzip, codec.Zstd, codec.Xz} }

// Pack compresses each piece into its own frame. For xz, each frame is a stream with one block.
func Pack(c codec.Codec, pieces ...[]byte) []byte {
	var out bytes.Buffer
	for _, p := range pieces {
		w, err := writer(c, len(p), &out)
		if err == nil {
			_, err = w.Write(p)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			panic(fmt.Sprintf("compress by %v: %v", c, err)) // impossible: the library writes to memory
		}
	}
	return out.Bytes()
}

// writer returns a compressor. n is the length of the data and determines the optional settings.
func writer(c codec.Codec, n int, out io.Writer) (io.WriteCloser, error) {
	switch c {
	case codec.Gzip:
		return gzip.NewWriter(out), nil
	case codec.Zstd:
		return zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(n%2 == 0))
	case codec.Xz:
		return xz.WriterConfig{DictCap: 1 << 20, CheckSum: []byte{xz.CRC32, xz.CRC64, xz.SHA256}[n%3]}.NewWriter(out)
	}
	return nil, fmt.Errorf("no writer for %v", c)
}

// XzBlocks compresses data into one xz stream whose blocks decode to block bytes each.
func XzBlocks(data []byte, block int64) []byte {
	var out bytes.Buffer
	w, err := xz.WriterConfig{DictCap: 1 << 20, BlockSize: block}.NewWriter(&out)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(fmt.Sprintf("compress by xz: %v", err)) // impossible: the library writes to memory
	}
	return out.Bytes()
}
