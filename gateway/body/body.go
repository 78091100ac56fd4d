package body

import (
	"context"
	"fmt"
	"hash/crc32"
	"math/bits"
	"net"
	"slices"
	"sync"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/shuffle"
)

// MaxSamples is the maximum number of samples per response, which bounds the memory to plan it.
const MaxSamples = 1 << 20

// Limits above which the memory of a body is not reused for another request.
const (
	maxKept       = 16 << 10 // samples
	maxKeptPieces = 4 * maxKept
	maxKeptText   = 1 << 20
)

// sample is one sample of a body with its location.
type sample struct {
	number uint64
	chunk  int32
	slot   int32 // index of the chunk in Body.chunks
	offset uint32
	length uint32
	crc    uint32
	hot    bool
}

// Body is the layout of a response's body before its samples are read. It belongs to one request at
// a time.
type Body struct {
	Size int64  // size of the whole body, set by layout
	CRC  uint32 // CRC-32C of the whole body, set by layout

	plans.Totals // of the batch

	tables  *crcTables
	samples []sample // in the order of the response
	lengths []uint32 // lengths of the samples
	first   uint64   // position of the first sample in the epoch
	places  []int    // offset of each position from first, for a scattered share; nil: contiguous
	pieces  []piece
	text    []byte // literal pieces, concatenated
	table   int    // length of the framed form's table in text; 0 in other forms
	texts   *texts // keys and parts of the samples, if a group has read them; nil: not read yet

	numbers []uint64
	slots   map[int32]int32 // index in chunks, by chunk
	chunks  []*chunkindex.Table
	seqs    []int32 // index of the segment of each sample; unread: none
	counts  []int   // number of required samples, by slot
	ranges  []batch.Range
	needed  []batch.ChunkRanges
	out     net.Buffers // buffers to send
	loaded  *loaded     // all samples, if the layout requires their bytes
}

// unread marks a sample that the requested part does not need.
const unread = -1

// Pool provides bodies and reuses their memory.
type Pool struct {
	tables *crcTables
	free   sync.Pool
}

// NewPool returns a pool without bodies.
func NewPool() *Pool {
	p := &Pool{tables: newCRCTables()}
	p.free.New = func() any { return &Body{tables: p.tables, slots: map[int32]int32{}} }
	return p
}

// CombineCRC returns the CRC-32C of two concatenated byte strings, from the CRC-32C of each and the
// length of the second.
func (p *Pool) CombineCRC(first, second uint32, length int64) uint32 {
	return p.tables.combineLong(first, second, length)
}

// Get returns an unused body.
func (p *Pool) Get() *Body { return p.free.Get().(*Body) }

// Put returns a body to the pool. The caller must not use it afterwards.
func (p *Pool) Put(b *Body) {
	if b.loaded != nil {
		b.loaded.close()
	}
	if cap(b.samples) > maxKept || cap(b.pieces) > maxKeptPieces || cap(b.text) > maxKeptText {
		return
	}
	clear(b.slots)
	clear(b.chunks) // the index's cache owns their memory
	clear(b.out)
	b.places, b.texts, b.loaded = nil, nil, nil
	b.pieces, b.text = b.pieces[:0], b.text[:0]
	p.free.Put(b)
}

// CheckShare rejects a share with more samples than a response may have.
func CheckShare(positions shuffle.Share) error {
	if positions.Count <= MaxSamples {
		return nil
	}
	return address.Refuse(address.TooLarge,
		"the batch has %d samples, but the limit is %d for one response, and for sharing a batch by cost or locality", positions.Count, MaxSamples).
		Above(MaxSamples)
}

// Locate locates the samples of a batch in the index.
func (b *Body) Locate(ctx context.Context, x Tables, r plans.BatchOrder, batch address.Batch) error {
	hot, err := b.name(ctx, r, batch)
	if err != nil {
		return err
	}
	return b.find(ctx, x, hot)
}

// name sets the numbers of the samples of a batch, and returns which samples the plan draws often.
func (b *Body) name(ctx context.Context, r plans.BatchOrder, batch address.Batch) (hot []bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("plan epoch %d: %w", batch.Epoch, err)
	}
	_, positions := batch.Share()
	n, err := r.Numbers(ctx, b.numbers)
	if err != nil {
		return nil, err
	}
	b.numbers, b.first, b.places, b.Totals = n.Numbers, positions.First, n.Places, n.Totals
	return n.Hot, nil
}

// LocateSample locates one sample in the index.
func (b *Body) LocateSample(ctx context.Context, x Tables, number uint64) error {
	b.numbers = append(b.numbers[:0], number)
	return b.find(ctx, x, nil)
}

// Tables provides the sample tables of an index.
type Tables interface {
	plans.Places
	plans.Fetcher
}

func fetch(ctx context.Context, x Tables, samples []uint64) error {
	if !x.InPart() {
		return nil
	}
	if err := x.Fetch(ctx, samples); err != nil {
		return fmt.Errorf("sample tables: %w", err)
	}
	return nil
}

// find locates b.numbers in the index.
func (b *Body) find(ctx context.Context, x Tables, hot []bool) error {
	if err := fetch(ctx, x, b.numbers); err != nil {
		return err
	}
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
		k := int(n - first[chunk])
		b.samples = append(b.samples, sample{n, int32(chunk), slot, t.Offset(k), t.Length(k), t.CRC32C(k), len(hot) > 0 && hot[i]})
		b.lengths = append(b.lengths, t.Length(k))
	}
	return nil
}

// slot returns the index of a chunk in b.chunks, and reads its sample table if needed.
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

// Count returns the number of samples in the body.
func (b *Body) Count() int { return len(b.samples) }

// Position returns the position in the epoch of sample i of the body.
func (b *Body) Position(i int) uint64 {
	if b.places != nil {
		i = b.places[i]
	}
	return b.first + uint64(i)
}

// Padded returns the number of samples whose positions are at or above samples. They only pad the
// batch.
func (b *Body) Padded(samples uint64) (n uint64) {
	for i := range b.samples {
		if b.Position(i) >= samples {
			n++
		}
	}
	return n
}

// held returns the memory that the loaded body needs. It counts all samples, even if only a part is
// sent.
func (b *Body) held() int64 {
	n := int64(len(b.text))
	for _, length := range b.lengths {
		n += int64(length)
	}
	return max(n, b.Size)
}

// CheckFits rejects a body that exceeds a memory budget of total bytes.
func (b *Body) CheckFits(total int64) error {
	if b.held() <= total {
		return nil
	}
	return b.TooLarge(total)
}

// TooLarge returns the refusal of a body that exceeds the memory budget. A total of 0 means that
// the budget is unknown.
func (b *Body) TooLarge(total int64) *address.Refusal {
	size := uint64(b.held())
	text := fmt.Sprintf("the body has %d bytes for %d samples", size, len(b.samples))
	var r *address.Refusal
	if total > 0 {
		r = address.Refuse(address.TooLarge, "%s, but the memory budget is %d bytes", text, total).Above(total)
	} else {
		r = address.Refuse(address.TooLarge, "%s, more than the memory budget", text)
	}
	r.Bytes = &size
	return r
}

// maxText is the maximum number of bytes of a response in addition to its samples.
const maxText = 256 << 20

// literal is the value of piece.sample for literal bytes.
const literal = -1

// piece is a part of a body, in sending order: a range of a sample, or literal bytes.
type piece struct {
	sample int32  // index of the sample in the body, or literal
	offset uint32 // offset in the sample, or in text for literals
	length uint32
	crc    uint32 // for literals, set by measure
}

// put appends literal bytes to the body.
func (b *Body) put(p ...byte) {
	if len(p) == 0 {
		return
	}
	b.text = append(b.text, p...)
	b.extend(len(p))
}

// putString appends the literal bytes of a string to the body.
func (b *Body) putString(s string) {
	if s == "" {
		return
	}
	b.text = append(b.text, s...)
	b.extend(len(s))
}

// pad appends n zero bytes to the body.
func (b *Body) pad(n int) {
	b.text = append(b.text, make([]byte, n)...)
	if n > 0 {
		b.extend(n)
	}
}

// extend appends the last n bytes of text to the body.
func (b *Body) extend(n int) {
	if last := len(b.pieces) - 1; last >= 0 && b.pieces[last].sample == literal {
		b.pieces[last].length += uint32(n)
		return
	}
	b.pieces = append(b.pieces, piece{sample: literal, offset: uint32(len(b.text) - n), length: uint32(n)})
}

// stretch appends a range of sample i to the body.
func (b *Body) stretch(i int, offset, length, crc uint32) {
	if length > 0 {
		b.pieces = append(b.pieces, piece{int32(i), offset, length, crc})
	}
}

// stretchPart appends a part of sample i to the body.
func (b *Body) stretchPart(i int, p part) {
	if p.added {
		b.putString(p.text())
		return
	}
	b.stretch(i, p.Offset, p.Length, p.CRC32C)
}

// whole appends all samples to the body in order.
func (b *Body) whole() {
	b.pieces = slices.Grow(b.pieces, len(b.samples)+1)
	for i := range b.samples {
		s := &b.samples[i]
		b.pieces = append(b.pieces, piece{int32(i), 0, s.length, s.crc})
	}
}

// checkText rejects a body that would exceed maxText with n more bytes.
func (b *Body) checkText(n int64) error {
	if int64(len(b.text))+n <= maxText {
		return nil
	}
	return address.Refuse(address.TooLarge,
		"headers and names of this format have more than %d bytes for the %d samples: request smaller batches", maxText, len(b.samples)).Above(maxText)
}

// measure computes the length and checksum of the body.
func (b *Body) measure() {
	b.Size, b.CRC = 0, 0
	for i := range b.pieces {
		p := &b.pieces[i]
		if p.sample == literal {
			p.crc = Checksum(b.text[p.offset : p.offset+p.length])
		}
		b.Size += int64(p.length)
		b.CRC = b.tables.combine(b.CRC, p.crc, p.length)
	}
}

// Span is a range of bytes of a body.
type Span struct{ Start, Length int64 }

// End returns the offset after the last byte.
func (s Span) End() int64 { return s.Start + s.Length }

// Part is the range of pieces that overlap a span of a body.
type Part struct {
	body   *Body
	span   Span
	lo, hi int   // pieces lo to hi-1
	begin  int64 // offset of piece lo in the body
}

// Part returns the pieces that overlap a span of the body.
func (b *Body) Part(s Span) Part {
	p := Part{body: b, span: s}
	for p.lo < len(b.pieces) && p.begin+int64(b.pieces[p.lo].length) <= s.Start {
		p.begin += int64(b.pieces[p.lo].length)
		p.lo++
	}
	end := p.begin
	for p.hi = p.lo; p.hi < len(b.pieces) && end < s.End(); p.hi++ {
		end += int64(b.pieces[p.hi].length)
	}
	return p
}

// Size returns the length of the part in bytes.
func (p Part) Size() int64 { return p.span.Length }

// Divide splits a whole body into the table of the framed form and the rest.
func (p Part) Divide() (table []byte, samples Part) {
	table = p.body.text[:p.body.table]
	return table, p.body.Part(Span{int64(len(table)), p.span.Length - int64(len(table))})
}

// Needed returns the ranges of the samples that the part needs, by chunk, and their number. Samples
// are always read as a whole, so that they can be cached, shared and checked. The ranges are valid
// until the body is returned to the pool.
func (p Part) Needed() ([]batch.ChunkRanges, int) {
	b := p.body
	b.seqs = slices.Grow(b.seqs[:0], len(b.samples))[:len(b.samples)]
	for i := range b.seqs {
		b.seqs[i] = unread
	}
	for i := range b.pieces[p.lo:p.hi] {
		if at := b.pieces[p.lo+i].sample; at != literal {
			b.seqs[at] = 0
		}
	}
	b.counts = append(b.counts[:0], make([]int, len(b.chunks))...)
	n := 0
	for i, seq := range b.seqs {
		if seq != unread {
			b.seqs[i] = int32(n)
			b.counts[b.samples[i].slot]++
			n++
		}
	}
	b.ranges = slices.Grow(b.ranges[:0], n)[:n]
	b.needed = append(b.needed[:0], make([]batch.ChunkRanges, len(b.chunks))...)
	at := 0
	for slot, n := range b.counts {
		b.needed[slot].Ranges = b.ranges[at : at : at+n]
		at += n
	}
	for i, seq := range b.seqs {
		if seq == unread {
			continue
		}
		s := &b.samples[i]
		c := &b.needed[s.slot]
		c.Chunk = int(s.chunk)
		c.Ranges = append(c.Ranges, batch.Range{Seq: int(seq), Offset: s.offset, Length: s.length, CRC32C: s.crc, Hot: s.hot})
	}
	return slices.DeleteFunc(b.needed, func(c batch.ChunkRanges) bool { return len(c.Ranges) == 0 }), n
}

// Check compares the read segments with the ranges that Needed returned.
func (p Part) Check(segments [][]byte) error {
	n := 0
	for i, seq := range p.body.seqs {
		if seq == unread {
			continue
		}
		n++
		if s := &p.body.samples[i]; int(seq) >= len(segments) || len(segments[seq]) != int(s.length) {
			return fmt.Errorf("read sample %d: got segments other than requested", s.number)
		}
	}
	if n != len(segments) {
		return fmt.Errorf("read %d samples: got %d segments", n, len(segments))
	}
	return nil
}

// Fill returns the bytes of the span, taking samples from segments.
func (p Part) Fill(segments [][]byte) net.Buffers {
	b := p.body
	b.out = b.out[:0]
	begin := p.begin
	for _, piece := range b.pieces[p.lo:p.hi] {
		from := b.text
		if piece.sample != literal {
			from = segments[b.seqs[piece.sample]]
		}
		first, last := max(p.span.Start-begin, 0), min(p.span.End()-begin, int64(piece.length))
		if first < last {
			b.out = append(b.out, from[int64(piece.offset)+first:int64(piece.offset)+last])
		}
		begin += int64(piece.length)
	}
	return b.out
}

// Left returns the part that remains after sent bytes. It sets the segments that only the sent
// bytes needed to nil.
func (p Part) Left(sent int64, segments [][]byte) Part {
	b := p.body
	left := b.Part(Span{p.span.Start + sent, p.span.Length - sent})
	needed := make([]bool, len(segments))
	for _, piece := range b.pieces[left.lo:left.hi] {
		if piece.sample != literal {
			needed[b.seqs[piece.sample]] = true
		}
	}
	for seq := range segments {
		if !needed[seq] {
			segments[seq] = nil
		}
	}
	return left
}

// crcTables advance a CRC-32C over runs of zero bytes. Table k advances over 2^k bytes with eight
// lookups of a nibble each. The tables use 16 KiB.
type crcTables [32][8][16]uint32

// castagnoli returns the table of CRC-32C. The standard library creates it once.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Checksum returns the CRC-32C of p.
func Checksum(p []byte) uint32 { return crc32.Checksum(p, castagnoli()) }

// newCRCTables computes table 0 for one zero byte, and each next table by applying the previous one
// twice: advancing by 2^k bytes twice advances by 2^(k+1).
func newCRCTables() *crcTables {
	t := new(crcTables)
	for k := range t {
		for nibble := range 8 {
			for bit := range 4 {
				v := uint32(1) << (4*nibble + bit)
				if k == 0 {
					v = v>>8 ^ castagnoli()[byte(v)]
				} else {
					v = t.step(k-1, t.step(k-1, v))
				}
				for i := range 16 {
					if i>>bit&1 == 1 {
						t[k][nibble][i] ^= v
					}
				}
			}
		}
	}
	return t
}

// step advances v over 2^k zero bytes. The lookups are combined in pairs, so that the processor can
// run them in parallel.
func (t *crcTables) step(k int, v uint32) uint32 {
	s := &t[k]
	return ((s[0][v&15] ^ s[1][v>>4&15]) ^ (s[2][v>>8&15] ^ s[3][v>>12&15])) ^
		((s[4][v>>16&15] ^ s[5][v>>20&15]) ^ (s[6][v>>24&15] ^ s[7][v>>28]))
}

// combineLong returns the same as combine, for a second string of any length.
func (t *crcTables) combineLong(first, second uint32, length int64) uint32 {
	const most = 1 << 31
	for ; length > most; length -= most {
		first = t.step(31, first)
	}
	return t.combine(first, second, uint32(length))
}

// combine returns the CRC-32C of two concatenated byte strings, from the CRC-32C of each and the
// length of the second.
func (t *crcTables) combine(first, second, length uint32) uint32 {
	for ; length != 0; length &= length - 1 {
		first = t.step(bits.TrailingZeros32(length), first)
	}
	return first ^ second
}
