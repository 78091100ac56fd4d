package peer

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/millrace-data/millrace/shuffle"
)

// The binary form of a query. Numbers have 4 bytes, little-endian:
//
//	"MRQ" and the version of this form, 1 byte
//	length of the head, number of chunks
//	head: the Query as JSON, without its chunks
//	each chunk: its number, its number of ranges, its digest (32 bytes)
//	each range, chunk after chunk: offset, length
//	CRC-32C of everything before
const (
	queryMagic   = "MRQ\x02"
	fixedBytes   = len(queryMagic) + 4 + 4
	chunkBytes   = 4 + 4 + 32
	rangeBytes   = 4 + 4
	checksumSize = 4
)

// Limits of a query. A batch of a million samples is within them.
const (
	maxQueryBytes = 16 << 20
	maxHeadBytes  = 24 << 10
	maxSubset     = 8 << 10                // bytes of a subset that is given as a list
	maxChunk      = math.MaxUint32 - 1<<20 // same limit as in an index
	maxPosition   = math.MaxInt64
	maxThink      = 24 * time.Hour
)

var errQuery = errors.New("not a valid query")

// AppendBinary appends the binary form of q. It is an error if a chunk occurs twice or out of
// order, if a number or a name exceeds its limit, or if Cached is set with several chunks.
func (q *Query) AppendBinary(b []byte) ([]byte, error) {
	start := len(b)
	ranges, err := q.check()
	if err != nil {
		return nil, fmt.Errorf("write a query: %w", err)
	}
	head, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("write a query: %w", err)
	}
	n := fixedBytes + len(head) + len(q.Chunks)*chunkBytes + ranges*rangeBytes + checksumSize
	if n > maxQueryBytes {
		return nil, fmt.Errorf("write a query: %d bytes, at most %d are read", n, maxQueryBytes)
	}
	le := binary.LittleEndian
	b = append(slices.Grow(b, n), queryMagic...)
	b = le.AppendUint32(le.AppendUint32(b, uint32(len(head))), uint32(len(q.Chunks)))
	b = append(b, head...)
	for _, c := range q.Chunks {
		b = le.AppendUint32(le.AppendUint32(b, uint32(c.Chunk)), uint32(len(c.Ranges)))
		b = append(b, c.Digest[:]...)
	}
	for _, c := range q.Chunks {
		for _, r := range c.Ranges {
			b = le.AppendUint32(le.AppendUint32(b, r.Offset), r.Length)
		}
	}
	return le.AppendUint32(b, crc32.Checksum(b[start:], castagnoli())), nil
}

// castagnoli returns the table, which package crc32 caches.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// ParseQuery parses the binary form of a query. It checks every number, and allocates memory for
// the actual content of b, not for announced lengths. The query shares no memory with b.
func ParseQuery(b []byte) (*Query, error) {
	q, err := parseQuery(b)
	if err != nil {
		return nil, fmt.Errorf("read a query of %d bytes: %w", len(b), err)
	}
	return q, nil
}

func parseQuery(b []byte) (*Query, error) {
	if len(b) < fixedBytes+checksumSize || len(b) > maxQueryBytes || string(b[:len(queryMagic)]) != queryMagic {
		return nil, errQuery
	}
	le := binary.LittleEndian
	text, sum := b[:len(b)-checksumSize], b[len(b)-checksumSize:]
	if crc32.Checksum(text, castagnoli()) != le.Uint32(sum) {
		return nil, fmt.Errorf("%w: its checksum is wrong", errQuery)
	}
	head, chunks := int64(le.Uint32(text[len(queryMagic):])), int64(le.Uint32(text[len(queryMagic)+4:]))
	rest := text[fixedBytes:]
	if head > maxHeadBytes || head+chunks*chunkBytes > int64(len(rest)) {
		return nil, fmt.Errorf("%w: truncated", errQuery)
	}
	q := &Query{}
	if err := json.Unmarshal(rest[:head], q); err != nil {
		return nil, fmt.Errorf("%w: its head: %w", errQuery, err)
	}
	if !q.readChunks(rest[head:][:chunks*chunkBytes], rest[head+chunks*chunkBytes:]) {
		return nil, fmt.Errorf("%w: truncated or too long", errQuery)
	}
	if _, err := q.check(); err != nil {
		return nil, err
	}
	return q, nil
}

// readChunks parses the table of chunks and their ranges, which share one allocation. It reports
// whether they are consistent.
func (q *Query) readChunks(table, text []byte) bool {
	le := binary.LittleEndian
	ranges := make([]Range, len(text)/rangeBytes)
	for i := range ranges {
		r := text[i*rangeBytes:]
		ranges[i].Offset, ranges[i].Length = le.Uint32(r), le.Uint32(r[4:])
	}
	q.Chunks = make([]ChunkQuery, len(table)/chunkBytes)
	for i := range q.Chunks {
		c := table[i*chunkBytes:]
		n := le.Uint32(c[4:])
		if int64(n) > int64(len(ranges)) {
			return false
		}
		q.Chunks[i] = ChunkQuery{Chunk: int(le.Uint32(c)), Digest: [32]byte(c[8:]), Ranges: ranges[:n:n]}
		ranges = ranges[n:]
	}
	return len(ranges) == 0 && len(text)%rangeBytes == 0
}

// check checks the limits of a query, and returns its number of ranges.
func (q *Query) check() (ranges int, err error) {
	if err := checkNames(q.Dataset, q.Generation); err != nil {
		return 0, err
	}
	if q.Dataset == "" || q.Generation == "" {
		return 0, errors.New("no dataset or no generation")
	}
	if q.Reader != nil {
		if err := q.Reader.check(); err != nil {
			return 0, err
		}
	}
	if len(q.Chunks) == 0 || q.Cached && len(q.Chunks) > 1 {
		return 0, fmt.Errorf("invalid number of chunks: %d", len(q.Chunks))
	}
	before := -1
	for _, c := range q.Chunks {
		if c.Chunk <= before || c.Chunk > maxChunk || len(c.Ranges) == 0 {
			return 0, fmt.Errorf("invalid list of chunks: %d ranges of chunk %d after chunk %d", len(c.Ranges), c.Chunk, before)
		}
		for _, r := range c.Ranges {
			if uint64(r.Offset)+uint64(r.Length) > math.MaxUint32 {
				return 0, fmt.Errorf("invalid range [%d,+%d) of chunk %d", r.Offset, r.Length, c.Chunk)
			}
		}
		before, ranges = c.Chunk, ranges+len(c.Ranges)
	}
	return ranges, nil
}

func (r *Reader) check() error {
	switch {
	case r.First > r.End || r.End > maxPosition:
		return fmt.Errorf("invalid positions %d to %d", r.First, r.End)
	case r.Block > shuffle.MaxBlock || r.Block > 0 && (r.BatchSize == 0 || r.Block%r.BatchSize > 0):
		return fmt.Errorf("invalid blocks of %d samples, with batches of %d", r.Block, r.BatchSize)
	case r.BatchSize > maxPosition || r.WorldSize > maxPosition || r.Rank >= max(r.WorldSize, 1):
		return fmt.Errorf("invalid rank %d of %d, with batches of %d", r.Rank, r.WorldSize, r.BatchSize)
	case r.Homes > max(r.WorldSize, 1):
		return fmt.Errorf("invalid homes: %d: must be at most the world size, %d", r.Homes, max(r.WorldSize, 1))
	case r.Think < 0 || r.Think > maxThink:
		return fmt.Errorf("invalid think time %v", r.Think)
	}
	if err := checkTexts(maxSubset, r.Params.Subset); err != nil {
		return err
	}
	return checkNames(r.Params.Shuffle, r.Params.Importance, string(r.Sharing), string(r.Tail))
}

func checkNames(names ...string) error { return checkTexts(maxNameBytes, names...) }

// checkTexts checks that names are safe in a log.
func checkTexts(most int, names ...string) error {
	for _, name := range names {
		if len(name) > most || !utf8.ValidString(name) {
			return fmt.Errorf("a name of %d bytes: must be at most %d bytes of UTF-8", len(name), most)
		}
		for i := range len(name) {
			if name[i] < ' ' || name[i] == 0x7f {
				return fmt.Errorf("a control character in the name %.40q", name)
			}
		}
	}
	return nil
}
