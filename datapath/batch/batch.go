// Package batch is the contract between the data path and the gateway: the ranges that a batch
// needs, and the body with their bytes.
package batch

import "time"

// Range is the location of one sample in the decoded bytes of its chunk, and its position in a
// batch.
type Range struct {
	Seq    int    // index of its segment in the Body: 0 is the first sample of the batch
	Offset uint32 // offset in the chunk's decoded bytes
	Length uint32
	CRC32C uint32 // CRC-32C (Castagnoli) of these bytes
	Hot    bool   // the plan draws the sample often, so it is worth caching separately
}

// ChunkRanges lists the ranges of one chunk that a batch needs. A request lists each chunk once.
type ChunkRanges struct {
	Chunk  int // number of the chunk in its index
	Ranges []Range
}

// Body is the result of a read: one segment per Range, in order of Seq. Each segment is a slice of
// a leased chunk or of a copy. The segments are immutable and valid until Close, which must be
// called once, and releases leases and reserved bytes.
type Body struct {
	Segments [][]byte
	Tiers    []TierTime // bytes and wait of each tier, for diagnostics
	settle   func()
	close    func()
}

// TierTime is the number of bytes of a body that one tier delivered, and how long the request
// waited for that tier.
type TierTime struct {
	Tier  string // memory, disk, peer, store
	Bytes int64
	Wait  time.Duration
}

// NewBody returns a Body whose Close calls release once.
func NewBody(segments [][]byte, tiers []TierTime, release func()) *Body {
	return &Body{Segments: segments, Tiers: tiers, close: release}
}

// OnSettle sets the function that Settle calls. It returns b.
func (b *Body) OnSettle(settle func()) *Body {
	b.settle = settle
	return b
}

// Settle minimizes the memory that a body holds while it is sent slowly. It may replace segments by
// copies, so that chunks of which only a small part is needed are released. The caller first sets
// segments that it no longer needs to nil, and must not use slices that it took from Segments
// before the call.
func (b *Body) Settle() {
	if b.settle != nil {
		b.settle()
	}
}

// OnClose adds a function that Close calls after everything is released.
func (b *Body) OnClose(then func()) {
	first := b.close
	b.close = func() {
		if first != nil {
			first()
		}
		then()
	}
}

// Close releases the leases and memory of the body. The segments must not be used afterwards.
func (b *Body) Close() {
	if b.close != nil {
		b.close()
		b.close, b.settle = nil, nil
	}
}

// Warmed is the progress of loading the chunks of an epoch before its readers arrive.
type Warmed struct {
	Next   uint64 // position to continue from; the epoch's length once all chunks are loaded
	Chunks int    // chunks loaded by this call
	Bytes  int64
	Full   bool // no tier has room for more
}
