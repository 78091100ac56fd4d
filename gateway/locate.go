package gateway

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/shuffle"
)

// maxShare bounds the samples that are located for one answer, so that planning a request takes bounded memory.
const maxShare = 1 << 20

// maxScratch bounds the shares whose working memory is kept for the next request.
const (
	maxScratch       = 16 << 10
	maxScratchPieces = 4 * maxScratch
	maxScratchText   = 1 << 20
)

// placed is one sample of an answer and where it lies.
type placed struct {
	sample uint64
	chunk  int32
	slot   int32 // of the chunk among the chunks of this answer
	offset uint32
	length uint32
	crc    uint32
	hot    bool
}

// located is the body of an answer before a byte of it is read, with the memory to work it out, which
// serves one request after the other.
type located struct {
	numbers   []uint64 // of the samples, in the order of the epoch
	hot       []bool   // which of them the plan draws often; empty: none
	samples   []placed // in the order of the answer
	first     uint64   // position of the first number in the epoch
	scattered bool     // the samples are no stretch of the epoch:
	places    []int    // they lie so far from the first position
	pieces    []piece  // what the body is made of
	text      []byte   // the literal ones, one after the other
	size      int64    // of the whole body
	crc       uint32   // CRC-32C of the whole body

	lengths []uint32
	slots   map[int32]int32 // chunk to slot
	tables  []*chunkindex.Table
	seqs    []int32 // which segment a sample is read into, by its place; unread: none
	counts  []int   // of wanted samples, by slot
	ranges  []chunkindex.Range
	chunks  []chunkindex.ChunkRanges
	out     net.Buffers // what is sent
}

// unread marks a sample that no piece of what is sent needs.
const unread = -1

// recycle keeps the memory of l for another request. Nothing may use l any more.
func (g *Gateway) recycle(l *located) {
	if cap(l.samples) > maxScratch || cap(l.pieces) > maxScratchPieces || cap(l.text) > maxScratchText {
		return
	}
	clear(l.slots)
	clear(l.tables) // which belong to the index's cache
	clear(l.out)
	l.places, l.hot = nil, nil
	l.pieces, l.text = l.pieces[:0], l.text[:0]
	g.scratch.Put(l)
}

// find finds l.numbers in the index.
func (l *located) find(ctx context.Context, x Index) error {
	l.samples = slices.Grow(l.samples[:0], len(l.numbers))
	l.lengths = slices.Grow(l.lengths[:0], len(l.numbers))
	l.tables = l.tables[:0]
	first := x.First()
	var t *chunkindex.Table
	chunk, slot := -1, int32(0)
	for i, n := range l.numbers {
		if chunk < 0 || n < first[chunk] || n >= first[chunk+1] {
			chunk = x.ChunkOf(n)
			var err error
			if slot, err = l.slot(ctx, x, chunk); err != nil {
				return err
			}
			t = l.tables[slot]
		}
		k := n - first[chunk]
		l.samples = append(l.samples, placed{n, int32(chunk), slot, t.Offset[k], t.Length[k], t.CRC32C[k], len(l.hot) > 0 && l.hot[i]})
		l.lengths = append(l.lengths, t.Length[k])
	}
	return nil
}

// slot returns the place of a chunk among the chunks of the answer, with its table read.
func (l *located) slot(ctx context.Context, x Index, chunk int) (int32, error) {
	if slot, ok := l.slots[int32(chunk)]; ok {
		return slot, nil
	}
	t, err := x.Table(ctx, chunk)
	if err != nil {
		return 0, fmt.Errorf("sample table of chunk %d: %w", chunk, err)
	}
	slot := int32(len(l.tables))
	l.tables = append(l.tables, t)
	l.slots[int32(chunk)] = slot
	return slot, nil
}

// wanted returns the ranges of the samples that the pieces lo to hi-1 are made of, chunk by chunk, numbered from 0 in l.seqs, and
// how many there are. Samples are always read whole: so they are cached, shared and checked. The ranges are valid until l is recycled.
func (l *located) wanted(lo, hi int) ([]chunkindex.ChunkRanges, int) {
	l.seqs = slices.Grow(l.seqs[:0], len(l.samples))[:len(l.samples)]
	for i := range l.seqs {
		l.seqs[i] = unread
	}
	for i := range l.pieces[lo:hi] {
		if at := l.pieces[lo+i].sample; at != literal {
			l.seqs[at] = 0
		}
	}
	l.counts = append(l.counts[:0], make([]int, len(l.tables))...)
	n := 0
	for i, seq := range l.seqs {
		if seq != unread {
			l.seqs[i] = int32(n)
			l.counts[l.samples[i].slot]++
			n++
		}
	}
	l.ranges = slices.Grow(l.ranges[:0], n)[:n]
	l.chunks = append(l.chunks[:0], make([]chunkindex.ChunkRanges, len(l.tables))...)
	at := 0
	for slot, n := range l.counts {
		l.chunks[slot].Ranges = l.ranges[at : at : at+n]
		at += n
	}
	for i, seq := range l.seqs {
		if seq == unread {
			continue
		}
		s := &l.samples[i]
		c := &l.chunks[s.slot]
		c.Chunk = int(s.chunk)
		c.Ranges = append(c.Ranges, chunkindex.Range{Seq: int(seq), Offset: s.offset, Length: s.length, CRC32C: s.crc, Hot: s.hot})
	}
	return slices.DeleteFunc(l.chunks, func(c chunkindex.ChunkRanges) bool { return len(c.Ranges) == 0 }), n
}

// checkFits refuses a body that no budget of this gateway can hold.
func (g *Gateway) checkFits(l *located) error {
	if g.cfg.Budget == nil || l.bytes() <= g.cfg.Budget.Total() {
		return nil
	}
	return g.tooLarge(l)
}

// bytes is what it takes to have the body in hand: all of its samples, whatever is sent of them.
func (l *located) bytes() int64 {
	n := int64(len(l.text))
	for _, length := range l.lengths {
		n += int64(length)
	}
	return max(n, l.size)
}

// tooLarge is the answer for a batch that does not fit, with the sum.
func (g *Gateway) tooLarge(l *located) *problem {
	sum := uint64(l.bytes())
	p := &problem{
		Status: http.StatusBadRequest, Code: codeBatchTooLarge, Bytes: &sum,
		Detail: fmt.Sprintf("the body has %d bytes in %d samples: more than the memory budget can hold", sum, len(l.samples)),
	}
	if g.cfg.Budget != nil {
		total := g.cfg.Budget.Total()
		p.Limit = &total
		p.Detail = fmt.Sprintf("the body has %d bytes in %d samples; the memory budget is %d bytes", sum, len(l.samples), total)
	}
	return p
}

// checkShare refuses to locate more samples than one answer may have.
func checkShare(all shuffle.Share) error {
	if all.Count <= maxShare {
		return nil
	}
	limit := int64(maxShare)
	return &problem{
		Status: http.StatusBadRequest, Code: codeBatchTooLarge, Limit: &limit,
		Detail: fmt.Sprintf("the batch has %d samples; at most %d can be sent in one answer, or shared out by length or locality", all.Count, maxShare),
	}
}
