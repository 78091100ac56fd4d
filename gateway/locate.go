package gateway

import (
	"context"
	"fmt"
	"hash/crc32"
	"net"
	"net/http"
	"slices"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/shuffle"
)

// maxShare bounds the samples that are located for one answer, so that planning a request takes bounded memory.
const maxShare = 1 << 20

// maxScratch bounds the shares whose working memory is kept for the next request.
const maxScratch = 16 << 10

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
	numbers       []uint64 // of the samples, in the order of the epoch
	hot           []bool   // which of them the plan draws often; empty: none
	samples       []placed // in the order of the answer
	first         uint64   // position of the first number in the epoch
	scattered     bool     // the samples are no stretch of the epoch:
	places        []int    // they lie so far from the first position
	before, after []byte   // of the dataset's format, around the samples
	size          int64    // of the whole body
	crc           uint32   // CRC-32C of the whole body

	lengths []uint32
	slots   map[int32]int32 // chunk to slot
	tables  []*chunkindex.Table
	counts  []int // of wanted samples, by slot
	ranges  []chunkindex.Range
	chunks  []chunkindex.ChunkRanges
	out     net.Buffers // what is sent
}

// recycle keeps the memory of l for another request. Nothing may use l any more.
func (g *Gateway) recycle(l *located) {
	if cap(l.samples) > maxScratch {
		return
	}
	clear(l.slots)
	clear(l.tables) // which belong to the index's cache
	clear(l.out)
	l.before, l.after, l.places, l.hot = nil, nil, nil, nil
	g.scratch.Put(l)
}

// locate finds l.numbers in the index and works out length and checksum of the body they make.
func (g *Gateway) locate(ctx context.Context, x *chunkindex.Index, l *located) error {
	if err := l.find(ctx, x); err != nil {
		return err
	}
	return g.measure(x, l)
}

// find finds l.numbers in the index.
func (l *located) find(ctx context.Context, x *chunkindex.Index) error {
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

// measure works out length and checksum of the body that the samples of l make.
func (g *Gateway) measure(x *chunkindex.Index, l *located) error {
	var err error
	if l.before, l.after, err = x.Framing().Frame(l.lengths); err != nil {
		return &problem{Status: http.StatusBadRequest, Code: codeBatchTooLarge, Detail: err.Error()}
	}
	l.size = int64(len(l.before) + len(l.after))
	l.crc = crc32.Checksum(l.before, castagnoli())
	for i := range l.samples {
		s := &l.samples[i]
		l.size += int64(s.length)
		l.crc = g.crc.combine(l.crc, s.crc, s.length)
	}
	l.crc = g.crc.combine(l.crc, crc32.Checksum(l.after, castagnoli()), uint32(len(l.after)))
	return nil
}

// slot returns the place of a chunk among the chunks of the answer, with its table read.
func (l *located) slot(ctx context.Context, x *chunkindex.Index, chunk int) (int32, error) {
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

// wanted returns the ranges of the samples lo to hi-1, chunk by chunk, numbered from 0. They are valid until
// l is recycled.
func (l *located) wanted(lo, hi int) []chunkindex.ChunkRanges {
	l.counts = append(l.counts[:0], make([]int, len(l.tables))...)
	for i := lo; i < hi; i++ {
		l.counts[l.samples[i].slot]++
	}
	l.ranges = slices.Grow(l.ranges[:0], hi-lo)[:hi-lo]
	l.chunks = append(l.chunks[:0], make([]chunkindex.ChunkRanges, len(l.tables))...)
	at := 0
	for slot, n := range l.counts {
		l.chunks[slot].Ranges = l.ranges[at : at : at+n]
		at += n
	}
	for i := lo; i < hi; i++ {
		s := &l.samples[i]
		c := &l.chunks[s.slot]
		c.Chunk = int(s.chunk)
		c.Ranges = append(c.Ranges, chunkindex.Range{Seq: i - lo, Offset: s.offset, Length: s.length, CRC32C: s.crc, Hot: s.hot})
	}
	return slices.DeleteFunc(l.chunks, func(c chunkindex.ChunkRanges) bool { return len(c.Ranges) == 0 })
}

// overlap returns the samples lo to hi-1 that a part of the body touches, and where sample lo begins in the body.
func (l *located) overlap(part span) (lo, hi int, at int64) {
	at = int64(len(l.before))
	for lo < len(l.samples) && at+int64(l.samples[lo].length) <= part.start {
		at += int64(l.samples[lo].length)
		lo++
	}
	end := at
	for hi = lo; hi < len(l.samples) && end < part.start+part.length; hi++ {
		end += int64(l.samples[hi].length)
	}
	return lo, hi, at
}

// checkFits refuses a body that no budget of this gateway can hold.
func (g *Gateway) checkFits(l *located) error {
	if g.cfg.Budget == nil || l.size <= g.cfg.Budget.Total() {
		return nil
	}
	return g.tooLarge(l)
}

// tooLarge is the answer for a batch that does not fit, with the sum.
func (g *Gateway) tooLarge(l *located) *problem {
	sum := uint64(l.size)
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
