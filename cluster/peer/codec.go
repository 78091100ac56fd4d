package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"
	"unicode/utf8"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/shuffle"
)

// A query on the wire. Numbers are unsigned LEB128 in their shortest form, names a length and as many bytes:
//
//	"MRQ" and the version of the form, 1 byte
//	flags: bit 0 Cached, bit 1 a reader follows, bit 2 the reader's share was dealt by bytes,
//	       bit 3 it reads a subset
//	dataset, generation
//	reader: shuffle, window, strata, seed, importance, epoch, first, end, batch size, rank, world size, homes, split, tail,
//	        think time in microseconds, with bit 3 the subset
//	chunks, ranges of all chunks together
//	each chunk: its number less that of the one before (the first: its number), digest (32 bytes), ranges, and
//	        offset and length of each of them
//	CRC-32C of all that, 4 bytes, little-endian
//
// One query has one form: what is read, written again, gives the same bytes.
const (
	queryMagic   = "MRQ\x01"
	digestBytes  = 32
	minChunk     = 1 + digestBytes + 1 + minRange
	minRange     = 2
	checksumSize = 4

	flagCached, flagReader, flagDealt, flagSubset = 1, 2, 4, 8
)

// Limits of a query. A batch of a million samples is within them.
const (
	maxQueryBytes = 8 << 20
	maxChunk      = math.MaxUint32 - 1<<20 // as in an index
	maxPosition   = math.MaxInt64
	maxThink      = 24 * time.Hour
)

var errQuery = errors.New("not a query of this form")

// AppendBinary appends q as it goes over the wire. It is an error if a chunk comes twice or out of order, if a number
// or a name is beyond the limits, or if more than one chunk is asked for with Cached.
func (q *Query) AppendBinary(b []byte) ([]byte, error) {
	start := len(b)
	ranges, err := q.check()
	if err != nil {
		return nil, fmt.Errorf("write a query: %w", err)
	}
	b = append(b, queryMagic...)
	var flags byte
	if q.Cached {
		flags |= flagCached
	}
	if q.Reader != nil {
		flags |= flagReader
		if q.Reader.Dealt {
			flags |= flagDealt
		}
		if q.Reader.Params.Subset != "" {
			flags |= flagSubset
		}
	}
	b = append(b, flags)
	b = appendName(appendName(b, q.Dataset), q.Generation)
	if q.Reader != nil {
		b = q.Reader.append(b)
	}
	b = binary.AppendUvarint(b, uint64(len(q.Chunks)))
	b = binary.AppendUvarint(b, uint64(ranges))
	before := 0
	for i := range q.Chunks {
		c := &q.Chunks[i]
		b = binary.AppendUvarint(b, uint64(c.Chunk-before))
		before = c.Chunk
		b = append(b, c.Digest[:]...)
		b = binary.AppendUvarint(b, uint64(len(c.Ranges)))
		for j := range c.Ranges {
			offset, length := uint64(c.Ranges[j].Offset), uint64(c.Ranges[j].Length)
			if offset+length > math.MaxUint32 {
				return nil, fmt.Errorf("write a query: range [%d,+%d) of chunk %d", offset, length, c.Chunk)
			}
			b = binary.AppendUvarint(binary.AppendUvarint(b, offset), length)
		}
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli()))
	if len(b)-start > maxQueryBytes {
		return nil, fmt.Errorf("write a query: %d bytes, at most %d are read", len(b)-start, maxQueryBytes)
	}
	return b, nil
}

// castagnoli returns the table, which crc32 keeps.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// sizeHint is enough for most queries.
func (q *Query) sizeHint() int {
	n := 512
	for _, c := range q.Chunks {
		n += 40 + 8*len(c.Ranges)
	}
	return n
}

// check holds all but the ranges against the limits, and returns how many ranges there are.
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
		return 0, fmt.Errorf("%d chunks", len(q.Chunks))
	}
	for i := range q.Chunks {
		c := &q.Chunks[i]
		ranges += len(c.Ranges)
		switch {
		case c.Chunk < 0 || c.Chunk > maxChunk:
			return 0, fmt.Errorf("chunk %d", c.Chunk)
		case i > 0 && c.Chunk <= q.Chunks[i-1].Chunk:
			return 0, fmt.Errorf("chunk %d after chunk %d", c.Chunk, q.Chunks[i-1].Chunk)
		case len(c.Ranges) == 0:
			return 0, fmt.Errorf("nothing of chunk %d", c.Chunk)
		}
	}
	return ranges, nil
}

func (r *Reader) append(b []byte) []byte {
	b = appendName(b, r.Params.Shuffle)
	for _, n := range []uint64{r.Params.Window, r.Params.Strata, r.Params.Seed} {
		b = binary.AppendUvarint(b, n)
	}
	b = appendName(b, r.Params.Importance)
	for _, n := range []uint64{r.Epoch, r.First, r.End, r.BatchSize, r.Rank, r.WorldSize, r.Homes} {
		b = binary.AppendUvarint(b, n)
	}
	b = appendName(appendName(b, string(r.Split)), string(r.Tail))
	b = binary.AppendUvarint(b, uint64(r.Think/time.Microsecond))
	if r.Params.Subset != "" {
		b = appendName(b, r.Params.Subset)
	}
	return b
}

func (r *Reader) check() error {
	switch {
	case r.First > r.End || r.End > maxPosition:
		return fmt.Errorf("positions %d to %d", r.First, r.End)
	case r.BatchSize > maxPosition || r.WorldSize > maxPosition || r.Rank >= max(r.WorldSize, 1):
		return fmt.Errorf("rank %d of %d, with batches of %d", r.Rank, r.WorldSize, r.BatchSize)
	case r.Homes > max(r.WorldSize, 1):
		return fmt.Errorf("%d homes of %d ranks", r.Homes, r.WorldSize)
	case r.Think < 0 || r.Think > maxThink:
		return fmt.Errorf("%v of thinking", r.Think)
	}
	return checkNames(r.Params.Shuffle, r.Params.Importance, r.Params.Subset, string(r.Split), string(r.Tail))
}

func appendName(b []byte, name string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(name))), name...)
}

// checkNames wants what a log can show.
func checkNames(names ...string) error {
	for _, name := range names {
		if len(name) > maxNameBytes || !utf8.ValidString(name) {
			return fmt.Errorf("a name of %d bytes: at most %d of UTF-8 are read", len(name), maxNameBytes)
		}
		for i := range len(name) {
			if name[i] < ' ' || name[i] == 0x7f {
				return fmt.Errorf("a control character in the name %.40q", name)
			}
		}
	}
	return nil
}

// ParseQuery reads a query as AppendBinary writes it. Every number is held against its limits, and memory is taken for
// what stands in b, not for what it promises. The query shares nothing with b.
func ParseQuery(b []byte) (*Query, error) {
	q, err := parseQuery(b)
	if err != nil {
		return nil, fmt.Errorf("read a query of %d bytes: %w", len(b), err)
	}
	return q, nil
}

func parseQuery(b []byte) (*Query, error) {
	if len(b) < len(queryMagic)+1+checksumSize || len(b) > maxQueryBytes || string(b[:len(queryMagic)]) != queryMagic {
		return nil, errQuery
	}
	text, sum := b[:len(b)-checksumSize], b[len(b)-checksumSize:]
	if crc32.Checksum(text, castagnoli()) != binary.LittleEndian.Uint32(sum) {
		return nil, fmt.Errorf("%w: its checksum is wrong", errQuery)
	}
	flags := text[len(queryMagic)]
	if flags > flagCached|flagReader|flagDealt|flagSubset || flags&flagReader == 0 && flags&(flagDealt|flagSubset) != 0 {
		return nil, fmt.Errorf("%w: flags %#x", errQuery, flags)
	}
	in := &cursor{rest: text[len(queryMagic)+1:]}
	q := &Query{Cached: flags&flagCached != 0}
	q.Dataset, q.Generation = in.name(), in.name()
	if flags&flagReader != 0 {
		q.Reader = in.reader()
		q.Reader.Dealt = flags&flagDealt != 0
		if flags&flagSubset != 0 {
			q.Reader.Params.Subset = in.name()
			in.bad = in.bad || q.Reader.Params.Subset == ""
		}
	}
	if q.Chunks = in.chunks(); in.bad || len(in.rest) > 0 {
		return nil, fmt.Errorf("%w: cut short, too long or out of bounds", errQuery)
	}
	if _, err := q.check(); err != nil {
		return nil, err
	}
	return q, nil
}

// cursor reads from the front of rest. Once something was wrong it is bad, and gives nothing but zeros.
type cursor struct {
	rest []byte
	bad  bool
}

// number reads one of at most limit.
func (in *cursor) number(limit uint64) uint64 {
	if len(in.rest) > 0 && in.rest[0] < 0x80 && uint64(in.rest[0]) <= limit {
		n := in.rest[0]
		in.rest = in.rest[1:]
		return uint64(n)
	}
	n, size := binary.Uvarint(in.rest)
	if size <= 0 || n > limit || size > 1 && in.rest[size-1] == 0 {
		in.bad, in.rest = true, nil
		return 0
	}
	in.rest = in.rest[size:]
	return n
}

func (in *cursor) bytes(n int) []byte {
	if n > len(in.rest) {
		in.bad, in.rest = true, nil
		return nil
	}
	p := in.rest[:n]
	in.rest = in.rest[n:]
	return p
}

func (in *cursor) name() string { return string(in.bytes(int(in.number(maxNameBytes)))) }

func (in *cursor) reader() *Reader {
	r := &Reader{}
	r.Params.Shuffle = in.name()
	for _, n := range []*uint64{&r.Params.Window, &r.Params.Strata, &r.Params.Seed} {
		*n = in.number(math.MaxUint64)
	}
	r.Params.Importance = in.name()
	r.Epoch = in.number(math.MaxUint64)
	for _, n := range []*uint64{&r.First, &r.End, &r.BatchSize, &r.Rank, &r.WorldSize, &r.Homes} {
		*n = in.number(maxPosition)
	}
	r.Split, r.Tail = shuffle.Split(in.name()), shuffle.Tail(in.name())
	r.Think = time.Duration(in.number(uint64(maxThink/time.Microsecond))) * time.Microsecond
	return r
}

// chunks reads all of them, whose ranges lie in one piece of memory.
func (in *cursor) chunks() []Wanted {
	count := in.number(uint64(len(in.rest) / minChunk))
	total := in.number(uint64(len(in.rest) / minRange))
	if in.bad {
		return nil
	}
	chunks, ranges := make([]Wanted, count), make([]chunkindex.Range, total)
	before := uint64(0)
	for i := range chunks {
		c := &chunks[i]
		before += in.number(maxChunk)
		n := copy(c.Digest[:], in.bytes(digestBytes))
		wanted := in.number(uint64(len(ranges)))
		if in.bad || n != digestBytes || before > maxChunk {
			in.bad = true
			return nil
		}
		c.Chunk = int(before)
		c.Ranges, ranges = ranges[:wanted:wanted], ranges[wanted:]
		in.ranges(c.Ranges)
	}
	in.bad = in.bad || len(ranges) > 0
	return chunks
}

// ranges reads offsets and lengths, of which there are thousands: number, in a loop of its own.
func (in *cursor) ranges(to []chunkindex.Range) {
	rest := in.rest
	for i := range to {
		offset, size := short(rest)
		rest = rest[size:]
		length, more := short(rest)
		rest = rest[more:]
		if size == 0 || more == 0 || offset+length > math.MaxUint32 {
			in.bad, in.rest = true, nil
			return
		}
		to[i].Offset, to[i].Length = uint32(offset), uint32(length)
	}
	in.rest = rest
}

// short reads a number of at most five bytes, and returns how many they were: 0 where it has none, or not the shortest form.
func short(p []byte) (n uint64, size int) {
	for i, b := range p[:min(len(p), 5)] {
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			if b == 0 && i > 0 {
				return 0, 0
			}
			return n, i + 1
		}
	}
	return 0, 0
}
