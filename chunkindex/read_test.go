package chunkindex

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// reads contains the read operations of an index, each with a fixed chunk or sample.
var reads = map[string]func(ctx context.Context, x *Index) error{
	"table":      func(ctx context.Context, x *Index) error { _, err := x.Table(ctx, 0); return err },
	"names":      func(ctx context.Context, x *Index) error { _, err := x.Names(ctx, 0); return err },
	"parts":      func(ctx context.Context, x *Index) error { _, err := x.Parts(ctx, 0); return err },
	"part names": func(ctx context.Context, x *Index) error { _, err := x.PartNames(ctx, 0); return err },
	"key":        func(ctx context.Context, x *Index) error { _, err := x.Key(ctx, x.Samples()-1); return err },
	"keys":       func(ctx context.Context, x *Index) error { return x.Keys(ctx, 0, func(uint64, []byte) {}) },
	"lookup":     func(ctx context.Context, x *Index) error { _, _, err := x.Lookup(ctx, "x", ""); return err },
	"repeats":    func(ctx context.Context, x *Index) error { _, _, err := x.RepeatedKeys(ctx); return err },
	"fetch":      func(ctx context.Context, x *Index) error { return x.Fetch(ctx, []uint64{0, x.Samples() - 1}) },
	"touched": func(ctx context.Context, x *Index) error {
		return x.Touched(ctx, BadRange{Length: 1}, func(uint64, []byte) {})
	},
}

// partlyStored returns an index of archives. Only its resident sections are local.
func partlyStored(t *testing.T) (*memstore.Store, *Index) {
	t.Helper()
	store, _ := smallStore(t)
	rep, err := IndexShards(t.Context(), store, "", IndexOptions{ChunkSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	return store, openInPart(t, store, rep.Generation)
}

// Each read operation returns the store's error, and succeeds once the store recovers.
func TestIndex_ReadsReturnTheErrorOfTheStore(t *testing.T) {
	for name, read := range reads {
		for _, want := range []error{objstore.ErrUnavailable, objstore.ErrDenied, objstore.ErrNotFound} {
			store, x := partlyStored(t)
			// In a small index, all sections share one page, which is therefore local:
			// discard it.
			p := x.segments[0].pages
			clear(p.recent.pages[:])
			p.from = func(context.Context, int64, []byte) error { return &FetchError{want} }
			if err := p.file.Truncate(p.base + p.begin); err != nil {
				t.Fatal(err)
			}
			if err := p.file.Truncate(x.size); err != nil {
				t.Fatal(err)
			}
			if err := read(t.Context(), x); !errors.Is(err, want) || errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: got %v, want %v", name, err, want)
			}
			s := &indexSource{store: store}
			p.from = s.segment(x.segments[0].Ref)
			if err := read(t.Context(), x); err != nil {
				t.Errorf("%s, after %v: %v", name, want, err)
			}
		}
	}
}

// Reads return when their context ends, whether the index is local or not.
func TestIndex_ReadsEndWithTheirContext(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	store, part := partlyStored(t)
	whole, err := Open(t.Context(), store, "", OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	for name, read := range reads {
		for _, x := range []*Index{part, whole} {
			if err := read(ended, x); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: got %v, want %v", name, err, context.Canceled)
			}
		}
	}
}

// TestIndex_BlockRefusesPlacesBeyondItsBounds checks that the rows of section 5 and the section's
// bounds limit both the range that is read and the allocated memory.
func TestIndex_BlockRefusesPlacesBeyondItsBounds(t *testing.T) {
	const row, size = layout.BlockRow, 2*layout.BlockRow + layout.MaxTable + 200
	for _, c := range []struct {
		name     string
		from, to uint64
		length   int64 // length of the section
		placed   bool  // section 5 accepts the range; only the section's bounds reject it
		ok       bool
	}{
		{"whole section", 0, 100, 100, true, true},
		{"at its end", 100, 100, 100, true, true},
		{"one byte past its end", 1, 101, 100, true, false},
		{"begins past its end", 101, 101, 100, true, false},
		{"ends before it begins", 11, 10, 100, false, false},
		{"longest block", 0, layout.MaxTable, 1 << 40, true, true},
		{"longer than any block", 0, layout.MaxTable + 1, 1 << 40, false, false},
		{"beyond 63 bits", 1 << 63, 1<<63 + 5, 1 << 40, false, false},
	} {
		b := make([]byte, 2*row)
		binary.LittleEndian.PutUint64(b, c.from)
		binary.LittleEndian.PutUint64(b[row:], c.to)
		f := fileOf(t, b)
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		digests, err := layout.SumPages(f, 0, size)
		if err != nil {
			t.Fatal(err)
		}
		s := Segment{pages: &pages{file: f, end: size, digests: digests, proved: make([]bool, layout.PagesOf(size)), recent: new(recent)}}
		s.head.Sections[layout.SecBlocks] = layout.Section{Length: 2 * row}
		s.head.Sections[layout.SecTables] = layout.Section{Offset: 2 * row, Length: c.length}
		x := &Index{lengths: []uint32{1}, segments: []Segment{s}}
		off, length, err := s.placeOf(t.Context(), layout.SecTables, 0)
		if (err == nil) != c.placed || err != nil && !errors.Is(err, layout.ErrMalformed) || err == nil && (off != int64(c.from) || off+length != int64(c.to)) {
			t.Errorf("%s: got [%d, +%d), %v, want accepted: %v", c.name, off, length, err, c.placed)
		}
		got, err := x.Block(t.Context(), layout.SecTables, 0)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, layout.ErrMalformed) || err == nil && uint64(len(got)) != c.to-c.from {
			t.Errorf("%s: got %d bytes, %v, want accepted: %v", c.name, len(got), err, c.ok)
		}
	}
	x := &Index{lengths: []uint32{1}}
	for _, chunk := range []int{-1, 1} {
		if _, err := x.Block(t.Context(), layout.SecTables, chunk); err == nil {
			t.Errorf("chunk %d of one: got a block", chunk)
		}
	}
}
