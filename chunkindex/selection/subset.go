package selection

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// Subset is an open subset of a split. It uses a few bytes of memory per chunk and is safe for
// concurrent use.
type Subset struct {
	file    file
	head    *head
	rule    Rule
	part    int
	first   []uint64
	members []uint64 // prefix sums
	crcs    []uint32
	offsets []int64 // offsets of the chunks' blocks
}

// file is the file from which a split is read.
type file interface {
	io.ReaderAt
	io.Closer
}

// OpenSubset downloads a split to a local file, verifies its digest, and opens one of its subsets.
// generation is the dataset's generation. first contains the prefix sums of the chunks' sample
// counts; the subset shares the slice and does not modify it. OpenSubset returns ErrNotFound if the
// bucket does not have the split, and ErrGeneration if the split is for other data. It returns
// ErrCorrupt if the split does not match its name or the dataset, and ErrNoSubset for an unknown
// name.
func (s *Store) OpenSubset(ctx context.Context, digest, name, generation string, first []uint64) (*Subset, error) {
	x, err := s.openSubset(ctx, digest, name, generation, first)
	if err != nil {
		return nil, fmt.Errorf("subset %.12s:%s: %w", digest, name, err)
	}
	return x, nil
}

func (s *Store) openSubset(ctx context.Context, digest, name, generation string, first []uint64) (*Subset, error) {
	obj, b, err := s.head(ctx, subsetDir, digest, "split", splitHeader)
	if err != nil {
		return nil, err
	}
	if _, err := checkHead(b, generation, first, obj.Size); err != nil {
		return nil, err
	}
	f, err := s.download(ctx, obj, digest, io.Discard)
	if err != nil {
		return nil, err
	}
	x, err := parseSplit(f, obj.Size, name, generation, first)
	if err != nil {
		f.Close()
	}
	return x, err
}

// checkHead decodes a header and compares it with the dataset.
func checkHead(b []byte, generation string, first []uint64, size int64) (*head, error) {
	h, err := decodeHead(b)
	if err != nil {
		return nil, err
	}
	if h.generation != generation {
		return nil, fmt.Errorf("%w: the subset belongs to generation %.12s", ErrGeneration, h.generation)
	}
	return h, h.fits(first, size)
}

// parseSplit validates a split except for its digest and its blocks. Blocks are validated when they
// are read.
func parseSplit(f file, size int64, name, generation string, first []uint64) (*Subset, error) {
	if size < splitHeader {
		return nil, corrupt("invalid size of a split: %d bytes", size)
	}
	b := make([]byte, splitHeader)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	h, err := checkHead(b, generation, first, size)
	if err != nil {
		return nil, err
	}
	b = make([]byte, h.rule)
	if _, err := f.ReadAt(b, splitHeader); err != nil {
		return nil, err
	}
	if crc32.Checksum(b, castagnoli()) != h.ruleCRC {
		return nil, corrupt("checksum of its rule is wrong")
	}
	x := &Subset{file: f, head: h, first: first}
	if x.rule, err = decodeRule(b); err != nil {
		return nil, corrupt("its %w", err)
	}
	if len(x.rule.Parts) != int(h.parts) {
		return nil, corrupt("its rule has %d subsets instead of %d", len(x.rule.Parts), h.parts)
	}
	if x.rule.version() != h.version {
		return nil, corrupt("its rule is not valid for version %d", h.version)
	}
	if x.part = x.rule.number(name); x.part < 0 {
		return nil, fmt.Errorf("%w %s: the split is %s", ErrNoSubset, name, x.rule)
	}
	return x, x.readTable()
}

// tableAtOnce is the number of table rows to read at a time.
const tableAtOnce = 4096

// readTable reads the data that stays in memory.
func (x *Subset) readTable() error {
	h, n := x.head, int(x.head.chunks)
	x.members, x.offsets, x.crcs = make([]uint64, n+1), make([]int64, n+1), make([]uint32, n)
	x.offsets[0] = h.blocks()
	row, crc := int(h.row()), uint32(0)
	b := make([]byte, row*min(n, tableAtOnce))
	for i := range n {
		at := i % tableAtOnce * row
		if at == 0 {
			b = b[:row*min(n-i, tableAtOnce)]
			if _, err := x.file.ReadAt(b, h.table()+int64(i)*h.row()); err != nil {
				return err
			}
			crc = crc32.Update(crc, castagnoli(), b)
		}
		size, sum := chunkSize(x.first, i), uint64(0)
		for k := range int(h.parts) {
			sum += uint64(binary.LittleEndian.Uint32(b[at+4*k:]))
		}
		if sum != size {
			return corrupt("chunk %d has %d samples in its subsets instead of %d", i, sum, size)
		}
		x.members[i+1] = x.members[i] + uint64(binary.LittleEndian.Uint32(b[at+4*x.part:]))
		x.offsets[i+1] = x.offsets[i] + h.block(size)
		x.crcs[i] = binary.LittleEndian.Uint32(b[at+row-4:])
	}
	if crc != h.tableCRC {
		return corrupt("checksum of the table is wrong")
	}
	return nil
}

// Rule returns the rule of the split.
func (x *Subset) Rule() Rule { return x.rule }

// Samples returns the number of the subset's samples.
func (x *Subset) Samples() uint64 { return x.members[len(x.members)-1] }

// Members returns the prefix sums of the subset's samples by chunk, in the form that
// shuffle.NewSubsetPlan requires. Do not modify them.
func (x *Subset) Members() []uint64 { return x.members }

// Bitmap returns the subset's samples in a chunk: one bit per sample, lowest bit of a byte first.
func (x *Subset) Bitmap(ctx context.Context, chunk int) ([]byte, error) {
	b, err := x.bitmap(ctx, chunk)
	if err != nil {
		return nil, fmt.Errorf("subset %s: chunk %d: %w", x.rule.Parts[x.part].Name, chunk, err)
	}
	return b, nil
}

func (x *Subset) bitmap(ctx context.Context, chunk int) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if chunk < 0 || chunk >= len(x.crcs) {
		return nil, fmt.Errorf("no such chunk: the dataset has %d chunks", len(x.crcs))
	}
	b := make([]byte, x.offsets[chunk+1]-x.offsets[chunk])
	if len(b) == 0 {
		return nil, nil
	}
	if _, err := x.file.ReadAt(b, x.offsets[chunk]); err != nil {
		return nil, err
	}
	if crc32.Checksum(b, castagnoli()) != x.crcs[chunk] {
		return nil, corrupt("checksum is wrong")
	}
	n := chunkSize(x.first, chunk)
	each := int(bitmapSize(n))
	b = b[x.part*each : (x.part+1)*each : (x.part+1)*each]
	return b, checkBitmap(b, n, x.members[chunk+1]-x.members[chunk])
}

// Close closes the local file. Slices that methods returned remain valid.
func (x *Subset) Close() error { return x.file.Close() }

// SubsetBytes returns the memory size of an open subset of a dataset with this many chunks.
func SubsetBytes(chunks int) int64 { return 8<<10 + 20*int64(chunks) }
