package layout

import (
	"crypto/sha256"
	"hash/crc32"
	"io"
)

// ProofSize is the size of the pages into which the sections are divided. Each page has a digest;
// all digests together are 0.1 % of the index. A page is also the smallest unit that a reader
// fetches.
const ProofSize = 32 << 10

// PagesOf returns the number of pages in the sections of an index, whose length is body.
func PagesOf(body int64) int64 { return (body + ProofSize - 1) / ProofSize }

func digestsSize(body int64) int64 { return sha256.Size * PagesOf(body) }

// SumPages returns the page digests of a complete index file.
func SumPages(f io.ReaderAt, begin, end int64) ([]byte, error) {
	digests := make([]byte, 0, digestsSize(end-begin))
	b := make([]byte, ProofSize)
	for at := begin; at < end; at += ProofSize {
		b = b[:min(ProofSize, end-at)]
		if _, err := f.ReadAt(b, at); err != nil {
			return nil, err
		}
		sum := sha256.Sum256(b)
		digests = append(digests, sum[:]...)
	}
	return digests, nil
}

// Castagnoli returns the CRC-32C table.
func Castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
