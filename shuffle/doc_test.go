package shuffle

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestWorkedExample checks the figures that docs/spec/order.md prints.
func TestWorkedExample(t *testing.T) {
	page, err := os.ReadFile("../docs/spec/order.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ")
	first := prefix(3, 0, 5, 2, 4)
	var want []string
	for _, name := range []string{None, Window, Slot, Full} {
		e := mustPlan(t, exampleParams(name), first).Epoch(0)
		want = append(want, name+" "+joined(e.Append(nil, 0, 14)))
	}
	want = append(want, weightedExample(t, first)...)
	want = append(want, costsExample(t, first)...)
	want = append(want, stratifiedExample(t, first)...)
	want = append(want, slotExample(t, first)...)
	want = append(want, mixtureExample(t)...)
	k := newKey("chunks", 42)
	large := newPerm(newKey("full", 42, 0), 1000)
	var begins []uint64
	for i := range uint64(8) {
		begins = append(begins, large.at(i))
	}
	want = append(want,
		fmt.Sprintf("`mix(1)` = %#x.", mix(1)),
		fmt.Sprintf("`key(\"chunks\", 42)` = %#x, its first words are %#x, 0x%016x, %#x,", uint64(k), k.word(0), k.word(1), k.word(2)),
		fmt.Sprintf("are %d, %d, %d, %d.", k.draw(4, 5), k.draw(3, 4), k.draw(2, 3), k.draw(1, 2)),
		fmt.Sprintf("= %#x and n = 1000, a = b = %d and perm begins %s.", uint64(large.k), large.a, joined(begins)),
	)
	for _, name := range []string{Slot, None} {
		p := mustPlan(t, exampleParams(name), first)
		want = append(want, fmt.Sprintf("for `%s`, %s", name, p.OrderDigest()))
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("docs/spec/order.md: got no %q", w)
		}
	}
}

// exampleParams returns the parameters of the example's orders.
func exampleParams(name string) Params {
	if name == Slot {
		return Params{Shuffle: name, Window: 3, Seed: 42}
	}
	return Params{Shuffle: name, Window: 2, Seed: 42}
}

// slotExample returns the figures of the example's lanes, and of a subset, a quarantine and homes
// in the slot order.
func slotExample(t *testing.T, first []uint64) []string {
	p := mustPlan(t, exampleParams(Slot), first)
	e := p.Epoch(0)
	var want []string
	for j := range e.slot.turn {
		var pieces, begins []string
		for place := e.slot.firstPiece[j]; place < e.slot.firstPiece[j+1]; place++ {
			var in piece
			e.slot.setPiece(&in, j, int(place))
			pieces = append(pieces, fmt.Sprintf("(%d, %d, %d)", in.chunk, in.offset, in.perm.n))
			begins = append(begins, fmt.Sprint(e.slot.start[place]-e.slot.cut[j]))
		}
		want = append(want, fmt.Sprintf("| %s | %s | %d |", joined(pieces), joined(begins), e.slot.turn[j]))
	}
	s := split{first: first}
	for i := range len(first) - 1 {
		b := make([]byte, (first[i+1]-first[i]+7)/8)
		for x := first[i]; x < first[i+1]; x++ {
			if x%3 > 0 {
				b[(x-first[i])/8] |= 1 << ((x - first[i]) % 8)
			}
		}
		s.bitmaps = append(s.bitmaps, b)
	}
	params := exampleParams(Slot)
	params.Subset = "odd"
	_, members := s.members()
	subset, err := NewSubsetPlan(params, first, members)
	if err != nil {
		t.Fatal(err)
	}
	samples := subset.Epoch(0).Append(nil, 0, subset.Samples())
	for i, x := range samples {
		samples[i] = s.stored(subset.Members(), x)
	}
	want = append(want, fmt.Sprintf("`slot` delivers %s, and its digest is %s.", joined(samples), subset.OrderDigest()))
	q, err := NewQuarantine(42, first, []uint64{1, 8, 9})
	if err != nil {
		t.Fatal(err)
	}
	samples = e.Append(nil, 0, 14)
	q.Replace(0, samples)
	batch := Share{Count: 8}
	return append(want,
		fmt.Sprintf("with the digest %s. slot %s", q.OrderDigest(p), joined(samples)),
		fmt.Sprintf("has samples of the lanes %s, so that its places are at home with the groups %s.",
			joined(e.slot.appendLanes(nil, 0, 8)), joined(e.appendHomes(nil, batch, 2))),
		fmt.Sprintf("The shares are %s and %s of ranks 0 and 1, %s and %s of ranks 2 and 3.", joined(e.DealHomes(batch, 0, 4, 2)),
			joined(e.DealHomes(batch, 1, 4, 2)), joined(e.DealHomes(batch, 2, 4, 2)), joined(e.DealHomes(batch, 3, 4, 2))),
	)
}

// weightedExample returns the figures of the example with weights.
func weightedExample(t *testing.T, first []uint64) []string {
	w := &weighing{first: first, weights: []uint32{1, 0, 5, 2, 2, 2, 2, 2, 0, 1, 4, 3, 1, 3}}
	var want []string
	for _, name := range []string{None, Window, Slot, Full} {
		p := w.plan(t, exampleParams(name))
		e := p.Epoch(0)
		d := e.Draws()
		samples := e.Append(nil, 0, 14)
		for i, v := range samples {
			samples[i] = w.sample(p, d, v)
		}
		want = append(want, name+" "+joined(samples))
		if name != Slot {
			continue
		}
		var begins, counts []uint64
		for x := range first[len(first)-1] {
			chunk := int(p.chunks.of(x))
			lo, _ := d.Of(chunk, w.of(chunk), x-first[chunk])
			begins = append(begins, lo)
		}
		for i := range uint32(len(first) - 1) {
			counts = append(counts, d.first.size(i))
		}
		want = append(want,
			fmt.Sprintf("V = %d and phi = %d, so that F = %s 14.", d.total, d.phase, joined(begins)),
			fmt.Sprintf("The chunks hold %s virtual samples.", joined(counts)),
			fmt.Sprintf("The digest for `slot`, if the snapshot is named `%s`, is %s.", snapshot, p.OrderDigest()),
		)
	}
	return want
}

// mixtureExample returns the figures of the mixtures, without and with a schedule.
func mixtureExample(t *testing.T) (want []string) {
	schedule := []Segment{{8, []uint64{0, 1}}, {12, []uint64{1, 1}}}
	for _, s := range [][]Segment{nil, schedule} {
		m, err := NewMixture(42, 0, []Ingredient{{Samples: 14, Weight: 3}, {Samples: 4, Weight: 1}}, s...)
		if err != nil {
			t.Fatal(err)
		}
		turns := m.Append(nil, 0, 0, m.Samples())
		from := make([]int, len(turns))
		for i, turn := range turns {
			from[i] = turn.Source
		}
		text := "The positions of epoch 0 are taken from the sources " + joined(from)
		if s != nil {
			text = fmt.Sprintf("from 12 weights 1 and 1. %s; position 17 is own position %d of source %d.", text, turns[17].Position, turns[17].Source)
		}
		want = append(want, text)
	}
	return want
}

// stratifiedExample returns the figures of the example with strata.
func stratifiedExample(t *testing.T, first []uint64) []string {
	p := mustPlan(t, Params{Shuffle: Window, Window: 2, Strata: 2, Seed: 42}, first)
	e := p.Epoch(0)
	batch := Share{Count: 7}
	return []string{
		"strata " + joined(e.Append(nil, 0, 14)),
		fmt.Sprintf("The sequence %s becomes %s. d = 1", "2 1 0 3 4", joined(e.window.order)),
		fmt.Sprintf("P = %s. The order is below; its digest is %s.", joined(e.window.start), p.OrderDigest()),
		fmt.Sprintf("has samples of the strata %s.", joined(e.window.appendStrata(nil, 0, 7))),
		fmt.Sprintf("the shares are %s and %s.", joined(e.DealHomes(batch, 0, 2, 2)), joined(e.DealHomes(batch, 1, 2, 2))),
	}
}

func joined[E any](numbers []E) string { return strings.Trim(fmt.Sprint(numbers), "[]") }

// costsExample returns the statements about costs.
func costsExample(t *testing.T, first []uint64) []string {
	d := Divide([]uint32{5, 9, 1, 9, 3, 2, 8}, 2)
	costs := make([]uint32, 14)
	for i := range costs {
		costs[i] = 1 + uint32(i)%5
	}
	p := mustPlan(t, exampleParams(Slot), first)
	b := Buckets{Batches: 4, BatchSize: 3, Samples: 14}
	return []string{
		fmt.Sprintf("The shares are the places %s and %s.", joined(d.Share(0)), joined(d.Share(1))),
		fmt.Sprintf("the digest %s: slot %s", BucketDigest(p.OrderDigest(), 4, 3, "bytes"), joined(bucketed(b, p.Epoch(0), p.Params().Seed, costs))),
	}
}
