package chunkindex

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"
)

// TestExtentsThatAddUpOnlyModulo64Bits holds a chunk's extents to its length even where their sum overflows.
func TestExtentsThatAddUpOnlyModulo64Bits(t *testing.T) {
	const length = 10
	x := &Index{
		shards:  []Shard{{Key: "a", Size: math.MaxInt64}, {Key: "b", Size: math.MaxInt64}, {Key: "c", Size: 100}},
		head:    header{totals: totals{extents: 3}},
		lengths: []uint32{length},
		extents: extents{first: []uint64{0, 3}},
	}
	var b []byte
	for shard, n := range []uint64{math.MaxInt64, math.MaxInt64, length + 2} {
		b = binary.LittleEndian.AppendUint64(b, uint64(shard))
		b = binary.LittleEndian.AppendUint64(b, 0)
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	in := newSectionReader(bytes.NewReader(b), section{length: int64(len(b))})
	if err := x.readExtents(in); !errors.Is(err, errMalformed) {
		t.Errorf("got %v, want %v", err, errMalformed)
	}
}

func TestMissingDefaultsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       error
	}{
		{"whole", `{"format":"tar","scanner":1,"chunk_size":1,"defaults":{"shuffle":"slot","window":1,"seed":"0","batch_size":1,"tail":"short"}}`, nil},
		{"batch size of 0", `{"format":"tar","scanner":1,"chunk_size":1,"defaults":{"shuffle":"slot","window":1,"seed":"0","batch_size":0,"tail":"short"}}`, errMalformed},
		{"window of 0", `{"format":"tar","scanner":1,"chunk_size":1,"defaults":{"shuffle":"none","window":0,"seed":"0","batch_size":1,"tail":"short"}}`, errMalformed},
		{"none", `{"format":"tar","scanner":1,"chunk_size":1}`, errMalformed},
	} {
		in := newSectionReader(bytes.NewReader([]byte(c.text)), section{length: int64(len(c.text))})
		if err := new(Index).readMeta(in); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}
