package datapath

import (
	"context"
	"hash/crc32"

	"github.com/millrace-data/millrace/internal/objstore"
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli()) }

// sums works out the CRC-32C of chunks while one read fills them in turn, while the bytes are still in the processor's
// cache: to fetch them from memory again takes a tenth of a cold epoch.
type sums struct {
	bufs [][]byte
	crcs []uint32
	seen int64 // bytes of bufs that are in crcs
}

func newSums(bufs [][]byte) *sums { return &sums{bufs: bufs, crcs: make([]uint32, len(bufs))} }

// follow returns a context whose read reports how far it is.
func (s *sums) follow(ctx context.Context) context.Context {
	return objstore.WithProgress(ctx, s.filled)
}

// filled adds the bytes up to n, or begins again where they were not the last word.
func (s *sums) filled(n int64) {
	if n < s.seen {
		clear(s.crcs)
		s.seen = 0
	}
	var start int64
	for i, b := range s.bufs {
		end := start + int64(len(b))
		if lo, hi := max(s.seen, start), min(n, end); lo < hi {
			s.crcs[i] = crc32.Update(s.crcs[i], castagnoli(), b[lo-start:hi-start])
		}
		start = end
	}
	s.seen = n
}

// finish adds what no report told of, and returns the chunks' sums.
func (s *sums) finish() []uint32 {
	var total int64
	for _, b := range s.bufs {
		total += int64(len(b))
	}
	s.filled(total)
	return s.crcs
}
