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
	table   int    // bytes of the text that are the table of the framed form
	texts   *texts // of the samples, where they were read for several bodies together; nil: they are not read yet

	numbers []uint64
	slots   map[int32]int32 // slot by chunk
	chunks  []*chunkindex.Table
	seqs    []int32 // the number of the segment that a sample is read into; unread: none
	counts  []int   // of wanted samples, by slot
	ranges  []batch.Range
	wanted  []batch.ChunkRanges
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
func (b *Body) Locate(ctx context.Context, x Tables, r plans.BatchOrder, batch address.Batch) error {
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
func (b *Body) name(ctx context.Context, r plans.BatchOrder, batch address.Batch) (hot []bool, err error) {
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
func (b *Body) LocateSample(ctx context.Context, x Tables, number uint64) error {
	b.numbers = append(b.numbers[:0], number)
	return b.find(ctx, x, nil)
}

// Tables are the sample tables of an index.
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

// find finds b.numbers in the index.
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

// maxText bounds the bytes that one answer puts around its samples: the memory that a form may ask for.
const maxText = 256 << 20

// literal is the sample of a piece that is no stretch of a sample.
const literal = -1

// piece is a part of a body, in the order in which it is sent: a stretch of a sample, or literal bytes.
type piece struct {
	sample int32  // its place in the body, or literal
	offset uint32 // in the sample; of a literal in the text
	length uint32
	crc    uint32 // of a literal, set by measure
}

// put adds literal bytes to the body.
func (b *Body) put(p ...byte) {
	if len(p) == 0 {
		return
	}
	b.text = append(b.text, p...)
	b.extend(len(p))
}

// putString is put for a string.
func (b *Body) putString(s string) {
	if s == "" {
		return
	}
	b.text = append(b.text, s...)
	b.extend(len(s))
}

// pad adds n zero bytes to the body.
func (b *Body) pad(n int) {
	b.text = append(b.text, make([]byte, n)...)
	if n > 0 {
		b.extend(n)
	}
}

// extend takes the last n bytes of the text into the body.
func (b *Body) extend(n int) {
	if last := len(b.pieces) - 1; last >= 0 && b.pieces[last].sample == literal {
		b.pieces[last].length += uint32(n)
		return
	}
	b.pieces = append(b.pieces, piece{sample: literal, offset: uint32(len(b.text) - n), length: uint32(n)})
}

// stretch adds a stretch of sample i to the body.
func (b *Body) stretch(i int, offset, length, crc uint32) {
	if length > 0 {
		b.pieces = append(b.pieces, piece{int32(i), offset, length, crc})
	}
}

// stretchPart adds a part of sample i to the body.
func (b *Body) stretchPart(i int, p part) {
	if p.added {
		b.putString(p.text())
		return
	}
	b.stretch(i, p.Offset, p.Length, p.CRC32C)
}

// whole adds all samples to the body, one after the other.
func (b *Body) whole() {
	b.pieces = slices.Grow(b.pieces, len(b.samples)+1)
	for i := range b.samples {
		s := &b.samples[i]
		b.pieces = append(b.pieces, piece{int32(i), 0, s.length, s.crc})
	}
}

// checkText refuses a body with too much text around its samples, before n more bytes are laid out.
func (b *Body) checkText(n int64) error {
	if int64(len(b.text))+n <= maxText {
		return nil
	}
	return address.Refuse(address.TooLarge,
		"this form puts more than %d bytes around the %d samples: ask for smaller batches", maxText, len(b.samples)).Above(maxText)
}

// measure works out the length and the checksum of the body.
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

// Span is a part of a body, in bytes.
type Span struct{ Start, Length int64 }

// End is the byte after the last one.
func (s Span) End() int64 { return s.Start + s.Length }

// Part is the pieces of a body that a span of it touches.
type Part struct {
	body   *Body
	span   Span
	lo, hi int   // pieces lo to hi-1
	begin  int64 // the place of piece lo in the body
}

// Part returns the pieces that a span of the body touches.
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

// Divide returns the table of a whole body in the framed form, and the part of the body that follows it.
func (p Part) Divide() (table []byte, samples Part) {
	table = p.body.text[:p.body.table]
	return table, p.body.Part(Span{int64(len(table)), p.span.Length - int64(len(table))})
}

// Wanted returns the ranges of the samples that the part needs, chunk by chunk, and their number. Samples are always
// read whole, so that they can be cached, shared and checked. The ranges are valid until the body is put back.
func (p Part) Wanted() ([]batch.ChunkRanges, int) {
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
	b.wanted = append(b.wanted[:0], make([]batch.ChunkRanges, len(b.chunks))...)
	at := 0
	for slot, n := range b.counts {
		b.wanted[slot].Ranges = b.ranges[at : at : at+n]
		at += n
	}
	for i, seq := range b.seqs {
		if seq == unread {
			continue
		}
		s := &b.samples[i]
		c := &b.wanted[s.slot]
		c.Chunk = int(s.chunk)
		c.Ranges = append(c.Ranges, batch.Range{Seq: int(seq), Offset: s.offset, Length: s.length, CRC32C: s.crc, Hot: s.hot})
	}
	return slices.DeleteFunc(b.wanted, func(c batch.ChunkRanges) bool { return len(c.Ranges) == 0 }), n
}

// Check holds the segments that came against the ranges that Wanted returned.
func (p Part) Check(segments [][]byte) error {
	n := 0
	for i, seq := range p.body.seqs {
		if seq == unread {
			continue
		}
		n++
		if s := &p.body.samples[i]; int(seq) >= len(segments) || len(segments[seq]) != int(s.length) {
			return fmt.Errorf("read sample %d: the segments that came are not those that were asked for", s.number)
		}
	}
	if n != len(segments) {
		return fmt.Errorf("read %d samples: %d segments came", n, len(segments))
	}
	return nil
}

// Fill returns the bytes of the span, with the samples in segments.
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

// Left returns what is left of the part once so many bytes of it are sent. It sets those segments to nil that only the
// sent bytes needed.
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

// crcTables advance a CRC-32C over runs of zero bytes: table k over 2^k of them, by eight
// look-ups of a nibble each. 16 KiB.
type crcTables [32][8][16]uint32

// castagnoli returns the table of CRC-32C. The standard library makes it once.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Checksum returns the CRC-32C of p.
func Checksum(p []byte) uint32 { return crc32.Checksum(p, castagnoli()) }

// newCRCTables starts from one zero byte and squares: advancing by 2^k bytes twice is advancing by 2^(k+1).
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

// step advances v over 2^k zero bytes. The entries are added in pairs, so that they need not wait for each other.
func (t *crcTables) step(k int, v uint32) uint32 {
	s := &t[k]
	return ((s[0][v&15] ^ s[1][v>>4&15]) ^ (s[2][v>>8&15] ^ s[3][v>>12&15])) ^
		((s[4][v>>16&15] ^ s[5][v>>20&15]) ^ (s[6][v>>24&15] ^ s[7][v>>28]))
}

// combineLong is combine for a second string of any length.
func (t *crcTables) combineLong(first, second uint32, length int64) uint32 {
	const most = 1 << 31
	for ; length > most; length -= most {
		first = t.step(31, first)
	}
	return t.combine(first, second, uint32(length))
}

// combine returns the CRC-32C of two byte strings one after the other, from that of the first, that of the
// second, and the length of the second: the bytes are not needed.
func (t *crcTables) combine(first, second, length uint32) uint32 {
	for ; length != 0; length &= length - 1 {
		first = t.step(bits.TrailingZeros32(length), first)
	}
	return first ^ second
}
