package diskcache

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"sync"
	"time"
)

const (
	// block is what file systems round a file's length up to.
	block = 4096
	// maxFiles bounds the memory that the list of files takes.
	maxFiles = 1 << 20
	// EntryCost is what one chunk on disk takes in memory: between 63 and 105 bytes, measured, as the list grows, and
	// 51 more while victims are looked for.
	EntryCost = 160
)

// Config of a Cache.
type Config struct {
	Dir      string
	MaxBytes int64    // on disk, footers and rounding to 4 KiB included
	Datasets []string // whose chunks these are, for people: no secrets
	// Tell, if not nil, hears that "reads" or "writes" are off from now on, and why; with no error, that they are on again.
	// It is called under no lock.
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
	ReadsOff           bool // the disk failed too often: one read at a time, now and then, finds out
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

	mu      sync.Mutex // guards what follows
	reads   breaker
	writes  breaker
	entries map[name]entry
	busy    map[name]bool // being written or removed
	bytes   int64
	stats   Stats
	victims []victim // those needed last, the last of all at the end
	looked  time.Time
	temp    uint64 // number of the last temporary file
}

// entry is a file.
type entry struct {
	size int64
	ref  uint64
	own  bool // ref is set
	dead bool // it is wrong, or about to be removed: it takes room, and is not there
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
		reads:   breaker{most: readErrors},
		writes:  breaker{most: 1},
		space:   space,
		entries: map[name]entry{},
		busy:    map[name]bool{},
	}
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

// Close gives the directory free for another process. Reads and writes must have ended.
func (c *Cache) Close() {
	if c.lock != nil {
		_ = c.lock.Close()
	}
	if c.disk.root != nil {
		_ = c.disk.root.Close()
	}
}

// Stats returns the counters.
func (c *Cache) Stats() Stats {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Chunks, s.Bytes, s.MaxBytes = int64(len(c.entries)), c.bytes, c.cfg.MaxBytes
	s.ReadsOff, s.WritesOff = c.reads.off(now), c.writes.off(now)
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
	return ok && !e.dead && !c.reads.off(time.Now())
}

// Adopt tells by which number the owner knows a chunk, so that it can be asked when one is needed that was there at the start.
func (c *Cache) Adopt(key Key, ref uint64) {
	n := key.name()
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[n]; ok && !e.own {
		e.ref, e.own = ref, true
		c.entries[n] = e
	}
}

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
	e, probe, ok := c.enter(ctx, n)
	if !ok {
		return false
	}
	err := c.read(key, n.file(), pieces)
	turned := c.count(n, e, pieces, probe, err)
	switch {
	case turned && errors.Is(err, fs.ErrNotExist): // which is an answer
		c.tell("reads", nil)
	case turned:
		c.tell("reads", err)
	}
	if errors.Is(err, errCorrupt) {
		c.drop(n)
	}
	return err == nil
}

// enter reports whether a chunk is there and the disk may be read, and whether that read is a probe.
func (c *Cache) enter(ctx context.Context, n name) (e entry, probe, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, there := c.entries[n]
	if there && !e.dead && ctx.Err() == nil {
		probe, ok = c.reads.enter(time.Now())
	}
	if !ok {
		c.stats.Misses++
	}
	return e, probe, ok
}

// count counts what became of a read of the file that e was, and reports whether it turned reads off or on.
func (c *Cache) count(n name, e entry, pieces []Piece, probe bool, err error) (turned bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone := errors.Is(err, fs.ErrNotExist)
	turned = c.reads.leave(time.Now(), probe, err != nil && !gone)
	if err == nil {
		c.stats.Hits++
		for _, p := range pieces {
			c.stats.HitBytes += uint64(len(p.Dst))
		}
		return turned
	}
	c.stats.Misses++
	switch {
	case gone: // evicted meanwhile, or removed by somebody: nothing is lost but a read of the store
		if c.entries[n].nth == e.nth { // else it was written anew meanwhile
			c.forget(n)
		}
	case errors.Is(err, errCorrupt):
		c.stats.Corrupt++
	default:
		c.stats.ReadErrors++
	}
	return turned
}

// tell passes on that reads or writes were turned off by an error, or on.
func (c *Cache) tell(what string, err error) {
	if c.cfg.Tell != nil {
		c.cfg.Tell(what, err)
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

// Reject removes a chunk that its reader found wrong by a better proof than a CRC.
func (c *Cache) Reject(key Key) {
	c.mu.Lock()
	c.stats.Corrupt++
	c.mu.Unlock()
	c.drop(key.name())
}

// drop removes a wrong file.
func (c *Cache) drop(n name) {
	err := c.evict(n, true)
	if err == nil {
		return
	}
	c.mu.Lock()
	turned := c.writes.fail(time.Now())
	c.mu.Unlock()
	if turned {
		c.tell("writes", err)
	}
}

// evict removes a file and then gives its room free, unless somebody else is at it or was faster. One that cannot be
// removed goes on to answer, unless it is wrong.
func (c *Cache) evict(n name, wrong bool) error {
	c.mu.Lock()
	e, ok := c.entries[n]
	ok = ok && !c.busy[n]
	if ok {
		e.dead = true
		c.entries[n] = e
		c.busy[n] = true
	}
	c.mu.Unlock()
	if !ok {
		return nil
	}
	err := c.disk.remove(n.file())
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, n)
	if err != nil {
		c.stats.WriteErrors++
		e = c.entries[n] // it may have got an owner
		e.dead, e.stays = wrong, true
		c.entries[n] = e
		return err
	}
	c.forget(n)
	if !wrong {
		c.stats.Evictions++
	}
	return nil
}

// forget takes a file off the list. The caller holds mu.
func (c *Cache) forget(n name) {
	if e, ok := c.entries[n]; ok && !c.busy[n] {
		c.bytes -= e.size
		delete(c.entries, n)
	}
}
