package peer

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/shuffle"
)

// goldenQuery returns a query with a value in every field.
func goldenQuery() *Query {
	q := &Query{
		Dataset: "images", Generation: "5fb8",
		Chunks: []ChunkQuery{
			{Chunk: 3, Ranges: []Range{{Offset: 512, Length: 110_000}, {Offset: 0, Length: 127}}},
			{Chunk: 70_000, Ranges: []Range{{Offset: math.MaxUint32 - 1, Length: 1}}},
		},
		Reader: &Reader{
			Params: shuffle.Params{Shuffle: shuffle.Window, Window: 64, Strata: 8, Seed: math.MaxUint64, Importance: "ab12"},
			Epoch:  2,
			Cursor: shuffle.Cursor{
				First: 4096, End: 8192, BatchSize: 512, Rank: 3, WorldSize: 8, Homes: 4,
				Sharing: shuffle.Locality, Dealt: true, Tail: shuffle.Pad,
			},
			Think: 1500 * time.Microsecond,
		},
	}
	for i := range q.Chunks[0].Digest {
		q.Chunks[0].Digest[i], q.Chunks[1].Digest[i] = byte(i), byte(255-i)
	}
	return q
}

// TestQueryIsWrittenAsPublished compares with bytes that another program has produced
// (testdata/query.hex). Gateways of two releases share this format.
func TestQueryIsWrittenAsPublished(t *testing.T) {
	text, err := os.ReadFile("testdata/query.hex")
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	got, err := goldenQuery().AppendBinary([]byte("before"))
	if err != nil {
		t.Fatal(err)
	}
	if got = got[len("before"):]; !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
	q, err := ParseQuery(want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(goldenQuery(), q); diff != "" {
		t.Errorf("query read (-want +got):\n%s", diff)
	}
}

func name(most int) *rapid.Generator[string] {
	return rapid.StringOfN(rapid.RuneFrom([]rune("abz019-_/.é€")), 1, most, maxNameBytes)
}

func drawQuery(t *rapid.T) *Query {
	q := &Query{Dataset: name(60).Draw(t, "dataset"), Generation: name(60).Draw(t, "generation")}
	q.Cached = rapid.Bool().Draw(t, "cached")
	chunks := 1
	if !q.Cached {
		chunks = rapid.IntRange(1, 20).Draw(t, "chunks")
	}
	number := -1
	for range chunks {
		number += rapid.IntRange(1, 1<<24).Draw(t, "gap")
		c := ChunkQuery{Chunk: number}
		copy(c.Digest[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "digest"))
		for range rapid.IntRange(1, 5).Draw(t, "ranges") {
			r := Range{Offset: rapid.Uint32().Draw(t, "offset")}
			r.Length = rapid.Uint32Range(0, math.MaxUint32-r.Offset).Draw(t, "length")
			c.Ranges = append(c.Ranges, r)
		}
		q.Chunks = append(q.Chunks, c)
	}
	if rapid.Bool().Draw(t, "reader") {
		q.Reader = drawReader(t)
	}
	return q
}

func drawReader(t *rapid.T) *Reader {
	r := &Reader{Epoch: rapid.Uint64().Draw(t, "epoch")}
	r.Dealt = rapid.Bool().Draw(t, "dealt")
	r.Params = shuffle.Params{
		Shuffle: name(9).Draw(t, "shuffle"), Window: rapid.Uint64().Draw(t, "window"), Strata: rapid.Uint64().Draw(t, "strata"),
		Seed: rapid.Uint64().Draw(t, "seed"), Importance: rapid.SampledFrom([]string{"", "00ff"}).Draw(t, "importance"),
		Subset: rapid.SampledFrom([]string{"", "00ff:train", strings.Repeat("7", maxSubset)}).Draw(t, "subset"),
	}
	r.End = rapid.Uint64Range(0, math.MaxInt64).Draw(t, "end")
	r.First = rapid.Uint64Range(0, r.End).Draw(t, "first")
	r.BatchSize = rapid.OneOf(rapid.Uint64Range(0, math.MaxInt64), rapid.Uint64Range(1, 100)).Draw(t, "batch size")
	if size := r.BatchSize; size > 0 && size <= shuffle.MaxBlock {
		r.Block = size * rapid.Uint64Range(0, shuffle.MaxBlock/size).Draw(t, "batches of a block")
	}
	r.WorldSize = rapid.Uint64Range(0, math.MaxInt64).Draw(t, "world size")
	r.Rank = rapid.Uint64Range(0, max(r.WorldSize, 1)-1).Draw(t, "rank")
	r.Homes = rapid.Uint64Range(0, max(r.WorldSize, 1)).Draw(t, "homes")
	r.Sharing = rapid.SampledFrom([]shuffle.Sharing{shuffle.Contiguous, shuffle.Locality}).Draw(t, "sharing")
	r.Tail = rapid.SampledFrom([]shuffle.Tail{"", shuffle.Short, shuffle.Drop, shuffle.Pad}).Draw(t, "tail")
	r.Think = time.Duration(rapid.Int64Range(0, int64(maxThink/time.Microsecond)).Draw(t, "think")) * time.Microsecond
	return r
}

func TestQuery_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawQuery(t)
		text, err := want.AppendBinary(nil)
		if err != nil {
			t.Fatalf("write %+v: %v", want, err)
		}
		got, err := ParseQuery(text)
		if err != nil {
			t.Fatalf("read %x: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("query (-want +got):\n%s", diff)
		}
	})
}

// TestDamagedQueriesAreRefused flips each bit, tries each prefix, and appends a byte. The checksum
// or the length detects every change.
func TestDamagedQueriesAreRefused(t *testing.T) {
	good, err := goldenQuery().AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(good) * 8 {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		if q, err := ParseQuery(bad); !errors.Is(err, errQuery) {
			t.Fatalf("bit %d flipped: got %+v and %v, want %v", bit, q, err, errQuery)
		}
	}
	for n := range good {
		if q, err := ParseQuery(good[:n]); !errors.Is(err, errQuery) {
			t.Fatalf("the first %d bytes: got %+v and %v, want %v", n, q, err, errQuery)
		}
	}
	if q, err := ParseQuery(append(bytes.Clone(good), 0)); !errors.Is(err, errQuery) {
		t.Errorf("a byte too many: got %+v and %v, want %v", q, err, errQuery)
	}
}

// seal appends the correct checksum to a hostile text, as a deliberate attacker can.
func seal(text []byte) []byte {
	sum := crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli))
	return append(text, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
}

// wire builds the binary form of a query by hand, with the right checksum. chunks is the number of
// chunks that the form announces.
func wire(magic, head string, chunks uint32, rest string) []byte {
	b := append([]byte(magic), 0, 0, 0, 0, 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(b[len(magic):], uint32(len(head)))
	binary.LittleEndian.PutUint32(b[len(magic)+4:], chunks)
	return seal(append(append(b, head...), rest...))
}

// numbers returns the binary form of numbers.
func numbers(all ...uint32) (text string) {
	for _, n := range all {
		text += string(binary.LittleEndian.AppendUint32(nil, n))
	}
	return text
}

func TestHostileQueriesAreRefused(t *testing.T) {
	const head = `{"Dataset":"d","Generation":"g"}`
	digest := strings.Repeat("\x07", 32)
	row := func(chunk, ranges uint32) string { return numbers(chunk, ranges) + digest }
	one, piece := row(5, 1), numbers(0, 9)
	if _, err := ParseQuery(wire(queryMagic, head, 1, one+piece)); err != nil {
		t.Fatalf("the good query: %v", err)
	}
	for _, c := range []struct {
		name   string
		head   string
		chunks uint32
		rest   string
	}{
		{"a head that is no JSON", "{", 1, one + piece},
		{"a head that is too long", head + strings.Repeat(" ", maxHeadBytes), 1, one + piece},
		{"no dataset", `{"Generation":"g"}`, 1, one + piece},
		{"no generation", `{"Dataset":"d"}`, 1, one + piece},
		{"a name of 256 bytes", `{"Dataset":"` + strings.Repeat("d", 256) + `","Generation":"g"}`, 1, one + piece},
		{"a line break in a name", `{"Dataset":"\n","Generation":"g"}`, 1, one + piece},
		{"a number beyond 64 bits", `{"Dataset":"d","Generation":"g","Reader":{"Epoch":18446744073709551616}}`, 1, one + piece},
		{"a rank outside", `{"Dataset":"d","Generation":"g","Reader":{"Rank":8,"WorldSize":8}}`, 1, one + piece},
		{"no chunks", head, 0, ""},
		{"ranges of no chunk", head, 0, piece},
		{"more chunks than bytes", head, 2, one + piece},
		{"chunks beyond all", head, math.MaxUint32, one + piece},
		{"more ranges than chunks have", head, 1, one + piece + piece},
		{"fewer ranges than chunks have", head, 1, row(5, 2) + piece},
		{"ranges beyond all", head, 1, row(5, math.MaxUint32) + piece},
		{"half a range", head, 1, one + piece + piece[:4]},
		{"nothing of a chunk", head, 1, row(5, 0)},
		{"a chunk twice", head, 2, one + one + piece + piece},
		{"chunks out of order", head, 2, row(5, 1) + row(4, 1) + piece + piece},
		{"a chunk beyond all", head, 1, row(math.MaxUint32, 1) + piece},
		{"a range that ends beyond 4 GiB", head, 1, one + numbers(math.MaxUint32, 1)},
		{"two chunks and nothing to be loaded", `{"Dataset":"d","Generation":"g","Cached":true}`, 2, row(5, 1) + row(6, 1) + piece + piece},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if q, err := ParseQuery(wire(queryMagic, c.head, c.chunks, c.rest)); err == nil {
			t.Errorf("%s: got %+v, want an error", c.name, q)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("%s: got %d bytes of memory for it, want at most 1 MiB", c.name, got)
		}
	}
	if q, err := ParseQuery(wire("MRQ\x03", head, 1, one+piece)); !errors.Is(err, errQuery) {
		t.Errorf("a form to come: got %+v and %v, want %v", q, err, errQuery)
	}
}

func TestQuery_RefusesInvalid(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Query)
	}{
		{"no chunks", func(q *Query) { q.Chunks = nil }},
		{"a negative chunk", func(q *Query) { q.Chunks[0].Chunk = -1 }},
		{"a chunk twice", func(q *Query) { q.Chunks[1].Chunk = 3 }},
		{"chunks out of order", func(q *Query) { q.Chunks[1].Chunk = 2 }},
		{"no ranges", func(q *Query) { q.Chunks[1].Ranges = nil }},
		{"two chunks that are not to be loaded", func(q *Query) { q.Cached = true }},
		{"a long name", func(q *Query) { q.Dataset = strings.Repeat("d", 256) }},
		{"a control character", func(q *Query) { q.Generation = "a\x00" }},
		{"a rank outside", func(q *Query) { q.Reader.Rank = 8 }},
		{"positions the wrong way round", func(q *Query) { q.Reader.First = 9000 }},
		{"time running backwards", func(q *Query) { q.Reader.Think = -1 }},
		{"a range that ends beyond 4 GiB", func(q *Query) { q.Chunks[1].Ranges[0].Length = 2 }},
		{"more than may be sent", func(q *Query) { q.Chunks[0].Ranges = make([]Range, maxQueryBytes/rangeBytes) }},
	} {
		q := goldenQuery()
		c.change(q)
		if b, err := q.AppendBinary(nil); err == nil {
			t.Errorf("%s: got %d bytes, want an error", c.name, len(b))
		}
	}
}

// FuzzQuery parses any bytes. An accepted query must be the same after writing and parsing it
// again.
func FuzzQuery(f *testing.F) {
	good, err := goldenQuery().AppendBinary(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good[:len(good)-checksumSize])
	f.Add(wire(queryMagic, `{"Dataset":"d","Generation":"g","Cached":true}`, 1, numbers(5, 1)+strings.Repeat("\x07", 32)+numbers(0, 9)))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = ParseQuery(text)
		q, err := ParseQuery(seal(bytes.Clone(text))) // without it no input would pass the checksum
		if err != nil {
			return
		}
		written, err := q.AppendBinary(nil)
		if err != nil {
			t.Fatalf("write the parsed query: %v", err)
		}
		again, err := ParseQuery(written)
		if err != nil {
			t.Fatalf("parse the written query: %v", err)
		}
		if diff := cmp.Diff(q, again); diff != "" {
			t.Fatalf("query (-first +again):\n%s", diff)
		}
	})
}
