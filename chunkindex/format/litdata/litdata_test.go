package litdata_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/litdata"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

const first = "chunk-0-0.bin"

// golden returns a dataset with two chunks that LitData itself has written.
func golden(t testing.TB) scantest.Objects {
	t.Helper()
	return scantest.Files(t, "testdata", first, "chunk-0-1.bin", "index.json")
}

// object is a JSON object that a test modifies.
type object = map[string]any

// edit returns a copy of the objects. change has modified the index, its config and its entry of
// the first chunk.
func edit(t testing.TB, o scantest.Objects, change func(index, config, chunk object)) scantest.Objects {
	t.Helper()
	return o.Edit(t, "index.json", func(index object) { change(index, index["config"].(object), index["chunks"].([]any)[0].(object)) })
}

func scan(o scantest.Objects) (map[string][]scantest.Sample, error) {
	return scantest.Scan(context.Background(), litdata.Format(), format.Options{}, o)
}

func survey(o scantest.Objects) (*format.Dataset, error) {
	return litdata.Format().Survey(context.Background(), o, format.Options{})
}

// TestChunksOfLitData scans chunks written by LitData itself. The scan must find the leaves, and a
// batch of all samples of a chunk must equal the chunk.
func TestChunksOfLitData(t *testing.T) {
	o := golden(t)
	found, err := scan(o)
	if err != nil {
		t.Fatal(err)
	}
	d, err := survey(o)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(d.Beside), 1; got != want {
		t.Errorf("got %d descriptive objects, want %d, the index", got, want)
	}
	f, err := framing.Read("litdata", d.Framing)
	if err != nil {
		t.Fatal(err)
	}
	id := uint64(0)
	for i, key := range []string{first, "chunk-0-1.bin"} {
		var lengths []uint32
		var body []byte
		for j, s := range found[key] {
			if want := format.Numbered(strings.TrimSuffix(key, ".bin"), uint64(j)); s.Key != want {
				t.Errorf("got key %s, want %s", s.Key, want)
			}
			b := o[key][s.Offset : s.Offset+s.Length]
			var leaves []string
			for _, p := range s.Parts {
				leaves = append(leaves, p.Ext+"="+string(b[p.Offset:p.Offset+p.Length]))
			}
			x, tensor := "", ""
			for n := range id + 1 {
				x += string(binary.LittleEndian.AppendUint64(nil, n))
			}
			for n := range id {
				tensor += string(binary.LittleEndian.AppendUint64(nil, n))
			}
			want := []string{"0=" + string(binary.LittleEndian.AppendUint64(nil, id)), "1=" + x, "2=é" + string(rune('0'+id)), "3=" + tensor}
			if d := cmp.Diff(want, leaves); d != "" {
				t.Error(d)
			}
			id++
			lengths, body = append(lengths, uint32(s.Length)), append(body, b...)
		}
		before, after, err := f.Frame(lengths)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(o[key]), string(append(append(before, body...), after...))); d != "" {
			t.Errorf("chunk %d: %s", i, d)
		}
	}
	if id != 5 {
		t.Errorf("got %d samples, want 5", id)
	}
}

// TestCompressedChunks: the names of compressed chunks indicate the compression; the index does not
// contain their stored size.
func TestCompressedChunks(t *testing.T) {
	o := edit(t, golden(t), func(index, config, chunk object) {
		config["compression"], chunk["filename"] = "zstd:5", "chunk-0-0.zstd:5.bin"
		index["chunks"] = index["chunks"].([]any)[:1]
	})
	o["chunk-0-0.zstd:5.bin"] = []byte("compressed")
	d, err := survey(o)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Shards) != 1 || d.Shards[0].Key != "chunk-0-0.zstd:5.bin" || d.Shards[0].Size != 10 {
		t.Errorf("got %+v, want the compressed chunk", d.Shards)
	}
}

func TestNotLitData(t *testing.T) {
	for name, o := range map[string]scantest.Objects{
		"nothing": {}, "chunks without an index": {first: nil}, "an index of MDS": {"index.json": []byte(`{"shards":[],"version":2}`)},
	} {
		if d, err := survey(o); d != nil || err != nil {
			t.Errorf("%s: got %v, %v, want neither a dataset nor an error", name, d, err)
		}
		if _, err := litdata.Format().Survey(context.Background(), o, format.Options{Named: true}); err == nil || !strings.Contains(err.Error(), "chunks") {
			t.Errorf("%s, asked for by name: got %v, want an error that says what is missing", name, err)
		}
	}
}

func TestRefusedIndex(t *testing.T) {
	for want, change := range map[string]func(index, config, chunk object){
		"has no chunks":             func(index, _, _ object) { index["chunks"] = []any{} },
		"or no config":              func(index, _, _ object) { index["config"] = nil },
		"is not a format of tokens": func(_, config, _ object) { config["item_loader"] = "TokensLoader" },
		"set --sequence-length": func(_, config, _ object) {
			config["item_loader"], config["data_format"] = "TokensLoader", []any{"no_header_numpy:3"}
		},
		"only PyTreeLoader": func(_, config, _ object) { config["item_loader"] = "ParquetLoader" },
		"set --sequence-length to the block_size of TokensLoader": func(_, c, _ object) { delete(c, "item_loader"); c["data_format"] = []any{"no_header_tensor:16"} },
		"0 leaves":                    func(_, config, _ object) { config["data_format"] = nil },
		"or data_spec is missing":     func(_, config, _ object) { config["data_spec"] = nil },
		"encrypted chunks":            func(_, config, _ object) { config["encryption"] = object{"algorithm": "fernet"} },
		`compression_level "row" is`:  func(_, config, _ object) { config["compression_level"] = "row" },
		`compression "lz4" is not`:    func(_, config, _ object) { config["compression"] = "lz4" },
		"does not end in .zstd:4.bin": func(_, config, _ object) { config["compression"] = "zstd:4" },
		"but compression is not set":  func(_, _, chunk object) { chunk["filename"] = "chunk-0-0.zstd.bin" },
		"is invalid":                  func(_, _, chunk object) { chunk["chunk_bytes"] = -1 },
		"or chunk_size is":            func(_, _, chunk object) { chunk["chunk_size"] = -1 },
		"more than the limit of":      func(_, _, chunk object) { chunk["chunk_size"] = 1 << 26 },
		"has 173 bytes, but 174":      func(_, _, chunk object) { chunk["chunk_bytes"] = 174 },
		"which does not exist":        func(_, _, chunk object) { chunk["filename"] = "chunk-0-9.bin" },
		`"chunk-0-1.bin" twice`:       func(_, _, chunk object) { chunk["filename"], chunk["chunk_bytes"] = "chunk-0-1.bin", 198 },
		"cannot unmarshal":            func(_, _, chunk object) { chunk["chunk_size"] = 0.5 },
	} {
		d, err := survey(edit(t, golden(t), change))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v, want an error with %q", d, err, want)
		}
	}
}

func TestRefusedChunk(t *testing.T) {
	put := func(at int, n uint32) func(b []byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], n); return b }
	}
	for want, change := range map[string]func(b []byte) []byte{
		"shard has 2 samples, but 3 according to index":       put(0, 2),
		"1 unexpected bytes between the table of offsets and": put(4, 21),
		"inside the table":                                                  put(4, 19),
		"sample 1 would end at 7":                                           put(12, 7),
		"1 bytes follow the last sample; the samples":                       put(16, 172),
		"after the shard's end":                                             put(16, 174),
		"empty sample; the samples may be Arrow rows":                       put(8, 20),
		"too few for the lengths":                                           put(8, 35),
		"the fields and their lengths have 36 bytes, but the sample has 35": put(20, 9),
		"the fields and their lengths have 34 bytes, but the sample has 35": put(20, 7),
		"shard is longer than its size in index.json":                       func(b []byte) []byte { return append(b, 0) },
		"shard is truncated":                                                func(b []byte) []byte { return b[:len(b)-1] },
	} {
		o := golden(t)
		d, err := survey(o)
		if err != nil {
			t.Fatal(err)
		}
		err = d.Scan(context.Background(), 0, bytes.NewReader(change(bytes.Clone(o[first]))), scantest.Nothing{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func TestFraming(t *testing.T) {
	for want, constants := range map[string]string{
		"litdata: description of the shards is missing": "", "unknown field": `{"data_format":["int"],"data_spec":"","more":1}`, "0 leaves": `{"data_format":[],"data_spec":""}`,
		"blocks of -1": `{"data_format":["int"],"data_spec":"","block_size":-1}`,
		"litdata: description of the shards: json": `[]`,
	} {
		var raw json.RawMessage
		if constants != "" {
			raw = json.RawMessage(constants)
		}
		if _, err := framing.Read("litdata", raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", constants, err, want)
		}
	}
	f, err := framing.Read("litdata", json.RawMessage(`{"data_format":["int"],"data_spec":""}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.ContentType(); got != "application/vnd.litdata.chunk" {
		t.Errorf("got %s", got)
	}
	if _, _, err := f.Frame([]uint32{1<<32 - 1}); err == nil || !strings.Contains(err.Error(), "use a smaller batch") {
		t.Errorf("got %v, want an error with the cure", err)
	}
}

// FuzzScan scans an arbitrary chunk with an index that has the right number of samples and bytes.
func FuzzScan(f *testing.F) {
	f.Add(golden(f)[first], uint8(4))
	f.Add(golden(f)["chunk-0-1.bin"], uint8(4))
	f.Add([]byte{1, 0, 0, 0, 12, 0, 0, 0, 17, 0, 0, 0, 1, 0, 0, 0, 'x'}, uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, leaves uint8) {
		o := edit(t, golden(t), func(index, config, chunk object) {
			chunk["chunk_bytes"] = len(b)
			if len(b) >= 4 {
				chunk["chunk_size"] = min(binary.LittleEndian.Uint32(b), 1<<25)
			}
			index["chunks"] = index["chunks"].([]any)[:1]
			config["data_format"] = make([]string, leaves)
		})
		o[first] = b
		_, err := scan(o)
		scantest.Refused(t, err)
	})
}

// FuzzSurvey surveys an arbitrary index of items or tokens. A framing must accept the constants of
// an accepted index, and only existing chunks may be scanned.
func FuzzSurvey(f *testing.F) {
	f.Add(golden(f)["index.json"], int64(0))
	f.Add(tokens(f, []int{40}, []int{40, 7})["index.json"], int64(3))
	f.Add([]byte(`{"chunks": [{"filename": "chunk-0-0.bin"}], "config": {"data_format": ["int"], "data_spec": ""}}`), int64(1))
	f.Fuzz(func(t *testing.T, index []byte, sequence int64) {
		for _, o := range []scantest.Objects{golden(t), tokens(t, []int{40}, []int{40, 7})} {
			o["index.json"] = index
			options := format.Options{SequenceLength: sequence}
			d, err := litdata.Format().Survey(context.Background(), o, options)
			if err != nil || d == nil {
				continue
			}
			if _, err := framing.Read("litdata", d.Framing); err != nil {
				t.Errorf("constants of a survey: %v", err)
			}
			_, err = scantest.Scan(context.Background(), litdata.Format(), options, o)
			scantest.Refused(t, err)
		}
	})
}
