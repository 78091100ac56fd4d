package build

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// TestBuild_RefusesShardsOfAnotherLength checks that a shard whose length differs from the listing
// returns an error.
func TestBuild_RefusesShardsOfAnotherLength(t *testing.T) {
	store := memstore.New()
	body := "{\"a\":1}\n{\"a\":2}\n"
	o := store.Set("a.jsonl", []byte(body))
	for _, by := range []int64{-1, 1, 8} {
		b, err := newBuilder(store, "", Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.close()
		if err := b.list(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.shards[0].Size = o.Size + by
		w, err := b.writer(0)
		if err != nil {
			t.Fatal(err)
		}
		w.begin()
		err = b.readShard(t.Context(), 0, newCutter(100, w.write))
		if !errors.Is(err, objstore.ErrShort) || !strings.Contains(err.Error(), fmt.Sprintf("shard a.jsonl: short: %d bytes were read, not %d", o.Size, o.Size+by)) || b.report.ReadBytes != 0 {
			t.Errorf("%+d: got %v after %d bytes", by, err, b.report.ReadBytes)
		}
		if n := store.InFlight(); n != 0 {
			t.Errorf("%+d: %d requests have not ended", by, n)
		}
	}
}

// noted stores these parts notes in this order and makes the builder read them.
func noted(t *testing.T, b *builder, notes ...partsNote) {
	t.Helper()
	var objects []objstore.Object
	for i, n := range notes {
		text, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		o := b.index.Store.(*memstore.Store).Set(fmt.Sprint(layout.ScanDir, partsKey, i), text)
		o.Modified = time.Unix(int64(i+1), 0)
		objects = append(objects, o)
	}
	if err := b.readNotes(t.Context(), objects); err != nil {
		t.Fatal(err)
	}
}

// partsBuilder returns a builder with three shards that were written at 1, 2 and 3 seconds.
func partsBuilder() *builder {
	b := &builder{prefix: "p/", index: Place{Store: memstore.New()}, opt: Options{Name: "n", Data: "d", Share: Share{Options: "mine"}}, found: &format.Dataset{}}
	for i := range 3 {
		b.shards = append(b.shards, objstore.Object{Key: fmt.Sprintf("p/%d", i), Size: 10 << i, Modified: time.Unix(int64(i+1), 0)})
		b.units = append(b.units, unit{i, i + 1})
	}
	return b
}

// TestReadNotes_UsesOnlyItsIndex checks that readNotes uses only the notes of its index, and
// distinguishes an unreadable note from a store error.
func TestReadNotes_UsesOnlyItsIndex(t *testing.T) {
	mine := partsNote{partsVersion, "n", "d", 2, "mine"}
	for name, c := range map[string]struct {
		change func(n *partsNote)
		begun  int
		named  bool
	}{
		"mine":          {func(*partsNote) {}, 1, false},
		"other options": {func(n *partsNote) { n.Options = "theirs" }, 1, false},
		"another index": {func(n *partsNote) { n.Index = "" }, 0, true},
		"other data":    {func(n *partsNote) { n.Data = "" }, 0, true},
		"newer":         {func(n *partsNote) { n.Version++ }, 0, false},
		"of no parts":   {func(n *partsNote) { n.Parts = 0 }, 0, false},
	} {
		n := mine
		c.change(&n)
		b := partsBuilder()
		if noted(t, b, n); len(b.begun) != c.begun || len(b.notes) != c.begun || b.named != c.named {
			t.Errorf("%s: got %+v, notes %q, named %v", name, b.begun, b.notes, b.named)
		}
	}
	for _, c := range []struct{ fault, want error }{
		{objstore.ErrNotFound, nil}, {objstore.ErrChanged, nil}, {objstore.ErrUnavailable, objstore.ErrUnavailable}, {objstore.ErrDenied, objstore.ErrDenied},
	} {
		b := partsBuilder()
		store := b.index.Store.(*memstore.Store)
		o, empty := store.Set("o", []byte("{}")), store.Set("empty", nil)
		store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Err: c.fault} })
		if err := b.readNotes(t.Context(), []objstore.Object{empty, o}); !errors.Is(err, c.want) || len(b.begun) != 0 {
			t.Errorf("%v: got %v, want %v", c.fault, err, c.want)
		}
	}
}

// TestJoinable_ReportsThePartsOfItsOptions checks that joinable reports the note with the same
// options, otherwise the most recent note.
func TestJoinable_ReportsThePartsOfItsOptions(t *testing.T) {
	note := func(parts int, options string) partsNote { return partsNote{partsVersion, "n", "d", parts, options} }
	b := partsBuilder()
	noted(t, b, note(2, "mine"), note(3, "mine"), note(4, "theirs"))
	e, ok := errors.AsType[*PartsError](b.joinable([]int{0, 2}))
	if !ok || !e.Same || e.Parts != 3 || e.Shards != 3 || e.Bytes != 50 || e.Newer != 1 || e.After != "2" || len(e.Other) != 1 || e.Other[0].Parts != 4 {
		t.Errorf("got %+v", e)
	}
	if want := []Lack{{0, 1, "0"}, {2, 1, "2"}}; !slices.Equal(e.Lacks, want) || e.Error() != "2 of 3 shards are missing, such as 0, of 2 of 3 parts" {
		t.Errorf("got %v, %+v, want %+v", e, e.Lacks, want)
	}
	b = partsBuilder()
	noted(t, b, note(2, "theirs"), note(4, "others"))
	e, ok = errors.AsType[*PartsError](b.joinable([]int{1}))
	if !ok || e.Same || e.Parts != 4 || len(e.Other) != 2 || e.Newer != 0 || e.After != "" {
		t.Errorf("other options: got %+v", e)
	}
	for name, change := range map[string]func() []int{
		"nothing missing": func() []int { return nil },
		"the rest":        func() []int { b.opt.Share.Rest = true; return []int{0} },
		"no parts":        func() []int { b.opt.Share.Rest, b.begun = false, nil; return []int{0} },
	} {
		b = partsBuilder()
		noted(t, b, note(2, "mine"))
		if err := b.joinable(change()); err != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
