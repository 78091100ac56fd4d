package mds_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/mds"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

// TestRefusedIndex checks that an invalid index is rejected with the reason.
func TestRefusedIndex(t *testing.T) {
	file := func(name string, n int) object { return object{"basename": name, "bytes": n, "hashes": object{}} }
	zip := func(how, name string) func(index, s object) {
		return func(_, s object) { s["compression"], s["zip_data"] = how, file(name, 10) }
	}
	for want, change := range map[string]func(index, shard object){
		"has version 3":                             func(index, _ object) { index["version"] = 3 },
		"names no shard":                            func(index, _ object) { index["shards"] = []any{} },
		"names shard \"b.mds\", which does not":     func(_, s object) { s["raw_data"].(object)["basename"] = "b.mds" },
		"names shard \"shard.00000.mds\" twi":       func(index, s object) { index["shards"] = []any{s, s} },
		"has 738 bytes, but 739 according to index": func(_, s object) { s["raw_data"].(object)["bytes"] = 739 },
		"raw_data or samples":                       func(_, s object) { s["raw_data"].(object)["bytes"] = -1 },
		"samples is invalid":                        func(_, s object) { s["samples"] = -1 },
		"more than the limit of":                    func(_, s object) { s["samples"] = 1 << 26 },
		`format "json" is not supported`:            func(_, s object) { s["format"] = "json" },
		`format "csv" is not supported`:             func(_, s object) { s["format"] = "csv" },
		"version 1 is not supported":                func(_, s object) { s["version"] = 1 },
		"is invalid":                                func(_, s object) { s["raw_data"] = nil },
		"0 columns": func(_, s object) {
			s["column_names"], s["column_encodings"], s["column_sizes"] = []any{}, []any{}, []any{}
		},
		"7 columns with 7 encodings and 1 si": func(_, s object) { s["column_sizes"] = []any{nil} },
		"7 columns with 1 encodings and 7 si": func(_, s object) { s["column_encodings"] = []any{"int"} },
		"columns are not sorted":              func(_, s object) { s["column_names"].([]any)[0] = "z" },
		"or two have the same name":           func(_, s object) { s["column_names"].([]any)[6] = "w" },
		"cannot have a size of 0":             func(_, s object) { s["column_sizes"].([]any)[0] = 0 },
		"cannot have a size of -1":            func(_, s object) { s["column_sizes"].([]any)[0] = -1 },
		"cannot have a size of 1073741825":    func(_, s object) { s["column_sizes"].([]any)[0] = 1<<30 + 1 },
		"is longer than 4096":                 func(_, s object) { s["column_names"].([]any)[6] = strings.Repeat("z", 4097) },
		"contradict each other":               func(_, s object) { s["compression"] = "zstd" },
		"and zip_data contradict":             func(_, s object) { s["zip_data"] = file("a.mds.zstd", 10) },
		`compression "br" is not supported`:   zip("br:11", "a.mds.br"),
		`compression "bz2" is not supported`:  zip("bz2", "a.mds.bz2"),
		`compression "snappy" is not`:         zip("snappy", "a.mds.snappy"),
		"does not end in .zstd":               zip("zstd:3", "a.mds.gz"),
		"does not end in .gz":                 zip("gz", "a.mds"),
		"which does not exist":                zip("gz", "a.mds.gz"),
		"but compression is not set":          func(_, s object) { s["raw_data"].(object)["basename"] = "a.mds.gz" },
		"index.json: json: cannot unmarshal":  func(_, s object) { s["samples"] = "five" },
		"shard 1: its columns differ": func(index, s object) {
			other := object{}
			for k, v := range s {
				other[k] = v
			}
			other["column_encodings"] = []any{"int", "json", "bytes", "bytes", "ndarray:float32:2", "ndarray", "float32"}
			index["shards"] = []any{s, other}
		},
	} {
		d, err := mds.Format().Survey(context.Background(), edit(t, golden(t), change), format.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v, want an error with %q", d, err, want)
		}
	}
}

func TestShardsWithoutAnIndex(t *testing.T) {
	for key, want := range map[string]string{
		"shard.00000.mds": "copy the file that the writer of the shard stored", "shard.00000.mds.zstd": "requires an index.json", "train/shard.00000.mds": "merge_index",
	} {
		_, err := mds.Format().Survey(context.Background(), scantest.Objects{key: nil, "index.json": []byte(`{"chunks":[]}`)}, format.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", key, err, want)
		}
	}
}

// TestRefusedShard checks that a shard that differs from the index is rejected with the position of
// the difference.
func TestRefusedShard(t *testing.T) {
	put := func(at int, n uint32) func(b []byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], n); return b }
	}
	first := int(binary.LittleEndian.Uint32(build(t, "one", "two")[shardKey][4:]))
	const table, sample = 4 + 4*3, 4 + 3 + 4 // lengths for a shard of two samples
	for want, change := range map[string]func(b []byte) []byte{
		"shard has 3 samples, but 2 according to index": put(0, 3),
		"would begin at 15, inside the table":           put(4, table-1),
		"would begin at 0, inside the table":            put(4, 0),
		"sample 0 would end at 5, before it":            put(8, 5),
		"sample 1 would end at 9, before":               put(12, 9),
		"after the shard's end":                         put(12, 1<<31),
		"1 bytes follow the last sample":                put(12, uint32(first+2*sample-1)),
		"shard is longer than its size in index.json":   func(b []byte) []byte { return append(b, 0) },
		"the fields and their lengths have 12 bytes":    put(first, 4),
		"the fields and their lengths have 10 bytes":    put(first, 2),
		"the fields and their lengths have 4294967303":  put(first, 1<<32-1),
		"too few for the lengths":                       put(8, uint32(first+3)),
		"empty sample":                                  put(8, uint32(first)),
		"at offset 16: header: its columns":             func(b []byte) []byte { return bytes.Replace(b, []byte(`"a", "b"`), []byte(`"a", "c"`), 1) },
		"in index.json":                                 func(b []byte) []byte { return bytes.Replace(b, []byte(`[null, 4]`), []byte(`[null, 8]`), 1) },
		`"csv" and version 2`:                           func(b []byte) []byte { return bytes.Replace(b, []byte(`"mds"`), []byte(`"csv"`), 1) },
		"and version 3":                                 func(b []byte) []byte { return bytes.Replace(b, []byte(`"version": 2`), []byte(`"version": 3`), 1) },
		"header: invalid character":                     func(b []byte) []byte { b[table] = '#'; return b },
		"header: unexpected end of JSON input":          put(4, table),
		"at offset 3: shard is truncated":               func(b []byte) []byte { return b[:3] },
		"at offset 10: shard is truncated":              func(b []byte) []byte { return b[:10] },
		"at offset 17: shard is truncated":              func(b []byte) []byte { return b[:table+1] },
	} {
		o := build(t, "one", "two")
		b := change(bytes.Clone(o[shardKey]))
		err := survey(t, o).Scan(context.Background(), 0, bytes.NewReader(b), scantest.Nothing{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	b := build(t, "one", "two")[shardKey]
	for n := range b {
		if err := survey(t, build(t, "one", "two")).Scan(context.Background(), 0, bytes.NewReader(b[:n]), scantest.Nothing{}); err == nil {
			t.Errorf("the first %d bytes of %d: got no error", n, len(b))
		}
	}
}

// TestHashes checks that the supported hashes in an index are verified. The expected sums come from
// Python's hashlib and xxhash.
func TestHashes(t *testing.T) {
	right := goldenHashes()
	hashes := func(o scantest.Objects, sums object) error {
		_, err := scan(edit(t, o, func(_, shard object) { shard["raw_data"].(object)["hashes"] = sums }))
		return err
	}
	all := object{"xxh32": "not checked", "blake2b": "not checked"}
	for name, sum := range right {
		all[name] = sum
		wrong := strings.Map(func(r rune) rune {
			if r == 'f' {
				return '0'
			}
			return r
		}, sum)
		if err := hashes(golden(t), object{name: wrong}); err == nil || !strings.Contains(err.Error(), "its "+name+" is "+sum) {
			t.Errorf("%s: got %v, want an error with the right one", name, err)
		}
	}
	if err := hashes(golden(t), all); err != nil {
		t.Error(err)
	}
}

func TestFraming(t *testing.T) {
	for want, constants := range map[string]string{
		"mds: description of the columns is missing": "", "unknown field": `{"column_encodings":["int"],"column_names":["a"],"column_sizes":[8],"more":1}`,
		"1 columns with 0 encodings": `{"column_names":["a"]}`, "cannot have a size": `{"column_encodings":["int"],"column_names":["a"],"column_sizes":[0]}`,
		"mds: description of the columns: json": `[]`,
	} {
		var raw json.RawMessage
		if constants != "" {
			raw = json.RawMessage(constants)
		}
		if _, err := framing.Read("mds", raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", constants, err, want)
		}
		if _, err := framing.MDSIndex(raw, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("index of %s: got %v, want an error with %q", constants, err, want)
		}
	}
	f, err := framing.Read("mds", json.RawMessage(`{"column_encodings":["int"],"column_names":["a"],"column_sizes":[8]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.ContentType(); got != "application/vnd.mosaicml.mds" {
		t.Errorf("got %s", got)
	}
	before, _, err := f.Frame([]uint32{1})
	if err != nil {
		t.Fatal(err)
	}
	most := uint32(1<<32-1) - uint32(len(before)) // with this length, the last offset is the largest possible offset
	if before, _, err = f.Frame([]uint32{most}); err != nil || binary.LittleEndian.Uint32(before[8:]) != 1<<32-1 {
		t.Errorf("longest batch: got %v, want it framed", err)
	}
	if _, _, err = f.Frame([]uint32{most + 1}); err == nil || !strings.Contains(err.Error(), "use a smaller batch") {
		t.Errorf("a byte more: got %v, want an error with the cure", err)
	}
}
