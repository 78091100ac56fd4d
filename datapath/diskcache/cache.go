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
	// block is what file systems round a file's length up to.
	block = 4096
	// maxFiles bounds the memory that the list of files takes.
	maxFiles = 1 << 20
	// EntryCost is what one chunk on disk takes in memory: between 63 and 105 bytes, measured, as the list grows.
	EntryCost = 112
)

// unowned is the number of a chunk that no dataset has asked for since the start: none is known to come for it.
const unowned = math.MaxUint64

// Config of a Cache.
type Config struct {
	Dir      string
	MaxBytes int64    // on disk, footers and rounding to 4 KiB included
	Datasets []string // whose chunks these are, for people: no secrets; none: whatever Hold adds
	// Tell, if not nil, hears that "reads", "writes" or "additions" (writes that take nothing's place) are off from now
	// on, and why; with no error, that they are on again. It is called under no lock.
	Tell func(what string, err error)
}

// Never is how long it is until a chunk is needed that nobody is known to come for.
const Never = time.Duration(math.MaxInt64)

// Stats is a snapshot of a cache's counters and state.
type Stats struct {
	Hits, HitBytes     uint64 // reads of chunks, or of pieces of one, and their bytes
	Misses             uint64 // asked for, and not there
	Writes, WriteBytes uint64
	Evictions          uint64
	Refused            uint64 // not kept: what is there is needed sooner
	Skipped            uint64 // not kept: writes are off
	Corrupt            uint64 // files removed since they are not what their name says
	Strays             uint64 // files removed at start
	ReadErrors         uint64
	WriteErrors        uint64
	ReadsOff           bool // the disk hangs, or failed too often: one read at a time, now and then, finds out
	WritesOff          bool // the same for writes

	Chunks, Bytes, MaxBytes int64
}

// Cache is a directory of chunk files. It is safe for concurrent use; only one process uses a directory.
type Cache struct {
	cfg  Config
	disk disk
	lock *os.File
	next func(ref uint64) time.Duration
	// space returns how many bytes the file system of a directory holds, and how many are free.
	space func(dir string) (total, free int64, err error)

	writing atomic.Int64 // bytes that will be taken by writes under way

	reads, writes *calls // nil in one that only checks

	marking sync.Mutex // guards cfg.Datasets and the marker once the cache is open

	mu      sync.Mutex // guards what follows
	entries map[name]entry
	busy    map[name]bool // being written or removed
	bytes   int64
	stats   Stats
	temp    uint64 // number of the last temporary file
	crowded bool   // the file system is full, and MaxBytes not reached
}

// entry is a file.
type entry struct {
	size int64
	ref  uint64 // the owner's number of it, or unowned
	dead bool   // it is wrong, or about to be removed: it takes room, and is not there
	// stays: it could not be removed. That is not tried again before the next start, or one such file would
	// be the first victim for ever, and nothing else give way.
	stays bool
	nth   uint32 // write: another file of the same name is another entry
}

// Cost returns how many bytes of the disk a chunk of n bytes takes.
func Cost(n int64) int64 { return (n + footerSize + block - 1) / block * block }

// Open makes or opens the cache in cfg.Dir and learns what is there. Errors say what is wrong with the directory, and
// what to do.
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

// Follow sets what says how long it is until a chunk will have to be read, by the number that its owner knows it by: Never
// if nobody is known to come for it, as for all chunks without next. It is called under no lock. Follow must be called before
// the cache is used.
func (c *Cache) Follow(next func(ref uint64) time.Duration) { c.next = next }

// Close gives the directory free for another process. Reads and writes must have returned. It waits for calls that have no caller
// any more, and leaves a disk that hangs after Stall.
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
	s.ReadsOff, s.WritesOff = c.reads.off(), c.writes.off()
	return s
}

// MostChunks returns how many chunks a cache of maxBytes holds at most, however small they are.
func MostChunks(maxBytes int64) int64 { return min(maxBytes/block, maxFiles) }

// Contains reports whether a chunk is there, as far as is known without reading it. While the disk is not to be read,
// nothing is.
func (c *Cache) Contains(key Key) bool {
	n := key.name()
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[n]
	return ok && !e.dead && !c.reads.off()
}

// Adopt tells by which number the owner knows a chunk, so that it can be asked when one is needed that was there at the start.
func (c *Cache) Adopt(key Key, ref uint64) {
	n := key.name()
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[n]; ok && e.ref == unowned {
		e.ref = ref
		c.entries[n] = e
	}
}

// Disown forgets the number by which the owner knows a chunk, and reports whether it was this one. Until
// the chunk is adopted again nobody is known to come for it.
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

// tell passes on that reads or writes were turned off by an error, or on.
func (c *Cache) tell(what string, err error) {
	if c.cfg.Tell != nil {
		c.cfg.Tell(what, err)
	}
}
