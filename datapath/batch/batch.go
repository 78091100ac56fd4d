// Package batch is the contract between the data path and the gateway: the ranges that a batch needs, and the body that
// answers for them.
package batch

import "time"

// Range is one sample's place in the decoded bytes of its chunk, wanted at one place of a batch.
type Range struct {
	Seq    int    // which segment of the Body it becomes: 0 is the first sample of the batch
	Offset uint32 // in the chunk's decoded bytes
	Length uint32
	CRC32C uint32 // Castagnoli, of these bytes
	Hot    bool   // the plan draws the sample often: worth keeping by itself
}

// ChunkRanges is what a batch wants of one chunk. A request lists each chunk once.
type ChunkRanges struct {
	Chunk  int // number of the chunk in its index
	Ranges []Range
}

// Body is the answer to a read: one segment per Range, in order of Seq, each either a
// slice of a leased chunk or of a copy. The segments are immutable and valid until Close, which
// must be called once, and gives back leases and reserved bytes.
type Body struct {
	Segments [][]byte
	Tiers    []TierTime // where the bytes came from, for people who ask why it was slow
	settle   func()
	close    func()
}

// TierTime says how many bytes of a body one tier answered for, and how long the request waited for it.
type TierTime struct {
	Tier  string // memory, disk, peer, store
	Bytes int64
	Wait  time.Duration
}

// NewBody makes a Body whose Close calls release once.
func NewBody(segments [][]byte, tiers []TierTime, release func()) *Body {
	return &Body{Segments: segments, Tiers: tiers, close: release}
}

// OnSettle names what Settle calls. It returns b.
func (b *Body) OnSettle(settle func()) *Body {
	b.settle = settle
	return b
}

// Settle makes a body that is sent slowly hold as little memory as it can: segments may be replaced by copies, so that
// chunks of which little is needed are given back. The caller sets those segments to nil first that it does not need any
// more, and uses no segment from before.
func (b *Body) Settle() {
	if b.settle != nil {
		b.settle()
	}
}

// OnClose names what else Close calls, once the body holds nothing.
func (b *Body) OnClose(then func()) {
	first := b.close
	b.close = func() {
		if first != nil {
			first()
		}
		then()
	}
}

// Close gives back what the body holds. The segments must not be used afterwards.
func (b *Body) Close() {
	if b.close != nil {
		b.close()
		b.close, b.settle = nil, nil
	}
}

// Warmed says how far a data path has come with bringing what an epoch needs before anybody reads it.
type Warmed struct {
	Next   uint64 // the position to go on from; that after the last one of the epoch when all is there
	Chunks int    // brought by this call
	Bytes  int64
	Full   bool // no tier has room for more
}
