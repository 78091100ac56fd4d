package mds_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/mds"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

// TestShardOfMDSWriter checks that a scan finds the columns that MDSWriter itself has written.
func TestShardOfMDSWriter(t *testing.T) {
	o := golden(t)
	found, err := scan(o)
	if err != nil {
		t.Fatal(err)
	}
	samples, shard := found[shardKey], o[shardKey]
	if len(samples) != 5 {
		t.Fatalf("got %d samples, want 5", len(samples))
	}
	for i, s := range samples {
		if want := format.Numbered("shard.00000", uint64(i)); s.Key != want {
			t.Errorf("sample %d: got key %s, want %s", i, s.Key, want)
		}
		got := map[string]string{}
		var names []string
		for _, p := range s.Parts {
			names = append(names, p.Ext)
			got[p.Ext] = string(shard[s.Offset+p.Offset : s.Offset+p.Offset+p.Length])
		}
		odd := "q\"\\uote\n\x7fé😀</a>"
		if d := cmp.Diff([]string{"id", odd, "raw", "text", "v", "w", "x"}, names); d != "" {
			t.Error(d)
		}
		float := func(x float64) string {
			return string(binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(x))))
		}
		for name, want := range map[string]string{
			"id": string(binary.LittleEndian.AppendUint64(nil, uint64(i))), "raw": strings.Repeat(string([]byte{byte(i)}), 3),
			"text": strings.Repeat("t", i), "x": float(float64(i) / 2), "v": float(float64(i)) + float(float64(-i)),
			odd: `{"i": ` + string(rune('0'+i)) + `}`,
		} {
			if got[name] != want {
				t.Errorf("sample %d, column %q: got %q, want %q", i, name, got[name], want)
			}
		}
	}
}

// TestFraming_MatchesMDSWriter checks that a batch of all samples of a shard equals the shard, byte
// for byte. The index of that batch must equal the dataset's index.
func TestFraming_MatchesMDSWriter(t *testing.T) {
	o := golden(t)
	found, err := scan(o)
	if err != nil {
		t.Fatal(err)
	}
	d := survey(t, o)
	if got, want := len(d.Beside), 1; got != want {
		t.Errorf("got %d descriptive objects, want %d, the index", got, want)
	}
	constants := d.Framing
	f, err := framing.Read("mds", constants)
	if err != nil {
		t.Fatal(err)
	}
	var lengths []uint32
	var body []byte
	for _, s := range found[shardKey] {
		lengths = append(lengths, uint32(s.Length))
		body = append(body, o[shardKey][s.Offset:s.Offset+s.Length]...)
	}
	before, after, err := f.Frame(lengths)
	if err != nil {
		t.Fatal(err)
	}
	batch := append(append(before, body...), after...)
	if d := cmp.Diff(string(o[shardKey]), string(batch)); d != "" {
		t.Error(d)
	}
	index, err := framing.MDSIndex(constants, []framing.MDSBatch{{Name: shardKey, Samples: len(lengths), Bytes: int64(len(batch))}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(o["index.json"]), string(index)); d != "" {
		t.Error(d)
	}
}

// TestScan_FindsFramedSamples checks that a scan finds any samples that this package frames, in an
// index of several shards and in directories.
func TestScan_FindsFramedSamples(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringN(0, 30, 60), 0, 20).Draw(r, "texts")
		o := build(t, texts...)
		found, err := scan(o)
		if err != nil {
			r.Fatal(err)
		}
		var got []string
		for _, s := range found[shardKey] {
			p := s.Parts[0]
			got = append(got, string(o[shardKey][s.Offset+p.Offset:s.Offset+p.Offset+p.Length]))
		}
		if d := cmp.Diff(append([]string{}, texts...), append([]string{}, got...)); d != "" {
			r.Error(d)
		}
	})
}

func TestSeveralShards(t *testing.T) {
	a, b := build(t, "one", "two"), build(t, "three")
	var index, other object
	for into, from := range map[*object][]byte{&index: a["index.json"], &other: b["index.json"]} {
		if err := json.Unmarshal(from, into); err != nil {
			t.Fatal(err)
		}
	}
	first, second := index["shards"].([]any)[0].(object), other["shards"].([]any)[0].(object)
	first["raw_data"].(object)["basename"], second["raw_data"].(object)["basename"] = "b/shard.00000.mds", "a/shard.00000.mds"
	index["shards"] = []any{first, second}
	merged, err := json.Marshal(index)
	if err != nil {
		t.Fatal(err)
	}
	o := scantest.Objects{
		"index.json": merged, "b/shard.00000.mds": a[shardKey], "a/shard.00000.mds": b[shardKey],
		"a/index.json": []byte("{}"), "a/shard.00001.mds": []byte("left from before"),
	}
	found, err := scan(o)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for key, samples := range found {
		for _, s := range samples {
			got[key] = append(got[key], s.Key)
		}
	}
	want := map[string][]string{
		"a/shard.00000.mds": {"a/shard.00000/000000000"}, "b/shard.00000.mds": {"b/shard.00000/000000000", "b/shard.00000/000000001"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	d := survey(t, o)
	if d.Shards[0].Key != "a/shard.00000.mds" || d.Shards[0].Says == d.Shards[1].Says {
		t.Errorf("got %+v, want a's before b's, and of each what the index says of it", d.Shards)
	}
}

// TestSurvey_SaysChangesWithTheIndex checks that Says contains the index entries that affect a
// scan.
func TestSurvey_SaysChangesWithTheIndex(t *testing.T) {
	o := golden(t)
	was := survey(t, o).Shards[0].Says
	changed := edit(t, o, func(_, shard object) { shard["raw_data"].(object)["hashes"] = object{"sha1": "0"} })
	if got := survey(t, changed).Shards[0].Says; got == was {
		t.Errorf("another hash: got the same %s", got)
	}
	same := edit(t, o, func(_, shard object) { shard["size_limit"] = 5 })
	if got := survey(t, same).Shards[0].Says; got != was {
		t.Errorf("another size limit: got %s, want %s", got, was)
	}
}

func TestNotMDS(t *testing.T) {
	for name, o := range map[string]scantest.Objects{
		"nothing": {}, "tars": {"a.tar": nil}, "an index of LitData": {"index.json": []byte(`{"chunks":[],"config":{}}`)},
		"an index that is no JSON": {"index.json": []byte(`{"shar`)}, "a list": {"index.json": []byte(`["shards"]`)},
	} {
		if d, err := mds.Format().Survey(context.Background(), o, format.Options{}); d != nil || err != nil {
			t.Errorf("%s: got %v, %v, want neither a dataset nor an error", name, d, err)
		}
		if _, err := mds.Format().Survey(context.Background(), o, format.Options{Named: true}); err == nil || !strings.Contains(err.Error(), "shards") {
			t.Errorf("%s, asked for by name: got %v, want an error that says what is missing", name, err)
		}
	}
}

// endless reads endless zeros and counts them.
type endless struct{ n int64 }

func (e *endless) Read(p []byte) (int, error) {
	clear(p)
	e.n += int64(len(p))
	return len(p), nil
}

// TestBombs checks that a shard is rejected early if it decodes to more bytes than its index entry
// states. A table with a false size must allocate no memory.
func TestBombs(t *testing.T) {
	o := build(t, "x")
	e := &endless{}
	err := survey(t, o).Scan(context.Background(), 0, io.MultiReader(bytes.NewReader(o[shardKey]), e), scantest.Nothing{})
	if err == nil || !strings.Contains(err.Error(), "longer than") || e.n > 1<<20 {
		t.Errorf("got %v after %d bytes too many, want an error at once", err, e.n)
	}
	o = edit(t, o, func(_, shard object) {
		shard["samples"] = 1 << 25
		shard["raw_data"].(object)["bytes"] = math.MaxUint32
	})
	o[shardKey] = make([]byte, 100)
	binary.LittleEndian.PutUint32(o[shardKey], 1<<25)
	var was, is runtime.MemStats
	runtime.ReadMemStats(&was)
	o["a.mds.gz"] = o[shardKey]
	d := survey(t, edit(t, o, func(_, shard object) {
		shard["zip_data"], shard["compression"] = object{"basename": "a.mds.gz", "bytes": 100}, "gz"
	}))
	err = d.Scan(context.Background(), 0, bytes.NewReader(o[shardKey]), scantest.Nothing{})
	runtime.ReadMemStats(&is)
	if err == nil || !strings.Contains(err.Error(), "truncated") || is.TotalAlloc-was.TotalAlloc > 4<<20 {
		t.Errorf("got %v with %d bytes allocated, want an error and less than 4 MiB", err, is.TotalAlloc-was.TotalAlloc)
	}
}

func TestScanEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	o := build(t, "x")
	if err := survey(t, o).Scan(ctx, 0, bytes.NewReader(o[shardKey]), scantest.Nothing{}); err == nil || err.Error() != context.Canceled.Error() {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
