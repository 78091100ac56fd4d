package selection

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Format of a cost table (see docs/spec/index-format.md).
const (
	costMagic   = "MRCOST01" // the last two digits are the version
	costHeader  = 48
	maxCosts    = 1 << 34
	costResidue = 0x48674bc7 // CRC-32C of any bytes followed by their own CRC-32C
)

// WriteCosts stores a cost table, the costs of all samples of a generation, and returns its digest.
// costs yields the costs in stored order, any number at a time; its errors are returned. Equal costs
// have equal digests. WriteCosts writes a local file first, and uses little memory.
func (s *Store) WriteCosts(ctx context.Context, generation string, samples uint64, costs iter.Seq2[[]uint32, error]) (digest string, created bool, err error) {
	f, err := s.tempFile()
	if err == nil {
		defer f.Close()
		digest, err = writeCosts(ctx, f, generation, samples, costs)
	}
	if err == nil {
		created, err = s.put(ctx, costDir+digest, f, costsSize(samples))
	}
	if err != nil {
		return "", false, fmt.Errorf("store a cost table: %w", err)
	}
	return digest, created, nil
}

func writeCosts(ctx context.Context, f *os.File, generation string, samples uint64, costs iter.Seq2[[]uint32, error]) (digest string, err error) {
	if !isDigest(generation) || samples > maxCosts {
		return "", invalid("%d samples of generation %q: a cost table has at most 2^34 samples of a generation", samples, generation)
	}
	b, err := hex.AppendDecode([]byte(costMagic), []byte(generation))
	if err != nil {
		return "", err
	}
	b = binary.LittleEndian.AppendUint64(b, samples)
	sum, crc := sha256.New(), crc32.New(castagnoli())
	out := bufio.NewWriterSize(io.MultiWriter(f, sum, crc), 1<<20) // the writer retains its first error
	_, _ = out.Write(b)
	found := uint64(0)
	for part, err := range costs {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return "", err
		}
		for _, c := range part {
			_, _ = out.Write(binary.LittleEndian.AppendUint32(b[:0], c))
		}
		found += uint64(len(part))
	}
	if found != samples {
		return "", fmt.Errorf("got %d costs for %d samples", found, samples)
	}
	if err := out.Flush(); err != nil {
		return "", err
	}
	_, _ = out.Write(binary.LittleEndian.AppendUint32(nil, crc.Sum32()))
	err = out.Flush()
	return hex.EncodeToString(sum.Sum(nil)), err
}

func costsSize(samples uint64) int64 { return costHeader + 4*int64(samples) + 4 }

// decodeCostHead decodes the header of a cost table with this size.
func decodeCostHead(b []byte, size int64) (generation string, samples uint64, err error) {
	switch {
	case string(b[:6]) != costMagic[:6]:
		return "", 0, corrupt("not a cost table")
	case string(b[:8]) != costMagic:
		return "", 0, fmt.Errorf("cost table of version %q: %w", b[6:8], ErrVersion)
	}
	samples = binary.LittleEndian.Uint64(b[40:])
	if samples > maxCosts || costsSize(samples) != size {
		return "", 0, corrupt("it has %d bytes, which is not the size of a table of %d samples", size, samples)
	}
	return hex.EncodeToString(b[8:40]), samples, nil
}

// isCostName reports whether a cost table can have a name. A digest is not a name.
func isCostName(name string) bool { return validName.MatchString(name) && !isDigest(name) }

// CheckCostName returns ErrInvalid for a name that no cost table can have.
func CheckCostName(name string) error {
	if !isCostName(name) {
		return invalid("%q: the name of a cost table must have at most 64 letters, digits, dots, dashes and underscores, and must not be a digest", name)
	}
	return nil
}

// NameCosts names a stored cost table of a generation. A name never changes: if it has another
// table, NameCosts returns ErrInvalid.
func (s *Store) NameCosts(ctx context.Context, generation, name, digest string) error {
	if err := CheckCostName(name); err != nil {
		return err
	}
	has, err := s.setName(ctx, costNames+generation+"-"+name, "cost", digest)
	if err == nil && has != digest {
		err = invalid("the name has the cost table %s and never changes: use another name for %s", has, digest)
	}
	if err != nil {
		return fmt.Errorf("name %s of generation %.12s: %w", name, generation, err)
	}
	return nil
}

// CostsNamed returns the digest of a generation's cost table with a name, which never changes. It
// returns ErrNotFound if no table has the name.
func (s *Store) CostsNamed(ctx context.Context, generation, name string) (digest string, err error) {
	if err = objstore.ErrNotFound; isCostName(name) {
		digest, err = s.named(ctx, costNames+generation+"-"+name, "cost")
	}
	if errors.Is(err, objstore.ErrNotFound) {
		err = fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if err != nil {
		return "", fmt.Errorf("cost table %.64s of generation %.12s: %w", name, generation, err)
	}
	return digest, nil
}

// Costs is an open cost table. It maps a local file into memory, so that the system can free the
// memory at any time. It is safe for concurrent use.
type Costs struct {
	generation string
	samples    uint64
	mu         sync.RWMutex
	mapped     []byte // the stored bytes; nil after Close
}

// OpenCosts downloads a cost table to a local file and verifies it. generation is the dataset's
// generation, and first contains the prefix sums of the chunks' sample counts. OpenCosts returns
// ErrNotFound if the bucket does not have the table, ErrGeneration if the table is for other data,
// and ErrCorrupt if it does not match its name or the dataset.
func (s *Store) OpenCosts(ctx context.Context, digest, generation string, first []uint64) (*Costs, error) {
	c, err := s.openCosts(ctx, digest, generation, first[len(first)-1])
	if err != nil {
		return nil, fmt.Errorf("cost table %.12s: %w", digest, err)
	}
	return c, nil
}

func (s *Store) openCosts(ctx context.Context, digest, generation string, samples uint64) (*Costs, error) {
	obj, b, err := s.head(ctx, costDir, digest, "cost table", costHeader)
	if err != nil {
		return nil, err
	}
	c := &Costs{}
	if c.generation, c.samples, err = decodeCostHead(b, obj.Size); err != nil {
		return nil, err
	}
	if c.generation != generation {
		return nil, fmt.Errorf("%w: the cost table belongs to generation %.12s", ErrGeneration, c.generation)
	}
	if c.samples != samples {
		return nil, corrupt("it has %d samples, but the dataset has %d", c.samples, samples)
	}
	crc := crc32.New(castagnoli())
	f, err := s.download(ctx, obj, digest, crc)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping keeps the file
	if crc.Sum32() != costResidue {
		return nil, corrupt("checksum is wrong")
	}
	return c, c.mapFile(f, obj.Size)
}

func (c *Costs) mapFile(f *os.File, size int64) (err error) {
	c.mapped, err = syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	return err
}

// Generation returns the generation of the dataset to which the table belongs.
func (c *Costs) Generation() string { return c.generation }

// Samples returns the number of samples.
func (c *Costs) Samples() uint64 { return c.samples }

// Append appends the costs of samples, in any order, to dst.
func (c *Costs) Append(ctx context.Context, dst []uint32, samples []uint64) ([]uint32, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case c.mapped == nil:
		return nil, fmt.Errorf("cost table: %w", os.ErrClosed)
	}
	dst, err := appendCosts(slices.Grow(dst, len(samples)), c.mapped[costHeader:len(c.mapped)-4], samples)
	if err != nil {
		return nil, fmt.Errorf("cost table: %w", err)
	}
	return dst, nil
}

// appendCosts returns an error if the system cannot read the mapped file.
func appendCosts(dst []uint32, costs []byte, samples []uint64) (_ []uint32, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("read the local file: %v", fault)
		}
	}()
	for _, n := range samples {
		if n >= uint64(len(costs)/4) {
			return nil, fmt.Errorf("no sample %d: the dataset has %d samples", n, len(costs)/4)
		}
		dst = append(dst, binary.LittleEndian.Uint32(costs[4*n:]))
	}
	return dst, nil
}

// Close frees the local file.
func (c *Costs) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mapped == nil {
		return nil
	}
	mapped := c.mapped
	c.mapped = nil
	return syscall.Munmap(mapped)
}
