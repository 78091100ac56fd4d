package datapath

import (
	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/chunkcache"
)

// settling is a body in leased chunks that can give them back before it is sent, for copies of what is left of it.
type settling struct {
	leases   *chunkcache.Leases[key]
	chunks   []chunkindex.ChunkRanges
	segments [][]byte
	copies   []*chunkcache.Buffer[key]
}

// settle gives back the chunks of which nothing is needed any more. It copies what is needed of the others, chunk by
// chunk: each copy makes room for the next one. Where there is no memory for a copy the chunk stays.
func (h *settling) settle() {
	for at, c := range h.chunks {
		var needed []int // segments
		for _, r := range c.Ranges {
			if h.segments[r.Seq] != nil {
				needed = append(needed, r.Seq)
			}
		}
		if h.leases.Holds(at) && h.copy(at, needed) {
			h.leases.Drop(at)
		}
	}
}

// copy copies segments of a chunk. It reports whether the chunk is needed no more.
func (h *settling) copy(at int, seqs []int) bool {
	var n int64
	for _, seq := range seqs {
		n += int64(len(h.segments[seq]))
	}
	if n == 0 {
		return true
	}
	own, ok := h.leases.Instead(at, n)
	if !ok {
		return false
	}
	h.copies = append(h.copies, own)
	to := own.Bytes()
	for _, seq := range seqs {
		k := copy(to, h.segments[seq])
		h.segments[seq], to = to[:k:k], to[k:]
	}
	return true
}

func (h *settling) close() {
	h.leases.Close()
	for _, c := range h.copies {
		c.Close()
	}
}
