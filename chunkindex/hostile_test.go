package chunkindex

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/rows"
	"github.com/millrace-data/millrace/internal/objstore"
)

// written is the index of some shards, written and not yet opened.
func written(t *testing.T, shards ...shardScan) *built {
	t.Helper()
	b, err := writeIndex(t.TempDir(), meta{Format: "tar", Scanner: 1, ChunkSize: 8 << 20, Defaults: Defaults{Shuffle: "slot", Window: 128, BatchSize: 256, Tail: "short"}}, shards)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// manyChunks is a shard that was never there: chunks of two samples.
type manyChunks int

func (n manyChunks) take(visit func(*chunkRecord) error) error { return n.each(visit) }

func (n manyChunks) totals() (t totals) {
	_ = n.each(func(r *chunkRecord) error { t.add(r); return nil })
	return t
}

func (n manyChunks) each(visit func(*chunkRecord) error) error {
	var r chunkRecord
	var plain plainBlocks
	for i := range int(n) {
		r.reset()
		r.length, r.samples = 2048, 2
		r.crc, r.digest[0] = uint32(i), byte(i)
		r.extents = append(r.extents, Extent{Offset: int64(i) * 2048, Length: 2048})
		plain.reset()
		for j := range 2 {
			plain.table = binary.LittleEndian.AppendUint32(plain.table, uint32(j)*1024)
			plain.table = binary.LittleEndian.AppendUint32(plain.table, 1024)
			plain.table = binary.LittleEndian.AppendUint32(plain.table, 7)
			key := fmt.Sprintf("sample/%d/%d", i, j)
			plain.names = append(binary.AppendUvarint(plain.names, uint64(len(key))), key...)
			plain.parts = appendPart(append(plain.parts, 1), Part{Ext: "bin", Offset: 512, Length: 512})
		}
		if err := r.encode(&plain, 0, "a.tar", 0); err != nil {
			return err
		}
		if err := visit(&r); err != nil {
			return err
		}
	}
	return nil
}

func put64(b []byte, v uint64) { binary.LittleEndian.PutUint64(b, v) }

// An index whose numbers contradict each other is refused though all its checksums are right.
func TestContradictionsAreRefused(t *testing.T) {
	small := smallIndex(t)
	section := func(b []byte, sec int) []byte { return b[le64(b[64+24*sec+8:]):] }
	const bytesAt, longestAt = 48, 56
	for name, change := range map[string]func(b []byte){
		"more bytes than the chunks hold": func(b []byte) { put64(b[bytesAt:], 1<<20); put64(b[longestAt:], 1<<20/2) },
		"one byte too many": func(b []byte) {
			put64(b[bytesAt:], le32(section(b, secChunks)[40:])+le32(section(b, secChunks)[40+chunkSize:])+1)
		},
		"fewer bytes than samples":          func(b []byte) { put64(b[bytesAt:], 2); put64(b[longestAt:], 1) },
		"more bytes than samples can be":    func(b []byte) { put64(b[longestAt:], le64(b[bytesAt:])/3-1) },
		"longest longer than any chunk":     func(b []byte) { put64(b[longestAt:], le64(b[bytesAt:])) },
		"bytes beyond 63 bits":              func(b []byte) { put64(b[bytesAt:], 1<<63) },
		"more samples than bytes":           func(b []byte) { binary.LittleEndian.PutUint32(section(b, secChunks)[36:], 1<<20) },
		"chunk of 2^32 samples":             func(b []byte) { copy(section(b, secChunks)[36:], "\xff\xff\xff\xff") },
		"chunk of 2^32 extents":             func(b []byte) { copy(section(b, secChunks)[44:], "\xff\xff\xff\xff") },
		"chunk of 2^32 bytes":               func(b []byte) { copy(section(b, secChunks)[40:], "\xff\xff\xff\xff") },
		"extent in a shard that is missing": func(b []byte) { section(b, secExtents)[0] = 2 },
		"extent that wraps":                 func(b []byte) { put64(section(b, secExtents)[4:], 1<<64-512) },
		"a stem longer than the key":        func(b []byte) { section(b, secShards)[10] = 9 },
		"a sample without a row":            func(b []byte) { put64(b[countsSize+entrySize*secTables+16:], 11) },
		"shard key with an empty element":   func(b []byte) { copy(section(b, secShards)[12:], "/.tar") },
	} {
		b := bytes.Clone(small)
		change(b)
		remend(b)
		var err error
		got := allocated(func() { _, err = parseAny(fileOf(t, b), int64(len(b))) })
		if err == nil || got > 1<<20 {
			t.Errorf("%s: got %v after %d bytes allocated", name, err, got)
		}
	}
}

// A chunk of n bytes has n samples at most.
func TestSamplesOfNoLength(t *testing.T) {
	for samples, want := range map[uint64]error{10: nil, 11: errMalformed} {
		x := &Index{head: header{totals: totals{chunks: 1, extents: 1, samples: samples, bytes: 10, longest: 1}}}
		b := make([]byte, chunkSize)
		binary.LittleEndian.PutUint32(b[36:], uint32(samples))
		b[40], b[44] = 10, 1
		if err := x.readChunks(newSectionReader(bytes.NewReader(b), section{length: chunkSize})); !errors.Is(err, want) {
			t.Errorf("%d samples in 10 bytes: got %v, want %v", samples, err, want)
		}
	}
}

func TestShardKeys(t *testing.T) {
	for key, ok := range map[string]bool{
		"a.tar": true, "deep/down/a.tar": true, "grün.tar": true, "a..tar": true, ".tar": true, "line\nbreak.tar": true,
		"": false, "/a.tar": false, "../a.tar": false, "a/../../b.tar": false, "./a.tar": false, "a//b.tar": false, "a\x00.tar": false,
		".millrace/a.tar": false, "deep/.millrace/a.tar": false, "a.tar/": false, "\xff.tar": false,
	} {
		if err := checkShardKey(key); (err == nil) != ok {
			t.Errorf("%q: got %v, want a shard's key: %v", key, err, ok)
		}
	}
}

// A look-up among keys that all have one hash ends soon.
func TestSameHashesEverywhere(t *testing.T) {
	n := 300
	b := written(t, shardScan{key: "a.tar", size: int64(n) * 2048, scan: manyChunks(n)})
	index := make([]byte, b.size)
	if _, err := b.file.ReadAt(index, 0); err != nil {
		t.Fatal(err)
	}
	hashes := index[le64(index[countsSize+entrySize*secHash+8:]):]
	for sample := range 2 * n {
		put64(hashes[pageSize*(sample/pageRecords)+16*(sample%pageRecords):], hashKey([]byte("wanted")))
		put64(hashes[pageSize*(sample/pageRecords)+16*(sample%pageRecords)+8:], uint64(sample))
	}
	remend(index)
	x, err := parseAny(fileOf(t, index), b.size)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if _, ok, err := x.Lookup(t.Context(), "wanted", ""); ok || !errors.Is(err, errMalformed) {
		t.Errorf("got %v, %v, want %v", ok, err, errMalformed)
	}
}

func TestPartsAscend(t *testing.T) {
	block := func(parts ...Part) []byte {
		b := []byte{byte(len(parts))}
		for _, p := range parts {
			b = appendPart(b, p)
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
		if _, err := decodePlainParts(c.block, []uint32{100}); (err == nil) != c.ok {
			t.Errorf("%s: got %v, want accepted: %v", name, err, c.ok)
		}
	}
}

// What lies between two samples is held until the second one's chunk is known, but not without an end.
func TestLongGapClosesTheChunk(t *testing.T) {
	for _, piece := range []int{1 << 20, 3 << 20} {
		var lengths []int64
		c := newCutter(maxChunkSize, func(r *chunkRecord) error { lengths = append(lengths, r.length); return nil })
		sample := func(key string) {
			s := &format.Sample{Key: key}
			if err := errors.Join(c.Data(s, make([]byte, 512)), c.End(s)); err != nil {
				t.Fatal(err)
			}
		}
		gap := func(n int) {
			for ; n > 0; n -= piece {
				if err := c.Gap(make([]byte, min(n, piece))); err != nil {
					t.Fatal(err)
				}
			}
		}
		sample("a")
		gap(maxHold - 1<<20)
		sample("b")
		gap(maxHold + 1)
		sample("c")
		gap(maxHold + 1)
		if err := c.finish(); err != nil {
			t.Fatal(err)
		}
		if want := []int64{maxHold - 1<<20 + 1024, 512}; fmt.Sprint(lengths) != fmt.Sprint(want) || max(cap(c.hold), cap(c.gap)) > 3*maxHold/2 {
			t.Errorf("in pieces of %d: got chunks of %v and %d bytes held, want %v", piece, lengths, max(cap(c.hold), cap(c.gap)), want)
		}
	}
}

// described is a shard of one frame, whose chunks have parameters of a length.
type described int

func (d described) At(int64) (codec.Frame, bool) {
	return codec.Frame{StoredEnd: 1, DecodedEnd: 1 << 20}, true
}
func (d described) Keep(int64, [4]int64)                       {}
func (d described) Params(int64, int64) ([]byte, []rows.Range) { return make([]byte, d), nil }

// An index holds what decoding a chunk needs beside its stored bytes up to a limit, which a scan finds before the index is written.
func TestParametersThatAreTooLong(t *testing.T) {
	for params, refused := range map[int]bool{maxTable: false, maxTable + 1: true} {
		c := newCutter(1<<20, func(*chunkRecord) error { return nil })
		c.codec, c.frames = codec.Arrow, described(params)
		s := &format.Sample{Key: "a"}
		err := errors.Join(c.Data(s, make([]byte, 10)), c.End(s), c.finish())
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "choose a smaller --chunk-size, or write the file again in smaller record batches") {
			t.Errorf("%d bytes of parameters: got %v", params, err)
		}
	}
}

func TestSampleThatIsTooLong(t *testing.T) {
	c := newCutter(1<<20, func(*chunkRecord) error { return nil })
	s := &format.Sample{Key: "many members"}
	if err := c.Data(s, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	s.Ahead = format.MaxSample - 1000
	if err := c.Data(s, nil); err != nil {
		t.Errorf("the longest: got %v", err)
	}
	s.Ahead++
	var where *format.Error
	if err := c.Data(s, nil); !errors.As(err, &where) || where.Name != "many members" {
		t.Errorf("one byte longer: got %v, want one that names the sample", err)
	}
}

// Every prefix and every bit flip of a pointer or a binding gives an error, or what was there.
func TestDamagedPointerAndBinding(t *testing.T) {
	store, rep := smallStore(t)
	each := func(key string) {
		whole, _ := store.Bytes(key)
		whole = bytes.Clone(whole)
		try := func(what string, b []byte) {
			t.Helper()
			store.Set(key, b)
			x, err := Open(t.Context(), store, "", OpenOptions{})
			if err != nil {
				if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) && !errors.Is(err, objstore.ErrNotFound) {
					t.Errorf("%s, %s: got %v", key, what, err)
				}
				return
			}
			defer x.Close()
			if x.Generation() != rep.Generation || x.Shard(0).ETag == "" {
				t.Errorf("%s, %s: got generation %s", key, what, x.Generation())
			}
			if strings.HasPrefix(key, bindingDir) {
				t.Errorf("%s, %s: got an index", key, what)
			}
		}
		for n := range whole {
			try(fmt.Sprintf("%d bytes", n), bytes.Clone(whole[:n]))
			for bit := range 8 {
				b := bytes.Clone(whole)
				b[n] ^= 1 << bit
				try(fmt.Sprintf("bit %d of byte %d", bit, n), b)
			}
		}
		store.Set(key, whole)
	}
	each(pointerKey)
	for _, k := range store.Keys() {
		if strings.HasPrefix(k, bindingDir) {
			each(k)
		}
	}
}

// A binding that is larger than any for so few shards is not read into memory.
func TestHugeBinding(t *testing.T) {
	store, rep := smallStore(t)
	text, _ := store.Bytes(pointerKey)
	var p pointer
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	store.Set(bindingObject("", rep.Generation, p.Binding), make([]byte, 32<<20))
	got := allocated(func() {
		if _, err := Open(t.Context(), store, "", OpenOptions{}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("got %v, want %v", err, ErrCorrupt)
		}
	})
	if got > 4<<20 {
		t.Errorf("got %d bytes allocated", got)
	}
}
