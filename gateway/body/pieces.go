package body

import (
	"fmt"
	"net"
	"slices"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/gateway/address"
)

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
func (b *Body) stretchPart(i int, p chunkindex.Part) { b.stretch(i, p.Offset, p.Length, p.CRC32C) }

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

// Wanted returns the ranges of the samples that the part needs, chunk by chunk, and their number. Samples are always
// read whole, so that they can be cached, shared and checked. The ranges are valid until the body is put back.
func (p Part) Wanted() ([]chunkindex.ChunkRanges, int) {
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
	b.wanted = append(b.wanted[:0], make([]chunkindex.ChunkRanges, len(b.chunks))...)
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
		c.Ranges = append(c.Ranges, chunkindex.Range{Seq: int(seq), Offset: s.offset, Length: s.length, CRC32C: s.crc, Hot: s.hot})
	}
	return slices.DeleteFunc(b.wanted, func(c chunkindex.ChunkRanges) bool { return len(c.Ranges) == 0 }), n
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
