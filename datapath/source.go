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
	number  uint64 // number of the source in its path; 0 if all sources share chunks (CheckSHA)
	place   int    // its position in the order of Open
	index   *chunkindex.Index
	chunks  *chunkcache.Table[key] // chunks in memory or being loaded
	store   objstore.RangeReader
	prefix  string
	cost    int64     // memory cost of all its chunks, in bytes
	decodes int64     // bytes of memory to decode its largest compressed chunk in; 0: none is compressed
	seen    time.Time // time of the last read that follows a plan; guarded by the path
	onDisk  bool      // its chunks may be kept on disk
	paced   bool      // the store delays reads because of the store's own limit
	origin  [32]byte  // dataset that vouches for chunks on disk; zero: SHA-256 proves them
	name    string    // name among peers; "": not shared
	reads   *datasetReads

	owners atomic.Pointer[owners] // nil: not used yet

	uses *uses
}

// Read reads all ranges of one batch. at is the position of the reader (zero: no plan); it affects
// speed only. Errors: *chunkindex.RangeError, budget.ErrTooLarge, budget.ErrOverloaded, ErrClosed,
// or the error of the context.
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

// visit is the record of one batch in the table of readers. It is nil if the batch belongs to no
// plan.
type visit struct {
	*lookahead.Visit
	path     *Path
	ownReads atomic.Int64 // store reads by sample ranges, if this is a first batch that does not wait for whole chunks
}

// visit records a batch in the table of readers, and sets the batch's fields about its reader. The
// caller must call ended later.
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

// ended records the end of the read, and returns its arguments. The visit ends when the body is
// closed, or immediately after an error.
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

// request is one batch, or part of one, with its chunks in stored order.
type request struct {
	chunks   []batch.ChunkRanges
	segments int
	bytes    int64
	origin   origin
	next     next
	fits     bool         // all datasets being read fit into memory together
	visit    *visit       // visit of its reader; nil: the batch belongs to no plan
	reader   *peer.Reader // the reader, for queries to peers; nil: not sent
	asked    []string     // members that have failed or are late, and must not be asked again
}

// origin is the origin of a batch.
type origin uint8

const (
	fromRank   origin = iota
	fromPeer          // a query of another gateway: no peer is asked to load chunks for it
	ofRun             // samples that a rank needs later: samples that owners do not send are skipped
	afterPeers        // the part of a rank's batch that the owners did not send
)

// next describes which of the chunks that the reader needs after the batch are known.
type next uint8

const (
	unknown    next = iota // none: the order has no locality
	followed               // all are known
	unfollowed             // only the rest of the batch's own chunks: the table of readers is full, or the reader reads at another gateway
)

// newBatch computes the totals of a request, and checks it against the index and the budget.
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
		s.path.cache.Find(s.chunks, hidden...) // find all chunks in one call: later lookups of the batch take no lock
	}
	return b, s.path.couldHold(b.bytes)
}
