package diskcache

import (
	"context"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// block is the unit to which file systems round up the length of a file.
	block = 4096
	// maxFiles limits the number of files, and so the memory for the list of files.
	maxFiles = 1 << 20
	// EntryCost is the memory for the list entry of one chunk on disk: measured 63 to 105
	// bytes, as the list grows.
	EntryCost = 112
)

// unowned is the reference of a chunk that no dataset has adopted since the start. No known reader
// needs such a chunk.
const unowned = math.MaxUint64

// Config configures a Cache.
type Config struct {
	Dir      string
	MaxBytes int64    // maximum bytes on disk, including footers and rounding to 4 KiB
	Datasets []string // names of the datasets that the chunks belong to, for display: no secrets; may be empty, Hold adds more
	// Tell, if not nil, is called with an error when "reads", "writes" or "additions" (writes
	// that replace nothing) are turned off. It is called with a nil error when they are on
	// again. It is called under no lock.
	Tell func(what string, err error)
}

// Never is the time until the next use of a chunk that no known reader needs.
const Never = time.Duration(math.MaxInt64)

// Stats is a snapshot of a cache's counters and state.
type Stats struct {
	Hits, HitBytes     uint64 // reads of chunks or pieces from disk, and their bytes
	Writes, WriteBytes uint64
	Evictions          uint64
	Refused            uint64 // chunks not written: the chunks on disk are needed sooner
	Skipped            uint64 // chunks not written: writes are off
	Corrupt            uint64 // files removed because their content did not match their name
	Strays             uint64 // foreign or partial files removed at start
	ReadErrors         uint64
	WriteErrors        uint64
	ReadsOff           bool // the disk hangs or has failed too often: only occasional reads test it
	WritesOff          bool // the same for writes; also while other files fill the disk

	Chunks, Bytes, MaxBytes int64
}

// Cache is a directory of chunk files. It is safe for concurrent use. Only one process may use a
// directory.
type Cache struct {
	cfg  Config
	disk disk
	lock *os.File
	next func(ref uint64) time.Duration
	// space returns the size of a directory's file system and its free space, in bytes.
	space func(dir string) (total, free int64, err error)

	writing atomic.Int64 // bytes of the writes in progress

	reads, writes *calls // nil if the cache only checks a directory

	marking sync.Mutex // guards cfg.Datasets and the marker once the cache is open

	mu      sync.Mutex // guards the fields below
	entries map[name]entry
	busy    map[name]bool // chunk files being written or removed
	bytes   int64
	stats   Stats
	temp    uint64 // number of the last temporary file
	crowded bool   // other files have filled the file system before MaxBytes was reached
}

// entry is one chunk file.
type entry struct {
	size int64
	ref  uint64 // the owner's reference to the chunk, or unowned
	dead bool   // corrupt or about to be removed: takes space, but is not readable
	// stays reports that the file could not be removed. It is not chosen again before the next
	// start; otherwise it would always be the first victim, and no other file would be evicted.
	stays bool
	nth   uint32 // number of the write that made the file: a later file of the same name is another entry
}

// Cost returns the number of bytes that a chunk of n bytes takes on disk.
func Cost(n int64) int64 { return (n + footerSize + block - 1) / block * block }

// Open creates or opens the cache in cfg.Dir and lists its files. An error names the problem of the
// directory and its solution.
func Open(cfg Config) (*Cache, error) {
	c := &Cache{
		cfg:     cfg,
		next:    func(uint64) time.Duration { return Never },
		space:   space,
		entries: map[name]entry{},
		busy:    map[name]bool{},
	}
	c.reads = newCalls(mostReads, readErrors, func(err error) { c.tell("reads", err) })
	c.writes = newCalls(mostWrites, writeErrors, func(err error) { c.tell("writes", err) })
	err := c.prepare()
	if err == nil {
		err = c.scan()
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("open disk cache %s: %w", cfg.Dir, err)
	}
	return c, nil
}

// Follow sets the function that returns the time until a chunk must be read, given the owner's
// reference. The function returns Never if no known reader needs the chunk, which is the default.
// It is called under no lock. Follow must be called before the cache is used.
func (c *Cache) Follow(next func(ref uint64) time.Duration) { c.next = next }

// Close releases the directory for another process. Reads and writes must have returned. Close
// waits for calls whose callers have left; if the disk hangs, for at most Stall.
func (c *Cache) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), Stall)
	defer cancel()
	if c.reads != nil {
		c.reads.end(ctx)
		c.writes.end(ctx)
	}
	done := make(chan struct{})
	go func() { // not waited for if the disk hangs
		defer close(done)
		if c.lock != nil {
			_ = c.lock.Close()
		}
		if c.disk.root != nil {
			_ = c.disk.root.Close()
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Stats returns the counters.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Chunks, s.Bytes, s.MaxBytes = int64(len(c.entries)), c.bytes, c.cfg.MaxBytes
	s.ReadsOff, s.WritesOff = c.reads.off(), c.writes.off() || c.crowded
	return s
}

// MostChunks returns the maximum number of chunks in a cache of maxBytes.
func MostChunks(maxBytes int64) int64 { return min(maxBytes/block, maxFiles) }

// Contains reports whether a chunk is on disk, according to the list of files. It returns false
// while reads are off.
func (c *Cache) Contains(key Key) bool {
	n := key.name()
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[n]
	return ok && !e.dead && !c.reads.off()
}

// Adopt sets the owner's reference to a chunk that was on disk at the start, so that its next use
// can be looked up.
func (c *Cache) Adopt(key Key, ref uint64) {
	n := key.name()
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[n]; ok && e.ref == unowned {
		e.ref = ref
		c.entries[n] = e
	}
}

// Disown removes the owner's reference to a chunk, and reports whether it was ref. Until the chunk
// is adopted again, no known reader needs it.
func (c *Cache) Disown(key Key, ref uint64) bool {
	n := key.name()
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[n]
	if ok = ok && e.ref == ref; ok {
		e.ref = unowned
		c.entries[n] = e
	}
	return ok
}

// tell reports that reads, writes or additions were turned off by an error, or are on again.
func (c *Cache) tell(what string, err error) {
	if c.cfg.Tell != nil {
		c.cfg.Tell(what, err)
	}
}
