package arrowbatch

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Buffer compressions with the numbers that Message.fbs defines.
const (
	packLZ4  = 0
	packZstd = 1
)

// errMemory is the error for a record batch whose buffers need more memory than Room allows.
var errMemory = errors.New("its buffers need more memory than its rows: write the file again in smaller record batches, or without compression")

// unpacker decompresses the buffers of consecutive record batches.
type unpacker struct {
	room int64 // maximum decompressed bytes per batch
	used int64 // decompressed bytes of the current batch
	zstd *zstd.Decoder
	lz4  *lz4.Reader
	free [][]byte
	held [][]byte
}

func (u *unpacker) close() {
	if u.zstd != nil {
		u.zstd.Close()
	}
}

// next starts another batch and reuses the buffers of the preceding batch.
func (u *unpacker) next() {
	u.free, u.held, u.used = append(u.free, u.held...), u.held[:0], 0
}

// bytes decompresses one buffer. Its memory grows with the data, because length is untrusted.
func (u *unpacker) bytes(pack int, packed []byte, length int64) ([]byte, error) {
	if length < 0 {
		return nil, errBuffer
	}
	if u.used += length; u.used > u.room || u.used < 0 {
		return nil, errMemory
	}
	in, err := u.open(pack, packed)
	if err != nil {
		return nil, err
	}
	b := u.buffer(length)
	for int64(len(b)) < length {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := io.ReadFull(in, b[len(b):min(int64(cap(b)), length)])
		if b = b[:len(b)+n]; err != nil {
			return nil, fmt.Errorf("buffer of a record batch: %w", err)
		}
	}
	u.held = append(u.held, b)
	var more [1]byte
	if n, err := in.Read(more[:]); n > 0 || err == nil || !errors.Is(err, io.EOF) {
		return nil, errBuffer
	}
	return b, nil
}

// firstBuffer is the initial size of a buffer.
const firstBuffer = 256 << 10

// buffer returns an empty buffer. The buffer has capacity for length bytes, or for fewer if it must
// be allocated.
func (u *unpacker) buffer(length int64) []byte {
	for i, b := range u.free {
		if int64(cap(b)) >= length {
			u.free[i] = u.free[len(u.free)-1]
			u.free = u.free[:len(u.free)-1]
			return b[:0]
		}
	}
	return make([]byte, 0, min(length, firstBuffer))
}

func (u *unpacker) open(pack int, packed []byte) (io.Reader, error) {
	in := bytes.NewReader(packed)
	if pack == packLZ4 {
		if u.lz4 == nil {
			u.lz4 = lz4.NewReader(in)
		}
		u.lz4.Reset(in)
		return u.lz4, nil
	}
	if u.zstd == nil {
		var err error
		if u.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20)); err != nil {
			return nil, err
		}
	}
	return u.zstd, u.zstd.Reset(in)
}
