package datapath

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
)

// aheadWait is the timeout of a run. After it, the batches of the run request their samples
// themselves, and have enough time left for that.
const aheadWait = 10 * time.Second

// readAhead requests the samples that ranks need in their next batches from peers, while the ranks
// process the current ones. The idea is from Brand (the second version of Redox), whose remote
// nodes send more of a chunk than was requested. A run of batches (lookahead.Run) is requested as
// one batch, so one query serves several batches, and the links are used while the ranks train. The
// samples arrive in an extract, where those batches find them.
type readAhead struct {
	path   *Path
	limits lookahead.Limits

	hits, bytes atomic.Uint64
	running     sync.WaitGroup
	ctx         context.Context
	end         context.CancelFunc

	mu    sync.Mutex // guards the fields below, and their elements
	ranks []*rank
	held  int64
}

// rank is a rank that reads chunks that peers own. After a jump it counts as a new rank; the old
// one is forgotten with its reader.
type rank struct {
	lookahead.Course[runResult]
	source *Source          // the source that the rank reads
	reader *peer.Reader     // the reader, as of the rank's last request
	visit  *lookahead.Visit // the visit of the rank's last request
	ctx    context.Context  // ends when the rank is forgotten or the source is closed
	leave  context.CancelFunc
}

// batchRun is a run: the samples that some consecutive batches need from peers.
type batchRun = lookahead.Run[runResult]

// runResult is the result of a run.
type runResult struct {
	extract *extract // pinned; nil: not loaded yet
	cost    int64    // bytes of memory that the run takes
	over    bool     // no batch needs the run any more
}

func newReadAhead(p *Path, total, most int64) *readAhead {
	a := &readAhead{path: p, limits: lookahead.Limits{Memory: total, Question: cmp.Or(most, lookahead.QuestionBytes)}}
	a.ctx, a.end = context.WithCancel(context.Background())
	return a
}

// come records a request and returns its rank. A rank begins with the first batch that has a far
// part. come returns nil if there is no read-ahead for the reader.
func (a *readAhead) come(p *part, far bool) *rank {
	if p.visit == nil || !p.visit.Followed() || a.limits.Question < 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var r *rank
	if i := slices.IndexFunc(a.ranks, func(r *rank) bool { return r.source == p.source && r.Near(p.at) }); i >= 0 {
		r = a.ranks[i]
	} else if !far {
		return nil
	} else {
		r = &rank{source: p.source}
		r.ctx, r.leave = p.source.until(a.ctx)
		a.ranks = append(a.ranks, r)
	}
	a.free(r.Come(p.at))
	r.reader, r.visit = p.reader, p.visit.Visit
	return r
}

// left records that a rank's batch has received its samples or an error, and begins the next run of
// the rank.
func (a *readAhead) left(r *rank, p *part) {
	if r == nil {
		return
	}
	a.mu.Lock()
	a.free(r.Had(p.at))
	a.mu.Unlock()
	a.begin(r)
}

// begin begins the next run of a rank if it is due and no request waits for memory. It is called
// when the rank has its batch, and when its last run has arrived, so the next run delays neither of
// them.
func (a *readAhead) begin(r *rank) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.ctx.Err() != nil || a.limits.Left(a.held) < a.limits.Run() || a.path.budget.Waiting() > 0 {
		return
	}
	if !r.source.enter() {
		return
	}
	n := r.Next()
	if n == nil {
		r.source.leave()
		return
	}
	reader, at := *r.reader, n.At
	reader.Epoch, reader.First, reader.End = at.Epoch.Number(), at.First, at.End
	ctx, span := a.path.cfg.Trace.Root(r.ctx, "peer read-ahead")
	a.running.Go(func() {
		a.bring(ctx, r, n, &reader)
		span.End()
		a.begin(r)
		r.source.leave()
	})
}

// bring loads a run, as far as memory is free and peers send the samples.
func (a *readAhead) bring(ctx context.Context, r *rank, n *batchRun, reader *peer.Reader) {
	ctx, cancel := context.WithTimeout(ctx, aheadWait)
	defer cancel()
	s, limits := r.source, a.limits
	limits.Fits = a.path.fits(s, time.Now())
	wanted, end := n.Plan(elsewhere{s}, &limits)
	f := s.farOf(ctx, wanted)
	f.reader, f.fits = reader, limits.Fits
	cost := chunkcache.Cost(f.bytes)
	a.mu.Lock()
	r.Cut(n, end)
	fits := f.bytes > 0 && a.limits.Left(a.held) >= cost
	if fits {
		a.held += cost
	}
	a.mu.Unlock()
	if !fits {
		return
	}
	e := s.early(ctx, f)
	a.mu.Lock()
	defer a.mu.Unlock()
	if e != nil { // nil: other batches load all of the samples
		a.held += e.room.own.Cost() - cost
		cost = e.room.own.Cost()
	}
	if n.Came.extract, n.Came.cost = e, cost; e == nil || n.Came.over {
		a.free([]*batchRun{n})
	}
}

// early loads the samples of a run that no batch is loading, into an extract that the caller must
// unpin. It returns nil if there are no such samples, if there is no memory, or if ctx ends.
func (s *Source) early(ctx context.Context, far *request) *extract {
	p := &part{source: s, near: &request{}, far: *far, tries: true}
	defer p.giveBack()
	if err := claim(ctx, []*part{p}, manner{joins: true}); err != nil || len(p.own.samples) == 0 {
		return nil
	}
	e := p.own
	e.begin(ctx, p.need)
	e.pin()
	select {
	case <-e.ended:
	case <-ctx.Done():
		e.unpin()
		return nil
	}
	return e
}

// free releases the memory of runs that no batch needs any more. The caller holds mu.
func (a *readAhead) free(runs []*batchRun) {
	for _, n := range runs {
		n.Came.over = true
		a.held -= n.Came.cost
		if n.Came.extract != nil {
			n.Came.extract.unpin()
		}
		n.Came.extract, n.Came.cost = nil, 0
	}
}

// expire forgets ranks whose reader has ended or has moved away from them.
func (a *readAhead) expire() {
	a.forget(func(r *rank) bool {
		at, ok := r.visit.Position()
		return !ok || lookahead.Passed(at, r.At())
	})
}

// forget removes the ranks for which the function returns true.
func (a *readAhead) forget(which func(*rank) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ranks = slices.DeleteFunc(a.ranks, func(r *rank) bool {
		over := which(r)
		if over {
			r.leave()
			a.free(r.Drop(func(*batchRun) bool { return true }))
		}
		return over
	})
}

// stop cancels all runs and waits for them. No run begins afterwards.
func (a *readAhead) stop() {
	a.end()
	a.forget(func(*rank) bool { return true })
	a.running.Wait()
}

// reclaim drops runs whose extract no batch pins until n bytes are free in the cache. It returns
// the number of bytes freed.
func (a *readAhead) reclaim(n int64) (bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.ranks {
		a.free(r.Drop(func(run *batchRun) bool {
			goes := bytes < n && run.Came.idle()
			if goes {
				bytes += run.Came.cost
			}
			return goes
		}))
	}
	return bytes
}

// idle reports whether a run is loaded and no batch pins its extract.
func (b *runResult) idle() bool { return b.extract != nil && b.extract.sole() }

// idle returns the number of bytes that reclaim could free now.
func (a *readAhead) idle() (n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.ranks {
		for _, run := range r.Runs() {
			if run.Came.idle() {
				n += run.Came.cost
			}
		}
	}
	return n
}

// elsewhere reports to package lookahead which chunks of a dataset are requested from peers.
type elsewhere struct{ *Source }

func (e elsewhere) ChunkOf(sample uint64) int { return e.index.ChunkOf(sample) }

func (e elsewhere) Owner(chunk int) string { return e.elsewhere(chunk) }

func (e elsewhere) Mean(chunk int) int64 {
	c := e.index.Chunk(chunk)
	return c.Length / max(int64(c.Samples), 1)
}

// farOf returns the request to peers for the given samples. It is empty if the table of a chunk
// cannot be read.
func (s *Source) farOf(ctx context.Context, samples []uint64) *request {
	slices.Sort(samples)
	var chunks []batch.ChunkRanges
	for seq, sample := range samples {
		chunk := s.index.ChunkOf(sample)
		t, err := s.index.Table(ctx, chunk)
		if err != nil {
			return &request{}
		}
		i := int(sample - s.index.Chunk(chunk).First)
		if t.Length(i) == 0 {
			continue
		}
		if k := len(chunks); k == 0 || chunks[k-1].Chunk != chunk {
			chunks = append(chunks, batch.ChunkRanges{Chunk: chunk})
		}
		last := &chunks[len(chunks)-1]
		last.Ranges = append(last.Ranges, batch.Range{Seq: seq, Offset: t.Offset(i), Length: t.Length(i), CRC32C: t.CRC32C(i)})
	}
	_, far := s.split((&request{segments: len(samples), origin: ofRun}).of(chunks))
	return &far
}
