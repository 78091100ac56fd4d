package datapath

import (
	"context"
	"errors"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// TestSource_UnpackGivesItsTurnBack checks that, however the read of a compressed chunk without
// room ends, the decoding memory is then available to the next batch.
func TestSource_UnpackGivesItsTurnBack(t *testing.T) {
	d := newDatasetOf(t, gzips, 1, same(10, 3000), 10, 1<<20)
	chunks := d.ranges(t, []uint64{3, 7})
	gone := errors.New("the client has gone")
	left, leave := context.WithCancelCause(t.Context())
	leave(gone)
	flip := func(b []byte) { b[len(b)/2] ^= 1 }
	for name, c := range map[string]struct {
		ctx   context.Context
		fault memstore.Fault
		kept  bool // the decoding memory exists
		want  error
	}{
		"read":      {t.Context(), memstore.Fault{}, true, nil},
		"denied":    {t.Context(), memstore.Fault{Err: objstore.ErrDenied}, true, objstore.ErrDenied},
		"damaged":   {t.Context(), memstore.Fault{Corrupt: flip}, true, chunkindex.ErrCorrupt},
		"left":      {left, memstore.Fault{}, true, gone},
		"no memory": {t.Context(), memstore.Fault{}, false, budget.ErrOverloaded},
	} {
		bubble.Test(t, func(t *testing.T) {
			p := newPath(t, Config{Budget: bud(1 << 20), NoPrefetch: true})
			s := p.Open(d.index, d.store, "set/")
			defer s.Close()
			if !c.kept {
				p.decoding.size.Store(0)
				p.decoding.fit()
			}
			all, err := p.budget.Reserve(t.Context(), p.budget.Total()-p.budget.InUse())
			if !c.kept { // and leave no free slots either
				p.cache.Reclaim(p.budget.Total(), chunkcache.AnyDue)
				all.Release()
				all, err = p.budget.Reserve(t.Context(), p.budget.Total()-p.budget.InUse())
			}
			must(t, err)
			defer all.Release()
			d.store.SetFault(func(memstore.Call) memstore.Fault { return c.fault })
			defer d.store.SetFault(nil)
			b := &request{chunks: chunks[:1]}
			e, want := extractOf(s, b, room{bytes: make([]byte, bytesOf(chunks[0]))})
			x := fillsOf(want.chunks, e.samples)[0]
			err = s.unpack(c.ctx, x)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%s: got %v, want %v", name, err, c.want)
			}
			for i, r := range chunks[0].Ranges {
				if err == nil && string(e.samples[i].data) != string(d.stored(chunks[0].Chunk, r)) {
					t.Errorf("%s: sample %d: got other bytes than stored", name, i)
				}
			}
			var at *chunkindex.RangeError
			if e := d.index.Extents(0)[0]; errors.Is(err, chunkindex.ErrCorrupt) && (!errors.As(err, &at) || at.Offset != e.Offset || at.Length != e.Length) {
				t.Errorf("%s: got %v, want the range of the whole chunk", name, err)
			}
			if len(p.decoding.kept) != 1 {
				t.Errorf("%s: got the turn to decode lost", name)
			}
			p.gate.check(t, name, 0, 0, 0, 0, 0)
		})
	}
}
