package shuffle

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// digestWords hashes words and texts as docs/spec/order.md defines the digests of orders.
func digestWords(parts ...any) string {
	var b []byte
	for _, part := range parts {
		switch v := part.(type) {
		case string:
			b = append(b, v...)
		case []uint64:
			for _, w := range v {
				b = binary.LittleEndian.AppendUint64(b, w)
			}
		}
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// TestOrderDigests_AreThoseOfTheirWords compares digests with the specified words. Some orders have
// so many chunks that their words are hashed in parts.
func TestOrderDigests_AreThoseOfTheirWords(t *testing.T) {
	name := "0123456789abc" // two words
	named := []uint64{13, binary.LittleEndian.Uint64([]byte(name[:8])), binary.LittleEndian.Uint64([]byte(name[8:] + "\x00\x00\x00"))}
	for _, n := range []uint64{1, 507, 508, 509, 1500} {
		first, totals, members := equal(n, 3), make([]uint64, n), make([]uint64, n+1)
		for i := range totals {
			totals[i], members[i+1] = uint64(i)+1, members[i]+uint64(i)%4
		}
		head := func(shuffle string, samples uint64) []uint64 { return []uint64{1, uint64(newKey(shuffle)), samples} }
		window := slices.Concat(head(Window, 3*n), []uint64{7, 4, n}, first[1:])
		subset := slices.Concat([]uint64{uint64(newKey("subset"))}, named)
		for want, got := range map[string]*Plan{
			digestWords(head(None, 3*n)):                                                mustPlan(t, Params{Shuffle: None, Seed: 7}, first),
			digestWords(head(Full, 3*n), []uint64{7}):                                   mustPlan(t, Params{Shuffle: Full, Seed: 7, Window: 4}, first),
			digestWords(window):                                                         mustPlan(t, Params{Shuffle: Window, Seed: 7, Window: 4}, first),
			digestWords(window, []uint64{uint64(newKey("strata")), 2}):                  mustPlan(t, Params{Shuffle: Window, Seed: 7, Window: 4, Strata: 2}, first),
			digestWords(head(None, 3*n), []uint64{7}, named, []uint64{n}, totals):       weightedPlan(t, Params{Shuffle: None, Seed: 7, Importance: name}, first, totals),
			digestWords(head(Full, members[n]), []uint64{7}, subset):                    subsetPlan(t, Params{Shuffle: Full, Seed: 7, Subset: name}, first, members),
			digestWords(head(Slot, members[n]), []uint64{7, 4, n}, members[1:], subset): subsetPlan(t, Params{Shuffle: Slot, Seed: 7, Window: 4, Subset: name}, first, members),
		} {
			if d := got.OrderDigest(); d != want {
				t.Errorf("%d chunks, %+v: got %s, want %s", n, got.params, d, want)
			}
		}
		bad := []uint64{0, 2}
		q, err := NewQuarantine(9, first, bad)
		if err != nil {
			t.Fatal(err)
		}
		plan := mustPlan(t, Params{Shuffle: Full}, first)
		if got, want := q.OrderDigest(plan), digestWords(plan.OrderDigest(), []uint64{uint64(newKey("quarantine")), 9, n}, first[1:], []uint64{2}, bad); got != want {
			t.Errorf("a quarantine over %d chunks: got %s, want %s", n, got, want)
		}
	}
	for batch, from := range map[uint64][]Ingredient{0: {{5, 2, 0}, {9, 1, 0}}, 7: {{5, 2, 3}, {9, 1, 4}}} {
		m, err := NewMixture(3, 28, from)
		if err != nil {
			t.Fatal(err)
		}
		weights := []uint64{2, 1}
		if batch > 0 { // weights have no effect if counts are fixed
			weights = []uint64{0, 0}
		}
		want := digestWords([]uint64{1, uint64(newKey("mixture")), 3, 28, 2, 5, weights[0], from[0].PerBatch}, "one", []uint64{9, weights[1], from[1].PerBatch}, "two")
		if got := m.OrderDigest([]string{"one", "two"}); got != want || m.BatchSize() != batch {
			t.Errorf("batches of %d: got %s, want %s", batch, got, want)
		}
	}
}

func weightedPlan(t *testing.T, params Params, first, totals []uint64) *Plan {
	t.Helper()
	p, err := NewWeightedPlan(params, first, totals)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func subsetPlan(t *testing.T, params Params, first, members []uint64) *Plan {
	t.Helper()
	p, err := NewSubsetPlan(params, first, members)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestQuarantine_MostIsReached checks that Most returns the maximum number of deliveries of each
// sample, which many epochs reach.
func TestQuarantine_MostIsReached(t *testing.T) {
	first, bad := prefix(4, 3, 0, 2, 5), []uint64{0, 1, 2, 7, 8, 9, 10} // chunk 3 takes substitutes from chunk 4
	q, err := NewQuarantine(5, first, bad)
	if err != nil {
		t.Fatal(err)
	}
	given := slices.Clone(bad)
	bad[0] = 3 // the list is copied
	most := make([]uint64, 14)
	for epoch := range uint64(400) {
		times := make([]uint64, 14)
		for x := range uint64(14) {
			times[q.Substitute(epoch, x)]++
		}
		for x := range most {
			most[x] = max(most[x], times[x])
		}
	}
	want := []uint64{0, 0, 0, 4, 1, 1, 1, 0, 0, 0, 0, 3, 3, 3}
	for x := range uint64(16) {
		if got := q.Most(x); x < 14 && (got != want[x] || most[x] != want[x]) || x >= 14 && (got != 0 || q.Replaced(1, x) != nil) {
			t.Errorf("sample %d: got at most %d, delivered %v times, want %v", x, got, most, want)
		}
	}
	if !slices.Equal(q.Bad(), given) || q.Len() != 7 || q.Has(3) || !q.Has(0) || q.Replaced(1, 0) != nil {
		t.Errorf("got the list %v of %d, want %v", q.Bad(), q.Len(), given)
	}
	if got, want := q.Bytes(), int64(256+8*(cap(q.bad)+cap(q.chunks))+16*cap(q.broken)); got != want || want < 256+8*(7+6)+16*3 {
		t.Errorf("got %d bytes of memory, want %d", got, want)
	}
}

// TestMembers_OfLongBitmaps compares Members with a list, for chunks longer than one or two words
// of the bitmap.
func TestMembers_OfLongBitmaps(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.Uint64Range(1, 200).Draw(r, "samples")
		bitmap := make([]byte, (n+7)/8)
		var places []uint64
		for place := range n {
			if rapid.IntRange(0, 3).Draw(r, "member") > 1 {
				bitmap[place/8] |= 1 << (place % 8)
				places = append(places, place)
			}
		}
		k := uint64(len(places))
		m := subsetPlan(t, Params{Shuffle: None, Subset: "s"}, prefix(3, n, 1), []uint64{0, 2, 2 + k, 2 + k}).Members()
		for i, place := range places {
			if got := m.Sample(1, bitmap, 2+uint64(i)); got != place {
				r.Errorf("member %d: got place %d, want %d", i, got, place)
			}
		}
		for place := range n {
			i, member := slices.BinarySearch(places, place)
			if v, ok := m.Of(1, bitmap, place); ok != member || ok && v != 2+uint64(i) {
				r.Errorf("place %d: got %d, %t, want %d, %t", place, v, ok, 2+i, member)
			}
		}
	})
}

// TestPlan_HomesOfChunksWithoutDraws requests homes of chunks that have no piece in the layout of
// the draws, and of chunks that do not exist.
func TestPlan_HomesOfChunksWithoutDraws(t *testing.T) {
	p := weightedPlan(t, Params{Shuffle: Slot, Window: 4, Importance: snapshot}, prefix(10, 10, 0, 10, 10), []uint64{0, 5, 0, 5, 0})
	strata := mustPlan(t, Params{Shuffle: Window, Window: 4, Strata: 2}, prefix(5, 0, 5))
	for _, c := range []struct {
		plan  *Plan
		chunk uint64
		ok    bool
	}{
		{p, 0, false}, {p, 1, true}, {p, 2, false}, {p, 3, true}, {p, 4, false}, {p, 5, false}, {p, math.MaxUint64, false},
		{strata, 0, true}, {strata, 1, false}, {strata, 2, true}, {strata, 3, false},
		{mustPlan(t, Params{Shuffle: Full}, prefix(5)), 0, false},
		{mustPlan(t, Params{Shuffle: Slot, Window: 2}, prefix(0, 0)), 1, false},
	} {
		if first, last, ok := c.plan.HomeGroups(c.chunk, 2); ok != c.ok || first > last || last > 1 {
			t.Errorf("%+v, chunk %d: got groups %d to %d, %t, want %t", c.plan.params, c.chunk, first, last, ok, c.ok)
		}
		place, of := c.plan.Home(c.chunk)
		if home := of > 0; place >= max(1, of) || c.plan != strata && home != c.ok || c.plan == strata && home != (c.chunk < 3) {
			t.Errorf("%+v, chunk %d: got home %d of %d", c.plan.params, c.chunk, place, of)
		}
	}
}

// TestEpoch_WithoutSamples calls the methods of an epoch that has no samples.
func TestEpoch_WithoutSamples(t *testing.T) {
	for _, params := range []Params{{Shuffle: None}, {Shuffle: Full}, {Shuffle: Window, Window: 2}, {Shuffle: Window, Window: 2, Strata: 2}, {Shuffle: Slot, Window: 2}} {
		for _, first := range [][]uint64{{0}, {0, 0}, {0, 0, 0, 0}} {
			p := mustPlan(t, params, first)
			e := p.Epoch(3)
			if got := e.AppendShare([]uint64{9}, Share{First: 0, Count: 3, Padded: 3}); !slices.Equal(got, []uint64{9}) {
				t.Errorf("%+v: got the share %v, want nothing appended", params, got)
			}
			for s := range e.Spans(0) {
				t.Errorf("%+v: got the span %+v", params, s)
			}
			if s, ok := e.Next(0, 0); ok {
				t.Errorf("%+v: got the next span %+v", params, s)
			}
			b := Batching{Samples: p.Samples(), BatchSize: 4, Tail: Pad}
			if moved := p.Moved(b, 2, 2); b.Batches() != 0 || moved != 0 || p.Reads() != 0 || e.Number() != 3 {
				t.Errorf("%+v: got %d batches, %v moved, %d reads", params, b.Batches(), moved, p.Reads())
			}
			if s, ok := e.Sequence(); ok && len(s.Chunks) != len(first)-1 {
				t.Errorf("%+v: got a sequence of %d chunks, want %d", params, len(s.Chunks), len(first)-1)
			}
			if _, ok := p.BatchVariance(4); ok {
				t.Errorf("%+v: got a variance of no samples", params)
			}
		}
	}
}

// TestWeightStats_OfProductsBeyondAWord has a weight whose product with the draws exceeds 64 bits.
// Without the upper word its sample would not count as always drawn.
func TestWeightStats_OfProductsBeyondAWord(t *testing.T) {
	for _, c := range []struct {
		draws, total uint64
		weights      []uint32
		want         float64
	}{
		{1 << 62, math.MaxUint64, []uint32{4, 1}, .625}, // 2^64, whose lower word is 0, and a quarter
		{2, 8, []uint32{4, 3, 1}, (1 + .75 + .25) / 3},  // exactly one draw
		{3, 8, []uint32{0, 0, 8}, 1. / 3},               // samples without weight
		{4, 4, []uint32{1, 1, 1, 1}, 1},                 // each once
		{1, 1 << 40, []uint32{1 << 20}, 1. / (1 << 20)}, // rarely
		{4, 4, nil, 0},            // no samples
		{4, 0, []uint32{0, 0}, 0}, // no weight at all
	} {
		s := NewWeightStats(c.draws, c.total)
		s.Add(c.weights)
		if got := s.Coverage(); !(math.Abs(got-c.want) <= 1e-12) { // NaN is wrong too
			t.Errorf("%+v: got coverage %v, want %v", c, got, c.want)
		}
	}
}

// TestCursor_LaterOfTails requests the last batch, which is short, with every tail policy.
func TestCursor_LaterOfTails(t *testing.T) {
	p := mustPlan(t, Params{Shuffle: Slot, Window: 2}, prefix(5, 5))
	e := p.Epoch(0)
	for tail, want := range map[Tail]bool{Short: true, "": true, Drop: false, Pad: false} {
		for _, sharing := range []Sharing{Contiguous, Locality} {
			c := Cursor{Plan: p, Epoch: e, BatchSize: 4, Tail: tail, Sharing: sharing}
			for n, whole := range []bool{true, true, want, false} {
				got, ok := c.Later(nil, uint64(n))
				if ok != whole {
					t.Errorf("tail %q, sharing %q, %d batches later: got %t, want %t", tail, sharing, n, ok, whole)
				}
				if ok && fmt.Sprint(got) != fmt.Sprint(e.Append(nil, uint64(4*n), min(10, uint64(4*n+4)))) {
					t.Errorf("tail %q, sharing %q, %d batches later: got %v", tail, sharing, n, got)
				}
			}
		}
	}
}
