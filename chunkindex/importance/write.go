package importance

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
	"slices"

	"github.com/millrace-data/millrace/internal/objstore"
)

// snapshotWriter writes a snapshot in two passes over the chunks, because the chunk table precedes
// the blocks.
type snapshotWriter struct {
	head    *head
	plan    string
	first   []uint64
	weights []uint32 // weights of all samples, before repetition

	limit uint32 // all samples with a higher weight are hot
	ties  uint64 // number of samples with a weight equal to limit that are hot, lowest sample numbers first
}

// findHot sets the limit for hot samples by counting the samples of each weight.
func (w *snapshotWriter) findHot() {
	counts := make([]uint64, slices.Max(w.weights)+1)
	for _, x := range w.weights {
		counts[x]++
	}
	left := w.head.Hot
	w.limit = uint32(len(counts) - 1)
	for counts[w.limit] < left {
		left -= counts[w.limit]
		w.limit--
	}
	w.ties = left
}

// each calls visit with the block of every chunk in order. The next call of visit reuses the memory
// of the block.
func (w *snapshotWriter) each(ctx context.Context, visit func(b []byte, e chunkEntry) error) error {
	ties := w.ties
	var b []byte
	var hot Hot
	for i := range len(w.first) - 1 {
		if err := ctx.Err(); err != nil {
			return err
		}
		weights := w.weights[w.first[i]:w.first[i+1]]
		e := chunkEntry{Samples: uint32(len(weights))}
		hot = append(hot[:0], make(Hot, (len(weights)+7)/8)...)
		for k, x := range weights {
			isHot := x > w.limit || x == w.limit && ties > 0
			if x == w.limit && isHot {
				ties--
			}
			if isHot {
				hot[k/8] |= 1 << (k % 8)
			}
			e.Total += uint64(w.head.repeated(x, isHot))
		}
		b = appendBlock(b[:0], weights, hot)
		e.CRC = crc32.Checksum(b, castagnoli())
		if err := visit(b, e); err != nil {
			return err
		}
	}
	return nil
}

func (w *snapshotWriter) writeTo(ctx context.Context, out io.Writer) error {
	w.findHot()
	var table []byte
	err := w.each(ctx, func(_ []byte, e chunkEntry) error {
		table, _ = binary.Append(table, binary.LittleEndian, e)
		w.head.Total += e.Total
		return nil
	})
	if err != nil {
		return err
	}
	w.head.Plan, w.head.PlanCRC = uint32(len(w.plan)), crc32.Checksum([]byte(w.plan), castagnoli())
	w.head.TableCRC = crc32.Checksum(table, castagnoli())
	for _, part := range [][]byte{w.head.encode(), []byte(w.plan), table} {
		if _, err := out.Write(part); err != nil {
			return err
		}
	}
	return w.each(ctx, func(b []byte, _ chunkEntry) error {
		_, err := out.Write(b)
		return err
	})
}

// put stores a snapshot under its digest, using an unnamed local file. created is false if the
// snapshot was already stored.
func (l *Log) put(ctx context.Context, w *snapshotWriter) (digest string, created bool, err error) {
	f, err := l.tempFile()
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return "", false, err
	}
	sum := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<20)
	if err := w.writeTo(ctx, out); err != nil {
		return "", false, err
	}
	if err := out.Flush(); err != nil {
		return "", false, err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return "", false, err
	}
	digest = hex.EncodeToString(sum.Sum(nil))
	key := l.snapshotKey(digest)
	_, err = l.cfg.Writer.Put(ctx, key, f, size, objstore.Condition{IfAbsent: true})
	switch {
	case err == nil:
		return digest, true, nil
	case errors.Is(err, objstore.ErrDenied):
		return "", false, fmt.Errorf("%w: %w", ErrReadOnly, err)
	case !errors.Is(err, objstore.ErrChanged):
		return "", false, err
	}
	obj, err := l.cfg.Reader.Stat(ctx, key)
	if err == nil && obj.Size != size {
		err = fmt.Errorf("%s: %w (remove the object, and freeze again)", key, corrupt("it has %d bytes instead of %d", obj.Size, size))
	}
	return digest, false, err
}

func (l *Log) tempFile() (*os.File, error) {
	dir := os.TempDir()
	if l.cfg.CacheDir != "" {
		dir = l.cfg.CacheDir
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	return os.CreateTemp(dir, tempPrefix+"*")
}
