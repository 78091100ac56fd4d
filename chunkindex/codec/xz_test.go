package codec_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/testing/codectest"
)

// xzFiles returns files written by xz and by Python's lzma: multithreaded blocks with sizes in
// their headers, all kinds of checks, streams with padding between them, and streams without data.
// testdata/README describes how to create them.
func xzFiles(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, name := range []string{"threads.xz", "streams.xz"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = b
	}
	return all
}

// numbers returns the decoded contents of the files in testdata.
func numbers() []byte {
	var b bytes.Buffer
	for n := range 20_000 {
		b.WriteString(strings.Repeat("x", n%7))
		b.WriteByte(byte('0' + n%10))
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// TestXz_BlocksDecodeAlone checks that any run of blocks can be decoded by itself, even across
// streams.
func TestXz_BlocksDecodeAlone(t *testing.T) {
	want := numbers()
	files := xzFiles(t)
	files["by the library"] = codectest.XzBlocks(want, 9999)
	r := rand.New(rand.NewPCG(3, 4))
	for name, stored := range files {
		in, err := codec.NewReader(codec.Xz, bytes.NewReader(stored))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(in)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: got %d bytes, %v, want %d", name, len(got), err, len(want))
		}
		blocks := 0
		for off := int64(0); off < int64(len(want)); blocks++ {
			f, _ := in.At(off)
			last := f.DecodedEnd - 1 + r.Int64N(int64(len(want))-f.DecodedEnd+1)
			end, _ := in.At(last)
			skip := r.Int64N(f.DecodedEnd - off)
			dst := make([]byte, last+1-off-skip)
			params, _ := in.Params(off, last)
			err := codec.Decode(codec.Xz, params, stored[f.Stored:end.StoredEnd], skip, dst)
			if err != nil || !bytes.Equal(dst, want[off+skip:last+1]) {
				t.Errorf("%s: bytes %d to %d: %v", name, off+skip, last, err)
			}
			off = f.DecodedEnd
		}
		if blocks < 4 {
			t.Errorf("%s: got %d blocks, want several", name, blocks)
		}
	}
}

// TestXz_DetectsFlips checks that the scan detects every flipped bit of an xz object, unless the
// flip changes no decoded byte.
func TestXz_DetectsFlips(t *testing.T) {
	want := random(300, 9)
	stored := append(codectest.XzBlocks(want[:200], 100), 0, 0, 0, 0)
	stored = append(stored, pack(codec.Xz, want[200:])...)
	for bit := range 8 * len(stored) {
		b := bytes.Clone(stored)
		b[bit/8] ^= 1 << (bit % 8)
		r, err := codec.NewReader(codec.Xz, bytes.NewReader(b))
		if err != nil {
			continue
		}
		if got, err := io.ReadAll(r); err == nil && !bytes.Equal(got, want) {
			t.Errorf("bit %d: got no error, and %d other bytes", bit, len(got))
		}
	}
}

func TestXz_Rejects(t *testing.T) {
	stored := pack(codec.Xz, random(1000, 1))
	// header returns a copy of the object whose block header change has modified.
	header := func(change func(b []byte)) []byte {
		b := bytes.Clone(stored)
		h := b[12 : 12+4*(int(b[12])+1)]
		change(h)
		binary.LittleEndian.PutUint32(h[len(h)-4:], crc32.ChecksumIEEE(h[:len(h)-4]))
		return b
	}
	wrong := bytes.Clone(stored)
	wrong[len(wrong)-12-4*(int(binary.LittleEndian.Uint32(wrong[len(wrong)-8:]))+1)-1] ^= 1 // the last byte before the index
	for name, c := range map[string]struct {
		stored []byte
		want   string
	}{
		"another check":           {wrong, "the check of a block does not match"},
		"a dictionary of 96 MiB":  {header(func(h []byte) { h[4] = 29 }), "larger than 67108864 bytes: recompress the object by xz -9 or less, or by zstd"},
		"a dictionary of 4 GiB":   {header(func(h []byte) { h[4] = 40 }), "its dictionary is larger"},
		"the filter of x86":       {header(func(h []byte) { h[2] = 4 }), "a filter other than LZMA2"},
		"two filters":             {header(func(h []byte) { h[1] |= 1 }), "a filter other than LZMA2"},
		"a reserved flag":         {header(func(h []byte) { h[1] |= 4 }), "header of a block"},
		"sizes that are not so":   {header(func(h []byte) { copy(h[1:8], "\x40\x09\x21\x01\x16\x00\x00") }), "does not match its header"},
		"garbage at the end":      {append(bytes.Clone(stored), "garb"...), "are not xz"},
		"three zeros at the end":  {append(bytes.Clone(stored), 0, 0, 0), "are not xz"},
		"another stream's footer": {append(bytes.Clone(stored[:len(stored)-12]), pack(codec.Xz, random(1001, 1))[len(pack(codec.Xz, random(1001, 1)))-12:]...), "footer of a stream"},
	} {
		r, err := codec.NewReader(codec.Xz, bytes.NewReader(c.stored))
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	params, block := chunk(codec.Xz, stored)
	for name, params := range map[string][]byte{"none": nil, "two": append(params, 1), "a check that is not known": {2}} {
		if err := codec.Decode(codec.Xz, params, block, 0, make([]byte, 1)); err == nil {
			t.Errorf("parameters, %s: got no error", name)
		}
	}
}
