package plans

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// Bounds of a picture of an order.
const (
	maxPictureSide     = 512 // columns, and rows: more than a screen shows apart
	defaultPictureSide = 256
	maxBorders         = 512 // of windows or lanes: more of them are no marks any more
)

// The values of the parameter axis: by which numbers the rows of a picture go.
const (
	axisStored = "stored" // by a chunk's number in the dataset
	axisDrawn  = "drawn"  // by its place in the sequence in which the epoch takes the chunks
)

// Rectangle is the part of an epoch that a picture shows, and how finely.
type Rectangle struct {
	From, To           uint64 // batches, the last one excluded
	FromChunk, ToChunk uint64 // chunks or places, as the axis says, the last one excluded
	Columns, Rows      uint64 // at most as many as batches and chunks
	Axis               string

	toGiven bool // else To is the end of the epoch, which the parameters alone do not tell
}

// PictureNames are the parameters of a picture.
func PictureNames() []string {
	return append(address.BatchNames(), "from", "to", "from_chunk", "to_chunk", "columns", "rows", "axis")
}

// DecodePicture reads the address of a picture.
func DecodePicture(q *address.Query, d *Dataset, epoch string) (b address.Batch, r Rectangle) {
	b = address.DecodeEpoch(q, d.Address, epoch)
	if b.Deals() {
		q.Fail("balance", "bytes has no picture: the share of a rank depends on the lengths of the samples; ask for the whole batch, without world_size")
	}
	if b.Sharing != shuffle.Contiguous && !q.Failed("share") {
		q.Fail("share", "locality has no picture: the share of a rank is found batch by batch; ask for the whole batch, without world_size and share")
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
		q.Fail("axis", "drawn has no meaning for shuffle full: it takes samples from all chunks at once")
	}
	return b, r
}

// Complete finishes a rectangle of an epoch whose length is known: it refuses batches past the end.
func (r *Rectangle) Complete(b address.Batch) error {
	batches := b.Batching().Batches()
	q := &address.Query{}
	if r.From > 0 && r.From >= batches {
		q.Fail("from", "must be below %d: the epoch has so many batches", batches)
	}
	if r.To > batches {
		q.Fail("to", "must be at most %d: the epoch has so many batches", batches)
	}
	if !r.toGiven {
		r.To = batches
	}
	r.Columns = min(r.Columns, r.To-min(r.From, r.To))
	r.Rows = min(r.Rows, r.ToChunk-r.FromChunk)
	return q.Err()
}

// String writes a rectangle as the query of an address has it.
func (r *Rectangle) String() string {
	return fmt.Sprintf("axis=%s&columns=%d&from=%d&from_chunk=%d&rows=%d&to=%d&to_chunk=%d", r.Axis, r.Columns, r.From, r.FromChunk, r.Rows, r.To, r.ToChunk)
}

// PictureURL is the canonical address of a picture of an epoch. An epoch without batches has none to name.
func PictureURL(b address.Batch, r Rectangle) string {
	where := r.String()
	if r.To == 0 {
		where = fmt.Sprintf("axis=%s&from_chunk=%d&rows=%d&to_chunk=%d", r.Axis, r.FromChunk, r.Rows, r.ToChunk)
	}
	return fmt.Sprintf("/v1/datasets/%s/epochs/%d/draws?%s&%s", b.Dataset, b.Epoch, b.Canonical(), where)
}

// Picture says which chunks the batches of an epoch draw their samples from.
type Picture struct {
	Dataset    string   `json:"dataset"`
	Epoch      uint64   `json:"epoch"`
	Parameters PlanInfo `json:"parameters"`
	Batches    uint64   `json:"batches"` // of the epoch
	Samples    uint64   `json:"samples"` // of the epoch
	Chunks     int      `json:"chunks"`  // of the dataset
	Axis       string   `json:"axis"`
	From       uint64   `json:"from"` // the first batch, and so on as Rectangle has it
	To         uint64   `json:"to"`
	FromChunk  uint64   `json:"from_chunk"`
	ToChunk    uint64   `json:"to_chunk"`
	Columns    uint64   `json:"columns"`
	Rows       uint64   `json:"rows"`
	Exact      bool     `json:"exact"` // all of OutOf were looked at
	LookedAt   uint64   `json:"looked_at"`
	OutOf      uint64   `json:"out_of"` // positions of the batches, or samples of the chunks, whichever were looked at

	// Cells has for each column the number of samples from each row, from the first row on. A number below 0 stands for so many
	// rows without a sample. Rows after the last number have none either.
	Cells [][]int64 `json:"cells"`

	RowChunks []uint32     `json:"row_chunks,omitempty"` // with axis=drawn and one chunk a row: its number
	Windows   *WindowsInfo `json:"windows,omitempty"`
	Lanes     *LanesInfo   `json:"lanes,omitempty"`
	Mixing    *Mixing      `json:"mixing,omitempty"`
}

// WindowsInfo says where the windows begin that batches of a picture draw from.
type WindowsInfo struct {
	Count   uint64         `json:"count"`             // of those in the picture
	Borders []WindowBorder `json:"borders,omitempty"` // left out where they are more than maxBorders
}

// WindowBorder is where a window begins, and the one before it ends.
type WindowBorder struct {
	Position uint64 `json:"position"`
	Batch    uint64 `json:"batch"` // that the position lies in
	Place    uint64 `json:"place"` // in the sequence of chunks
}

// LanesInfo says how many lanes the order has and, with axis=drawn, at which places the lanes in the picture begin.
type LanesInfo struct {
	Count   int      `json:"count"`
	Borders []uint32 `json:"borders,omitempty"` // left out where they are more than maxBorders
}

// PictureBytes is the memory to draw a picture: a number for each cell in memory, in the answer and as JSON, and with axis=drawn
// the sequence of the chunks and its inverse; and what is looked at to measure how well the batches mix.
func PictureBytes(d *Dataset, a address.Plan, r Rectangle) int64 {
	const overhead, perCell, perPlace, perLane, perBorder = 64 << 10, 4 + 8 + 2*12, 12, 4, 128
	n := overhead + perCell*int64(r.Columns)*int64(r.Rows) + maxBorders*perBorder + maxMixed*bytesPerMixed
	if r.Axis == axisDrawn {
		n += perPlace*int64(d.Index.Chunks()) + perLane*int64(a.Params.Lanes(d.Index.Samples()))
	}
	return n
}

// Picture draws a picture of an epoch, of the share of the rank in b.
func (p *Plans) Picture(ctx context.Context, d *Dataset, b address.Batch, r Rectangle) (Picture, error) {
	reading, err := p.Order(ctx, d, b)
	if err != nil {
		return Picture{}, err
	}
	defer reading.Leave()
	out := Picture{
		Dataset: d.Name(), Epoch: b.Epoch, Parameters: newPlanInfo(d, b.Plan), Batches: b.Batching().Batches(), Samples: b.Samples, Chunks: d.Index.Chunks(),
		Axis: r.Axis, From: r.From, To: r.To, FromChunk: r.FromChunk, ToChunk: r.ToChunk, Columns: r.Columns, Rows: r.Rows,
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

// windows finds the windows of the batches of a picture; nil for an order without windows.
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

// lanes finds the borders of the lanes within the rows; nil for an order without lanes.
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
