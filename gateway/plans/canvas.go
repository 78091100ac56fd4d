package plans

import (
	"context"
	"math/bits"
	"sort"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// Limits on the work for one picture: about 50 ms for a dataset of 10^9 samples in 10^6 chunks.
const (
	maxPositions = 1 << 17 // positions examined to find their samples
	maxSamples   = 1 << 16 // samples examined to find their positions, at about twice the cost

	// perLook is the number of consecutive positions that are examined together. In slot and
	// window orders this takes a third of the time of single positions. Adjacent positions have
	// different chunks as often as distant ones.
	perLook = 4

	looksPerCheck = 1 << 10 // groups of positions between two checks of the context
)

// axis divides the n numbers from first into parts: part i begins with number first + i*n div
// parts.
type axis struct{ first, n, parts uint64 }

// begin returns the first number of a part, or the end of the axis for i = parts.
func (a axis) begin(i uint64) uint64 { return a.first + portion(i, a.n, a.parts) }

// part returns the part that contains a number. ok is false if none does.
func (a axis) part(x uint64) (i uint64, ok bool) {
	if x < a.first || x-a.first >= a.n {
		return 0, false
	}
	hi, lo := bits.Mul64(x-a.first+1, a.parts) // the largest i for which i*n div parts is at most x
	lo, borrow := bits.Sub64(lo, 1, 0)
	i, _ = bits.Div64(hi-borrow, lo, a.n)
	return i, true
}

// portion returns i*n div parts, for i up to parts.
func portion(i, n, parts uint64) uint64 {
	if parts == 0 {
		return 0
	}
	hi, lo := bits.Mul64(i, n)
	q, _ := bits.Div64(hi, lo, parts)
	return q
}

// canvas counts the samples of a picture. Its columns are batches, its rows are chunks or places.
// Samples have the numbers of the plan: draws with importance, members with a subset.
type canvas struct {
	epoch      *shuffle.Epoch
	quarantine *shuffle.Quarantine // nil: none
	first      []uint64            // number of the first sample of each chunk, and total number of samples
	sequence   shuffle.Sequence    // for the drawn axis; without chunks, places are chunk numbers
	places     []uint32            // place in the sequence, by chunk
	rowBegin   []uint64            // first sample of each row, and the end of the last one, if places are chunk numbers
	batching   shuffle.Batching
	own        rankPositions // positions in the columns
	columns    axis
	rows       axis
	counts     []uint32 // by column, then by row

	lookedAt, outOf uint64
}

// newCanvas returns an empty canvas for a part of an epoch.
func newCanvas(r BatchOrder, b address.Batch, in Rectangle) *canvas {
	c := &canvas{
		epoch: r.epoch, quarantine: r.choice.quarantine, first: r.first(), batching: b.Batching(),
		own:     newRankPositions(b.Batching(), b.Rank, b.WorldSize, in.From, in.To),
		columns: axis{in.From, in.To - in.From, in.Columns}, rows: axis{in.FromChunk, in.ToChunk - in.FromChunk, in.Rows},
		counts: make([]uint32, in.Columns*in.Rows),
	}
	if in.Axis == axisDrawn {
		c.sequence, _ = r.epoch.Sequence()
	}
	if c.sequence.Chunks == nil {
		for i := range in.Rows + 1 {
			c.rowBegin = append(c.rowBegin, c.first[c.rows.begin(i)])
		}
		return c
	}
	c.places = make([]uint32, len(c.sequence.Chunks))
	for place, chunk := range c.sequence.Chunks {
		c.places[chunk] = uint32(place)
	}
	return c
}

// chunkAt returns the chunk at a place.
func (c *canvas) chunkAt(place uint64) uint64 {
	if c.sequence.Chunks == nil {
		return place
	}
	return uint64(c.sequence.Chunks[place])
}

// row returns the row of a sample. ok is false if no row contains it.
func (c *canvas) row(sample uint64) (row uint64, ok bool) {
	if c.places == nil {
		n := sort.Search(len(c.rowBegin), func(i int) bool { return c.rowBegin[i] > sample })
		return uint64(n) - 1, n > 0 && n < len(c.rowBegin)
	}
	chunk := sort.Search(len(c.first)-1, func(i int) bool { return c.first[i+1] > sample })
	return c.rows.part(uint64(c.places[chunk]))
}

// count adds n samples of a row to the column of a batch.
func (c *canvas) count(batch, row, n uint64) {
	if column, ok := c.columns.part(batch); ok {
		c.counts[column*c.rows.parts+row] += uint32(n)
	}
}

// draw examines all positions of the columns or all samples of the rows, if there are few enough of
// either. Otherwise it examines evenly spaced positions or samples, whichever cover more of the
// picture.
func (c *canvas) draw(ctx context.Context) error {
	positions := c.own.count()
	if positions <= maxPositions {
		return c.drawPositions(ctx, positions)
	}
	samples := c.samplesOfRows()
	few := samples <= maxSamples
	covered := float64(maxSamples)/float64(samples) > float64(maxPositions)/float64(positions)
	if few || covered && c.quarantine == nil { // substitutes can only be examined completely
		return c.drawSamples(ctx, samples)
	}
	return c.drawPositions(ctx, positions)
}

// drawPositions finds the samples at n positions of the columns, or at evenly spaced ones of them.
func (c *canvas) drawPositions(ctx context.Context, n uint64) error {
	looks, each := uint64(maxPositions/perLook), uint64(perLook)
	if n <= maxPositions {
		looks, each = (n+looksPerCheck-1)/looksPerCheck, looksPerCheck
	}
	c.lookedAt, c.outOf = min(n, looks*each), n
	var found []uint64
	for look := range looks {
		if look%looksPerCheck == 0 || each > perLook {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		at := look * each
		if n > maxPositions {
			at = portion(look, n, looks)
		}
		for left := min(each, n-at); left > 0; {
			position, run := c.own.at(at)
			share := shuffle.Share{First: position, Count: min(run, left)}
			found = c.epoch.AppendShare(found[:0], share)
			c.countFound(position, found)
			at, left = at+share.Count, left-share.Count
		}
	}
	return nil
}

// countFound counts the samples at consecutive positions.
func (c *canvas) countFound(position uint64, samples []uint64) {
	if c.quarantine != nil {
		c.quarantine.Replace(c.epoch.Number(), samples)
	}
	for i, sample := range samples {
		if row, ok := c.row(sample); ok {
			c.count((position+uint64(i))/c.batching.BatchSize, row, 1)
		}
	}
}

// samplesOfRows returns the number of samples in the chunks of the rows.
func (c *canvas) samplesOfRows() (n uint64) {
	if c.sequence.Chunks == nil {
		return c.rowBegin[c.rows.parts] - c.rowBegin[0]
	}
	for _, chunk := range c.sequence.Chunks[c.rows.first : c.rows.first+c.rows.n] {
		n += c.first[chunk+1] - c.first[chunk]
	}
	return n
}

// drawSamples finds the positions of n samples of the rows, or of evenly spaced ones of them.
func (c *canvas) drawSamples(ctx context.Context, n uint64) error {
	c.lookedAt, c.outOf = min(n, maxSamples), n
	look, next, before := uint64(0), uint64(0), uint64(0) // next and before count samples of the rows
	for i := range c.rows.n {
		chunk := c.chunkAt(c.rows.first + i)
		row, _ := c.rows.part(c.rows.first + i)
		size := c.first[chunk+1] - c.first[chunk]
		for ; look < c.lookedAt && next < before+size; look++ {
			if look%looksPerCheck == 0 {
				if err := ctx.Err(); err != nil {
					return err
				}
			}
			sample := c.first[chunk] + next - before
			if c.quarantine == nil || !c.quarantine.Has(sample) {
				c.countSample(row, sample)
			}
			next = portion(look+1, n, c.lookedAt)
		}
		before += size
	}
	return c.drawSubstitutes(ctx)
}

// drawSubstitutes counts samples of the rows that replace bad samples.
func (c *canvas) drawSubstitutes(ctx context.Context) error {
	if c.quarantine == nil {
		return nil
	}
	for i, bad := range c.quarantine.Bad() {
		if i%looksPerCheck == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if row, ok := c.row(c.quarantine.Substitute(c.epoch.Number(), bad)); ok {
			c.countSample(row, bad)
		}
	}
	return nil
}

// countSample counts the occurrences of a sample in the rank's share: at its position, and at each
// position where it pads the last batch.
func (c *canvas) countSample(row, sample uint64) {
	position := c.epoch.Position(sample)
	batch := position / c.batching.BatchSize
	if last := c.batching.Batches() - 1; batch < last {
		if c.own.has(batch, position) {
			c.count(batch, row, 1)
		}
		if c.batching.Tail == shuffle.Pad {
			c.count(last, row, c.own.times(last, position))
		}
	} else if batch == last {
		c.count(batch, row, c.own.times(last, position))
	}
}

// cells returns the counts in the form of Picture.Cells.
func (c *canvas) cells() [][]int64 {
	cells := make([][]int64, c.columns.parts)
	for column := range cells {
		counts := c.counts[uint64(column)*c.rows.parts:][:c.rows.parts]
		out, empty := []int64{}, int64(0)
		for _, n := range counts {
			if n == 0 {
				empty++
				continue
			}
			if empty > 0 {
				out, empty = append(out, -empty), 0
			}
			out = append(out, int64(n))
		}
		cells[column] = out
	}
	return cells
}

// rankPositions are the positions of one rank in consecutive batches, numbered from 0.
type rankPositions struct {
	shuffle.Batching
	rank, world uint64
	from        uint64        // first batch
	whole       uint64        // number of batches before the last one
	each        uint64        // number of positions of the rank in each of these batches
	last        shuffle.Share // share of the last batch
}

func newRankPositions(b shuffle.Batching, rank, world, from, to uint64) rankPositions {
	o := rankPositions{Batching: b, rank: rank, world: world, from: from}
	if from < to {
		o.whole, o.last = to-1-from, b.Share(to-1, rank, world)
	}
	if o.whole > 0 {
		o.each = b.Share(from, rank, world).Count
	}
	return o
}

func (o rankPositions) count() uint64 { return o.whole*o.each + o.last.Count }

// at returns position number i, and the number of consecutive positions from there.
func (o rankPositions) at(i uint64) (position, run uint64) {
	before := o.whole * o.each
	switch {
	case i >= before:
		return o.last.First + (i - before), o.last.Count - (i - before)
	case o.each == o.BatchSize: // the rank has whole batches
		return o.from*o.BatchSize + i, o.count() - i
	}
	share := o.Share(o.from+i/o.each, o.rank, o.world)
	return share.First + i%o.each, share.Count - i%o.each
}

// has reports whether a position of a batch belongs to the rank.
func (o rankPositions) has(batch, position uint64) bool {
	share := o.Share(batch, o.rank, o.world)
	return position >= share.First && position-share.First < share.Count
}

// times returns the number of times that the rank gets the sample at a position in the last batch
// of the epoch, which padding may repeat.
func (o rankPositions) times(last, position uint64) uint64 {
	share := o.Share(last, o.rank, o.world)
	below := func(end uint64) uint64 { // occurrences of the sample before end
		if end <= position {
			return 0
		}
		return (end-position-1)/o.Samples + 1
	}
	return below(share.First+share.Count) - below(share.First)
}
