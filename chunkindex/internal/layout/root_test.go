package layout

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/memory"
)

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// sampleRoot returns a root of two segments.
func sampleRoot() *Root {
	return &Root{Meta: []byte(`{"format":"tar"}`), Segments: []SegmentRef{{Digest: [32]byte{1}, Size: 1000, Resident: 500}, {Digest: [32]byte{2}, Size: HeaderSize, Resident: HeaderSize}}}
}

func TestDecodeRoot(t *testing.T) {
	sound, err := sampleRoot().Encode()
	if err != nil {
		t.Fatal(err)
	}
	r, err := DecodeRoot(sound, sumOf(sound))
	if err != nil || string(r.Meta) != `{"format":"tar"}` || len(r.Segments) != 2 || r.Segments[0] != sampleRoot().Segments[0] || r.Bytes() != int64(len(sound))+1000+HeaderSize {
		t.Fatalf("got %+v, %v", r, err)
	}
	row := func(b []byte, i int) []byte { return b[RootHeader+segmentRow*i+sha256.Size:] }
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		want   error // nil: any error
	}{
		"older":                     {func(b []byte) []byte { b[8] = 2; return b }, ErrOldVersion},
		"newer":                     {func(b []byte) []byte { b[8] = 4; return b }, ErrVersion},
		"another magic":             {func(b []byte) []byte { b[0] = 'm'; return b }, nil},
		"short":                     {func(b []byte) []byte { return b[:RootHeader-1] }, nil},
		"a byte less":               {func(b []byte) []byte { return b[:len(b)-1] }, ErrMalformed},
		"a byte more":               {func(b []byte) []byte { return append(b, 0) }, ErrMalformed},
		"more segments than limits": {func(b []byte) []byte { binary.LittleEndian.PutUint64(b[16:], 1<<61); return b }, ErrMalformed},
		"more meta than limits":     {func(b []byte) []byte { binary.LittleEndian.PutUint32(b[12:], MaxMeta+1); return b }, ErrMalformed},
		"a segment of 8 TiB":        {func(b []byte) []byte { binary.LittleEndian.PutUint64(row(b, 1), 1<<43); return b }, ErrMalformed},
		"resident past the end":     {func(b []byte) []byte { binary.LittleEndian.PutUint64(row(b, 0)[8:], 1001); return b }, ErrMalformed},
		"resident without header":   {func(b []byte) []byte { binary.LittleEndian.PutUint64(row(b, 0)[8:], HeaderSize-1); return b }, ErrMalformed},
	} {
		b := c.change(bytes.Clone(sound))
		if _, err := DecodeRoot(b, sumOf(b)); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if bytes.Equal(b[:min(len(b), 8)], sound[:8]) && b[8] >= IndexVersion {
			if _, err := DecodeRoot(b, sumOf(sound)); err == nil || errors.Is(err, ErrVersion) {
				t.Errorf("%s, under another generation: got %v", name, err)
			}
		}
	}
	if _, err := (&Root{Segments: make([]SegmentRef, MaxSegments+1)}).Encode(); err == nil {
		t.Error("got a root of too many segments")
	}
}

// TestEndsSegment checks the rule that divides an index: by the key alone for small shards, and more
// often the longer the blocks are.
func TestEndsSegment(t *testing.T) {
	for blocks, want := range map[uint64]int{0: 1000 / 64, segmentBlocks/segmentShards - 1: 1000 / 64, segmentBlocks / 2: 1000 / 2, segmentBlocks: 1000, 1 << 40: 1000} {
		ends := 0
		for i := range 1000 {
			if EndsSegment(string(binary.AppendUvarint([]byte("shard-"), uint64(i))), blocks) {
				ends++
			}
		}
		if ends < want*2/3 || ends > want*4/3 {
			t.Errorf("%d bytes: got %d ends of 1000 shards, want about %d", blocks, ends, want)
		}
	}
}

// FuzzDecodeRoot checks that a malformed root is rejected, and that a root that is accepted encodes
// to the same bytes.
func FuzzDecodeRoot(f *testing.F) {
	sound, _ := sampleRoot().Encode()
	f.Add(sound)
	f.Add(sound[:30])
	f.Fuzz(func(t *testing.T, b []byte) {
		var r *Root
		var err error
		if got := memory.Allocated(func() { r, err = DecodeRoot(b, sumOf(b)) }); got > 1<<20+4*uint64(len(b)) {
			t.Errorf("got %d bytes allocated for %d", got, len(b))
		}
		if err != nil {
			return
		}
		if again, err := r.Encode(); err != nil || !bytes.Equal(again, b) {
			t.Errorf("got other bytes, %v", err)
		}
	})
}
