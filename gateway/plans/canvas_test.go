package plans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// table is an index for pictures, which use only the first sample of each chunk.
type table struct {
	Index
	first []uint64
}

func (t table) First() []uint64 { return t.first }
func (t table) Chunks() int     { return len(t.first) - 1 }
func (t table) Samples() uint64 { return t.first[len(t.first)-1] }

// tableOf returns a table of chunks with about size samples each, a few of them empty.
func tableOf(chunks int, size uint64) table {
	first := make([]uint64, chunks+1)
	for i := range chunks {
		n := size/2 + (uint64(i)*7919)%(size+1)
		if i%97 == 5 {
			n = 0
		}
		first[i+1] = first[i] + n
	}
	return table{first: first}
}

// drawing is a picture with its inputs.
type drawing struct {
	table
	params      shuffle.Params
	batch       uint64
	tail        shuffle.Tail
	rank, world uint64
	bad         []uint64
	in          Rectangle
}

// canvas returns the empty canvas of a drawing.
func (d drawing) canvas(t testing.TB) *canvas {
	t.Helper()
	plan, err := shuffle.NewPlan(d.params, d.first)
	if err != nil {
		t.Fatal(err)
	}
	b := address.Batch{Epoch: 3, Plan: address.Plan{Params: d.params, Samples: d.Samples(), BatchSize: d.batch, Tail: d.tail, Rank: d.rank, WorldSize: max(1, d.world)}}
	r := BatchOrder{order: order{prepared: prepared{plan: plan, epoch: plan.Epoch(b.Epoch)}, dataset: &Dataset{Index: d.table}}}
	if d.bad != nil {
		if r.choice.quarantine, err = shuffle.NewQuarantine(d.params.Seed, d.first, d.bad); err != nil {
			t.Fatal(err)
		}
	}
	in := d.in
	if in.ToChunk == 0 {
		in.ToChunk = uint64(d.Chunks())
	}
	in.toGiven = in.To > 0
	if err := in.Complete(b); err != nil {
		t.Fatal(err)
	}
	return newCanvas(r, b, in)
}

// naive counts the samples at every position of an epoch, one by one, using only divisions.
func (c *canvas) naive() []uint32 {
	counts := make([]uint32, c.columns.parts*c.rows.parts)
	partOf := func(a axis, x uint64) int {
		for i := range a.parts {
			if x >= a.first+i*a.n/a.parts && x < a.first+(i+1)*a.n/a.parts {
				return int(i)
			}
		}
		return -1
	}
	for batch := c.columns.first; batch < c.columns.first+c.columns.n; batch++ {
		share := c.batching.Share(batch, c.own.rank, c.own.world)
		column := partOf(c.columns, batch)
		for i := range share.Count {
			sample := []uint64{c.epoch.At((share.First + i) % c.batching.Samples)}
			if c.quarantine != nil {
				c.quarantine.Replace(c.epoch.Number(), sample)
			}
			chunk, _ := slices.BinarySearchFunc(c.first[1:], sample[0], func(end, x uint64) int {
				if end > x {
					return 1
				}
				return -1
			})
			place := uint64(chunk)
			if c.sequence.Chunks != nil {
				place = uint64(slices.Index(c.sequence.Chunks, uint32(chunk)))
			}
			if row := partOf(c.rows, place); row >= 0 {
				counts[uint64(column)*c.rows.parts+uint64(row)]++
			}
		}
	}
	return counts
}

// TestPicturesAreExact compares pictures that examine all positions or all samples with a count of
// all positions.
func TestPicturesAreExact(t *testing.T) {
	small, large, tiny := tableOf(120, 20), tableOf(1500, 200), table{first: []uint64{0, 3, 3, 8, 10, 14}}
	bad := []uint64{1, 2, 3, 700, 701}
	for i := small.first[7]; i < small.first[8]; i++ { // all samples of a chunk: their substitutes are in the next chunk
		bad = append(bad, i)
	}
	slices.Sort(bad)
	badOfLarge := []uint64{}
	for i := large.first[99]; i < large.first[100]; i++ {
		badOfLarge = append(badOfLarge, i)
	}
	narrow := Rectangle{FromChunk: 100, ToChunk: 131, Columns: 50, Rows: 20}
	drawn := narrow
	drawn.Axis = axisDrawn
	for _, params := range []shuffle.Params{
		{Shuffle: shuffle.None},
		{Shuffle: shuffle.Full, Seed: 4},
		{Shuffle: shuffle.Window, Window: 8, Seed: 4},
		{Shuffle: shuffle.Window, Window: 8, Strata: 4, Seed: 4},
		{Shuffle: shuffle.Slot, Window: 16, Seed: 4},
		{Shuffle: shuffle.Slot, Window: 500, Seed: 4},
	} {
		for name, d := range map[string]drawing{
			"all":                  {table: small, batch: 7, tail: shuffle.Short, in: Rectangle{Columns: 512, Rows: 512}},
			"drawn":                {table: small, batch: 7, tail: shuffle.Short, in: Rectangle{Columns: 100, Rows: 33, Axis: axisDrawn}},
			"a part":               {table: small, batch: 7, tail: shuffle.Drop, in: Rectangle{From: 11, To: 47, FromChunk: 9, ToChunk: 77, Columns: 13, Rows: 11}},
			"a part, drawn":        {table: small, batch: 7, tail: shuffle.Drop, in: Rectangle{From: 11, To: 47, FromChunk: 9, ToChunk: 77, Columns: 13, Rows: 11, Axis: axisDrawn}},
			"of a rank":            {table: small, batch: 7, tail: shuffle.Short, rank: 2, world: 3, in: Rectangle{Columns: 50, Rows: 50}},
			"of a rank of many":    {table: small, batch: 7, tail: shuffle.Short, rank: 2, world: 30, in: Rectangle{Columns: 50, Rows: 50}},
			"padded":               {table: tiny, batch: 100, tail: shuffle.Pad, rank: 1, world: 3, in: Rectangle{Columns: 50, Rows: 50}},
			"with bad samples":     {table: small, batch: 7, tail: shuffle.Pad, bad: bad, in: Rectangle{Columns: 50, Rows: 512}},
			"a few of many chunks": {table: large, batch: 700, tail: shuffle.Short, in: narrow},
			". drawn":              {table: large, batch: 700, tail: shuffle.Short, in: drawn},
			". of a rank":          {table: large, batch: 700, tail: shuffle.Short, rank: 1, world: 3, in: narrow},
			". padded":             {table: large, batch: 900, tail: shuffle.Pad, rank: 1, world: 2, in: narrow},
			". dropped":            {table: large, batch: 4000, tail: shuffle.Drop, in: narrow},
			". of some batches":    {table: large, batch: 1, tail: shuffle.Short, in: Rectangle{From: 50_000, To: 250_000, FromChunk: 100, ToChunk: 131, Columns: 40, Rows: 31}},
			". with bad samples":   {table: large, batch: 700, tail: shuffle.Short, bad: badOfLarge, in: narrow},
			"padded many times":    {table: tiny, batch: 200_000, tail: shuffle.Pad, rank: 1, world: 3, in: Rectangle{Columns: 5, Rows: 5}},
		} {
			if d.in.Axis == axisDrawn && params.Shuffle == shuffle.Full {
				continue
			}
			t.Run(fmt.Sprintf("%s %d %d/%s", params.Shuffle, params.Window, params.Strata, name), func(t *testing.T) {
				d.params = params
				c := d.canvas(t)
				if err := c.draw(t.Context()); err != nil {
					t.Fatal(err)
				}
				if c.lookedAt != c.outOf {
					t.Errorf("looked at %d of %d, want all of them", c.lookedAt, c.outOf)
				}
				if diff := cmp.Diff(c.naive(), c.counts); diff != "" {
					t.Errorf("the picture differs from a count of all positions:\n%s", diff)
				}
			})
		}
	}
}

// TestPicturesOfSamples: if there are too many samples to examine, the picture has as many samples
// as were examined, and each row has about its share of them.
func TestPicturesOfSamples(t *testing.T) {
	d := drawing{table: tableOf(20_000, 1000), batch: 1000, tail: shuffle.Short}
	for _, params := range []shuffle.Params{
		{Shuffle: shuffle.None}, {Shuffle: shuffle.Full, Seed: 4}, {Shuffle: shuffle.Window, Window: 1000, Seed: 4}, {Shuffle: shuffle.Slot, Window: 200, Seed: 4},
	} {
		for name, in := range map[string]Rectangle{
			"of positions": {Columns: 20, Rows: 20},
			"of samples":   {ToChunk: 300, Columns: 20, Rows: 20},
		} {
			t.Run(params.Shuffle+" "+name, func(t *testing.T) {
				d.params, d.in = params, in
				c := d.canvas(t)
				if err := c.draw(t.Context()); err != nil {
					t.Fatal(err)
				}
				want := uint64(maxPositions)
				if in.ToChunk > 0 {
					want = maxSamples
				}
				if c.lookedAt != want || c.outOf <= want {
					t.Errorf("looked at %d of %d, want %d of more", c.lookedAt, c.outOf, want)
				}
				total := uint64(0)
				perRow := make([]uint64, c.rows.parts)
				for i, n := range c.counts {
					total += uint64(n)
					perRow[uint64(i)%c.rows.parts] += uint64(n)
				}
				if total != c.lookedAt {
					t.Errorf("got %d samples in the picture, want all %d that were looked at", total, c.lookedAt)
				}
				for row, got := range perRow {
					share := float64(c.rowSamples(row)) / float64(c.rowSamples(-1))
					if want := share * float64(total); float64(got) < 0.8*want || float64(got) > 1.2*want {
						t.Errorf("row %d: got %d samples, want about %.0f", row, got, want)
					}
				}
				again := d.canvas(t)
				if err := again.draw(t.Context()); err != nil || !slices.Equal(again.counts, c.counts) {
					t.Errorf("drawn again: got another picture, or %v", err)
				}
			})
		}
	}
}

// rowSamples returns the number of samples in the chunks of a row, or of all rows for -1.
func (c *canvas) rowSamples(row int) uint64 {
	if row < 0 {
		return c.rowBegin[c.rows.parts] - c.rowBegin[0]
	}
	return c.rowBegin[row+1] - c.rowBegin[row]
}

// TestCellsSkipEmptyRows compares cells with the counts.
func TestCellsSkipEmptyRows(t *testing.T) {
	c := &canvas{columns: axis{0, 3, 3}, rows: axis{0, 5, 5}, counts: []uint32{0, 0, 7, 1, 0 /**/, 0, 0, 0, 0, 0 /**/, 1, 0, 2, 0, 3}}
	if diff := cmp.Diff([][]int64{{-2, 7, 1}, {}, {1, -1, 2, -1, 3}}, c.cells()); diff != "" {
		t.Error(diff)
	}
}

// TestAxesTileTheirNumbers: each number is in the part that begins at or before it, up to numbers
// whose products exceed 64 bits.
func TestAxesTileTheirNumbers(t *testing.T) {
	for _, a := range []axis{{0, 10, 10}, {5, 10, 3}, {7, 1000, 512}, {1 << 40, 1 << 62, 511}, {0, 3, 1}} {
		if a.begin(0) != a.first || a.begin(a.parts) != a.first+a.n {
			t.Errorf("%+v: got [%d, %d), want all", a, a.begin(0), a.begin(a.parts))
		}
		for i := range a.parts {
			begin, end := a.begin(i), a.begin(i+1)
			first, ok := a.part(begin)
			last, okLast := a.part(end - 1)
			if !ok || !okLast || first != i || last != i {
				t.Errorf("%+v: got parts %d and %d of the ends of part %d", a, first, last, i)
			}
		}
		_, before := a.part(a.first - 1)
		_, after := a.part(a.first + a.n)
		if before || after {
			t.Errorf("%+v: got a number outside in a part", a)
		}
	}
}

// TestPicturesEndWithTheirRequest: drawing stops when its context ends, whether it examines
// positions or samples.
func TestPicturesEndWithTheirRequest(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, d := range []drawing{
		{table: tableOf(100, 10), in: Rectangle{Columns: 2, Rows: 2}},
		{table: tableOf(2000, 200), in: Rectangle{Columns: 2, Rows: 2}},
		{table: tableOf(2000, 200), in: Rectangle{ToChunk: 20, Columns: 2, Rows: 2}},
	} {
		d.params, d.batch, d.tail = shuffle.Params{Shuffle: shuffle.Slot, Window: 8}, 10, shuffle.Short
		if err := d.canvas(t).draw(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	}
}

// BenchmarkPicture draws 10^9 samples in 10^6 chunks: all chunks, and a few of them. The epoch is
// prepared in advance.
func BenchmarkPicture(b *testing.B) {
	all := tableOf(1_000_000, 1000)
	for _, params := range []shuffle.Params{
		{Shuffle: shuffle.None}, {Shuffle: shuffle.Full}, {Shuffle: shuffle.Window, Window: 128}, {Shuffle: shuffle.Slot, Window: 128},
	} {
		for name, in := range map[string]Rectangle{
			"stored": {Columns: 512, Rows: 256}, "drawn": {Columns: 512, Rows: 256, Axis: axisDrawn},
			"few": {FromChunk: 500_000, ToChunk: 500_060, Columns: 512, Rows: 60},
		} {
			if params.Shuffle == shuffle.Full && in.Axis == axisDrawn {
				continue
			}
			b.Run(params.Shuffle+"/"+name, func(b *testing.B) {
				d := drawing{table: all, params: params, batch: 1024, tail: shuffle.Short, in: in}
				c := d.canvas(b)
				r := BatchOrder{order: order{prepared: prepared{epoch: c.epoch}, dataset: &Dataset{Index: d.table}}}
				r.epoch.Position(0)
				batch := address.Batch{Plan: address.Plan{Samples: d.Samples(), BatchSize: d.batch, Tail: d.tail, WorldSize: 1}}
				in.To, in.ToChunk = batch.Batching().Batches(), c.rows.first+c.rows.n
				b.ReportAllocs()
				for b.Loop() {
					c := newCanvas(r, batch, in)
					if err := c.draw(b.Context()); err != nil {
						b.Fatal(err)
					}
					c.cells()
				}
			})
		}
	}
}
