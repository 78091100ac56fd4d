package litdata_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/litdata"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

// framed returns chunks that LitData 0.2.76 wrote with zstd frames inside.
func framed(t testing.TB, level string) scantest.Objects {
	t.Helper()
	return scantest.Files(t, "testdata/"+level, first, "chunk-0-1.bin", "index.json")
}

// stored reads ranges of a chunk.
type stored []byte

func (s stored) ReadRange(_ context.Context, off int64, p []byte) error {
	if off+int64(len(p)) > int64(len(s)) {
		return io.ErrUnexpectedEOF
	}
	copy(p, s[off:])
	return nil
}

// TestDecode_FramesInChunks checks the samples of both levels, and that each frame decodes on its
// own.
func TestDecode_FramesInChunks(t *testing.T) {
	for level, each := range map[string]int{"batch": 2, "sample": 1} {
		o, id := framed(t, level), 0
		found, err := scan(o)
		if err != nil {
			t.Fatalf("%s: %v", level, err)
		}
		d, err := survey(o)
		if err != nil {
			t.Fatal(err)
		}
		for i, shard := range d.Shards {
			chunk := stored(o[shard.Key])
			in, err := d.Decode(t.Context(), i, chunk)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(in)
			if err != nil {
				t.Fatal(err)
			}
			frames := map[int64]bool{}
			for _, s := range found[shard.Key] {
				f, ok := in.Frames.At(s.Offset)
				if !ok || in.Codec != codec.Zstd {
					t.Fatalf("%s: codec %v, frame %v, want zstd and a frame", level, in.Codec, ok)
				}
				frames[f.Stored] = true
				alone := make([]byte, f.DecodedEnd-f.Decoded)
				if err := codec.Decode(codec.Zstd, nil, chunk[f.Stored:f.StoredEnd], 0, alone); err != nil || string(alone) != string(b[f.Decoded:f.DecodedEnd]) {
					t.Errorf("%s: frame at %d: got %q, %v", level, f.Stored, alone, err)
				}
				var got []string
				for _, p := range s.Parts {
					got = append(got, string(b[s.Offset+p.Offset:][:p.Length]))
				}
				array := ""
				for n := range id {
					array += string(binary.LittleEndian.AppendUint64(nil, uint64(n)))
				}
				want := []string{string(binary.LittleEndian.AppendUint64(nil, uint64(id))), strings.Repeat(fmt.Sprintf("é%d", id), 3), array}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%s: sample %d: %s", level, id, d)
				}
				id++
			}
			if want := (len(found[shard.Key]) + each - 1) / each; len(frames) != want {
				t.Errorf("%s: got %d frames, want %d", level, len(frames), want)
			}
		}
		if id != 8 {
			t.Errorf("%s: got %d samples, want 8", level, id)
		}
	}
}

func TestDecode_RejectsOtherChunks(t *testing.T) {
	for want, change := range map[string]func(index, config, chunk object){
		`compression_level "batch" is not`: func(_, config, _ object) {
			config["item_loader"], config["data_format"] = "TokensLoader", []any{"no_header_numpy:3"}
		},
		"its head does not describe 4 samples": func(_, _, chunk object) { chunk["chunk_size"] = 4 },
	} {
		_, err := scan(edit(t, framed(t, "batch"), change))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	o := framed(t, "sample")
	o[first] = append(o[first][:len(o[first]):len(o[first])], o[first][len(o[first])-30:]...)
	o = edit(t, o, func(_, _, chunk object) { chunk["chunk_bytes"] = len(o[first]) })
	if _, err := scan(o); err == nil {
		t.Error("a chunk with more frames: got no error")
	}
	for format, want := range map[string]string{"": "", "litdata": "use --format arrow"} {
		d, err := litdata.Format().Survey(t.Context(), scantest.Files(t, "testdata/rows", first, "chunk-0-1.bin", "index.json"), formatOptions(format))
		if d != nil || want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("rows, --format %q: got %v, %v, want %q", format, d, err, want)
		}
	}
}

func formatOptions(name string) format.Options { return format.Options{Named: name != ""} }

// TestDecode_DamagedChunks checks that no change of a chunk's bytes makes the scan fail in another way
// than with an error about the chunk, and that no truncated chunk is accepted.
func TestDecode_DamagedChunks(t *testing.T) {
	for _, level := range []string{"batch", "sample"} {
		whole := framed(t, level)[first]
		for at := range whole {
			o := edit(t, framed(t, level), func(_, _, chunk object) { chunk["chunk_bytes"] = at })
			o[first] = whole[:at]
			if _, err := scan(o); err == nil {
				t.Errorf("%s: %d of %d bytes: got no error", level, at, len(whole))
			}
			o = framed(t, level)
			o[first][at] ^= 0x81
			_, err := scan(o)
			scantest.Refused(t, err)
		}
	}
}
