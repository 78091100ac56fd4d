package datapath

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// TestLayout_PiecesCoverAPortion checks that the pieces of a portion cover its bytes in order, that
// each is in one extent, and that none is longer than the maximum read.
func TestLayout_PiecesCoverAPortion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l layout
		var all []chunkindex.Extent // extent of each byte
		for i := range rapid.IntRange(1, 4).Draw(t, "extents") {
			e := chunkindex.Extent{Shard: i, Offset: rapid.Int64Range(0, 9).Draw(t, "at"), Length: rapid.Int64Range(0, 30).Draw(t, "length")}
			l.exts = append(l.exts, e)
			for k := range e.Length {
				all = append(all, chunkindex.Extent{Shard: i, Offset: e.Offset + k, Length: 1})
			}
			l.ends = append(l.ends, int64(len(all)))
		}
		if len(l.exts) == 1 {
			l.ends = nil
		}
		offset := rapid.IntRange(0, len(all)).Draw(t, "offset")
		if offset < len(all) {
			if got := l.at(int64(offset)); got != l.exts[all[offset].Shard] {
				t.Fatalf("got byte %d in %+v, want shard %d", offset, got, all[offset].Shard)
			}
			if i, rest := l.from(int64(offset)); i != all[offset].Shard || l.exts[i].Offset+rest != all[offset].Offset {
				t.Fatalf("got byte %d at %d of extent %d, want %+v", offset, rest, i, all[offset])
			}
		} else if got := l.at(int64(offset)); got != l.exts[len(l.exts)-1] {
			t.Fatalf("got %+v behind all, want the last extent", got)
		}
		length := rapid.IntRange(0, len(all)-offset).Draw(t, "bytes")
		part := rapid.Int64Range(1, 20).Draw(t, "part")
		most := rapid.Int64Range(part, 20).Draw(t, "most")
		p := &portion{offset: int64(offset), stored: make([]byte, length)}
		at := 0
		ps := l.pieces([]piece{{}}, p, part, most)
		for _, x := range ps[1:] {
			if x.ext.Length > most || x.ext.Length > part+part/2 || x.of != p || int64(len(x.dst)) != x.ext.Length || cap(x.dst) != len(x.dst) {
				t.Fatalf("got a piece of %+v with %d bytes of memory, parts are %d and at most %d", x.ext, len(x.dst), part, most)
			}
			for k := range x.dst {
				if want := all[offset+at]; want.Shard != x.ext.Shard || want.Offset != x.ext.Offset+int64(k) || &x.dst[k] != &p.stored[at] {
					t.Fatalf("got byte %d at %+v+%d, want %+v", at, x.ext, k, want)
				}
				at++
			}
		}
		if at != length {
			t.Fatalf("got pieces of %d bytes, want %d", at, length)
		}
	})
}

// TestReadRange_CountsAndSlowsDown checks that a read is counted when it begins, and its bytes when
// it ends. Only a store that throttles or times out loses a place. The error names the shard and
// the range.
func TestReadRange_CountsAndSlowsDown(t *testing.T) {
	d := newDataset(t, 1, same(40, 3000), 10, 1<<20)
	chunks := d.ranges(t, []uint64{12})
	r := chunks[0].Ranges[0]
	for err, places := range map[error]int{
		nil: DefaultFetchers, objstore.ErrThrottled: DefaultFetchers - 1, objstore.ErrTimeout: DefaultFetchers - 1,
		objstore.ErrUnavailable: DefaultFetchers, objstore.ErrDenied: DefaultFetchers, objstore.ErrChanged: DefaultFetchers, objstore.ErrShort: DefaultFetchers,
	} {
		p := newPath(t, Config{Budget: bud(1 << 20), NoPrefetch: true})
		s := p.Open(d.index, d.store, "set/")
		d.store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Err: err} })
		body, got := s.Read(t.Context(), shuffle.Cursor{}, chunks)
		d.store.SetFault(nil)
		read := uint64(0)
		if got == nil {
			read = uint64(r.Length)
			body.Close()
		}
		if !errors.Is(got, err) || p.gate.places() != places {
			t.Errorf("%v: got %v and %d places, want %d", err, got, p.gate.places(), places)
		}
		if st := p.Stats(); st.StoreReads != 1 || st.RangeReads != 1 || st.StoreBytes != read || st.RangeBytes != read {
			t.Errorf("%v: got %d reads of %d bytes, by ranges %d of %d; want 1 of %d", err, st.StoreReads, st.StoreBytes, st.RangeReads, st.RangeBytes, read)
		}
		e := d.index.Extents(chunks[0].Chunk)[0]
		want := chunkindex.RangeError{Shard: e.Shard, Key: d.index.Shard(e.Shard).Key, Offset: e.Offset + int64(r.Offset), Length: int64(r.Length)}
		var at *chunkindex.RangeError
		if err == nil {
			continue
		}
		if !errors.As(got, &at) {
			t.Errorf("%v: got %v, want an error of a range", err, got)
			continue
		}
		if at.Shard != want.Shard || at.Key != want.Key || at.Offset != want.Offset || at.Length != want.Length {
			t.Errorf("%v: got %+v, want %+v", err, at, want)
		}
		p.idle(t, "read")
	}
}

// TestSource_ReadEndsWithItsCause checks that a read whose context ends returns the cause of the
// context, not an error of the store.
func TestSource_ReadEndsWithItsCause(t *testing.T) {
	d := newDataset(t, 1, same(40, 3000), 10, 1<<20)
	chunks := d.ranges(t, []uint64{12})
	p := newPath(t, Config{Budget: bud(1 << 20), NoPrefetch: true})
	s := p.Open(d.index, d.store, "set/")
	gone := errors.New("the client has gone")
	ctx, leave := context.WithCancelCause(t.Context())
	l := s.layout(chunks[0].Chunk)
	portions := []*portion{{
		chunk: chunks[0].Chunk, layout: l, offset: int64(chunks[0].Ranges[0].Offset), crc: chunks[0].Ranges[0].CRC32C,
		stored: make([]byte, chunks[0].Ranges[0].Length), gates: []*gate{p.gate},
	}}
	d.store.SetFault(func(memstore.Call) memstore.Fault { leave(gone); return memstore.Fault{Err: objstore.ErrUnavailable} })
	defer d.store.SetFault(nil)
	for _, when := range []string{"while it reads", "before"} {
		var at *chunkindex.RangeError
		if err := s.read(ctx, portions, 1<<20, nil); !errors.Is(err, gone) || errors.As(err, &at) {
			t.Errorf("ended %s: got %v, want %v", when, err, gone)
		}
	}
	if got := p.Stats().StoreReads; got != 1 {
		t.Errorf("got %d reads of the store, want none after the end", got)
	}
	p.idle(t, "ended")
}
