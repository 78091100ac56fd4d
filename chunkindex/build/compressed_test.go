package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/chunkindex/testing/codectest"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shards"
)

// lines is a format whose samples are lines. Each line may share its first bytes with the end of
// the preceding line. Lines that begin with # are gaps.
type lines struct {
	overlap int
	says    string
	shard   string // prefix of the samples' keys
}

func (f lines) dataset(objects []format.Object) *format.Dataset {
	d := &format.Dataset{Overlap: int64(f.overlap)}
	for _, o := range objects {
		d.Shards = append(d.Shards, format.Shard{Object: o, Says: f.says})
	}
	return d
}

func (f lines) scan(in io.Reader, out format.Sink) error {
	all, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	for n, before := 0, []byte(nil); len(all) > 0; n++ {
		line := all[:bytes.IndexByte(all, '\n')+1]
		all = all[len(line):]
		if line[0] == '#' {
			if err := out.Gap(line); err != nil {
				return err
			}
			before = nil
			continue
		}
		sample := &format.Sample{Key: f.shard + fmt.Sprintf("line/%09d", n)}
		if before != nil && f.overlap > 0 {
			sample.Shared = min(f.overlap, len(before)-1)
		}
		text := append(before[len(before)-sample.Shared:len(before):len(before)], line...)
		half := text[:sample.Shared+len(line)/2]
		sample.Ahead = int64(len(text) - len(half))
		err := out.Data(sample, half)
		sample.Ahead = 0
		if err == nil {
			err = out.Data(sample, text[len(half):])
		}
		if err == nil {
			sample.Parts = []format.Part{{Ext: "txt", Length: int64(len(text)), CRC32C: crc32.Checksum(text, layout.Castagnoli())}}
			err = out.End(sample)
		}
		if err != nil {
			return err
		}
		before = line
	}
	return nil
}

// cutAll scans one shard of lines and returns the records of its chunks.
func cutAll(t fatal, f lines, c codec.Codec, stored []byte, chunk int64) []*layout.ChunkRecord {
	t.Helper()
	var all []*layout.ChunkRecord
	cut := newCutter(chunk, func(r *layout.ChunkRecord) error {
		k := *r
		k.Extents, k.Table, k.Names, k.Parts, k.Params = slices.Clone(r.Extents), bytes.Clone(r.Table), bytes.Clone(r.Names), bytes.Clone(r.Parts), bytes.Clone(r.Params)
		all = append(all, &k)
		return nil
	})
	cut.shard, cut.overlap = "lines", int64(f.overlap)
	in := io.Reader(bytes.NewReader(stored))
	if c != codec.None {
		r, err := codec.NewReader(c, in)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		in, cut.codec, cut.frames = r, c, r
	}
	if err := f.scan(in, cut); err != nil {
		t.Fatal(err)
	}
	if err := cut.finish(); err != nil {
		t.Fatal(err)
	}
	return all
}

type fatal interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// samplesOfChunks decodes chunks from their records and returns their samples. It makes the same
// checks as an index.
func samplesOfChunks(t fatal, stored []byte, overlap int64, records []*layout.ChunkRecord) []string {
	t.Helper()
	var all []string
	order := layout.ExtentOrder{Overlap: overlap, Shards: []layout.Shard{{Key: "lines", Size: int64(len(stored))}}}
	reads := map[int64]int{}
	for n, r := range records {
		if err := r.Check(&order); err != nil {
			t.Fatalf("chunk %d: %v", n, err)
		}
		e := r.Extents[0]
		b := make([]byte, r.Length)
		if r.Codec == codec.None {
			copy(b, stored[e.Offset:e.Offset+e.Length])
		} else if err := codec.Decode(r.Codec, r.Params, stored[e.Offset:e.Offset+e.Length], r.Skip, b); err != nil {
			t.Fatalf("chunk %d: %v", n, err)
		}
		if sha256.Sum256(b) != r.Digest || crc32.Checksum(b, layout.Castagnoli()) != r.CRC {
			t.Fatalf("chunk %d: digests differ", n)
		}
		for off := e.Offset; r.Codec != codec.None && off < e.Offset+e.Length; off++ {
			if reads[off]++; reads[off] > 2 {
				t.Fatalf("byte %d is read for a third chunk", off)
			}
		}
		table, err := layout.DecodeTable(r.Table, r.Samples, r.Length, layout.MaxChunkSize, overlap)
		if err != nil {
			t.Fatal(err)
		}
		for i := range table.Len() {
			off := table.Offset(i)
			s := b[off : off+table.Length(i)]
			if crc32.Checksum(s, layout.Castagnoli()) != table.CRC32C(i) {
				t.Fatalf("chunk %d: sample %d differs", n, i)
			}
			all = append(all, string(s))
		}
	}
	return all
}

// TestCutter_AnyFramesGiveTheSameSamples checks that a compressed shard has the same samples as the
// uncompressed shard, however it is divided into frames.
func TestCutter_AnyFramesGiveTheSameSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		f := lines{overlap: rapid.SampledFrom([]int{0, 0, 1, 5, 40}).Draw(t, "overlap")}
		var data []byte
		var want []string
		before := ""
		for range rapid.IntRange(1, 120).Draw(t, "lines") {
			line := strings.Repeat(string(rune('a'+r.IntN(26))), 1+r.IntN(90)) + "\n"
			if r.IntN(8) == 0 {
				line, before = "#"+line, ""
			} else {
				want = append(want, before[len(before)-min(f.overlap, max(0, len(before)-1)):]+line)
				before = line
			}
			data = append(data, line...)
		}
		chunk := rapid.Int64Range(1, 1500).Draw(t, "chunk")
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(data)), 0, 60).Draw(t, "cuts")
		for _, c := range append(codectest.Codecs(), codec.None) {
			stored := data
			if c != codec.None {
				stored = codectest.PackAt(c, data, cuts...)
			}
			records := cutAll(t, f, c, stored, chunk)
			if got := samplesOfChunks(t, stored, int64(f.overlap), records); !slices.Equal(got, want) {
				t.Fatalf("%v: got %q, want %q", c, got, want)
			}
			if c != codec.None && len(cuts) == 0 && len(records) != min(1, len(want)) {
				t.Fatalf("%v: got %d chunks of one frame", c, len(records))
			}
			again := cutAll(t, f, c, stored, chunk)
			for i := range records {
				if records[i].Digest != again[i].Digest || records[i].Extents[0] != again[i].Extents[0] {
					t.Fatalf("%v: chunk %d: got other ones the second time", c, i)
				}
			}
		}
	})
}

// TestCutter_FramesAtEverySample checks that frames that end with lines produce the same chunks as
// the uncompressed shard.
func TestCutter_FramesAtEverySample(t *testing.T) {
	var data []byte
	var cuts []int
	for i := range 200 {
		data = append(data, strings.Repeat("x", i)+"\n"...)
		cuts = append(cuts, len(data))
	}
	plain := cutAll(t, lines{}, codec.None, data, 1000)
	for _, c := range codectest.Codecs() {
		packed := cutAll(t, lines{}, c, codectest.PackAt(c, data, cuts...), 1000)
		if len(packed) != len(plain) {
			t.Fatalf("%v: got %d chunks, want %d", c, len(packed), len(plain))
		}
		for i := range plain {
			if packed[i].Digest != plain[i].Digest || packed[i].Skip != 0 {
				t.Errorf("%v: chunk %d: got %d bytes after %d, want %d", c, i, packed[i].Length, packed[i].Skip, plain[i].Length)
			}
		}
	}
}

// TestRun_CompressedShards checks that an index of compressed shards has the same samples as an
// index of the uncompressed shards, and that its chunks can be decoded.
func TestRun_CompressedShards(t *testing.T) {
	store, want := indexedTars(t)
	for name, pack := range map[string]func(b []byte) ([]byte, string){
		"gzip":     func(b []byte) ([]byte, string) { return codectest.PackAt(codec.Gzip, b), ".tar.gz" },
		"tgz":      func(b []byte) ([]byte, string) { return codectest.PackAt(codec.Gzip, b, 300, 1100), ".tgz" },
		"zstd":     func(b []byte) ([]byte, string) { return codectest.PackAt(codec.Zstd, b), ".tar.zst" },
		"seekable": func(b []byte) ([]byte, string) { return seekable(b, 256), ".tar.zstd" },
		"every one": func(b []byte) ([]byte, string) {
			return codectest.PackAt(codec.Gzip, b, 0, 0, 512, 1024, 1024, 2048), ".tar.gz"
		},
	} {
		packed := memstore.New()
		for _, shard := range []string{"a", "b"} {
			b, _ := store.Bytes(shard + ".tar")
			body, suffix := pack(b)
			packed.Set(shard+suffix, body)
		}
		rep, err := Run(t.Context(), packed, "", Options{})
		if err != nil || rep.Samples != want.Samples || rep.Format != "tar" {
			t.Fatalf("%s: got %+v, %v", name, rep, err)
		}
		x, err := chunkindex.Open(t.Context(), packed, "", chunkindex.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		plain, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		checkChunks(t, packed, x)
		if x.Bytes() != plain.Bytes() || x.MaxSample() != plain.MaxSample() || x.Native() != "tar" {
			t.Errorf("%s: got %d bytes, want %d", name, x.Bytes(), plain.Bytes())
		}
		for s := range x.Samples() {
			got, err1 := x.Key(t.Context(), s)
			key, err2 := plain.Key(t.Context(), s)
			if got != key || err1 != nil || err2 != nil {
				t.Errorf("%s: sample %d: got %q, %v, want %q, %v", name, s, got, err1, key, err2)
			}
		}
		var bad []chunkindex.BadRange
		if err := chunkindex.Verify(t.Context(), x, packed, "", 2, nil, func(b chunkindex.BadRange) { bad = append(bad, b) }); err != nil || len(bad) > 0 {
			t.Errorf("%s: verify: got %v, %v", name, bad, err)
		}
		again, err := Run(t.Context(), packed, "", Options{})
		if err != nil || !again.Unchanged || again.ReadBytes != 0 {
			t.Errorf("%s: again: got %+v, %v", name, again, err)
		}
		x.Close()
		plain.Close()
	}
}

// checkChunks decodes every chunk of an index and compares it with its digest and lengths.
func checkChunks(t *testing.T, store *memstore.Store, x *chunkindex.Index) {
	t.Helper()
	for i := range x.Chunks() {
		c, e := x.Chunk(i), x.Extents(i)[0]
		if chunkindex.Locate(c, x.Extents(i), c.Length-1) != e {
			t.Errorf("chunk %d: its last byte has a place of its own", i)
		}
		if e.Length != c.Stored || len(x.Extents(i)) != 1 || c.Codec == codec.None {
			t.Errorf("chunk %d: got %+v in %+v", i, c, e)
		}
		stored, dst := make([]byte, e.Length), make([]byte, c.Length)
		if err := store.ReadRange(t.Context(), objstore.Ref{Key: x.Shard(e.Shard).Key, ETag: x.Shard(e.Shard).ETag}, e.Offset, stored); err != nil {
			t.Fatal(err)
		}
		if err := x.Decode(t.Context(), i, stored, dst); err != nil || sha256.Sum256(dst) != c.Digest {
			t.Errorf("chunk %d: got %v, or another digest", i, err)
		}
	}
}

// seekable compresses b in zstd's seekable format: frames with a fixed decoded size, followed by a
// table in a skippable frame.
func seekable(b []byte, frame int) []byte {
	var cuts []int
	for at := frame; at < len(b); at += frame {
		cuts = append(cuts, at)
	}
	return append(codectest.PackAt(codec.Zstd, b, cuts...), "\x5e\x2a\x4d\x18\x09\x00\x00\x00\x00\x00\x00\x00\x00\xb1\xea\x92\x8f"...)
}

// TestRun_RejectsDecompressionBombs checks that an index run rejects, by name, a shard that decodes
// to ten gigabytes, and uses little memory.
func TestRun_RejectsDecompressionBombs(t *testing.T) {
	frame := bytes.Repeat([]byte("\x02\x00\x10\x00"), 10<<30/(128<<10)) // each block decodes to 128 KiB of zeros
	store := memstore.New()
	store.Set("bomb.tar.zst", append([]byte("\x28\xb5\x2f\xfd\x00\x58"), frame...))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Run(t.Context(), store, "", Options{})
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "bomb.tar.zst") || !strings.Contains(err.Error(), "recompress the object in smaller frames") {
		t.Errorf("got %v, want a refusal that names the shard and the cure", err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 96<<20 {
		t.Errorf("got %d bytes allocated", got)
	}
}

// TestRun_RescansWhenStatementsChange changes the statements of other objects about a shard. They
// affect the shard's scan, so the run must read that shard again, and no other.
func TestRun_RescansWhenStatementsChange(t *testing.T) {
	store := memstore.New()
	for _, shard := range []string{"a", "b"} {
		store.Set(shard+".txt", []byte(shard+"\n"+shard+shard+"\n"))
	}
	run := func(says ...string) Report {
		b, err := newBuilder(store, "", Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.close()
		b.formats = []format.Format{saying(says)}
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		return b.report
	}
	if rep := run("1", "2"); rep.ReusedShards != 0 || string(shards.Binding(t, store)[:8]) != layout.BindingSays {
		t.Errorf("got %+v, %.8q", rep, shards.Binding(t, store))
	}
	if rep := run("1", "2"); rep.ReusedShards != 2 || !rep.Unchanged {
		t.Errorf("the same again: got %+v", rep)
	}
	if rep := run("1", "3"); rep.ReusedShards != 1 || rep.ReadBytes != 5 {
		t.Errorf("one says something else: got %+v", rep)
	}
}

// saying returns a format in which other objects make statements about the shards. It has the name
// of a real format, because an index requires one.
func saying(says []string) format.Format {
	return format.Format{Name: "tar", Survey: func(_ context.Context, l format.Listing, _ format.Options) (*format.Dataset, error) {
		d := lines{}.dataset(l.Objects())
		for i := range d.Shards {
			d.Shards[i].Says = says[i]
		}
		d.Scan = func(_ context.Context, shard int, in io.Reader, out format.Sink) error {
			return lines{shard: fmt.Sprint(shard)}.scan(in, out)
		}
		return d, nil
	}}
}
