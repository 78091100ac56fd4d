package datapath

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/internal/arrival"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/shuffle"
)

// Source reads batches of one dataset. It is safe for concurrent use.
type Source struct {
	path    *Path
	number  uint64 // among the path's sources, 0 where their chunks are the same for all
	place   int    // its number in the order of Open
	index   *chunkindex.Index
	chunks  *chunkcache.Table[key] // those in memory, and on their way
	store   objstore.RangeReader
	prefix  string
	cost    int64     // of all its chunks in memory
	decodes int64     // bytes that its largest compressed chunk is decoded in; 0: none is compressed
	seen    time.Time // when it was last read by a plan, guarded by the path
	onDisk  bool      // its chunks may be kept on disk
	paced   bool      // the store holds reads back, for the sake of a limit of its own
	origin  [32]byte  // on whose word, there; zero where they are proved by SHA-256
	name    string    // under which peers know it; "": they do not

	owners atomic.Pointer[owners] // nil: nobody has asked for one

	uses *uses
}

// Read brings all ranges of one batch. at says where the reader stands (zero: no plan); it changes speed only.
// Errors: *chunkindex.RangeError, budget.ErrTooLarge, budget.ErrOverloaded, ErrClosed, or the context's.
func (s *Source) Read(ctx context.Context, at shuffle.Cursor, chunks []batch.ChunkRanges) (*batch.Body, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if !s.enter() {
		return nil, ErrClosed
	}
	body, err := s.readBatch(ctx, at, chunks)
	return leaveAfter(s.uses.leave, body, err)
}

func (s *Source) readBatch(ctx context.Context, at shuffle.Cursor, chunks []batch.ChunkRanges) (*batch.Body, error) {
	b, err := s.newBatch(chunks)
	if err != nil {
		return nil, err
	}
	return assemblyOf(part{source: s, at: at, request: b}).readPlanned(ctx)
}

// visit is one batch in the eyes of those who look ahead; nil: the batch is of no plan.
type visit struct {
	*lookahead.Visit
	path     *Path
	ownReads atomic.Int64 // store reads of its samples that it waits for, being a first batch that does not wait for whole chunks
}

// visit notes in the table of readers that a batch is read, and sets what the batch knows of its reader. It ends with ended.
func (s *Source) visit(ctx context.Context, at shuffle.Cursor, b *request) *visit {
	if at.Plan == nil || at.Epoch == nil {
		return nil
	}
	s.path.reown()
	came := arrival.Of(ctx)
	asked := s.path.readers.AskedAs(s, at, lookahead.Arrival{Since: came.At, Ahead: came.Ahead}, time.Now())
	v := &visit{Visit: asked, path: s.path}
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
	return v
}

// ended notes how the read has ended, and returns that: a body whose end is noted too, or the error.
func (v *visit) ended(body *batch.Body, err error) (*batch.Body, error) {
	if v == nil {
		return body, err
	}
	v.path.ownReads.Add(-v.ownReads.Load())
	if v.Answered(time.Now()) {
		v.path.look()
	}
	if err != nil {
		v.Ended(time.Now())
		return nil, err
	}
	body.OnClose(func() { v.Ended(time.Now()) })
	return body, nil
}

// batch is one request, its chunks in stored order.
type request struct {
	chunks   []batch.ChunkRanges
	segments int
	bytes    int64
	origin   origin
	next     next
	fits     bool         // the datasets that are read now fit into memory together
	visit    *visit       // what is known of its reader; nil: the batch is of no plan
	reader   *peer.Reader // who reads, for peers; nil: they are not told
	asked    []string     // members that are not asked for it: they have failed, or are late
}

// origin is where a batch comes from.
type origin uint8

const (
	fromRank   origin = iota
	fromPeer          // another gateway asks: no peer is asked to load anything for it
	ofRun             // what a rank needs later: what the owners do not send is left out
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
func (s *Source) newBatch(chunks []batch.ChunkRanges) (*request, error) {
	b := &request{chunks: slices.Clone(chunks)}
	var hidden []int
	slices.SortFunc(b.chunks, func(x, y batch.ChunkRanges) int { return x.Chunk - y.Chunk })
	for _, c := range b.chunks {
		if c.Chunk < 0 || c.Chunk >= s.index.Chunks() {
			return nil, fmt.Errorf("read chunk %d of %d: no such chunk", c.Chunk, s.index.Chunks())
		}
		if s.hidden(c.Chunk) {
			hidden = append(hidden, c.Chunk)
		}
		length := s.index.Length(c.Chunk)
		for _, r := range c.Ranges {
			if int64(r.Offset)+int64(r.Length) > length {
				return nil, s.rangeError(s.layout(c.Chunk).at(int64(r.Offset)), chunkindex.ErrCorrupt)
			}
			b.bytes += int64(r.Length)
			b.segments = max(b.segments, r.Seq+1)
		}
	}
	if len(hidden) > 0 {
		s.path.cache.Find(s.chunks, hidden...) // at once: whatever the batch asks later takes no lock
	}
	return b, s.path.couldHold(b.bytes)
}
