package chunkindex

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/chunkindex/testing/codectest"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shards"
)

// packedStore returns a store with an index of two compressed shards. One shard has a single frame,
// the other has many.
func packedStore(t testing.TB) *memstore.Store {
	t.Helper()
	plain, _ := smallStore(t)
	a, _ := plain.Bytes("a.tar")
	b, _ := plain.Bytes("b.tar")
	store := memstore.New()
	store.Set("a.tar.gz", codectest.PackAt(codec.Gzip, a, 100, 1000, 2000))
	store.Set("b.tar.zst", codectest.PackAt(codec.Zstd, b))
	if _, err := IndexShards(t.Context(), store, "", IndexOptions{ChunkSize: 1}); err != nil {
		t.Fatal(err)
	}
	return store
}

// otherIndexes returns indexes of compressed shards, of loose objects and of token windows, which
// overlap.
func otherIndexes(t testing.TB) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	add := func(name string, store *memstore.Store, opt IndexOptions) {
		rep, err := IndexShards(t.Context(), store, "", opt)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = indexBytes(t, store, rep.Generation)
	}
	add("packed", packedStore(t), IndexOptions{ChunkSize: 1})
	loose := memstore.New()
	shards.Photos(loose, 7)
	add("loose", loose, IndexOptions{ChunkSize: 24})
	tokens := memstore.New()
	tokens.Set("a.bin", bytes.Repeat([]byte{1, 2, 3, 4}, 20))
	opt := IndexOptions{ChunkSize: 24, Format: "tokens"}
	opt.Hints.SequenceLength, opt.Hints.DType = 5, "<u2"
	add("tokens", tokens, opt)
	return all
}

// TestParseIndex_RejectsDamageInEveryKind checks that indexes of every kind are valid as written,
// and that changing any byte of these sections makes them invalid. With recomputed digests, a
// damaged index may be accepted, but reads must stay within bounds.
func TestParseIndex_RejectsDamageInEveryKind(t *testing.T) {
	for name, whole := range otherIndexes(t) {
		if err := useAll(t, fileOf(t, whole)); err != nil {
			t.Errorf("%s: got %v", name, err)
		}
		b := bytes.Clone(whole)
		f := fileOf(t, b)
		for _, sec := range []int{layout.SecChunks, layout.SecExtents, layout.SecTables, layout.SecBlocks, layout.SecNames, layout.SecParts, layout.SecDecoding} {
			from, entry := len(b)-len(section(b, sec)), segmentBytes(b)[layout.CountsSize+layout.EntrySize*sec:]
			for i := from; i < from+int(le64(entry[16:])); i++ {
				b[i] ^= 0x80
				q := bytes.Clone(b)
				for _, mended := range []bool{false, true} {
					if mended {
						fixDigests(q)
					}
					if _, err := f.WriteAt(q, 0); err != nil {
						t.Fatal(err)
					}
					if err := useAll(t, f); err == nil && !mended {
						t.Errorf("%s: byte %d: got an index", name, i)
					}
				}
				b[i] ^= 0x80
			}
		}
	}
}

// The parser rejects codec values that contradict each other, even with valid checksums.
func TestParseIndex_RejectsContradictoryCodecs(t *testing.T) {
	all := otherIndexes(t)
	for name, c := range map[string]struct {
		of     string
		change func(b []byte)
	}{
		"bytes to pass over in what is plain": {"loose", func(b []byte) { section(b, layout.SecChunks)[52] = 1 }},
		"a codec with several extents":        {"loose", func(b []byte) { section(b, layout.SecChunks)[48] = 1 }},
		"a codec to come":                     {"packed", func(b []byte) { section(b, layout.SecChunks)[48] = 99 }},
		"a gibibyte to pass over":             {"packed", func(b []byte) { binary.LittleEndian.PutUint32(section(b, layout.SecChunks)[52:], codec.MaxFrame) }},
		"compressed, and yet of its length":   {"packed", func(b []byte) { section(b, layout.SecChunks)[48] = 0 }},
		"bytes that no sample shares":         {"tokens", func(b []byte) { replaceIn(b, `"overlap":2`, `"overlap":1`) }},
		"an overlap beyond bounds":            {"tokens", func(b []byte) { replaceIn(b, `"overlap":2`, `"overlap":-`) }},
	} {
		b := bytes.Clone(all[c.of])
		c.change(b)
		fixDigests(b)
		if err := useAll(t, fileOf(t, b)); err == nil {
			t.Errorf("%s: got an index", name)
		}
	}
}

func replaceIn(b []byte, old, new string) { copy(b[bytes.Index(b, []byte(old)):], new) }

// TestMayHold_AllowsOnlyTheOverlap checks that the samples may exceed the bytes of their chunks by
// at most the overlap.
func TestMayHold_AllowsOnlyTheOverlap(t *testing.T) {
	x, h := &Index{meta: layout.Meta{Overlap: 4}}, &layout.Header{Totals: layout.Totals{Samples: 3}}
	for bytes, want := range map[int64]bool{100: true, 112: true, 113: false, 1 << 62: false} {
		if h.Bytes = bytes; x.mayHold(h, 100) != want {
			t.Errorf("%d bytes in 100: got %v, want %v", bytes, !want, want)
		}
	}
	if x.meta.Overlap, h.Bytes = 0, 101; x.mayHold(h, 100) {
		t.Error("got more bytes than the chunks hold")
	}
}

// If a compressed chunk fails to decode, or decodes to other bytes, Verify reports one bad range:
// the chunk's stored bytes.
func TestVerify_CompressedShards(t *testing.T) {
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
				x.shards[i].ETag = obj.ETag // the store returns damaged bytes under the indexed ETag
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
