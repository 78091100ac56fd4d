package plans

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// Limits of a picture of an order.
const (
	maxPictureSide     = 512 // columns or rows; a screen cannot show more
	defaultPictureSide = 256
	maxBorders         = 512 // windows or lanes; more are not useful as marks
)

// Values of the parameter axis: the order of the rows in a picture.
const (
	axisStored = "stored" // by chunk number in the dataset
	axisDrawn  = "drawn"  // by place in the sequence in which the epoch draws the chunks
)

// Rectangle is the part of an epoch that a picture shows, with its resolution.
type Rectangle struct {
	Axis      string `json:"axis"`
	From      uint64 `json:"from"`
	To        uint64 `json:"to"`         // first batch after the rectangle
	FromChunk uint64 `json:"from_chunk"` // a chunk or place, depending on Axis
	ToChunk   uint64 `json:"to_chunk"`   // first chunk or place after the rectangle
	Columns   uint64 `json:"columns"`    // at most the number of batches
	Rows      uint64 `json:"rows"`       // at most the number of chunks

	toGiven bool // To is set; otherwise it is the end of the epoch, which depends on the plan
}

// PictureNames returns the parameters of a picture.
func PictureNames() []string {
	return append(address.EpochNames(), "from", "to", "from_chunk", "to_chunk", "columns", "rows", "axis")
}

// DecodePicture decodes the address of a picture.
func DecodePicture(q *address.Query, d *Dataset, epoch string) (b address.Batch, r Rectangle) {
	b = address.DecodeEpoch(q, d.Address, epoch)
	if b.Balances() && b.WorldSize > 1 {
		q.Fail("balance", "there is no picture of shares by cost: request the whole batch, without world_size and balance")
	}
	if _, ok := b.Buckets(); ok {
		q.Fail("bucket", "there is no picture of batches in buckets, because they depend on the costs of samples: omit bucket")
	}
	if b.Sharing != shuffle.Contiguous && !q.Failed("share") {
		q.Fail("share", "there is no picture for share=locality, because shares are computed per batch: request the whole batch, without world_size and share")
	}
	chunks := uint64(d.Index.Chunks())
	r = Rectangle{From: q.Number("from", 0, 0, math.MaxUint64), To: q.Number("to", 0, 1, math.MaxUint64), toGiven: q.Has("to")}
	if r.toGiven && r.From >= r.To && !q.Failed("from", "to") {
		q.Fail("to", "must be above from")
	}
	r.FromChunk, r.ToChunk = q.Number("from_chunk", 0, 0, chunks-1), q.Number("to_chunk", chunks, 1, chunks)
	if r.FromChunk >= r.ToChunk && !q.Failed("from_chunk", "to_chunk") {
		q.Fail("to_chunk", "must be above from_chunk")
	}
	r.Columns = q.Number("columns", defaultPictureSide, 1, maxPictureSide)
	r.Rows = q.Number("rows", defaultPictureSide, 1, maxPictureSide)
	if r.Axis = q.Word("axis", axisStored, axisStored, axisDrawn); r.Axis == axisDrawn && b.Params.Shuffle == shuffle.Full {
		q.Fail("axis", "drawn is not possible for shuffle full, which takes samples from all chunks at once")
	}
	return b, r
}

// Complete completes a rectangle when the length of the epoch is known. It rejects batches past the
// end.
func (r *Rectangle) Complete(b address.Batch) error {
	batches := b.Batching().Batches()
	q := &address.Query{}
	if r.From > 0 && r.From >= batches {
		q.Fail("from", "must be below %d, the number of batches in the epoch", batches)
	}
	if r.To > batches {
		q.Fail("to", "must be at most %d, the number of batches in the epoch", batches)
	}
	if !r.toGiven {
		r.To = batches
	}
	r.Columns = min(r.Columns, r.To-min(r.From, r.To))
	r.Rows = min(r.Rows, r.ToChunk-r.FromChunk)
	return q.Err()
}

// String returns a rectangle as a query string.
func (r *Rectangle) String() string {
	return fmt.Sprintf("axis=%s&columns=%d&from=%d&from_chunk=%d&rows=%d&to=%d&to_chunk=%d", r.Axis, r.Columns, r.From, r.FromChunk, r.Rows, r.To, r.ToChunk)
}

// PictureURL returns the canonical URL of a picture. It omits the range of batches for an epoch
// without batches.
func PictureURL(b address.Batch, r Rectangle) string {
	where := r.String()
	if r.To == 0 {
		where = fmt.Sprintf("axis=%s&from_chunk=%d&rows=%d&to_chunk=%d", r.Axis, r.FromChunk, r.Rows, r.ToChunk)
	}
	return fmt.Sprintf("/v1/datasets/%s/epochs/%d/draws?%s&%s", b.Dataset, b.Epoch, b.Canonical(), where)
}

// Picture shows which chunks the batches of an epoch draw samples from.
type Picture struct {
	Dataset    string   `json:"dataset"`
	Epoch      uint64   `json:"epoch"`
	Parameters PlanInfo `json:"parameters"`
	Batches    uint64   `json:"batches"` // batches in the epoch
	Samples    uint64   `json:"samples"` // samples in the epoch
	Chunks     int      `json:"chunks"`  // chunks in the dataset
	Rectangle
	Exact    bool   `json:"exact"` // LookedAt equals OutOf
	LookedAt uint64 `json:"looked_at"`
	OutOf    uint64 `json:"out_of"` // total positions of the batches, or samples of the chunks, depending on the examined kind

	// Cells has for each column the number of samples per row, from the first row. A negative
	// number -n means n rows without samples. Rows after the last number have none.
	Cells [][]int64 `json:"cells"`

	RowChunks []uint32     `json:"row_chunks,omitempty"` // chunk numbers, with axis=drawn and one chunk per row
	Windows   *WindowsInfo `json:"windows,omitempty"`
	Lanes     *LanesInfo   `json:"lanes,omitempty"`
	Mixing    *Mixing      `json:"mixing,omitempty"`
}

// WindowsInfo has the borders of the windows in a picture.
type WindowsInfo struct {
	Count   uint64         `json:"count"`             // windows in the picture
	Borders []WindowBorder `json:"borders,omitempty"` // omitted if there are more than maxBorders
}

// WindowBorder is the end of a window and the start of the next.
type WindowBorder struct {
	Position uint64 `json:"position"`
	Batch    uint64 `json:"batch"` // batch of the position
	Place    uint64 `json:"place"` // place in the sequence of chunks
}

// LanesInfo has the number of lanes in the order and, with axis=drawn, the places where lanes in
// the picture begin.
type LanesInfo struct {
	Count   int      `json:"count"`
	Borders []uint32 `json:"borders,omitempty"` // omitted if there are more than maxBorders
}

// PictureBytes returns the memory needed to draw a picture: each cell in memory, in the response
// and as JSON; the samples examined to measure mixing; and with axis=drawn the sequence of chunks
// and its inverse.
func PictureBytes(d *Dataset, a address.Plan, r Rectangle) int64 {
	const overhead, perCell, perPlace, perLane, perBorder = 64 << 10, 4 + 8 + 2*12, 12, 4, 128
	n := overhead + perCell*int64(r.Columns)*int64(r.Rows) + maxBorders*perBorder + maxMixed*bytesPerMixed
	if r.Axis == axisDrawn {
		n += perPlace*int64(d.Index.Chunks()) + perLane*int64(a.Params.Lanes(d.Index.Samples()))
	}
	return n
}

// Picture draws a picture of an epoch, for the share of the rank in b.
func (p *Plans) Picture(ctx context.Context, held *Holds, d *Dataset, b address.Batch, r Rectangle) (Picture, error) {
	reading, err := p.Order(ctx, held, d, b)
	if err != nil {
		return Picture{}, err
	}
	out := Picture{
		Dataset: d.Name(), Epoch: b.Epoch, Parameters: newPlanInfo(d, b.Plan), Batches: b.Batching().Batches(), Samples: b.Samples, Chunks: d.Index.Chunks(),
		Rectangle: r,
	}
	c := newCanvas(reading, b, r)
	if err := c.draw(ctx); err != nil {
		return Picture{}, fmt.Errorf("picture of epoch %d: %w", b.Epoch, err)
	}
	if out.Mixing, err = measureMixing(ctx, reading, b, r); err != nil {
		return Picture{}, fmt.Errorf("mixing of epoch %d: %w", b.Epoch, err)
	}
	out.LookedAt, out.OutOf = c.lookedAt, c.outOf
	out.Exact = c.lookedAt == c.outOf
	out.Cells = c.cells()
	out.Windows, out.Lanes = c.windows(b, r), c.lanes(b.Params)
	if c.sequence.Chunks != nil && r.Rows == r.ToChunk-r.FromChunk {
		out.RowChunks = slices.Clone(c.sequence.Chunks[r.FromChunk:r.ToChunk])
	}
	return out, nil
}

// windows returns the windows of a picture's batches, or nil for an order without windows.
func (c *canvas) windows(b address.Batch, r Rectangle) *WindowsInfo {
	begin, end := r.From*b.BatchSize, min(r.To*b.BatchSize, b.Samples)
	if begin >= end {
		return nil
	}
	first, ok := c.epoch.WindowAt(begin)
	if !ok {
		return nil
	}
	last, _ := c.epoch.WindowAt(end - 1)
	info := &WindowsInfo{Count: last.Number - first.Number + 1}
	if info.Count > maxBorders {
		return info
	}
	for w := first; w.To < end; {
		w, _ = c.epoch.WindowAt(w.To)
		info.Borders = append(info.Borders, WindowBorder{Position: w.From, Batch: w.From / b.BatchSize, Place: w.Place})
	}
	return info
}

// lanes returns the borders of lanes within the rows, or nil for an order without lanes.
func (c *canvas) lanes(params shuffle.Params) *LanesInfo {
	if params.Shuffle != shuffle.Slot {
		return nil
	}
	info := &LanesInfo{Count: int(params.Lanes(c.batching.Samples))}
	for i, place := range c.sequence.Lanes {
		inside := uint64(place) > c.rows.first && uint64(place) < c.rows.first+c.rows.n
		if inside && (i == 0 || place != c.sequence.Lanes[i-1]) {
			info.Borders = append(info.Borders, place)
		}
	}
	if len(info.Borders) > maxBorders {
		info.Borders = nil
	}
	return info
}
