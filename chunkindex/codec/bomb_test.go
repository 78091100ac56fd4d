//go:build !race

package codec_test

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/testing/codectest"
)

// gzipBomb returns a gzip member of gib gibibytes of zeros, without the member's end. It repeats
// one deflate block that decodes to a mebibyte.
func gzipBomb(t *testing.T, gib int) []byte {
	t.Helper()
	var block bytes.Buffer
	w, err := flate.NewWriter(&block, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return append([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"), bytes.Repeat(block.Bytes(), gib<<10)...)
}

// zstdBomb returns a zstd frame that decodes to gib gibibytes of one byte. It consists of
// run-length blocks.
func zstdBomb(gib int) []byte {
	const most = 128 << 10
	b := []byte("\x28\xb5\x2f\xfd\x00\x68") // the window is 8 MiB
	for range gib << 30 / most {
		b = binary.LittleEndian.AppendUint32(b, most<<3|1<<1) // the fourth byte is repeated
	}
	return b
}

// xzBomb returns an xz stream with two gibibytes of zeros in one block, without the stream's end.
// It repeats one LZMA2 chunk that decodes to a mebibyte and resets its state.
func xzBomb() []byte {
	const head = 12 + 12 // bytes of the stream header and the block header
	one := codectest.XzBlocks(make([]byte, 1<<20), 1<<20)
	long := 6 + int(binary.BigEndian.Uint16(one[head+3:])) + 1
	return append(one[:head:head], bytes.Repeat(one[head:head+long], 2<<10)...)
}

// TestReader_RejectsBombs checks that a reader rejects several gigabytes of zeros after the first
// gigabyte, and needs no more memory than a window.
func TestReader_RejectsBombs(t *testing.T) {
	for c, bomb := range map[codec.Codec][]byte{codec.Gzip: gzipBomb(t, 10), codec.Zstd: zstdBomb(10), codec.Xz: xzBomb()} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := codec.NewReader(c, bytes.NewReader(bomb))
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, r)
		r.Close()
		if err == nil || !strings.Contains(err.Error(), "in smaller frames") || n > codec.MaxFrame {
			t.Errorf("%v: got %d bytes, %v, want a refusal", c, n, err)
		}
		params, stored := chunk(c, bomb)
		if err := codec.Decode(c, params, stored, 0, make([]byte, 1<<20)); err != nil {
			t.Errorf("%v: the first megabyte: got %v", c, err)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 2*codec.MaxDictionary {
			t.Errorf("%v: got %d bytes allocated for %d stored bytes", c, got, len(bomb))
		}
	}
}

// TestReader_DeclaredSizesAllocateNothing checks that a reader allocates no memory for the large
// declared size of a frame.
func TestReader_DeclaredSizesAllocateNothing(t *testing.T) {
	promise := []byte("\x28\xb5\x2f\xfd\xc0\x68\xff\xff\xff\xff\xff\xff\xff\x0f\x01\x00\x00")
	skippable := []byte("\x50\x2a\x4d\x18\xff\xff\xff\xffabc")
	for _, stored := range [][]byte{promise, skippable} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := codec.NewReader(codec.Zstd, bytes.NewReader(stored))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, r)
		r.Close()
		if derr := codec.Decode(codec.Zstd, nil, stored, 0, make([]byte, 10)); err == nil || derr == nil {
			t.Errorf("% x: got %v and %v, want refusals", stored, err, derr)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 6*codec.MaxWindow {
			t.Errorf("% x: got %d bytes allocated", stored, got)
		}
	}
}
