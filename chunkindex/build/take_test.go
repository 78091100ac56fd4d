package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// TestTake_RejectsUnlistedShards checks that take requires shards to be in the listing, in the
// order of the listing, and to have ETags.
func TestTake_RejectsUnlistedShards(t *testing.T) {
	for name, c := range map[string]struct {
		shards  string
		overlap int64
		want    string // error text; empty: no error
	}{
		"all":              {"a b c", 0, ""},
		"some":             {"b", format.MaxSample - 1, ""},
		"another":          {"a bb", 0, `shard "bb": not one of the listed objects`},
		"past the last":    {"d", 0, `shard "d": not one of the listed objects`},
		"out of order":     {"b a", 0, `shard "a": not one of the listed objects, or not in their order`},
		"twice":            {"a a", 0, `shard "a": not one of the listed objects, or not in their order`},
		"without an ETag":  {"e", 0, "shard e: the store returned no ETag"},
		"negative overlap": {"a", -1, "samples share more bytes"},
		"larger overlap":   {"a", format.MaxSample, "samples share more bytes"},
	} {
		store := memstore.New()
		var objects []objstore.Object
		for i, key := range []string{"p/a", "p/b", "p/c", "p/e"} {
			o := store.Set(key, make([]byte, 1<<i))
			if key == "p/e" {
				o.ETag = ""
			}
			objects = append(objects, o)
		}
		b := &builder{prefix: "p/", store: store, found: &format.Dataset{Overlap: c.overlap}, format: format.Format{Name: "f"}}
		var size int64
		for key := range strings.FieldsSeq(c.shards) {
			b.found.Shards = append(b.found.Shards, format.Shard{Object: format.Object{Key: key}})
			size += 1 << max(0, strings.Index("abce", key))
		}
		err := b.take(newListing(store, "p/", objects))
		if c.want == "" {
			if err != nil || len(b.shards) != len(b.found.Shards) || b.report.Bytes != size || b.report.Format != "f" {
				t.Errorf("%s: got %v, %+v", name, err, b.report)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// TestEmpty_SuggestsNearbyNames checks that empty suggests an object with this name, or objects
// with similar names, if there are any.
func TestEmpty_SuggestsNearbyNames(t *testing.T) {
	for _, c := range []struct{ keys, prefix, want string }{
		{"", "", "the location is empty"},
		{"", "photos/", `no objects under "photos/"`},
		{"x/a.tar", "x/a.tar/", `x/a.tar is an object: use its prefix, "x/", and --match "a.tar"`},
		{"phot/1 photo.tar phots/1 phots/2 .millrace/current", "photos/", `no objects under "photos/"; found nearby: phot/, photo.tar, phots/`},
		{"x/a/1 x/b/1 x/c/1 x/d/1 x/k/1 x/l/1 x/m/1 x/n/1", "x/e/", "found nearby: b/, c/, d/, k/, l/, m/"},
		{"y/a", "x/e/", `no objects under "x/e/"`},
	} {
		store := memstore.New()
		for key := range strings.FieldsSeq(c.keys) {
			store.Set(key, []byte("x"))
		}
		b := &builder{prefix: c.prefix, store: store}
		if got := b.empty(t.Context()); !strings.Contains(got, c.want) || !strings.Contains(c.want, "found nearby") && strings.Contains(got, "found nearby") {
			t.Errorf("%s: got %s, want %s", c.prefix, got, c.want)
		}
	}
	if got := counts([]claim{{format.Format{Name: "a"}, &format.Dataset{Shards: make([]format.Shard, 2)}}, {format.Format{Name: "b"}, &format.Dataset{}}}); got != "a 2, b 0" {
		t.Errorf("got %s", got)
	}
}

// TestReadSome_ReturnsEachError checks the error for a loose object that cannot be read or scanned.
// The error must name the object, and the object's bytes must not be counted.
func TestReadSome_ReturnsEachError(t *testing.T) {
	stop := errors.New("stop")
	for _, want := range []error{objstore.ErrUnavailable, objstore.ErrChanged, stop, nil} {
		store := memstore.New()
		b := &builder{store: store, opt: Options{Parallel: 3}, found: &format.Dataset{Loose: true}}
		for i := range 5 {
			b.shards = append(b.shards, store.Set(fmt.Sprint("o", i), []byte("sample")))
		}
		b.found.Scan = func(_ context.Context, shard int, _ io.Reader, _ format.Sink) error {
			if shard == 3 && want == stop {
				return stop
			}
			return nil
		}
		store.SetFault(func(c memstore.Call) memstore.Fault {
			if c.Key == "o3" && want != stop {
				return memstore.Fault{Err: want}
			}
			return memstore.Fault{}
		})
		err := b.readSome(t.Context(), unit{0, 5}, 0, 5, newCutter(100, func(*layout.ChunkRecord) error { return nil }))
		if !errors.Is(err, want) || want != nil && !strings.Contains(err.Error(), "object o3: ") {
			t.Errorf("got %v, want %v of o3", err, want)
		}
		if read := map[error]int64{stop: 18, nil: 30}[want]; b.report.ReadBytes != read || b.progress.Done != read {
			t.Errorf("%v: got %d bytes read, %+v, want %d", want, b.report.ReadBytes, b.progress, read)
		}
	}
}
