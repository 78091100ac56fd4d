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
	"os"
)

// Dataset is the dataset to split. *chunkindex.Index implements it.
type Dataset interface {
	Generation() string
	First() []uint64 // prefix sums of the chunks' sample counts
	Keys(ctx context.Context, chunk int, visit func(sample uint64, key []byte)) error
}

// Shards is a Dataset that also provides the shard key of each sample, which rules with patterns
// require.
type Shards interface {
	ShardKey(sample uint64) string
}

// SplitResult describes a stored split.
type SplitResult struct {
	Digest  string   // its name
	New     bool     // false: the bucket already contains the split
	Default string   // digest of the default split: the first split of this generation that was made by a rule; empty for a kept subset
	Counts  []uint64 // number of samples in each subset, in the order of the rule
}

// Split splits a dataset into subsets and stores the result. The same rule and data produce the
// same object, so Split can be repeated. It uses a few bytes of memory per chunk.
func (s *Store) Split(ctx context.Context, d Dataset, rule Rule) (SplitResult, error) {
	m, err := s.split(ctx, d, rule)
	if err != nil {
		return SplitResult{}, fmt.Errorf("split %s: %w", rule, err)
	}
	return m, nil
}

func (s *Store) split(ctx context.Context, d Dataset, rule Rule) (SplitResult, error) {
	if err := rule.Check(); err != nil {
		return SplitResult{}, err
	}
	m, err := s.store(ctx, &splitWriter{data: d, rule: rule, sorter: newSorter(rule)})
	if err != nil {
		return SplitResult{}, err
	}
	m.Default, err = s.setName(ctx, defaultPrefix+d.Generation(), "subset", m.Digest)
	return m, err
}

// store writes a split to a local file and then to the bucket.
func (s *Store) store(ctx context.Context, w *splitWriter) (SplitResult, error) {
	text, err := w.rule.encode()
	if err != nil {
		return SplitResult{}, err
	}
	f, err := s.tempFile()
	if err != nil {
		return SplitResult{}, err
	}
	defer f.Close()
	first, parts := w.data.First(), len(w.rule.Parts)
	w.counts = make([]uint64, parts)
	w.head = &head{
		version: w.rule.version(), parts: uint32(parts), generation: w.data.Generation(), samples: first[len(first)-1], chunks: uint64(len(first) - 1),
		rule: uint32(len(text)), ruleCRC: crc32.Checksum(text, castagnoli()),
	}
	size, err := w.writeTo(ctx, f, text)
	if err != nil {
		return SplitResult{}, err
	}
	if w.members != nil && w.counts[0] == 0 {
		return SplitResult{}, invalid("no sample is left")
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, size)); err != nil {
		return SplitResult{}, err
	}
	m := SplitResult{Digest: hex.EncodeToString(sum.Sum(nil)), Counts: w.counts}
	m.New, err = s.put(ctx, subsetDir+m.Digest, f, size)
	return m, err
}

// splitWriter writes a split: first the blocks, chunk by chunk, then the header, rule and table,
// which precede them.
type splitWriter struct {
	head    *head
	data    Dataset
	rule    Rule
	sorter  *sorter // nil: use members
	members Base    // members of the subset Listed
	counts  []uint64
	table   []byte
}

func (w *splitWriter) writeTo(ctx context.Context, f *os.File, rule []byte) (size int64, err error) {
	first := w.data.First()
	if _, err := f.Seek(w.head.blocks(), io.SeekStart); err != nil {
		return 0, err
	}
	out := bufio.NewWriterSize(f, 1<<20) // the writer retains its first error
	for i := range len(first) - 1 {
		b, err := w.block(ctx, i, chunkSize(first, i))
		if err != nil {
			return 0, fmt.Errorf("keys of chunk %d: %w", i, err)
		}
		_, _ = out.Write(b)
	}
	if err := out.Flush(); err != nil {
		return 0, err
	}
	if size, err = f.Seek(0, io.SeekCurrent); err != nil {
		return 0, err
	}
	w.head.tableCRC = crc32.Checksum(w.table, castagnoli())
	b, err := w.head.encode()
	if err != nil {
		return 0, err
	}
	b = append(append(b, rule...), w.table...)
	_, err = f.WriteAt(b, 0)
	return size, err
}

// parts calls put for each sample of a chunk of n samples, with the number of the sample's subset.
func (w *splitWriter) parts(ctx context.Context, chunk int, n uint64, put func(part int)) error {
	if w.members != nil {
		b, err := w.members.Bitmap(ctx, chunk)
		if err != nil {
			return err
		}
		for k := range n {
			put(1 - int(b[k/8]>>(k%8)&1)) // Listed is the first part
		}
		return nil
	}
	if !w.rule.ByShard() {
		return w.data.Keys(ctx, chunk, func(_ uint64, key []byte) { put(w.sorter.part(key)) })
	}
	d, ok := w.data.(Shards)
	if !ok {
		return errors.New("the dataset does not provide the shards of its samples")
	}
	last, part := "", -1
	for i := range n {
		shard := d.ShardKey(w.data.First()[chunk] + i)
		if part < 0 || shard != last {
			last, part = shard, w.rule.shardPart(shard)
		}
		if part < 0 {
			return invalid("no pattern matches the shard %.200q: add rest=* at the end for the remaining shards", shard)
		}
		put(part)
	}
	return ctx.Err()
}

// block returns the block of a chunk of n samples and adds its row to the table.
func (w *splitWriter) block(ctx context.Context, chunk int, n uint64) ([]byte, error) {
	b, each := make([]byte, w.head.block(n)), bitmapSize(n)
	counts, k := make([]uint32, w.head.parts), uint64(0)
	put := func(part int) {
		if k < n { // the check below reports excess keys
			counts[part]++
			b[int64(part)*each+int64(k/8)] |= 1 << (k % 8)
		}
		k++
	}
	err := w.parts(ctx, chunk, n, put)
	if err == nil && k != n {
		err = fmt.Errorf("got %d keys for %d samples", k, n)
	}
	if err != nil {
		return nil, err
	}
	for i, n := range counts {
		w.counts[i] += uint64(n)
		w.table = binary.LittleEndian.AppendUint32(w.table, n)
	}
	w.table = binary.LittleEndian.AppendUint32(w.table, crc32.Checksum(b, castagnoli()))
	return b, nil
}
