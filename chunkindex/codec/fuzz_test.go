package codec_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/codec"
)

// FuzzReader checks that, for any shard, a reader either fails or returns frames. Each frame must
// decode by itself to the bytes that the reader returned.
func FuzzReader(f *testing.F) {
	for i, c := range codecs() {
		whole := pack(c, random(1000, 5), nil, random(10, 6))
		f.Add(uint32(i), whole)
		f.Add(uint32(i), whole[:len(whole)/2])
	}
	f.Add(uint32(1), []byte("\x5a\x2a\x4d\x18\x03\x00\x00\x00abc"))
	f.Fuzz(func(t *testing.T, n uint32, stored []byte) {
		c := codecs()[n%uint32(len(codecs()))]
		r, err := codec.NewReader(c, bytes.NewReader(stored))
		if err != nil {
			return
		}
		defer r.Close()
		const most = 4 << 20
		data, err := io.ReadAll(io.LimitReader(r, most))
		if err != nil || len(data) == most {
			return
		}
		end := int64(0)
		for off := int64(0); off < int64(len(data)); {
			fr, ok := r.At(off)
			if !ok || fr.Decoded != off || fr.Stored < end || fr.StoredEnd <= fr.Stored || fr.DecodedEnd > int64(len(data)) {
				t.Fatalf("byte %d: got %+v, %v", off, fr, ok)
			}
			dst := make([]byte, fr.DecodedEnd-off)
			params, _ := r.Params(off, off)
			if err := codec.Decode(c, params, stored[fr.Stored:fr.StoredEnd], 0, dst); err != nil || !bytes.Equal(dst, data[off:fr.DecodedEnd]) {
				t.Fatalf("frame %+v by itself: %v", fr, err)
			}
			off, end = fr.DecodedEnd, fr.StoredEnd
		}
	})
}

// FuzzDecode checks that, for any stored bytes, Decode returns an error or fills dst.
func FuzzDecode(f *testing.F) {
	for _, c := range codecs() {
		params, stored := chunk(c, pack(c, random(1000, 7)))
		f.Add(uint32(c), params, stored, int64(10), uint16(900))
	}
	f.Fuzz(func(_ *testing.T, n uint32, params, stored []byte, skip int64, length uint16) {
		_ = codec.Decode(codec.Codec(n&0x3ff), params, stored, skip%(1<<20), make([]byte, length))
	})
}
