package build

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/webdataset"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// frameRecord returns a record with a distinct value in every field that a scan stores.
func frameRecord() *layout.ChunkRecord {
	return &layout.ChunkRecord{
		Extents: []layout.Extent{{Shard: 1, Offset: 2, Length: 3}, {Shard: 4, Offset: 1 << 40, Length: 1 << 41}},
		Codec:   codec.Zip, Skip: 5, Length: 6, CRC: 7, Digest: [32]byte{8, 31: 9}, Samples: 10, Stem: 11,
		Table: []byte("table"), Names: []byte("name"), Parts: []byte("par"), Params: []byte("pa"),
	}
}

// TestScanFrame_KeepsEveryField checks that a scan frame preserves every field. A truncated frame,
// or a frame with extra bytes, must be malformed.
func TestScanFrame_KeepsEveryField(t *testing.T) {
	want := frameRecord()
	b := appendScanFrame([]byte("left over"), want)
	if n := uint64(binary.LittleEndian.Uint32(b)); n != uint64(len(b)-4) {
		t.Fatalf("got a length of %d for %d bytes", n, len(b)-4)
	}
	got := layout.ChunkRecord{Bytes: 1, Longest: 1, Count: 1, Params: []byte("of the one before"), Extents: make([]layout.Extent, 5)}
	if err := decodeScanFrame(&got, b[4:]); err != nil || !reflect.DeepEqual(&got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for n := range len(b) - 4 {
		if err := decodeScanFrame(&got, b[4:4+n]); !errors.Is(err, layout.ErrMalformed) {
			t.Errorf("%d of %d bytes: got %v, want %v", n, len(b)-4, err, layout.ErrMalformed)
		}
	}
	if err := decodeScanFrame(&got, append(bytes.Clone(b[4:]), 0)); !errors.Is(err, layout.ErrMalformed) {
		t.Errorf("a byte more: got %v", err)
	}
	for name, c := range map[string]struct {
		change func(r *layout.ChunkRecord)
		ok     bool
	}{
		"longest stem":   {func(r *layout.ChunkRecord) { r.Stem = layout.MaxObjectKey }, true},
		"longer stem":    {func(r *layout.ChunkRecord) { r.Stem = layout.MaxObjectKey + 1 }, false},
		"last shard":     {func(r *layout.ChunkRecord) { r.Extents[1].Shard = layout.MaxShards }, true},
		"shard past it":  {func(r *layout.ChunkRecord) { r.Extents[1].Shard = layout.MaxShards + 1 }, false},
		"length past 63": {func(r *layout.ChunkRecord) { r.Length = -1 }, false},
	} {
		r := frameRecord()
		c.change(r)
		if err := decodeScanFrame(&got, appendScanFrame(nil, r)[4:]); (err == nil) != c.ok || err != nil && !errors.Is(err, layout.ErrMalformed) {
			t.Errorf("%s: got %v, want accepted: %v", name, err, c.ok)
		}
	}
}

// TestScanWriter_DiscardsUnfinishedScans checks that a scan overwrites an unfinished scan, and that
// scans in one file share neither bytes nor totals.
func TestScanWriter_DiscardsUnfinishedScans(t *testing.T) {
	w, err := newScanWriter(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer w.file.Close()
	record := func(samples uint32) *layout.ChunkRecord { r := frameRecord(); r.Samples = samples; return r }
	var scans []*scanFile
	for i := range uint32(3) {
		w.begin()
		for range 2000 { // more bytes than the buffer holds
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
		err := read(func(r *layout.ChunkRecord) error {
			if got = append(got, r.Samples); r.Frame != s.size/int64(i+1) {
				t.Errorf("scan %d: got a frame of %d bytes in a scan of %d", i, r.Frame, s.size)
			}
			return nil
		})
		for j := range i + 1 {
			want = append(want, uint32(10*i+j+1))
			sum += uint64(10*i + j + 1)
		}
		if err != nil || !slices.Equal(got, want) || s.totals().Samples != sum || s.totals().Chunks != uint64(i+1) {
			t.Errorf("scan %d: got samples %v, %v, %+v, want %v", i, got, err, s.totals(), want)
		}
		if i == 1 {
			continue // take has freed the space of this scan only
		}
		stop := errors.New("stop")
		if err := s.each(func(*layout.ChunkRecord) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("scan %d: got %v, want what visit returned", i, err)
		}
		short := *s
		short.size--
		if err := short.each(func(*layout.ChunkRecord) error { return nil }); err == nil {
			t.Errorf("scan %d, a byte less: got no error", i)
		}
	}
}

// ruledBuilder returns a builder with one shard, before it reuses anything.
func ruledBuilder() *builder {
	return &builder{
		opt: Options{ChunkSize: 100}, format: format.Format{Name: "tar", Changes: 3}, units: []unit{{0, 1}}, prefix: "p/",
		found:  &format.Dataset{Framing: json.RawMessage(`{"a":1}`), Overlap: 5, Shards: []format.Shard{{Object: format.Object{Key: "a.tar"}, Says: "says"}}},
		shards: []objstore.Object{{Key: "p/a.tar", Size: 7, ETag: "e"}},
	}
}

// ruleChanges contains the changes after which no scan of a shard may be reused.
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

// TestReuse_RequiresTheSameRulesAndVersions checks that each change prevents the reuse of a scan in
// an index and of a stored scan.
func TestReuse_RequiresTheSameRulesAndVersions(t *testing.T) {
	first := ruledBuilder()
	m := layout.Meta{
		Format: "tar", Scanner: first.format.Rules(), Cutter: cutterChanges, ChunkSize: 100, Overlap: 5, Framing: json.RawMessage(`{"a":1}`),
	}
	shards := []layout.Shard{{Key: "a.tar", Size: 7, ETag: "e", Says: layout.SaysDigest("says")}}
	same := func(b *builder, m *layout.Meta) bool { return b.sameRules(*m) && b.unchanged(shards, b.units[0], 0) }
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
	if first.unchanged(shards, unit{0, 1}, 1) {
		t.Error("a shard past the last one of the index is used again")
	}
}

// TestBuildOptions_FillsInAndBounds checks that withDefaults sets defaults and checks limits.
func TestBuildOptions_FillsInAndBounds(t *testing.T) {
	got, err := Options{Parallel: -1}.withDefaults()
	if want := (layout.Defaults{Shuffle: "slot", Window: 128, BatchSize: 256, Tail: "short"}); err != nil || got.ChunkSize != 8<<20 || got.Parallel != 4 || got.Defaults != want {
		t.Errorf("got %+v, %v", got, err)
	}
	given := Options{ChunkSize: 1, Parallel: 9, Name: "n", Match: "{a,b}*", Defaults: layout.Defaults{Shuffle: "epoch", Window: 1, Seed: 2, BatchSize: 3, Tail: "drop"}}
	if got, err := given.withDefaults(); err != nil || !reflect.DeepEqual(got, given) {
		t.Errorf("got %+v, %v, want %+v", got, err, given)
	}
	for size, ok := range map[int64]bool{-1: false, 1: true, layout.MaxChunkSize: true, layout.MaxChunkSize + 1: false} {
		if _, err := (Options{ChunkSize: size}).withDefaults(); (err == nil) != ok {
			t.Errorf("chunk size %d: got %v", size, err)
		}
	}
	for _, o := range []Options{{Name: "A"}, {Name: strings.Repeat("n", 65)}, {Name: "a/b"}, {Match: "[a"}, {Match: "{a,[b}"}} {
		if _, err := o.withDefaults(); err == nil || !strings.Contains(err.Error(), o.Name+o.Match) {
			t.Errorf("%+v: got %v, want it named", o, err)
		}
	}
}

// buildLater runs an index with the scanner rules of a later release.
func buildLater(t *testing.T, store *memstore.Store) (Report, error) {
	t.Helper()
	b, err := newBuilder(store, "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	later := webdataset.Format()
	later.Changes++
	b.formats = []format.Format{later}
	err = b.run(t.Context())
	return b.report, err
}

// TestReuse_OtherScannerRules checks that a run with other scanner rules reuses neither the index
// nor the stored scans, and removes these scans.
func TestReuse_OtherScannerRules(t *testing.T) {
	store, _ := indexedTars(t)
	interrupted(t, store)
	rep, err := buildLater(t, store)
	if err != nil || rep.ReusedShards != 0 || rep.ReadBytes != rep.Bytes {
		t.Errorf("after an index and scans of older rules: got %+v, %v, want everything read again", rep, err)
	}
	for _, k := range store.Keys() {
		if strings.HasPrefix(k, layout.ScanDir) {
			t.Errorf("%s is left", k)
		}
	}
	if rep, err = buildLater(t, store); err != nil || !rep.Unchanged || rep.ReadBytes != 0 {
		t.Errorf("the same rules again: got %+v, %v", rep, err)
	}
}

// interrupted stores the scans of all shards in one object each, like a run that is killed before
// it publishes.
func interrupted(t *testing.T, store *memstore.Store) {
	t.Helper()
	saved, had := store.Bytes(layout.PointerKey)
	store.Delete(t.Context(), layout.PointerKey)
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Op == memstore.Put && c.Key == layout.PointerKey {
			return memstore.Fault{Err: objstore.ErrUnavailable}
		}
		return memstore.Fault{}
	})
	if _, err := RunKeeping(t.Context(), store, "", Options{Parallel: 1}, 1<<40, 1); !errors.Is(err, objstore.ErrUnavailable) {
		t.Fatalf("got %v, want %v", err, objstore.ErrUnavailable)
	}
	store.SetFault(nil)
	if had {
		store.Set(layout.PointerKey, saved)
	}
}
