package layout

import (
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/codec"
)

func TestCheckShardKey(t *testing.T) {
	for key, ok := range map[string]bool{
		"a.tar": true, "deep/down/a.tar": true, "grün.tar": true, "a..tar": true, ".tar": true, "line\nbreak.tar": true,
		"": false, "/a.tar": false, "../a.tar": false, "a/../../b.tar": false, "./a.tar": false, "a//b.tar": false, "a\x00.tar": false,
		".millrace/a.tar": false, "deep/.millrace/a.tar": false, "a.tar/": false, "\xff.tar": false,
	} {
		if err := CheckShardKey(key); (err == nil) != ok {
			t.Errorf("%q: got %v, want valid: %v", key, err, ok)
		}
	}
}

func TestDecodeParts_RequiresAscendingParts(t *testing.T) {
	block := func(parts ...Part) []byte {
		b := []byte{byte(len(parts))}
		for _, p := range parts {
			b = AppendPart(b, p)
		}
		return b
	}
	for name, c := range map[string]struct {
		block []byte
		ok    bool
	}{
		"none":          {block(), true},
		"one":           {block(Part{Ext: "a", Offset: 10, Length: 90}), true},
		"ascending":     {block(Part{Offset: 10, Length: 10}, Part{Offset: 20}, Part{Offset: 20, Length: 80}), true},
		"overlapping":   {block(Part{Offset: 10, Length: 10}, Part{Offset: 19, Length: 1}), false},
		"descending":    {block(Part{Offset: 10, Length: 10}, Part{Offset: 0, Length: 10}), false},
		"past the end":  {block(Part{Offset: 10, Length: 91}), false},
		"wrapping":      {block(Part{Offset: 0xffffffff, Length: 101}), false},
		"more than are": {append([]byte{200, 1}, block(Part{Length: 1})[1:]...), false},
		"2^63 of them":  {binary.AppendUvarint(nil, 1<<63), false},
		"trailing":      {append(block(), 0), false},
	} {
		if _, err := decodePlainParts(c.block, &Table{length: 100, crcs: make([]uint32, 1)}); (err == nil) != c.ok {
			t.Errorf("%s: got %v, want accepted: %v", name, err, c.ok)
		}
	}
}

// Join adds each field of Totals, except Longest, for which it uses the maximum.
func TestTotals_SumEveryField(t *testing.T) {
	var a, b Totals
	x, y := reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem()
	a = Totals{1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	b = Totals{10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120}
	before := reflect.ValueOf(a)
	a.Join(b)
	for i := range x.NumField() {
		number := func(v reflect.Value) int64 {
			if v.CanInt() {
				return v.Int()
			}
			return int64(v.Uint())
		}
		want := number(before.Field(i)) + number(y.Field(i))
		if name := x.Type().Field(i).Name; name == "Longest" {
			want = 60
		}
		if got := number(x.Field(i)); got != want || number(y.Field(i)) == 0 {
			t.Errorf("%s: got %d, want %d", x.Type().Field(i).Name, got, want)
		}
	}
	b.Join(Totals{Longest: 7})
	if b.Longest != 60 {
		t.Errorf("got the longest sample of %d bytes, want 60", b.Longest)
	}
	var sum Totals
	listed := &ChunkRecord{
		Extents: make([]Extent, 2), Samples: 3, Bytes: 4, Longest: 5, Count: 6,
		Table: make([]byte, 7), Names: make([]byte, 8), Parts: make([]byte, 9), Params: make([]byte, 10),
	}
	sum.Add(listed)
	if want := (Totals{Chunks: 1, Extents: 2, Samples: 3, Bytes: 4, Longest: 5, PartCount: 6, listed: 3, tables: 7, names: 8, parts: 9, params: 10}); sum != want {
		t.Errorf("got %+v, want %+v", sum, want)
	}
	sum.Add(&ChunkRecord{Samples: 2, Longest: 1})
	if sum.listed != 3 || sum.Longest != 5 || sum.Samples != 5 || sum.Chunks != 2 {
		t.Errorf("a chunk named by rule: got %+v", sum)
	}
}

// ParseOwner accepts exactly the keys that OwnerObject returns.
func TestParseOwner_AcceptsOnlyOwnerKeys(t *testing.T) {
	g := strings.Repeat("ab", 32)
	for _, name := range []string{"", "a", "a-b", "0._-"} {
		if gotG, gotName, ok := ParseOwner("p/", OwnerObject("p/", g, name)); !ok || gotG != g || gotName != name {
			t.Errorf("%q: got %s, %q, %v", name, gotG, gotName, ok)
		}
	}
	for _, key := range []string{g, g[1:] + "-a", g + "a-a", g + "-A", g + "-a/b", strings.ToUpper(g) + "-a", "-a", ""} {
		if _, _, ok := ParseOwner("p/", "p/"+OwnerDir+key); ok {
			t.Errorf("%q: accepted", key)
		}
	}
}

// TestExtentOrder checks that extents overlap by at most the overlap, or by one frame at a chunk
// border.
func TestExtentOrder(t *testing.T) {
	type chunk struct {
		length  int64
		codec   codec.Codec
		extents []Extent
	}
	at := func(shard int, offset, length int64) Extent { return Extent{shard, offset, length} }
	plain := func(offset, length int64) chunk { return chunk{length, codec.None, []Extent{at(0, offset, length)}} }
	packed := func(offset, length int64) chunk { return chunk{1 << 20, codec.Gzip, []Extent{at(0, offset, length)}} }
	for name, c := range map[string]struct {
		overlap int64
		chunks  []chunk
		ok      bool
	}{
		"side by side":               {0, []chunk{plain(0, 10), plain(10, 10)}, true},
		"with a gap":                 {0, []chunk{plain(0, 10), plain(50, 50)}, true},
		"one byte shared":            {0, []chunk{plain(0, 10), plain(9, 10)}, false},
		"shared as allowed":          {4, []chunk{plain(0, 10), plain(6, 10)}, true},
		"one byte too many":          {4, []chunk{plain(0, 10), plain(5, 10)}, false},
		"all of it shared":           {100, []chunk{plain(5, 10), plain(5, 12)}, false},
		"before the one before":      {100, []chunk{plain(5, 10), plain(4, 12)}, false},
		"inside the one before":      {100, []chunk{plain(0, 10), plain(5, 5)}, false},
		"past the shard":             {0, []chunk{plain(50, 51)}, false},
		"far past the shard":         {0, []chunk{plain(1<<62, 1<<62)}, false},
		"negative":                   {0, []chunk{plain(-5, 10)}, false},
		"of no length":               {0, []chunk{{0, codec.None, []Extent{at(0, 0, 0)}}}, false},
		"no extent":                  {0, []chunk{{1, codec.None, nil}}, false},
		"two shards":                 {0, []chunk{{110, codec.None, []Extent{at(0, 0, 100), at(1, 0, 10)}}}, true},
		"two shards, shared":         {50, []chunk{{110, codec.None, []Extent{at(0, 0, 100), at(0, 90, 10)}}}, false},
		"shards going back":          {0, []chunk{{10, codec.None, []Extent{at(1, 0, 10)}}, plain(0, 10)}, false},
		"a shard too many":           {0, []chunk{{10, codec.None, []Extent{at(2, 0, 10)}}}, false},
		"more than the chunk":        {0, []chunk{{9, codec.None, []Extent{at(0, 0, 10)}}}, false},
		"less than the chunk":        {0, []chunk{{11, codec.None, []Extent{at(0, 0, 10)}}}, false},
		"frames side by side":        {0, []chunk{packed(0, 10), packed(10, 10)}, true},
		"a frame shared":             {0, []chunk{packed(0, 30), packed(20, 30), packed(50, 10)}, true},
		"two frames shared in turn":  {0, []chunk{packed(0, 30), packed(20, 30), packed(30, 30)}, true},
		"a frame for three":          {0, []chunk{packed(0, 30), packed(20, 30), packed(29, 40)}, false},
		"the same frames":            {0, []chunk{packed(0, 30), packed(0, 30)}, false},
		"a frame that ends earlier":  {0, []chunk{packed(0, 30), packed(10, 10)}, false},
		"a frame that ends together": {0, []chunk{packed(0, 30), packed(10, 20)}, true},
	} {
		order := ExtentOrder{Overlap: c.overlap, Shards: []Shard{{Size: 100}, {Size: 100}}}
		var err error
		for _, ch := range c.chunks {
			for _, e := range ch.extents {
				if err == nil {
					err = order.Next(e, ch.length, ch.codec)
				}
			}
			if err == nil {
				err = order.EndChunk()
			}
		}
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: got %v, want accepted: %v", name, err, c.ok)
		}
	}
}

func TestDecodeTable_Overlap(t *testing.T) {
	for _, c := range []struct {
		name    string
		overlap int64
		rows    [][2]uint32
		ok      bool
	}{
		{"as allowed", 4, [][2]uint32{{0, 10}, {6, 10}, {12, 10}}, true},
		{"less", 4, [][2]uint32{{0, 10}, {8, 10}}, true},
		{"one byte too many", 4, [][2]uint32{{0, 10}, {5, 10}}, false},
		{"the same place", 50, [][2]uint32{{0, 10}, {0, 11}}, false},
		{"inside the one before", 50, [][2]uint32{{0, 10}, {5, 5}}, false},
		{"wrapping", 1 << 30, [][2]uint32{{0, 10}, {0xffffffff, 10}}, false},
	} {
		var b []byte
		for _, row := range c.rows {
			b = binary.LittleEndian.AppendUint32(b, row[0])
			b = binary.LittleEndian.AppendUint32(b, row[1])
			b = binary.LittleEndian.AppendUint32(b, 0)
		}
		if _, err := decodePlainTable(b, 100, 100, c.overlap); (err == nil) != c.ok {
			t.Errorf("%s: got %v, want accepted: %v", c.name, err, c.ok)
		}
	}
}
