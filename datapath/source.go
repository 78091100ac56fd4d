package datapath

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/shuffle"
)

// Source reads batches of one dataset. It is safe for concurrent use.
type Source struct {
	path   *Path
	number uint64 // among the path's sources, 0 where their chunks are the same for all
	place  int    // in the order of Open
	index  *chunkindex.Index
	chunks *chunkcache.Table[key] // those in memory, and on their way
	store  objstore.RangeReader
	prefix string
	cost   int64     // of all its chunks in memory
	seen   time.Time // when it was last read by a plan, guarded by the path
	onDisk bool      // its chunks may be kept on disk
	origin [32]byte  // on whose word, there; zero where they are proved by SHA-256
	name   string    // under which peers know it; "": they do not
	part   part      // of its chunks that this gateway is to hold

	owners atomic.Pointer[owners] // nil: nobody has asked for one
}

// Read brings all ranges of one batch. at says where the reader stands (zero: no plan); it changes speed only.
// Errors: *chunkindex.RangeError, budget.ErrTooLarge, budget.ErrOverloaded, or the context's.
func (s *Source) Read(ctx context.Context, at shuffle.Cursor, chunks []chunkindex.ChunkRanges) (*chunkindex.Body, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	b, err := s.newBatch(chunks)
	if err != nil {
		return nil, err
	}
	v := s.visit(at, b)
	body, err := s.bring(ctx, at, b)
	return v.ended(body, err)
}

// visit is one batch in the eyes of those who look ahead.
type visit struct {
	path *Path
	of   *lookahead.Visit // nil: it is of no plan
}

// visit notes in the table of readers that a batch is read, and sets what the batch knows of its reader. It ends with ended.
func (s *Source) visit(at shuffle.Cursor, b *batch) visit {
	if at.Plan == nil || at.Epoch == nil {
		return visit{}
	}
	s.path.reown()
	v := s.path.readers.Asked(s, at, time.Now())
	b.fits, b.visit = s.path.fits(s, time.Now()), v
	if at.Epoch.Local() {
		b.next = unfollowed
		if v.Followed() {
			b.next = followed
		}
	}
	if s.name != "" {
		b.forPeers(at, v)
	}
	return visit{s.path, v}
}

// ended notes how the read has ended, and returns that: a body whose end is noted too, or the error.
func (v visit) ended(body *chunkindex.Body, err error) (*chunkindex.Body, error) {
	if v.of == nil {
		return body, err
	}
	if v.of.Answered(time.Now()) {
		v.path.look()
	}
	if err != nil {
		v.of.Ended(time.Now())
		return nil, err
	}
	body.OnClose(func() { v.of.Ended(time.Now()) })
	return body, nil
}

// chooseReads says which chunks are brought as a whole and which sample by sample, as numbers in b.chunks.
func (s *Source) chooseReads(b *batch) (whole, ranged []int) {
	whole = make([]int, 0, len(b.chunks))
	for i, c := range b.chunks {
		if s.pays(b, c) {
			whole = append(whole, i)
		} else {
			ranged = append(ranged, i)
		}
	}
	if b.visit != nil && b.visit.Opens() {
		whole, ranged = s.first(b, whole, ranged)
	}
	return whole, ranged
}

// first decides what a reader's first batch waits for. Nothing was fetched ahead of it, so it would wait for whole chunks, of which it
// needs little. If the samples' own ranges come a third sooner, by takes, first moves the chunks that are missing from whole to
// ranged. Prefetching brings these chunks meanwhile for the batches after it, so each byte of a first batch is read twice at most;
// a smaller gain is not worth that. Chunks on disk, compressed ones and those of many objects stay whole.
func (s *Source) first(b *batch, whole, ranged []int) (rest, moved []int) {
	var reads, bytes, stored int64
	moved = ranged
	for _, i := range whole {
		c := b.chunks[i]
		desc := s.index.Chunk(c.Chunk)
		if s.resident(c.Chunk) || s.path.disk.answers(s, c.Chunk) || desc.Codec != codec.None || s.index.ExtentCount(c.Chunk) > 1 {
			rest = append(rest, i)
			continue
		}
		moved = append(moved, i)
		bytes, stored = bytes+bytesOf(c), stored+desc.Stored
		end := -1
		for _, r := range c.Ranges {
			if int(r.Offset) != end {
				reads++
			}
			end = int(r.Offset + r.Length)
		}
	}
	size, part := s.path.cfg.PartSize, s.path.firstPart(stored)
	reads = max(reads, (bytes+size-1)/size)
	places := s.path.gate.places()
	own := min(places, s.path.first.places()) // these do not grow with those of the gate
	if part <= size/8 || 3*s.takes(reads+s.path.readers.Passing(), bytes, own) > 2*s.takes((stored+part-1)/part, stored, places) {
		return whole, ranged
	}
	b.visit.Passes(reads)
	return rest, moved
}

// batch is one request, its chunks in stored order.
type batch struct {
	chunks   []chunkindex.ChunkRanges
	segments int
	bytes    int64
	origin   origin
	next     next
	fits     bool             // the datasets that are read now fit into memory together
	tries    bool             // it waits for no memory: chunkcache.ErrNoRoom says that there is none now
	visit    *lookahead.Visit // what is known of its reader; nil: the batch is of no plan
	reader   *peer.Reader     // who reads, for peers; nil: they are not told
	number   uint64           // of its reader in the table of readers; 0: of none
	lent     []byte           // its piece of the body that a mixture has taken for all its parts; nil: none
}

// origin is where a batch comes from.
type origin uint8

const (
	fromRank   origin = iota
	fromPeer          // another gateway asks: no peer is asked to load anything for it
	afterPeers        // a rank's, of which the owners did not send this part
)

// next is what is known of the chunks that a batch's reader comes for after it.
type next uint8

const (
	unknown    next = iota // nothing: its order has no locality
	followed               // all of them
	unfollowed             // it comes for the rest of these; of the others nothing, since the table of readers is full or another gateway's
)

// newBatch adds a request up and refuses what the index does not hold or the budget never could.
func (s *Source) newBatch(chunks []chunkindex.ChunkRanges) (*batch, error) {
	b := &batch{chunks: slices.Clone(chunks)}
	slices.SortFunc(b.chunks, func(x, y chunkindex.ChunkRanges) int { return x.Chunk - y.Chunk })
	for _, c := range b.chunks {
		if c.Chunk < 0 || c.Chunk >= s.index.Chunks() {
			return nil, fmt.Errorf("read chunk %d of %d: no such chunk", c.Chunk, s.index.Chunks())
		}
		length := s.index.Chunk(c.Chunk).Length
		for _, r := range c.Ranges {
			if int64(r.Offset)+int64(r.Length) > length {
				return nil, s.rangeError(s.layout(c.Chunk).at(int64(r.Offset)), chunkindex.ErrCorrupt)
			}
			b.bytes += int64(r.Length)
			b.segments = max(b.segments, r.Seq+1)
		}
	}
	return b, s.path.couldHold(b.bytes)
}

// pays reports whether a chunk should be in memory as a whole.
func (s *Source) pays(b *batch, c chunkindex.ChunkRanges) bool {
	desc := s.index.Chunk(c.Chunk)
	most := bytesOf(c) >= desc.Length-desc.Length/8
	switch several := s.index.ExtentCount(c.Chunk) > 1; {
	case desc.Codec != codec.None:
		return true
	case several && !s.path.disk.answers(s, c.Chunk):
		// Each sample costs a read, alone as with all the others. So a batch waits for its own samples only, and the chunk comes
		// ahead of need.
		return most || s.resident(c.Chunk)
	}
	return most || s.Resident(c.Chunk) || s.used(b, c)
}

// used reports whether enough of a chunk will be used while it stays in memory, by what the plans say.
func (s *Source) used(b *batch, c chunkindex.ChunkRanges) bool {
	switch {
	case s.name != "" && s.owner(c.Chunk) != "":
		// Another member keeps the chunk. But a peer that asks here may know better, or the owner fails, and then more will be
		// asked for: where that takes nothing from readers, the chunk is kept here until the views agree.
		return b.origin != fromRank && (b.fits || s.path.spares(s.Cost(c.Chunk)))
	case b.visit != nil && !b.visit.ComesFor(c.Chunk):
		// It is at home with ranks that read at another gateway, which brings it. Other samples of it come here in each epoch.
		return false
	case b.fits:
		return true
	}
	coming := s.path.readers.Coming(s, c.Chunk)
	switch {
	case b.next != unknown && coming.Soon:
		return s.worth(c.Chunk, max(coming.Samples, uint64(len(c.Ranges))))
	case b.next == unfollowed && s.path.spares(s.Cost(c.Chunk)):
		return true
	case b.visit != nil: // it would be gone before the rest of it is wanted, and be read again each time
		return false
	}
	return s.wholePays(c.Chunk, bytesOf(c), int64(len(c.Ranges)))
}

// acquire leases chunks, each given by its number in b.chunks, in this order.
func (s *Source) acquire(ctx context.Context, b *batch, which []int) (*chunkcache.Leases[key], error) {
	wait, err := s.begin(ctx, b, which)
	if err != nil {
		return nil, err
	}
	return wait()
}

// begin does what acquire does, but for the wait.
func (s *Source) begin(ctx context.Context, b *batch, which []int) (wait func() (*chunkcache.Leases[key], error), err error) {
	if l, ok := s.lease(b, which); ok {
		if b.next != unknown {
			s.path.look()
		}
		return func() (*chunkcache.Leases[key], error) { return l, nil }, nil
	}
	chunks := make([]int, len(which))
	for n, i := range which {
		chunks[n] = b.chunks[i].Chunk
	}
	f := &fetch{source: s, first: b.visit != nil && b.visit.First()}
	f.want(chunks)
	wait, err = s.path.cache.Start(ctx, f.request())
	if err != nil {
		return nil, err
	}
	if b.next != unknown {
		s.path.look() // now that what this request needs is on its way
	}
	return wait, nil
}

// lease leases chunks if all of them are in memory.
func (s *Source) lease(b *batch, which []int) (*chunkcache.Leases[key], bool) {
	var bytes uint64
	for _, i := range which {
		bytes += uint64(s.index.Chunk(b.chunks[i].Chunk).Length)
	}
	return s.path.cache.Lease(s.chunks, len(which), bytes, func(i int) int { return b.chunks[which[i]].Chunk })
}

// answer is how many bytes of a batch are not in memory, by the tier that answers for them.
type answer struct{ disk, peer, store int64 }

// missing adds up what is wanted of those of some chunks, given by their numbers in b.chunks, that are not in memory.
func (s *Source) missing(b *batch, which []int) (n answer) {
	for _, i := range which {
		switch c := b.chunks[i]; {
		case s.resident(c.Chunk):
		case s.path.disk.answers(s, c.Chunk):
			n.disk += bytesOf(c)
		default:
			n.store += bytesOf(c)
		}
	}
	return n
}

func bytesOf(c chunkindex.ChunkRanges) (n int64) {
	for _, r := range c.Ranges {
		n += int64(r.Length)
	}
	return n
}

// tiers says how much of a batch of total bytes each tier answered for, and that the wait was for the last of them.
func tiers(total int64, missing answer, wait time.Duration) []chunkindex.TierTime {
	list := []chunkindex.TierTime{{Tier: "memory", Bytes: total - missing.disk - missing.peer - missing.store}}
	if missing.disk > 0 {
		list = append(list, chunkindex.TierTime{Tier: "disk", Bytes: missing.disk})
	}
	if missing.peer > 0 {
		list = append(list, chunkindex.TierTime{Tier: "peer", Bytes: missing.peer})
	}
	if missing.store > 0 {
		list = append(list, chunkindex.TierTime{Tier: "store", Bytes: missing.store})
	}
	list[len(list)-1].Wait = wait
	return list
}

// lay gives each sample of a batch its segment of buf, and returns the rest.
func (b *batch) lay(segments [][]byte, buf []byte) (spare []byte) {
	for _, c := range b.chunks {
		for _, r := range c.Ranges {
			segments[r.Seq], buf = buf[:r.Length:r.Length], buf[r.Length:]
		}
	}
	return buf
}

// into brings a batch into segments of its own. It waits for no memory.
func (s *Source) into(ctx context.Context, b *batch, whole, ranged []int, segments [][]byte, spare []byte) (answer, error) {
	rest, loaded, err := s.copyChunks(ctx, b, whole, segments)
	if b.next != unknown {
		s.path.look()
	}
	if rest = append(ranged, rest...); err != nil || len(rest) == 0 {
		return loaded, err
	}
	l := &load{source: s, passes: b.visit != nil && b.visit.Passed(), spare: spare, came: loaded}
	err = s.path.tiers.Load(ctx, l, b.fills(rest, segments))
	return l.came, err
}

// copyChunks copies samples out of whole chunks, a few chunks at a time. It returns those
// chunks that there was no room for, and how many bytes came from chunks that were not in memory.
func (s *Source) copyChunks(ctx context.Context, b *batch, whole []int, segments [][]byte) (rest []int, loaded answer, err error) {
	numbers := make([]int, len(whole))
	for n, i := range whole {
		numbers[n] = b.chunks[i].Chunk
	}
	var mu sync.Mutex // guards rest and loaded
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(s.path.gate.places())
	for _, group := range s.group(numbers, s.path.cfg.PartSize) {
		for n := range group {
			group[n] = whole[group[n]]
		}
		g.Go(func() error {
			missing := s.missing(b, group)
			l, err := s.acquire(ctx, b, group)
			if err != nil && !errors.Is(err, chunkcache.ErrNoRoom) {
				return err
			}
			mu.Lock()
			if err != nil {
				rest = append(rest, group...)
			} else {
				loaded.disk += missing.disk
				loaded.store += missing.store
			}
			mu.Unlock()
			if err != nil {
				return nil
			}
			defer l.Close()
			for n, i := range group {
				data := l.Bytes(n)
				for _, r := range b.chunks[i].Ranges {
					copy(segments[r.Seq], data[r.Offset:])
				}
			}
			return nil
		})
	}
	err = g.Wait() // before the others are read
	return rest, loaded, err
}
