package chunkindex

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// Extents may share what the overlap, or a frame at a border, allows, and no byte more.
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
		order := extentOrder{overlap: c.overlap, shards: func(i int) (string, int64, bool) { return "", 100, i < 2 }}
		var err error
		for _, ch := range c.chunks {
			for _, e := range ch.extents {
				if err == nil {
					err = order.next(e, ch.length, ch.codec)
				}
			}
			if err == nil {
				err = order.endChunk()
			}
		}
		if (err == nil) != c.ok || err != nil && !errors.Is(err, errMalformed) {
			t.Errorf("%s: got %v, want accepted: %v", name, err, c.ok)
		}
	}
}

func TestTableOfSamplesThatShareBytes(t *testing.T) {
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

// packedStore holds an index of two compressed shards, of one frame and of many.
func packedStore(t testing.TB) *memstore.Store {
	t.Helper()
	plain, _ := smallStore(t)
	a, _ := plain.Bytes("a.tar")
	b, _ := plain.Bytes("b.tar")
	store := memstore.New()
	store.Set("a.tar.gz", packFrames(codec.Gzip, a, 100, 1000, 2000))
	store.Set("b.tar.zst", packFrames(codec.Zstd, b))
	if _, err := Build(t.Context(), store, "", BuildOptions{ChunkSize: 1}); err != nil {
		t.Fatal(err)
	}
	return store
}

// otherIndexes are those of compressed shards, of loose objects and of tokens that windows share.
func otherIndexes(t testing.TB) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	add := func(name string, store *memstore.Store, opt BuildOptions) {
		rep, err := Build(t.Context(), store, "", opt)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := store.Bytes(indexObject("", rep.Generation))
		all[name] = bytes.Clone(b)
	}
	add("packed", packedStore(t), BuildOptions{ChunkSize: 1})
	loose := memstore.New()
	photos(loose, 7)
	add("loose", loose, BuildOptions{ChunkSize: 24})
	tokens := memstore.New()
	tokens.Set("a.bin", bytes.Repeat([]byte{1, 2, 3, 4}, 20))
	opt := BuildOptions{ChunkSize: 24, Format: "tokens"}
	opt.Hints.SequenceLength, opt.Hints.DType = 5, "<u2"
	add("tokens", tokens, opt)
	return all
}

// Indexes of every kind are whole as they are, and refused with any byte of what stays in memory changed. Where their digests were made right
// again they may be anything, but never more than they say.
func TestOtherIndexesDamaged(t *testing.T) {
	for name, whole := range otherIndexes(t) {
		if err := useAll(fileOf(t, whole), int64(len(whole))); err != nil {
			t.Errorf("%s: got %v", name, err)
		}
		b := bytes.Clone(whole)
		f := fileOf(t, b)
		for _, sec := range []int{secChunks, secExtents, secTables, secBlocks, secNames, secParts, secDecoding} {
			from := int(le64(b[64+24*sec+8:]))
			for i := from; i < from+int(le64(b[64+24*sec+16:])); i++ {
				b[i] ^= 0x80
				q := bytes.Clone(b)
				for _, mended := range []bool{false, true} {
					if mended {
						remend(q)
					}
					if _, err := f.WriteAt(q, 0); err != nil {
						t.Fatal(err)
					}
					if err := useAll(f, int64(len(q))); err == nil && !mended {
						t.Errorf("%s: byte %d: got an index", name, i)
					}
				}
				b[i] ^= 0x80
			}
		}
	}
}

// A chunk's codec allows what it can have and nothing else, though all checksums are right.
func TestCodecsThatContradict(t *testing.T) {
	all := otherIndexes(t)
	section := func(b []byte, sec int) []byte { return b[le64(b[64+24*sec+8:]):] }
	for name, c := range map[string]struct {
		of     string
		change func(b []byte)
	}{
		"bytes to pass over in what is plain": {"loose", func(b []byte) { section(b, secChunks)[52] = 1 }},
		"a codec with several extents":        {"loose", func(b []byte) { section(b, secChunks)[48] = 1 }},
		"a codec to come":                     {"packed", func(b []byte) { section(b, secChunks)[48] = 99 }},
		"a gibibyte to pass over":             {"packed", func(b []byte) { binary.LittleEndian.PutUint32(section(b, secChunks)[52:], codec.MaxFrame) }},
		"compressed, and yet of its length":   {"packed", func(b []byte) { section(b, secChunks)[48] = 0 }},
		"bytes that no sample shares":         {"tokens", func(b []byte) { replaceIn(b, `"overlap":2`, `"overlap":1`) }},
		"an overlap beyond bounds":            {"tokens", func(b []byte) { replaceIn(b, `"overlap":2`, `"overlap":-`) }},
	} {
		b := bytes.Clone(all[c.of])
		c.change(b)
		remend(b)
		if err := useAll(fileOf(t, b), int64(len(b))); err == nil {
			t.Errorf("%s: got an index", name)
		}
	}
}

func replaceIn(b []byte, old, new string) { copy(b[bytes.Index(b, []byte(old)):], new) }

// Samples that share bytes may be longer together than their chunks, by what they share and no more.
func TestBytesOfSamplesThatShare(t *testing.T) {
	x := &Index{head: header{totals: totals{samples: 3}}, meta: meta{Overlap: 4}}
	for bytes, want := range map[int64]bool{100: true, 112: true, 113: false, 1 << 62: false} {
		if x.head.bytes = bytes; x.mayHold(100) != want {
			t.Errorf("%d bytes in 100: got %v, want %v", bytes, !want, want)
		}
	}
	if x.meta.Overlap, x.head.bytes = 0, 101; x.mayHold(100) {
		t.Error("got more bytes than the chunks hold")
	}
}

// A compressed chunk that does not decode, or decodes to something else, is one bad range, by the bytes that are stored.
func TestVerifyOfCompressedShards(t *testing.T) {
	for name, body := range map[string]func(b []byte) []byte{
		"a flipped bit": func(b []byte) []byte { b[len(b)/2] ^= 4; return b },
		"other samples": func([]byte) []byte { return nil },
		"half of it":    func(b []byte) []byte { return b[:len(b)/2] },
	} {
		store := packedStore(t)
		x, err := Open(t.Context(), store, "", OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		whole, _ := store.Bytes("b.tar.zst")
		changed := body(bytes.Clone(whole))
		if changed == nil {
			z, _ := store.Bytes("a.tar.gz")
			changed = append(bytes.Clone(z), make([]byte, len(whole))...)[:len(whole)]
		}
		for i := range x.shards {
			if x.shards[i].Key == "b.tar.zst" {
				store.Set("b.tar.zst", changed)
				obj, err := store.Stat(t.Context(), "b.tar.zst")
				if err != nil {
					t.Fatal(err)
				}
				x.shards[i].ETag = obj.ETag // as a store that damages what it keeps
			}
		}
		var bad []BadRange
		err = Verify(t.Context(), x, store, "", 2, nil, func(b BadRange) { bad = append(bad, b) })
		if err != nil || len(bad) == 0 || bad[0].Shard != "b.tar.zst" || bad[0].Offset != 0 || bad[0].Length > int64(len(whole)) {
			t.Errorf("%s: got %+v, %v", name, bad, err)
		}
		x.Close()
	}
}
