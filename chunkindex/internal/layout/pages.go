package layout

import (
	"crypto/sha256"
	"hash/crc32"
	"io"
)

// ProofSize is the length of the pages into which all sections are divided, one after another. Each has a digest: 0.1 % of the index. It
// is what a reader fetches to learn the least thing.
const ProofSize = 32 << 10

// PagesOf returns how many pages the sections of an index fill.
func PagesOf(body int64) int64 { return (body + ProofSize - 1) / ProofSize }

func digestsSize(body int64) int64 { return sha256.Size * PagesOf(body) }

// SumPages returns the digests of the pages of a file that has all of its sections.
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

// Castagnoli is the table of CRC-32C.
func Castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
