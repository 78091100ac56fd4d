package gateway

import (
	"fmt"
	"hash/crc32"
	"net"
	"net/http"
	"slices"
)

// maxText bounds the bytes that one answer puts around its samples, and with them what a form may ask of memory.
const maxText = 256 << 20

// literal is the place of a piece that is no stretch of a sample.
const literal = -1

// piece is a part of a body, in the order in which it is sent: a stretch of a sample, or literal bytes around samples. Every
// form of an answer is such a list, laid out from the index alone; its length, its checksum, the parts of it that a Range asks
// for and what is read and sent follow from the list, for all forms alike.
type piece struct {
	sample int32  // place among the samples of the answer, or literal
	offset uint32 // in the sample; of a literal in the text
	length uint32
	crc    uint32 // of a literal from measure on
}

// put adds literal bytes to the body.
func (l *located) put(p ...byte) {
	if len(p) == 0 {
		return
	}
	l.text = append(l.text, p...)
	l.extend(len(p))
}

// putString is put for a string.
func (l *located) putString(s string) {
	if s == "" {
		return
	}
	l.text = append(l.text, s...)
	l.extend(len(s))
}

// extend takes the last n bytes of the text into the body.
func (l *located) extend(n int) {
	if last := len(l.pieces) - 1; last >= 0 && l.pieces[last].sample == literal {
		l.pieces[last].length += uint32(n)
		return
	}
	l.pieces = append(l.pieces, piece{sample: literal, offset: uint32(len(l.text) - n), length: uint32(n)})
}

// stretch adds a stretch of sample i of the answer to the body.
func (l *located) stretch(i int, offset, length, crc uint32) {
	if length > 0 {
		l.pieces = append(l.pieces, piece{int32(i), offset, length, crc})
	}
}

// whole adds all samples to the body, one after the other.
func (l *located) whole() {
	l.pieces = slices.Grow(l.pieces, len(l.samples)+1)
	for i := range l.samples {
		s := &l.samples[i]
		l.pieces = append(l.pieces, piece{int32(i), 0, s.length, s.crc})
	}
}

// checkText refuses a body that wants too much around its samples, before n bytes more are laid out.
func (l *located) checkText(n int64) error {
	if int64(len(l.text))+n <= maxText {
		return nil
	}
	limit := int64(maxText)
	return &problem{
		Status: http.StatusBadRequest, Code: codeBatchTooLarge, Limit: &limit,
		Detail: fmt.Sprintf("this form puts more than %d bytes around the %d samples: ask for smaller batches", maxText, len(l.samples)),
	}
}

// measure works out length and checksum of the body that the pieces of l make.
func (g *Gateway) measure(l *located) {
	l.size, l.crc = 0, 0
	for i := range l.pieces {
		p := &l.pieces[i]
		if p.sample == literal {
			p.crc = crc32.Checksum(l.text[p.offset:p.offset+p.length], castagnoli())
		}
		l.size += int64(p.length)
		l.crc = g.crc.combine(l.crc, p.crc, p.length)
	}
}

// overlap returns the pieces lo to hi-1 that a part of the body touches, and where piece lo begins in the body.
func (l *located) overlap(part span) (lo, hi int, at int64) {
	for lo < len(l.pieces) && at+int64(l.pieces[lo].length) <= part.start {
		at += int64(l.pieces[lo].length)
		lo++
	}
	end := at
	for hi = lo; hi < len(l.pieces) && end < part.start+part.length; hi++ {
		end += int64(l.pieces[hi].length)
	}
	return lo, hi, at
}

// fill collects what is sent of the pieces lo to hi-1, the first of which begins at begin: no more of them than the part of the
// body asks for. The samples are in segments, by their places in l.seqs.
func (l *located) fill(segments [][]byte, lo, hi int, part span, begin int64) net.Buffers {
	l.out = l.out[:0]
	end := part.start + part.length
	for _, p := range l.pieces[lo:hi] {
		from := l.text
		if p.sample != literal {
			from = segments[l.seqs[p.sample]]
		}
		first, last := max(part.start-begin, 0), min(end-begin, int64(p.length))
		if first < last {
			l.out = append(l.out, from[int64(p.offset)+first:int64(p.offset)+last])
		}
		begin += int64(p.length)
	}
	return l.out
}
