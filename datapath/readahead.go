package datapath

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/shuffle"
)

const (
	aheadBytes  = 8 << 20          // that one question asks for, but for the first batch of a run
	aheadRanges = 1 << 15          // samples of one question
	aheadAll    = 8                // the part of the budget that all runs may take together, an eighth,
	aheadRun    = 32               // and that one run may take, but for its first batch
	aheadRuns   = 4                // runs on their way at most, for one rank
	aheadWait   = 10 * time.Second // after which a run is given up, and its batches ask for themselves
	aheadIdle   = 2 * time.Second  // after which a rank that its reader has left behind is thought to read elsewhere

	// An owner must not be made to bring a chunk before its time: so many chunks of one owner a run asks for that its rank
	// has not begun with. The owner fetches as many ahead by itself; where memory is short it has room for few.
	aheadChunks, aheadChunksShort = 16, 4
)

// readAhead asks peers for what ranks need in their next batches, while the ranks are busy with the ones before: after Brand (the
// second version of Redox), whose remote nodes send more of a chunk than was asked for. A run of batches is asked for as one batch would
// be, so one question brings what several batches need, and the links work while the ranks train. A batch whose run is on its way waits
// for it, and shows the run's memory without a copy. What a run did not bring the batch asks for itself.
type readAhead struct {
	path *Path
	max  int64
	run  int64 // bytes of one run
	most int64 // bytes of one question; below 0: nothing is read ahead

	hits, bytes atomic.Uint64
	running     sync.WaitGroup

	mu     sync.Mutex // guards what follows, and what is in it
	ranks  []*rank
	held   int64
	closed bool
}

// rankID is one rank of one job.
type rankID struct {
	source           *Source
	params           shuffle.Params
	batch, of, which uint64
}

// rank is one place at which a rank stands, and the runs that it comes for.
type rank struct {
	lookahead.Course
	asker
	id       rankID
	number   uint64    // of its reader in the table of readers, when it came last
	seen     time.Time // when that was
	fits     bool      // the datasets that are read fit into memory together
	over     bool      // it is forgotten
	served   bool      // it has its first batch: from now on runs are not in the way of that
	underway int
	runs     []*batchRun
}

// batchRun is what some batches that follow each other need from peers.
type batchRun struct {
	at     shuffle.Cursor  // of the first one
	end    uint64          // position behind the last one
	came   map[uint64]bool // positions of those that were asked for
	done   chan struct{}   // closed when all that will come has come
	cancel context.CancelFunc
	refs   int  // bodies that show it, batches that wait for it, and the question
	gone   bool // it is no rank's any more: its memory goes back with the last of those

	chunks   []chunkindex.ChunkRanges // in order of place; set when done is closed
	segments [][]byte                 // of their samples, by Seq; nil: it has not come
	buffer   *chunkcache.Buffer[key]
	cost     int64
}

func newReadAhead(p *Path, total, most int64) *readAhead {
	if most == 0 {
		most = aheadBytes
	}
	return &readAhead{path: p, max: total / aheadAll, run: total / aheadRun, most: most}
}

// come notes a request, and begins the next run if it is due. A rank begins with the first batch of which a part is far. It returns nil
// where nothing is read ahead.
func (a *readAhead) come(s *Source, at shuffle.Cursor, b *batch, far bool) *rank {
	if b.number == 0 || a.most < 0 {
		return nil
	}
	id := rankID{s, at.Plan.Params(), at.BatchSize, max(at.WorldSize, 1), at.Rank}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.rank(id, at)
	if r == nil {
		if !far || a.closed {
			return nil
		}
		r = &rank{id: id}
		a.ranks = append(a.ranks, r)
	}
	r.Come(at)
	r.number, r.seen = b.number, time.Now()
	r.asker, r.fits = asker{source: s, reader: b.reader}, b.fits
	a.drop(r, func(n *batchRun) bool { return lookahead.Passed(at, n.at) })
	a.next(r)
	return r
}

// rank returns the rank that stands near a request, nil if none does. What the same rank has elsewhere is given up then: it has
// jumped, or there are two of it. The caller holds mu.
func (a *readAhead) rank(id rankID, at shuffle.Cursor) *rank {
	i := slices.IndexFunc(a.ranks, func(r *rank) bool { return r.id == id && r.Near(at) })
	if i >= 0 {
		return a.ranks[i]
	}
	for _, r := range a.ranks {
		if r.id == id {
			a.giveUp(r)
		}
	}
	return nil
}

// served notes that a rank has its batch.
func (a *readAhead) served(r *rank) {
	if r == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r.served = true
	a.next(r)
}

// next begins the next run of a rank if it is due, and if there is memory that nobody waits for. The caller holds mu.
func (a *readAhead) next(r *rank) {
	if a.closed || r.over || !r.served || !r.Ready() || r.underway >= aheadRuns || a.held+a.run > a.max || a.path.budget.Waiting() > 0 {
		return
	}
	as, at, fits := r.asker, r.At(), r.fits
	as.reader = standsAt(*as.reader, r.Heard(), at)
	first, batches := r.Run()
	ctx, cancel := context.WithTimeout(context.Background(), aheadWait)
	n := &batchRun{
		at: at, end: first + batches*at.BatchSize, came: map[uint64]bool{}, done: make(chan struct{}), cancel: cancel, refs: 1,
	}
	n.at.First = first
	r.runs, r.underway = append(r.runs, n), r.underway+1
	a.running.Go(func() {
		a.bring(ctx, r, n, &plannedRun{
			asker: as, at: at, fits: fits, most: a.most, run: a.run, asked: map[string]*question{}, chunks: map[int]*question{},
		})
		cancel()
		a.mu.Lock()
		defer a.mu.Unlock()
		close(n.done)
		r.underway--
		a.drop(r, func(x *batchRun) bool { return x == n && n.chunks == nil })
		a.unref(n)
		a.next(r)
	})
}

// bring brings a run, as far as there is memory for it that nobody needs, and as far as peers send it.
func (a *readAhead) bring(ctx context.Context, r *rank, n *batchRun, p *plannedRun) {
	f, end := p.far(ctx, n.at.First, (n.end-n.at.First)/p.at.BatchSize)
	a.mu.Lock()
	if end < n.end {
		r.Cut(n.at.First, end)
		n.end = end
	}
	if f == nil || a.held+chunkcache.Cost(f.bytes) > a.max {
		a.mu.Unlock()
		return
	}
	n.cost = chunkcache.Cost(f.bytes)
	a.held += n.cost
	a.mu.Unlock()
	var ok bool
	if n.buffer, ok = a.path.cache.TryBuffer(f.bytes); !ok {
		n.buffer = nil
		return
	}
	n.segments = make([][]byte, f.segments)
	f.lay(n.segments, n.buffer.Bytes())
	p.segments = n.segments
	_, lost := p.ask(ctx, f.chunks, f.owners)
	for _, c := range lost {
		for _, r := range c.Ranges {
			n.segments[r.Seq] = nil
		}
	}
	n.chunks = f.chunks
}

// wait returns the run that a batch is in, once that is there, nil if it is in none. release ends the use of it.
func (a *readAhead) wait(ctx context.Context, r *rank, at shuffle.Cursor) *batchRun {
	if r == nil {
		return nil
	}
	a.mu.Lock()
	i := slices.IndexFunc(r.runs, func(n *batchRun) bool {
		return n.at.Epoch.Number() == at.Epoch.Number() && n.at.First <= at.First && at.First < n.end
	})
	if i < 0 {
		a.mu.Unlock()
		return nil
	}
	n := r.runs[i]
	n.refs++
	n.came[at.First] = true
	a.drop(r, func(n *batchRun) bool { return uint64(len(n.came))*at.BatchSize >= n.end-n.at.First })
	a.mu.Unlock()
	ctx, cancel := partOf(ctx)
	defer cancel()
	select {
	case <-n.done:
		return n
	case <-ctx.Done():
		a.release(n)
		return nil
	}
}

// take gives the samples of a batch that are in its run their segments, and returns what is left.
func (a *readAhead) take(n *batchRun, f *far, segments [][]byte) *far {
	rest := &far{twins: f.twins}
	var chunks []chunkindex.ChunkRanges
	for i, c := range f.chunks {
		var left []chunkindex.Range
		for _, r := range c.Ranges {
			if b := n.find(c.Chunk, r); b != nil {
				segments[r.Seq] = b
				a.hits.Add(1)
				a.bytes.Add(uint64(r.Length))
			} else {
				left = append(left, r)
			}
		}
		if len(left) > 0 {
			chunks, rest.owners = append(chunks, chunkindex.ChunkRanges{Chunk: c.Chunk, Ranges: left}), append(rest.owners, f.owners[i])
		}
	}
	rest.batch = f.of(chunks)
	return rest
}

// find returns the segment of a sample, nil if the run has not brought it.
func (n *batchRun) find(chunk int, want chunkindex.Range) []byte {
	i := sort.Search(len(n.chunks), func(i int) bool { return n.chunks[i].Chunk >= chunk })
	if i == len(n.chunks) || n.chunks[i].Chunk != chunk {
		return nil
	}
	ranges := n.chunks[i].Ranges
	at, ok := slices.BinarySearchFunc(ranges, want, func(r, want chunkindex.Range) int {
		return cmp.Or(cmp.Compare(r.Offset, want.Offset), cmp.Compare(r.Length, want.Length))
	})
	if !ok {
		return nil
	}
	return n.segments[ranges[at].Seq]
}

// release ends the use of a run, if there is one.
func (a *readAhead) release(n *batchRun) {
	if n == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unref(n)
}

// unref ends a use of a run. The caller holds mu, as in what follows.
func (a *readAhead) unref(n *batchRun) {
	if n.refs--; n.refs > 0 || !n.gone {
		return
	}
	a.free(n)
}

// free gives the memory of a run back.
func (a *readAhead) free(n *batchRun) {
	if n.buffer != nil {
		n.buffer.Close()
	}
	a.held -= n.cost
}

// drop gives up some runs of a rank. Their memory goes back when nothing shows it any more.
func (a *readAhead) drop(r *rank, which func(*batchRun) bool) {
	r.runs = slices.DeleteFunc(r.runs, func(n *batchRun) bool {
		if !which(n) {
			return false
		}
		if n.gone = true; n.refs == 0 {
			a.free(n)
		}
		return true
	})
}

// giveUp gives up all runs of a rank, also those on their way.
func (a *readAhead) giveUp(r *rank) {
	a.drop(r, func(n *batchRun) bool { n.cancel(); return true })
}

// expire forgets ranks whose reader has gone, and those that their reader has left behind: they read at another gateway.
func (a *readAhead) expire(stands func(reader uint64) (at shuffle.Cursor, ok bool), now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ranks = slices.DeleteFunc(a.ranks, func(r *rank) bool {
		at, ok := stands(r.number)
		over := !ok || lookahead.Passed(at, r.At()) && now.Sub(r.seen) > aheadIdle
		if over {
			a.giveUp(r)
			r.over = true
		}
		return over
	})
}

// stop ends everything that is on its way, and waits for it. Nothing begins any more.
func (a *readAhead) stop() {
	a.mu.Lock()
	a.closed = true
	for _, r := range a.ranks {
		a.giveUp(r)
	}
	a.mu.Unlock()
	a.running.Wait()
}

// reclaim gives up runs that nothing shows until n bytes are free in the cache, and returns the bytes.
func (a *readAhead) reclaim(n int64) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.held
	for _, r := range a.ranks {
		a.drop(r, func(x *batchRun) bool { return x.refs == 0 && before-a.held < n })
	}
	return before - a.held
}

// idle returns the bytes that reclaim could give back now.
func (a *readAhead) idle() (n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.ranks {
		for _, x := range r.runs {
			if x.refs == 0 {
				n += x.cost
			}
		}
	}
	return n
}

// plannedRun is a run that is being worked out.
type plannedRun struct {
	asker
	at     shuffle.Cursor
	fits   bool
	most   int64 // bytes of one question
	run    int64 // bytes of all of them
	asked  map[string]*question
	chunks map[int]*question // that a chunk belongs to; nil: no peer is asked
	wants  []wantedSample
}

// question counts what one member is asked for.
type question struct {
	bytes   int64
	samples int
	chunks  int // that the rank has not begun with
}

type wantedSample struct {
	chunk int
	chunkindex.Range
}

// sampleCost is what a sample takes in a question beside its bytes.
const sampleCost = 128

// far works out what peers own of some batches, of which the first one begins at a position, and returns where the last of them ends:
// batches that would make a question too large are left out, but for the first one. f is nil where peers own nothing.
func (p *plannedRun) far(ctx context.Context, first, batches uint64) (f *far, end uint64) {
	var samples []uint64
	end = first
	for n := range batches {
		var ok bool
		if samples, ok = p.at.Later(samples[:0], (first-p.at.First)/p.at.BatchSize+n); !ok {
			break
		}
		before := len(p.wants)
		if !p.add(ctx, samples) || n > 0 && p.tooMuch() {
			p.wants = p.wants[:before]
			break
		}
		end += p.at.BatchSize
	}
	slices.SortStableFunc(p.wants, func(a, b wantedSample) int { return a.chunk - b.chunk })
	b := &batch{reader: p.reader, segments: len(p.wants)}
	var chunks []chunkindex.ChunkRanges
	for seq, w := range p.wants {
		if k := len(chunks); k == 0 || chunks[k-1].Chunk != w.chunk {
			chunks = append(chunks, chunkindex.ChunkRanges{Chunk: w.chunk})
		}
		w.Seq = seq
		last := &chunks[len(chunks)-1]
		last.Ranges = append(last.Ranges, w.Range)
	}
	_, f = p.source.split(b.of(chunks))
	return f, end
}

// add adds what peers own of some samples. It reports whether their places could be read.
func (p *plannedRun) add(ctx context.Context, samples []uint64) bool {
	index := p.source.index
	for _, sample := range samples {
		chunk := index.ChunkOf(sample)
		q, known := p.chunks[chunk]
		if !known {
			q = p.questionOf(chunk)
			p.chunks[chunk] = q
		}
		if q == nil {
			continue
		}
		t, err := index.Table(ctx, chunk)
		if err != nil {
			return false
		}
		i := sample - index.Chunk(chunk).First
		if t.Length[i] == 0 {
			continue
		}
		q.bytes, q.samples = q.bytes+int64(t.Length[i])+sampleCost, q.samples+1
		p.wants = append(p.wants, wantedSample{chunk, chunkindex.Range{Offset: t.Offset[i], Length: t.Length[i], CRC32C: t.CRC32C[i]}})
	}
	return true
}

// questionOf returns the question that a chunk belongs to, nil if no peer is asked for it.
func (p *plannedRun) questionOf(chunk int) *question {
	member := p.source.elsewhere(chunk)
	if member == "" {
		return nil
	}
	q := p.asked[member]
	if q == nil {
		q = &question{}
		p.asked[member] = q
	}
	if span, ok := p.at.Epoch.Next(uint64(chunk), p.at.First); !ok || span.From >= p.at.End {
		q.chunks++
	}
	return q
}

// tooMuch reports whether some member would be asked for more than one question may bring.
func (p *plannedRun) tooMuch() bool {
	chunks := aheadChunksShort
	if p.fits {
		chunks = aheadChunks
	}
	var all int64
	for _, q := range p.asked {
		if q.bytes > p.most || q.samples > aheadRanges || q.chunks > chunks {
			return true
		}
		all += q.bytes
	}
	return all > p.run
}
