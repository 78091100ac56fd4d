package codec_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/testing/codectest"
)

// pack compresses each piece into its own frame.
func pack(c codec.Codec, pieces ...[]byte) []byte { return codectest.Pack(c, pieces...) }

// chunk returns the parameters of a chunk that begins with an object's first frame, and the stored
// bytes of the object from that frame on.
func chunk(c codec.Codec, object []byte) (params, stored []byte) {
	if c == codec.Xz {
		return object[7:8], object[12:] // skips the stream header, which is not a block
	}
	return nil, object
}

func random(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.IntN(7)) << (i % 3)
	}
	return b
}

func codecs() []codec.Codec { return codectest.Codecs() }

func TestOf(t *testing.T) {
	for key, want := range map[string]struct {
		codec codec.Codec
		bare  string
	}{
		"a.tar": {codec.None, "a.tar"}, "a.tar.gz": {codec.Gzip, "a.tar"}, "d/a.tgz": {codec.Gzip, "d/a.tar"}, "a.jsonl.zst": {codec.Zstd, "a.jsonl"},
		"a.mds.zstd": {codec.Zstd, "a.mds"}, "gz": {codec.None, "gz"}, ".gz": {codec.None, ".gz"}, "d/.zst": {codec.None, "d/.zst"}, ".tgz": {codec.Gzip, ".tar"}, "a.GZ": {codec.Gzip, "a"}, "d/A.TGZ": {codec.Gzip, "d/A.tar"}, "A.JSONL.ZSTD": {codec.Zstd, "A.JSONL"}, "a.gz/b": {codec.None, "a.gz/b"},
		"a.jsonl.xz": {codec.Xz, "a.jsonl"}, "a.txz": {codec.Xz, "a.tar"}, "a.jsonl.bz2": {codec.None, "a.jsonl.bz2"},
	} {
		if c, bare := codec.Of(key); c != want.codec || bare != want.bare {
			t.Errorf("%q: got %v of %q, want %v of %q", key, c, bare, want.codec, want.bare)
		}
	}
}

// TestReader_ReportsFrames checks that a reader returns the data and the frame of each byte, for
// any division into frames.
func TestReader_ReportsFrames(t *testing.T) {
	longest := map[codec.Codec]int{codec.Gzip: 200_000, codec.Zstd: 200_000, codec.Xz: 20_000}
	for _, c := range codecs() {
		rapid.Check(t, func(t *rapid.T) {
			data := random(rapid.IntRange(0, longest[c]).Draw(t, "bytes"), rapid.Uint64().Draw(t, "seed"))
			cuts := rapid.SliceOfN(rapid.IntRange(0, len(data)), 0, 20).Draw(t, "cuts")
			var stored []byte
			type frame struct{ stored, end, decoded, decodedEnd int64 }
			var want []frame
			at := 0
			for _, cut := range append(cuts, len(data)) {
				if cut < at {
					continue
				}
				piece := pack(c, data[at:cut])
				if c == codec.Zstd && cut%3 == 0 {
					piece = append([]byte("\x5a\x2a\x4d\x18\x03\x00\x00\x00abc"), piece...)
				}
				if cut > at {
					begins := int64(len(stored))
					if piece[0] == 0x5a {
						begins += 11
					}
					ends := int64(len(stored) + len(piece))
					if c == codec.Xz { // a stream header precedes the block, and an index and a footer follow it
						begins += 12
						ends -= 12 + 4*(int64(binary.LittleEndian.Uint32(piece[len(piece)-8:]))+1)
					}
					want = append(want, frame{begins, ends, int64(at), int64(cut)})
				}
				stored, at = append(stored, piece...), cut
			}
			r, err := codec.NewReader(c, iotest.OneByteReader(bytes.NewReader(stored)))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, data) {
				t.Fatalf("got %d bytes, %v, want %d", len(got), err, len(data))
			}
			for _, w := range want {
				for _, off := range []int64{w.decoded, (w.decoded + w.decodedEnd) / 2, w.decodedEnd - 1} {
					f, ok := r.At(off)
					if got := (frame{f.Stored, f.StoredEnd, f.Decoded, f.DecodedEnd}); !ok || got != w {
						t.Fatalf("byte %d: got %+v, %v, want %+v", off, got, ok, w)
					}
				}
				first, length := w.decoded, w.decodedEnd-w.decoded
				dst := make([]byte, length-length/3)
				params, _ := r.Params(first, first+length-1)
				if err := codec.Decode(c, params, stored[w.stored:w.end], length/3, dst); err != nil || !bytes.Equal(dst, data[first+length/3:first+length]) {
					t.Fatalf("decode: %v", err)
				}
			}
			if _, ok := r.At(int64(len(data))); ok {
				t.Fatal("a byte after the last one has a frame")
			}
		})
	}
}

func TestDecode_SpansFrames(t *testing.T) {
	data := random(300_000, 1)
	for _, c := range codecs() {
		params, stored := chunk(c, pack(c, data[:100_000], nil, data[100_000:100_001], data[100_001:]))
		for _, skip := range []int64{0, 1, 99_999, 100_000, 299_999} {
			for _, n := range []int64{0, 1, 100_000} {
				dst := make([]byte, min(n, int64(len(data))-skip))
				if err := codec.Decode(c, params, stored, skip, dst); err != nil || !bytes.Equal(dst, data[skip:skip+int64(len(dst))]) {
					t.Errorf("%v, %d bytes after %d: %v", c, len(dst), skip, err)
				}
			}
		}
	}
}

func TestDecode_Rejects(t *testing.T) {
	data := random(100_000, 2)
	for _, c := range codecs() {
		params, stored := chunk(c, pack(c, data))
		flipped := bytes.Clone(stored)
		flipped[len(flipped)/2] ^= 0x10
		other := codec.Gzip
		if c == other {
			other = codec.Zstd
		}
		for name, f := range map[string]func() error{
			"one byte too many":    func() error { return codec.Decode(c, params, stored, 1, make([]byte, len(data))) },
			"too many passed over": func() error { return codec.Decode(c, params, stored, int64(len(data)), make([]byte, 1)) },
			"less than nothing":    func() error { return codec.Decode(c, params, stored, -1, nil) },
			"beyond any frame":     func() error { return codec.Decode(c, params, stored, codec.MaxFrame+1, nil) },
			"no bytes at all":      func() error { return codec.Decode(c, params, nil, 0, make([]byte, 1)) },
			"other bytes":          func() error { return codec.Decode(c, params, data, 0, make([]byte, 1)) },
			"truncated":            func() error { return codec.Decode(c, params, stored[:len(stored)-200], 0, make([]byte, len(data))) },
			"the other codec":      func() error { return codec.Decode(other, nil, stored, 0, make([]byte, 1)) },
			"a codec to come":      func() error { return codec.Decode(99, nil, stored, 0, make([]byte, 1)) },
		} {
			if err := f(); err == nil {
				t.Errorf("%v, %s: got no error", c, name)
			}
		}
		got := make([]byte, len(data))
		if err := codec.Decode(c, params, flipped, 0, got); err == nil && bytes.Equal(got, data) {
			t.Errorf("%v: a flipped bit changed nothing", c)
		}
	}
}

// TestReader_Truncated checks that every truncation inside a frame or header returns an error that
// names the frame. For xz, the error names the piece of the stream. Truncation between frames must
// not return an error.
func TestReader_Truncated(t *testing.T) {
	for _, c := range codecs() {
		first := pack(c, random(500, 3))
		stored := append(bytes.Clone(first), pack(c, random(501, 4))...)
		for n := 4; n < len(stored); n++ {
			r, err := codec.NewReader(c, bytes.NewReader(stored[:n]))
			if err == nil {
				_, err = io.Copy(io.Discard, r)
			}
			if n == len(first) {
				if err != nil {
					t.Errorf("%v, between frames: got %v", c, err)
				}
				continue
			}
			if err == nil {
				t.Errorf("%v, %d bytes: got no error", c, n)
				continue
			}
			least, at := 0, -1
			if n > len(first) {
				least = len(first)
			}
			_, rest, _ := strings.Cut(err.Error(), "stored offset ")
			if _, err := fmt.Sscan(strings.TrimRight(strings.Fields(rest + " -")[0], ":"), &at); err != nil || at < least || at > n {
				t.Errorf("%v, %d bytes: got an error at %d, want one between %d and %d", c, n, at, least, n)
			}
		}
	}
}

func TestReader_Rejects(t *testing.T) {
	big := make([]byte, 20<<20)
	var wide bytes.Buffer
	z, err := zstd.NewWriter(&wide, zstd.WithWindowSize(16<<20))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(big); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	single, err := zstd.NewWriter(nil, zstd.WithSingleSegment(true))
	if err != nil {
		t.Fatal(err)
	}
	segment := single.EncodeAll(big, nil)
	broken := errors.New("the line broke")
	ok := pack(codec.Gzip, []byte("x"))
	for name, test := range map[string]struct {
		codec codec.Codec
		in    io.Reader
		want  string
	}{
		"zstd named gzip":     {codec.Gzip, bytes.NewReader(pack(codec.Zstd, []byte("x"))), "is not gzip"},
		"gzip named zstd":     {codec.Zstd, bytes.NewReader(ok), "is not zstd"},
		"empty":               {codec.Gzip, bytes.NewReader(nil), "is not gzip"},
		"short":               {codec.Zstd, strings.NewReader("\x28\xb5"), "is not zstd"},
		"garbage at the end":  {codec.Gzip, bytes.NewReader(append(bytes.Clone(ok), "garbage"...)), fmt.Sprintf("stored offset %d are not gzip", len(ok))},
		"data behind zeros":   {codec.Gzip, bytes.NewReader(append(append(bytes.Clone(ok), make([]byte, 1<<19)...), "garbage"...)), fmt.Sprintf("stored offset %d are not gzip: they follow zeros", len(ok)+(1<<19))},
		"zeros behind zstd":   {codec.Zstd, bytes.NewReader(append(pack(codec.Zstd, []byte("x")), 0, 0, 0, 0)), "are not zstd"},
		"window of 16 MiB":    {codec.Zstd, &wide, "without --long and --ultra"},
		"segment of 20 MiB":   {codec.Zstd, bytes.NewReader(segment), "without --long and --ultra"},
		"dictionary":          {codec.Zstd, strings.NewReader("\x28\xb5\x2f\xfd\x01\x58\x07\x01\x00\x00"), "needs a dictionary"},
		"reserved block":      {codec.Zstd, strings.NewReader("\x28\xb5\x2f\xfd\x00\x58\x07\x00\x00\x00"), "reserved"},
		"store that breaks":   {codec.Gzip, io.MultiReader(bytes.NewReader(ok[:8]), iotest.ErrReader(broken)), broken.Error()},
		"store that never is": {codec.Gzip, iotest.ErrReader(broken), broken.Error()},
	} {
		r, err := codec.NewReader(test.codec, test.in)
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			r.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// TestReader_GzipPadding checks that zeros after the last gzip member count as padding, as in the
// gzip program.
func TestReader_GzipPadding(t *testing.T) {
	for _, n := range []int{1, 3, 4, 512, 1 << 20} {
		r, err := codec.NewReader(codec.Gzip, bytes.NewReader(append(pack(codec.Gzip, []byte("content")), make([]byte, n)...)))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(r); err != nil || string(b) != "content" {
			t.Errorf("%d zeros: got %q, %v", n, b, err)
		}
		r.Close()
	}
}
