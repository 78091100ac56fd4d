package diskcache

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"time"
)

// Piece is a part of a chunk that has a checksum of its own.
type Piece struct {
	Offset int64
	CRC32C uint32
	Dst    []byte // of the piece's length
}

// Read fills dst, of the key's length, with the chunk and reports whether it did. When it did not, what is in dst is
// worthless.
func (c *Cache) Read(ctx context.Context, key Key, dst []byte) bool {
	return int64(len(dst)) == key.Length && c.ReadPieces(ctx, key, []Piece{{0, key.CRC32C, dst}})
}

// ReadPieces fills pieces of a chunk, each compared with its own checksum, and reports whether it did. When it did not,
// what is in them is worthless.
func (c *Cache) ReadPieces(ctx context.Context, key Key, pieces []Piece) bool {
	n := key.name()
	e, ok := c.enter(ctx, n)
	if !ok {
		return false
	}
	err := c.read(key, n.file(), pieces)
	c.count(n, e, pieces, err)
	if errors.Is(err, fs.ErrNotExist) { // which is an answer
		c.noted("reads", c.pauses.reads, nil)
	} else {
		c.noted("reads", c.pauses.reads, err)
	}
	if errors.Is(err, errCorrupt) {
		c.drop(n)
	}
	return err == nil
}

// enter reports whether a chunk is there and the disk may be read.
func (c *Cache) enter(ctx context.Context, n name) (e entry, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok = c.entries[n]
	ok = ok && !e.dead && ctx.Err() == nil && !c.pauses.reads.Paused(all, time.Now())
	if !ok {
		c.stats.Misses++
	}
	return e, ok
}

// noted notes how a call to the disk has ended, and tells if such calls are off or on from now on.
func (c *Cache) noted(what string, p *pauses, err error) {
	now := time.Now()
	if err == nil && p.Works(all, now) || err != nil && p.Failed(all, now) {
		c.tell(what, err)
	}
}

// count counts what became of a read of the file that e was.
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
	c.stats.Misses++
	switch {
	case errors.Is(err, fs.ErrNotExist): // evicted meanwhile, or removed by somebody: nothing is lost but a read of the store
		if c.entries[n].nth == e.nth { // else it was written anew meanwhile
			c.forget(n)
		}
	case errors.Is(err, errCorrupt):
		c.stats.Corrupt++
	default:
		c.stats.ReadErrors++
	}
}

var errCorrupt = errors.New("not the chunk that its name says")

// read reads and compares one file, or pieces of it.
func (c *Cache) read(key Key, file string, pieces []Piece) error {
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
		return fmt.Errorf("read %s: %d bytes, want %d: %w", file, info.Size(), key.Length+footerSize, errCorrupt)
	}
	var footer [footerSize]byte
	if err := c.disk.readAt(f, file, footer[:], key.Length); err != nil {
		return err
	}
	if got, err := parseFooter(footer[:]); err != nil || got != key {
		return fmt.Errorf("read %s: its footer: %w", file, errCorrupt)
	}
	for _, p := range pieces {
		if err := c.disk.readAt(f, file, p.Dst, p.Offset); err != nil {
			return err
		}
		if crc32.Checksum(p.Dst, castagnoli()) != p.CRC32C {
			return fmt.Errorf("read %s: its checksum: %w", file, errCorrupt)
		}
	}
	return nil
}
