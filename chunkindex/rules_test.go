package chunkindex

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/internal/objstore"
)

// TestTotals_SumEveryField: each field of totals is the sum of two, except the longest sample.
func TestTotals_SumEveryField(t *testing.T) {
	var a, b totals
	x, y := reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem()
	a = totals{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	b = totals{20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120}
	before := reflect.ValueOf(a)
	a.join(b)
	for i := range x.NumField() {
		number := func(v reflect.Value) int64 {
			if v.CanInt() {
				return v.Int()
			}
			return int64(v.Uint())
		}
		want := number(before.Field(i)) + number(y.Field(i))
		if name := x.Type().Field(i).Name; name == "longest" {
			want = 60
		}
		if got := number(x.Field(i)); got != want || number(y.Field(i)) == 0 {
			t.Errorf("%s: got %d, want %d", x.Type().Field(i).Name, got, want)
		}
	}
	b.join(totals{longest: 7})
	if b.longest != 60 {
		t.Errorf("got the longest sample of %d bytes, want 60", b.longest)
	}
	var sum totals
	listed := &chunkRecord{
		extents: make([]Extent, 2), samples: 3, bytes: 4, longest: 5, count: 6,
		table: make([]byte, 7), names: make([]byte, 8), parts: make([]byte, 9), params: make([]byte, 10),
	}
	sum.add(listed)
	if want := (totals{chunks: 1, extents: 2, samples: 3, bytes: 4, longest: 5, partCount: 6, listed: 3, tables: 7, names: 8, parts: 9, params: 10}); sum != want {
		t.Errorf("got %+v, want %+v", sum, want)
	}
	sum.add(&chunkRecord{samples: 2, longest: 1})
	if sum.listed != 3 || sum.longest != 5 || sum.samples != 5 || sum.chunks != 2 {
		t.Errorf("a chunk named by rule: got %+v", sum)
	}
}

// frameRecord has a value of its own in every field that a scan keeps.
func frameRecord() *chunkRecord {
	return &chunkRecord{
		extents: []Extent{{Shard: 1, Offset: 2, Length: 3}, {Shard: 4, Offset: 1 << 40, Length: 1 << 41}},
		codec:   codec.Zip, skip: 5, length: 6, crc: 7, digest: [32]byte{8, 31: 9}, samples: 10, stem: 11,
		table: []byte("table"), names: []byte("name"), parts: []byte("par"), params: []byte("pa"),
	}
}

// TestScanFrame_KeepsEveryField, and a frame that was cut or that has bytes too many is malformed.
func TestScanFrame_KeepsEveryField(t *testing.T) {
	want := frameRecord()
	b := appendScanFrame([]byte("left over"), want)
	if n := le32(b); n != uint64(len(b)-4) {
		t.Fatalf("got a length of %d for %d bytes", n, len(b)-4)
	}
	got := chunkRecord{bytes: 1, longest: 1, count: 1, params: []byte("of the one before"), extents: make([]Extent, 5)}
	if err := decodeScanFrame(&got, b[4:]); err != nil || !reflect.DeepEqual(&got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for n := range len(b) - 4 {
		if err := decodeScanFrame(&got, b[4:4+n]); !errors.Is(err, errMalformed) {
			t.Errorf("%d of %d bytes: got %v, want %v", n, len(b)-4, err, errMalformed)
		}
	}
	if err := decodeScanFrame(&got, append(bytes.Clone(b[4:]), 0)); !errors.Is(err, errMalformed) {
		t.Errorf("a byte more: got %v", err)
	}
	for name, c := range map[string]struct {
		change func(r *chunkRecord)
		ok     bool
	}{
		"longest stem":   {func(r *chunkRecord) { r.stem = maxObjectKey }, true},
		"longer stem":    {func(r *chunkRecord) { r.stem = maxObjectKey + 1 }, false},
		"last shard":     {func(r *chunkRecord) { r.extents[1].Shard = maxShards }, true},
		"shard past it":  {func(r *chunkRecord) { r.extents[1].Shard = maxShards + 1 }, false},
		"length past 63": {func(r *chunkRecord) { r.length = -1 }, false},
	} {
		r := frameRecord()
		c.change(r)
		if err := decodeScanFrame(&got, appendScanFrame(nil, r)[4:]); (err == nil) != c.ok || err != nil && !errors.Is(err, errMalformed) {
			t.Errorf("%s: got %v, want accepted: %v", name, err, c.ok)
		}
	}
}

// TestScanWriter_BeginsOverWhatWasNotFinished: scans of one file neither share bytes nor sums.
func TestScanWriter_BeginsOverWhatWasNotFinished(t *testing.T) {
	w, err := newScanWriter(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer w.file.Close()
	record := func(samples uint32) *chunkRecord { r := frameRecord(); r.samples = samples; return r }
	var scans []*scanFile
	for i := range uint32(3) {
		w.begin()
		for range 2000 { // more than the buffer holds
			if err := w.write(record(1000)); err != nil {
				t.Fatal(err)
			}
		}
		w.begin()
		for j := range i + 1 {
			if err := w.write(record(10*i + j + 1)); err != nil {
				t.Fatal(err)
			}
		}
		s, err := w.finish()
		if err != nil {
			t.Fatal(err)
		}
		scans = append(scans, s)
	}
	for i, s := range scans {
		var got, want []uint32
		sum := uint64(0)
		read := s.each
		if i == 1 {
			read = s.take
		}
		err := read(func(r *chunkRecord) error {
			if got = append(got, r.samples); r.frame != s.size/int64(i+1) {
				t.Errorf("scan %d: got a frame of %d bytes in a scan of %d", i, r.frame, s.size)
			}
			return nil
		})
		for j := range i + 1 {
			want = append(want, uint32(10*i+j+1))
			sum += uint64(10*i + j + 1)
		}
		if err != nil || !slices.Equal(got, want) || s.totals().samples != sum || s.totals().chunks != uint64(i+1) {
			t.Errorf("scan %d: got samples %v, %v, %+v, want %v", i, got, err, s.totals(), want)
		}
		if i == 1 {
			continue // its space was given back, and that of its neighbours was not
		}
		stop := errors.New("stop")
		if err := s.each(func(*chunkRecord) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("scan %d: got %v, want what visit returned", i, err)
		}
		short := *s
		short.size--
		if err := short.each(func(*chunkRecord) error { return nil }); err == nil {
			t.Errorf("scan %d, a byte less: got no error", i)
		}
	}
}

// ruledBuilder is a builder of one shard, before it reuses anything.
func ruledBuilder() *builder {
	return &builder{
		opt: BuildOptions{ChunkSize: 100}, format: format.Format{Name: "tar", Changes: 3}, units: []unit{{0, 1}}, prefix: "p/",
		found:  &format.Dataset{Framing: json.RawMessage(`{"a":1}`), Overlap: 5, Shards: []format.Shard{{Object: format.Object{Key: "a.tar"}, Says: "says"}}},
		shards: []objstore.Object{{Key: "p/a.tar", Size: 7, ETag: "e"}},
	}
}

// ruleChanges are the changes after which no scan of a shard may be used again.
var ruleChanges = map[string]func(b *builder){
	"chunk size": func(b *builder) { b.opt.ChunkSize++ },
	"format":     func(b *builder) { b.format.Name = "jsonl" },
	"rules":      func(b *builder) { b.format.Changes++ },
	"framing":    func(b *builder) { b.found.Framing = json.RawMessage(`{"a":2}`) },
	"overlap":    func(b *builder) { b.found.Overlap++ },
	"size":       func(b *builder) { b.shards[0].Size++ },
	"ETag":       func(b *builder) { b.shards[0].ETag = "f" },
	"key":        func(b *builder) { b.shards[0].Key = "p/b.tar" },
	"says":       func(b *builder) { b.found.Shards[0].Says = "" },
}

// TestReuse_RequiresTheSameRulesAndVersions: each change alone keeps a scan of an index, and one that was kept, from being used.
func TestReuse_RequiresTheSameRulesAndVersions(t *testing.T) {
	first := ruledBuilder()
	m := meta{
		Format: "tar", Scanner: first.format.Rules(), Cutter: cutterChanges, ChunkSize: 100, Overlap: 5, Framing: json.RawMessage(`{"a":1}`),
	}
	x := &Index{meta: m, shards: []Shard{{Key: "a.tar", Size: 7, ETag: "e", says: saysDigest("says")}}}
	same := func(b *builder, m *meta) bool { return b.sameRules(m) && b.unchanged(x, b.units[0], 0) }
	if !same(first, &m) || first.scanName(unit{0, 1}) != ruledBuilder().scanName(unit{0, 1}) {
		t.Fatal("the same rules and versions differ")
	}
	names := map[scanName]string{first.scanName(unit{0, 1}): "unchanged"}
	for name, change := range ruleChanges {
		b := ruledBuilder()
		change(b)
		if same(b, &m) {
			t.Errorf("%s: a shard of the index is used again", name)
		}
		n := b.scanName(unit{0, 1})
		if other, found := names[n]; found {
			t.Errorf("%s has the scan of %s", name, other)
		}
		names[n] = name
	}
	m.Cutter++
	if same(first, &m) {
		t.Error("a shard that another cutter cut is used again")
	}
	if first.unchanged(x, unit{0, 1}, 1) {
		t.Error("a shard past the last one of the index is used again")
	}
}

// TestReadMeta_BoundsItsNumbers, requires each default, and tells a newer meta from a malformed one.
func TestReadMeta_BoundsItsNumbers(t *testing.T) {
	sound := meta{Format: "tar", Scanner: 1, ChunkSize: 8 << 20, Defaults: Defaults{Shuffle: "slot", Window: 128, BatchSize: 256, Tail: "short"}}
	for name, c := range map[string]struct {
		change func(m *meta)
		want   error
	}{
		"sound":                {func(*meta) {}, nil},
		"largest":              {func(m *meta) { m.Overlap, m.ChunkSize = maxChunkSize, maxChunkSize }, nil},
		"one byte a chunk":     {func(m *meta) { m.ChunkSize = 1 }, nil},
		"no chunk size":        {func(m *meta) { m.ChunkSize = 0 }, errMalformed},
		"larger chunks":        {func(m *meta) { m.ChunkSize = maxChunkSize + 1 }, errMalformed},
		"negative overlap":     {func(m *meta) { m.Overlap = -1 }, errMalformed},
		"larger overlap":       {func(m *meta) { m.Overlap = maxChunkSize + 1 }, errMalformed},
		"no scanner":           {func(m *meta) { m.Scanner = 0 }, errMalformed},
		"negative cutter":      {func(m *meta) { m.Cutter = -1 }, errMalformed},
		"no shuffle":           {func(m *meta) { m.Defaults.Shuffle = "" }, errMalformed},
		"no window":            {func(m *meta) { m.Defaults.Window = 0 }, errMalformed},
		"no batch size":        {func(m *meta) { m.Defaults.BatchSize = 0 }, errMalformed},
		"no tail":              {func(m *meta) { m.Defaults.Tail = "" }, errMalformed},
		"format of the future": {func(m *meta) { m.Format = "future" }, ErrVersion},
	} {
		m := sound
		c.change(&m)
		b, err := encodeMeta(m)
		if err != nil {
			t.Fatal(err)
		}
		x := &Index{}
		if err := x.readMeta(newSectionReader(bytes.NewReader(b), section{length: int64(len(b))})); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		b = append(b[:len(b)-1], `,"future":1}`...)
		if err := x.readMeta(newSectionReader(bytes.NewReader(b), section{length: int64(len(b))})); !errors.Is(err, ErrVersion) {
			t.Errorf("%s, with a field of the future: got %v, want %v", name, err, ErrVersion)
		}
	}
	long := sound
	long.Classes = []string{strings.Repeat("c", maxMeta)}
	if _, err := encodeMeta(long); err == nil || !strings.Contains(err.Error(), "fewer columns") {
		t.Errorf("too long: got %v, want the cure", err)
	}
	short, _ := encodeMeta(sound)
	sound.Classes = []string{strings.Repeat("c", maxMeta-len(short)-len(`,"classes":[""]`))}
	if b, err := encodeMeta(sound); err != nil || len(b) != maxMeta {
		t.Errorf("longest: got %d bytes, %v, want %d", len(b), err, maxMeta)
	}
}

// TestChunkRow_BoundsItsNumbers as version 2 stores them.
func TestChunkRow_BoundsItsNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *chunkRow)
		want   error
	}{
		"sound":              {func(*chunkRow) {}, nil},
		"longest":            {func(c *chunkRow) { c.length = maxChunkSize }, nil},
		"most samples":       {func(c *chunkRow) { c.samples, c.length = maxFrameSamples, maxFrameSamples }, nil},
		"columns left out":   {func(c *chunkRow) { c.codec, c.extents = codec.Parquet, 9 }, nil},
		"longest skip":       {func(c *chunkRow) { c.codec, c.skip = codec.Gzip, codec.MaxFrame-1 }, nil},
		"no samples":         {func(c *chunkRow) { c.samples = 0 }, errMalformed},
		"no bytes":           {func(c *chunkRow) { c.length = 0 }, errMalformed},
		"no extents":         {func(c *chunkRow) { c.extents = 0 }, errMalformed},
		"longer":             {func(c *chunkRow) { c.length = maxChunkSize + 1 }, errMalformed},
		"more samples":       {func(c *chunkRow) { c.samples, c.length = maxFrameSamples+1, maxChunkSize }, errMalformed},
		"samples of nothing": {func(c *chunkRow) { c.samples = c.length + 1 }, errMalformed},
		"skip as it is":      {func(c *chunkRow) { c.skip = 1 }, errMalformed},
		"skip past a frame":  {func(c *chunkRow) { c.codec, c.skip = codec.Gzip, codec.MaxFrame }, errMalformed},
		"two ranges of gzip": {func(c *chunkRow) { c.codec, c.extents = codec.Gzip, 2 }, errMalformed},
		"codec to come":      {func(c *chunkRow) { c.codec = 99 }, ErrVersion},
	} {
		row := chunkRow{samples: 10, length: 100, extents: 1}
		c.change(&row)
		if err := row.check(); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// TestBuildOptions_FillsInAndBounds what the caller leaves out.
func TestBuildOptions_FillsInAndBounds(t *testing.T) {
	got, err := BuildOptions{Parallel: -1}.withDefaults()
	if want := (Defaults{Shuffle: "slot", Window: 128, BatchSize: 256, Tail: "short"}); err != nil || got.ChunkSize != 8<<20 || got.Parallel != 4 || got.Defaults != want {
		t.Errorf("got %+v, %v", got, err)
	}
	given := BuildOptions{ChunkSize: 1, Parallel: 9, Name: "n", Match: "{a,b}*", Defaults: Defaults{"epoch", 1, 2, 3, "drop"}}
	if got, err := given.withDefaults(); err != nil || !reflect.DeepEqual(got, given) {
		t.Errorf("got %+v, %v, want %+v", got, err, given)
	}
	for size, ok := range map[int64]bool{-1: false, 1: true, maxChunkSize: true, maxChunkSize + 1: false} {
		if _, err := (BuildOptions{ChunkSize: size}).withDefaults(); (err == nil) != ok {
			t.Errorf("chunk size %d: got %v", size, err)
		}
	}
	for _, o := range []BuildOptions{{Name: "A"}, {Name: strings.Repeat("n", 65)}, {Name: "a/b"}, {Match: "[a"}, {Match: "{a,[b}"}} {
		if _, err := o.withDefaults(); err == nil || !strings.Contains(err.Error(), o.Name+o.Match) {
			t.Errorf("%+v: got %v, want it named", o, err)
		}
	}
}
