package diskcache

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"
)

// Piece is a part of a chunk with its own checksum.
type Piece struct {
	Offset int64
	CRC32C uint32
	Dst    []byte // has the length of the piece
}

// Read reads a chunk into dst, which has the key's length, and reports whether it succeeded. If
// not, the content of dst is undefined. Read returns when ctx ends, and after Stall if the disk
// hangs; it does not write to dst afterwards.
func (c *Cache) Read(ctx context.Context, key Key, dst []byte) bool {
	return int64(len(dst)) == key.Length && c.ReadPieces(ctx, key, []Piece{{0, key.CRC32C, dst}})
}

// ReadPieces reads pieces of a chunk, verifies each by its own checksum, and reports whether all
// succeeded. If not, their content is undefined.
func (c *Cache) ReadPieces(ctx context.Context, key Key, pieces []Piece) bool {
	n := key.name()
	e, ok := c.enter(ctx, n)
	if !ok {
		return false
	}
	return nil == c.reads.do(ctx, func(m *memory) error {
		err := c.read(key, n.file(), pieces, m)
		c.count(n, e, pieces, err)
		if errors.Is(err, fs.ErrNotExist) { // a missing file is no failure of the disk
			c.reads.noted(nil)
		} else {
			c.reads.noted(err)
		}
		if errors.Is(err, errCorrupt) {
			c.drop(n)
		}
		return err
	})
}

// enter reports whether a chunk is on disk and reads are on.
func (c *Cache) enter(ctx context.Context, n name) (e entry, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok = c.entries[n]
	return e, ok && !e.dead && ctx.Err() == nil && !c.reads.off()
}

// count updates the counters with the result of a read of entry e.
func (c *Cache) count(n name, e entry, pieces []Piece, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.stats.Hits++
		for _, p := range pieces {
			c.stats.HitBytes += uint64(len(p.Dst))
		}
		return
	}
	switch {
	case errors.Is(err, fs.ErrNotExist): // evicted meanwhile, or removed by another program: that costs only one store read
		if c.entries[n].nth == e.nth { // otherwise the file has been written again meanwhile
			c.forget(n)
		}
	case errors.Is(err, errCorrupt):
		c.stats.Corrupt++
	case errors.Is(err, errLeft):
	default:
		c.stats.ReadErrors++
	}
}

var errCorrupt = errors.New("content does not match the file's name")

// read reads and verifies pieces of one file.
func (c *Cache) read(key Key, file string, pieces []Piece, m *memory) error {
	f, err := c.disk.open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != key.Length+footerSize {
		return fmt.Errorf("read %s: %d bytes instead of %d: %w", file, info.Size(), key.Length+footerSize, errCorrupt)
	}
	var footer [footerSize]byte
	if err := c.disk.readAt(f, file, footer[:], key.Length); err != nil {
		return err
	}
	if got, err := parseFooter(footer[:]); err != nil || got != key {
		return fmt.Errorf("read %s: its footer: %w", file, errCorrupt)
	}
	for _, p := range pieces {
		offset, sum := p.Offset, uint32(0)
		for part := range slices.Chunk(p.Dst, len(m.block)) {
			b := m.block[:len(part)]
			if err := c.disk.readAt(f, file, b, offset); err != nil {
				return err
			}
			offset, sum = offset+int64(len(b)), crc32.Update(sum, castagnoli(), b)
			if err := m.copy(part, b); err != nil {
				return err
			}
		}
		if sum != p.CRC32C {
			return fmt.Errorf("read %s: its checksum: %w", file, errCorrupt)
		}
	}
	return nil
}
