package body

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/shuffle"
)

// MaxSamples bounds the samples that are located for one answer, and with them the memory to plan it.
const MaxSamples = 1 << 20

// Bounds of the bodies whose memory is kept for the next request.
const (
	maxKept       = 16 << 10 // samples
	maxKeptPieces = 4 * maxKept
	maxKeptText   = 1 << 20
)

// sample is one sample of a body and its place.
type sample struct {
	number uint64
	chunk  int32
	slot   int32 // of the chunk among the chunks of this body
	offset uint32
	length uint32
	crc    uint32
	hot    bool
}

// Body is the body of an answer before a byte of it is read. It belongs to one request at a time.
type Body struct {
	Size int64  // of the whole body, once it is laid out
	CRC  uint32 // CRC-32C of the whole body, once it is laid out

	tables  *crcTables
	samples []sample // in the order of the answer
	lengths []uint32 // of the samples
	first   uint64   // position of the first number in the epoch
	places  []int    // of a scattered share: the distance of each sample from first; nil: they follow each other
	pieces  []piece
	text    []byte // the literal pieces, one after the other
	texts   *texts // of the samples, where they were read for several bodies together; nil: they are not read yet

	numbers []uint64
	slots   map[int32]int32 // slot by chunk
	chunks  []*chunkindex.Table
	seqs    []int32 // the number of the segment that a sample is read into; unread: none
	counts  []int   // of wanted samples, by slot
	ranges  []chunkindex.Range
	wanted  []chunkindex.ChunkRanges
	out     net.Buffers // what is sent
}

// unread marks a sample that no piece of the part that is sent needs.
const unread = -1

// Pool lends bodies, with the memory to lay them out.
type Pool struct {
	tables *crcTables
	free   sync.Pool
}

// NewPool returns an empty pool.
func NewPool() *Pool {
	p := &Pool{tables: newCRCTables()}
	p.free.New = func() any { return &Body{tables: p.tables, slots: map[int32]int32{}} }
	return p
}

// CombineCRC returns the CRC-32C of two byte strings one after the other, from that of each and the length of the second.
func (p *Pool) CombineCRC(first, second uint32, length int64) uint32 {
	return p.tables.combineLong(first, second, length)
}

// Get lends a body.
func (p *Pool) Get() *Body { return p.free.Get().(*Body) }

// Put takes a body back. Nothing may use it any more.
func (p *Pool) Put(b *Body) {
	if cap(b.samples) > maxKept || cap(b.pieces) > maxKeptPieces || cap(b.text) > maxKeptText {
		return
	}
	clear(b.slots)
	clear(b.chunks) // their memory belongs to the index's cache
	clear(b.out)
	b.places, b.texts = nil, nil
	b.pieces, b.text = b.pieces[:0], b.text[:0]
	p.free.Put(b)
}

// CheckShare refuses to locate more samples than one answer may have.
func CheckShare(positions shuffle.Share) error {
	if positions.Count <= MaxSamples {
		return nil
	}
	return address.Refuse(address.TooLarge,
		"the batch has %d samples; at most %d can be sent in one answer, or shared out by length or locality", positions.Count, MaxSamples).
		Above(MaxSamples)
}

// Locate finds the samples of a batch in the index.
func (b *Body) Locate(ctx context.Context, x plans.Places, r plans.Reading, batch address.Batch) error {
	hot, err := b.name(ctx, r, batch)
	if err != nil {
		return err
	}
	if err := b.find(ctx, x, hot); err != nil {
		return err
	}
	if batch.Deals() {
		b.deal(batch.Rank, batch.WorldSize)
	}
	return nil
}

// name finds the numbers of the samples of a batch, and which of them the plan draws often.
func (b *Body) name(ctx context.Context, r plans.Reading, batch address.Batch) (hot []bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("plan epoch %d: %w", batch.Epoch, err)
	}
	_, positions := batch.Share()
	n, err := r.Numbers(ctx, batch, positions, b.numbers)
	if err != nil {
		return nil, err
	}
	b.numbers, b.first, b.places = n.Numbers, positions.First, n.Places
	return n.Hot, nil
}

// LocateSample finds one sample in the index.
func (b *Body) LocateSample(ctx context.Context, x plans.Places, number uint64) error {
	b.numbers = append(b.numbers[:0], number)
	return b.find(ctx, x, nil)
}

// find finds b.numbers in the index.
func (b *Body) find(ctx context.Context, x plans.Places, hot []bool) error {
	b.samples = slices.Grow(b.samples[:0], len(b.numbers))
	b.lengths = slices.Grow(b.lengths[:0], len(b.numbers))
	b.chunks = b.chunks[:0]
	first := x.First()
	var t *chunkindex.Table
	chunk, slot := -1, int32(0)
	for i, n := range b.numbers {
		if chunk < 0 || n < first[chunk] || n >= first[chunk+1] {
			chunk = x.ChunkOf(n)
			var err error
			if slot, err = b.slot(ctx, x, chunk); err != nil {
				return err
			}
			t = b.chunks[slot]
		}
		k := n - first[chunk]
		b.samples = append(b.samples, sample{n, int32(chunk), slot, t.Offset[k], t.Length[k], t.CRC32C[k], len(hot) > 0 && hot[i]})
		b.lengths = append(b.lengths, t.Length[k])
	}
	return nil
}

// slot returns the place of a chunk among the chunks of the body, with its sample table read.
func (b *Body) slot(ctx context.Context, x plans.Places, chunk int) (int32, error) {
	if slot, ok := b.slots[int32(chunk)]; ok {
		return slot, nil
	}
	t, err := x.Table(ctx, chunk)
	if err != nil {
		return 0, fmt.Errorf("sample table of chunk %d: %w", chunk, err)
	}
	slot := int32(len(b.chunks))
	b.chunks = append(b.chunks, t)
	b.slots[int32(chunk)] = slot
	return slot, nil
}

// deal keeps the samples of one rank out of those of a whole global batch.
func (b *Body) deal(rank, worldSize uint64) {
	b.places = shuffle.Deal(b.lengths, rank, worldSize)
	for i, place := range b.places { // ascending, so i never passes place
		b.samples[i], b.lengths[i] = b.samples[place], b.lengths[place]
	}
	b.samples, b.lengths = b.samples[:len(b.places)], b.lengths[:len(b.places)]
}

// Samples returns how many samples the body has.
func (b *Body) Samples() int { return len(b.samples) }

// Position returns the position of sample i of the body in its epoch.
func (b *Body) Position(i int) uint64 {
	if b.places != nil {
		i = b.places[i]
	}
	return b.first + uint64(i)
}

// Padded returns how many samples lie beyond the end of an epoch of so many samples, and only pad the batch.
func (b *Body) Padded(samples uint64) (n uint64) {
	for i := range b.samples {
		if b.Position(i) >= samples {
			n++
		}
	}
	return n
}

// held is the memory to have the body in hand: all of its samples, whatever part of them is sent.
func (b *Body) held() int64 {
	n := int64(len(b.text))
	for _, length := range b.lengths {
		n += int64(length)
	}
	return max(n, b.Size)
}

// CheckFits refuses a body that does not fit into a memory budget of total bytes.
func (b *Body) CheckFits(total int64) error {
	if b.held() <= total {
		return nil
	}
	return b.TooLarge(total)
}

// TooLarge is the refusal of a body that a memory budget cannot hold, with its size. A total of 0 means that the budget
// is not known.
func (b *Body) TooLarge(total int64) *address.Refusal {
	size := uint64(b.held())
	text := fmt.Sprintf("the body has %d bytes in %d samples", size, len(b.samples))
	var r *address.Refusal
	if total > 0 {
		r = address.Refuse(address.TooLarge, "%s; the memory budget is %d bytes", text, total).Above(total)
	} else {
		r = address.Refuse(address.TooLarge, "%s: more than the memory budget can hold", text)
	}
	r.Bytes = &size
	return r
}
