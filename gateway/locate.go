package gateway

import (
	"context"
	"fmt"
	"hash/crc32"
	"net/http"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/shuffle"
)

// maxShare bounds the samples of one answer, so that planning a request takes bounded memory.
const maxShare = 1 << 20

// placed is one sample of an answer and where it lies.
type placed struct {
	sample uint64
	chunk  int
	offset uint32
	length uint32
	crc    uint32
}

// located is the body of an answer before a byte of it is read.
type located struct {
	samples       []placed
	before, after []byte // of the data set's format, around the samples
	size          int64  // of the whole body
	crc           uint32 // CRC-32C of the whole body
}

// locate finds the samples in the index and works out length and checksum of the body they make.
func (g *Gateway) locate(ctx context.Context, x *chunkindex.Index, numbers []uint64) (*located, error) {
	l := &located{samples: make([]placed, len(numbers))}
	lengths := make([]uint32, len(numbers))
	tables := map[int]*chunkindex.Table{}
	first := x.First()
	chunk := -1
	for i, n := range numbers {
		if chunk < 0 || n < first[chunk] || n >= first[chunk+1] {
			chunk = x.ChunkOf(n)
		}
		t, ok := tables[chunk]
		if !ok {
			var err error
			if t, err = x.Table(ctx, chunk); err != nil {
				return nil, fmt.Errorf("sample table of chunk %d: %w", chunk, err)
			}
			tables[chunk] = t
		}
		k := n - first[chunk]
		l.samples[i] = placed{n, chunk, t.Offset[k], t.Length[k], t.CRC32C[k]}
		lengths[i] = t.Length[k]
	}
	l.before, l.after = x.Framing().Frame(lengths)
	l.size = int64(len(l.before) + len(l.after))
	l.crc = crc32.Checksum(l.before, castagnoli())
	for _, s := range l.samples {
		l.size += int64(s.length)
		l.crc = g.crc.combine(l.crc, s.crc, s.length)
	}
	l.crc = g.crc.combine(l.crc, crc32.Checksum(l.after, castagnoli()), uint32(len(l.after)))
	return l, nil
}

// wanted returns the ranges of the samples lo to hi-1, chunk by chunk, numbered from 0.
func (l *located) wanted(lo, hi int) []chunkindex.ChunkRanges {
	var out []chunkindex.ChunkRanges
	byChunk := map[int]int{}
	for i, s := range l.samples[lo:hi] {
		k, ok := byChunk[s.chunk]
		if !ok {
			k = len(out)
			byChunk[s.chunk] = k
			out = append(out, chunkindex.ChunkRanges{Chunk: s.chunk})
		}
		out[k].Ranges = append(out[k].Ranges, chunkindex.Range{Seq: i, Offset: s.offset, Length: s.length, CRC32C: s.crc})
	}
	return out
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

// checkShare refuses a share of more samples than one answer may have.
func checkShare(share shuffle.Share) error {
	if share.Count <= maxShare {
		return nil
	}
	limit := int64(maxShare)
	return &problem{
		Status: http.StatusBadRequest, Code: codeBatchTooLarge, Limit: &limit,
		Detail: fmt.Sprintf("the batch has %d samples; at most %d can be sent in one answer", share.Count, maxShare),
	}
}
