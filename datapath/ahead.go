package datapath

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/millrace-data/millrace/chunkcache"
	"github.com/millrace-data/millrace/shuffle"
)

const (
	readerNew     = 30 * time.Second // after which a reader who asked for one batch is forgotten
	readerGone    = 2 * time.Second  // at the least, one who went on; or, if he is slow,
	readerGaps    = 8                // so many times as long as he took from batch to batch of late
	readerLimit   = 64               // readers followed at once, and fewer where their plans are large
	readerHolds   = 256              // bytes for each chunk of its dataset that a reader keeps alive: plan, epoch, the next one
	readerShare   = 32               // the part of the budget that all of them may keep so beside it: a thirty-second
	nearBatches   = 8                // reads this near each other belong to one reader: the ranks of one job
	behindBatches = 2                // how far behind the first of them the chunks are kept
	aheadChunks   = 16               // fetched ahead, or to the end of the next window if that is more
)

// ahead returns how much of a budget is used for what readers come for: the rest is for bodies.
func ahead(total int64) int64 { return total / 10 * 7 }

// reader is where one job stands in one plan. Its ranks count as one.
type reader struct {
	source  *Source
	at      shuffle.Cursor
	next    *shuffle.Epoch // the epoch after at.Epoch, once it is needed
	reading int            // reads under way: who waits for the store has not gone
	seen    time.Time      // when the last one began or ended
	step    time.Time      // when it last moved on
	gap     time.Duration  // between two such, the longest of late; 0: it has not moved on
	valid   uint64         // chunks need not be worked out again before this position
	chunks  []int          // those needed now and soon, in order of need
	served  bool           // its first batch is read: until then little shares the line with what that needs
	behind  []int          // those that a rank a little behind still needs: kept, never fetched
}

// followers knows the readers, and so which chunks are about to be needed.
type followers struct {
	budget int64
	holds  int64 // bytes that the readers' plans may take

	mu      sync.Mutex
	readers []*reader
	wanted  map[key]struct{} // replaced, never changed
}

func newFollowers(budget int64) *followers {
	return &followers{budget: ahead(budget), holds: budget / readerShare, wanted: map[key]struct{}{}}
}

// expected reports whether a reader is known to come for a chunk, and the chunk will be kept for it.
func (f *followers) expected(k key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.wanted[k]
	return ok
}

// list returns the readers' chunks, in order of need for each reader, to be read by that many fetchers.
func (f *followers) list(fetchers int) []need {
	f.mu.Lock()
	defer f.mu.Unlock()
	ns := make([]need, len(f.readers))
	for i, r := range f.readers {
		ns[i] = need{r.source, r.chunks, fetchers}
		if !r.served {
			ns[i].most = early(fetchers)
		}
	}
	return ns
}

// early is how many of the fetchers may work ahead of a reader that waits for its first batch: so few that it waits
// a third longer at most, and enough that the line does not run dry when its chunks are there.
func early(fetchers int) int { return max(fetchers/4, 1) }

// ended notes that a reader has its batch, or none will come, and reports whether it was the first.
func (f *followers) ended(r *reader, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := !r.served
	r.served, r.seen = true, now
	r.reading--
	return first
}

type need struct {
	source *Source
	chunks []int // shared: read only
	most   int   // reads ahead at a time
}

// moved notes where a reader stands, until ended, and marks the chunks that it needs now and soon. It reports whether
// the reader still waits for its first batch.
func (p *Path) moved(s *Source, at shuffle.Cursor) (r *reader, first bool) {
	r, changed, first := p.follow.move(s, at, time.Now())
	if changed {
		p.mark()
	}
	return r, first
}

// mark keeps the chunks that readers come for while others can go.
func (p *Path) mark() {
	p.marking.Lock() // whoever comes last marks what is true last
	defer p.marking.Unlock()
	wanted := p.follow.current()
	p.cache.SetWarm(func(k key) bool { _, ok := wanted[k]; return ok })
}

// look makes Run look again for what to fetch ahead.
func (p *Path) look() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// current returns the set of expected chunks.
func (f *followers) current() map[key]struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wanted
}

// forget forgets readers that have gone, and reports whether there were any.
func (f *followers) forget(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	gone := f.dropIdle(now)
	if gone {
		f.expect()
	}
	return gone
}

// dropIdle takes out readers that have gone, and reports whether there were any. The caller holds mu, as in what follows.
func (f *followers) dropIdle(now time.Time) bool {
	n := len(f.readers)
	f.readers = slices.DeleteFunc(f.readers, func(r *reader) bool { return r.reading == 0 && now.Sub(r.seen) > r.patience() })
	return len(f.readers) != n
}

// expect works out which chunks the readers come for.
func (f *followers) expect() {
	wanted := make(map[key]struct{}, len(f.wanted))
	for _, r := range f.readers {
		r.lookAhead(f.budget / int64(len(f.readers)))
		for _, cs := range [][]int{r.chunks, r.behind} {
			for _, c := range cs {
				wanted[r.source.key(c)] = struct{}{}
			}
		}
	}
	f.wanted = wanted
}

// move reports whether it worked the set of expected chunks out anew, and whether the reader waits for its first batch.
func (f *followers) move(s *Source, at shuffle.Cursor, now time.Time) (r *reader, changed, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r = f.find(s, at); r != nil {
		r.seen = now // before it is missed: it was away for long, and has come back
	}
	changed = f.dropIdle(now)
	if r == nil {
		f.makeRoom(s)
		r = &reader{source: s, at: at, step: now, seen: now}
		f.readers, changed = append(f.readers, r), true
	}
	r.reading++
	switch here, there := at.Epoch.Number(), r.at.Epoch.Number(); {
	case here > there:
		r.next, r.valid = nil, 0
		r.advance(at, now)
	case here == there && at.First > r.at.First:
		r.advance(at, now)
	}
	if !changed && r.at.First < r.valid {
		return r, false, !r.served
	}
	f.expect()
	return r, true, !r.served
}

// makeRoom forgets readers, the one not heard of for longest first, until one more of s may be followed.
func (f *followers) makeRoom(s *Source) {
	held := s.held()
	for _, r := range f.readers {
		held += r.source.held()
	}
	for len(f.readers) > 0 && (len(f.readers) >= readerLimit || held > f.holds) {
		oldest := slices.MinFunc(f.readers, func(a, b *reader) int { return a.seen.Compare(b.seen) })
		held -= oldest.source.held()
		f.readers = slices.DeleteFunc(f.readers, func(r *reader) bool { return r == oldest })
	}
}

// held is what a reader of s keeps alive.
func (s *Source) held() int64 { return readerHolds * int64(s.index.Chunks()) }

// advance notes that the reader has come to a batch that none of its ranks has asked for before.
func (r *reader) advance(at shuffle.Cursor, now time.Time) {
	r.gap = max(now.Sub(r.step), r.gap/10*9)
	r.at, r.step = at, now
}

// patience is how long the reader's share of the memory is kept for it after a request. One that is gone must not
// hold up the others for long, and one that computes between two batches must not lose its chunks.
func (r *reader) patience() time.Duration {
	if r.gap == 0 {
		return readerNew
	}
	return max(readerGone, readerGaps*r.gap)
}

// find returns the reader that a read belongs to: the one of the same plan that stands near it.
func (f *followers) find(s *Source, at shuffle.Cursor) *reader {
	for _, r := range f.readers {
		// The same plan prepared again is the same: its order follows from the dataset and the parameters.
		if r.source != s || r.at.Plan != at.Plan && r.at.Plan.Params() != at.Plan.Params() {
			continue
		}
		near := nearBatches * max(at.BatchSize, 1)
		here, there := r.at.Epoch.Number(), at.Epoch.Number()
		total := at.Plan.Samples()
		switch {
		case here == there && at.First <= r.at.First+near && r.at.First <= at.First+near,
			here+1 == there && r.at.First+near >= total && at.First <= near,
			there+1 == here && at.First+near >= total && r.at.First <= near:
			return r
		}
	}
	return nil
}

// lookAhead works out which chunks the reader needs now and soon, as many as limit bytes hold.
func (r *reader) lookAhead(limit int64) {
	soon := aheadChunks
	if params := r.at.Plan.Params(); params.Shuffle == shuffle.Window {
		soon = max(soon, int(min(params.Window, 1<<20)))
	}
	r.chunks, r.behind, r.valid = nil, nil, r.at.Plan.Samples()
	pick := picker{r.source, limit, map[uint64]bool{}}
	for span, now := range r.spans() {
		current := now && span.From < r.at.End
		switch {
		case current:
			r.valid = min(r.valid, span.To)
		case now:
			r.valid = min(r.valid, span.From)
		}
		if !current {
			if soon--; soon < 0 {
				break
			}
		}
		if !pick.take(&r.chunks, span.Chunk) {
			if current {
				r.choose(limit)
			}
			return
		}
	}
	for span := range r.at.Epoch.Spans(r.at.First - min(behindBatches*r.at.BatchSize, r.at.First)) {
		if span.From >= r.at.First || !pick.take(&r.behind, span.Chunk) {
			return
		}
	}
}

// choose picks from the chunks needed now where they do not all fit: those that are in memory, and
// those whose use has just begun. The others are read sample by sample until they end: to
// bring them whole would read again what of them is delivered already.
func (r *reader) choose(limit int64) {
	r.chunks, r.valid = nil, r.at.Plan.Samples()
	pick := picker{r.source, limit, map[uint64]bool{}}
	var fresh []uint64
	for span := range r.at.Epoch.Spans(r.at.First) {
		if span.From >= r.at.End {
			break
		}
		r.valid = min(r.valid, span.To)
		if r.source.resident(int(span.Chunk)) {
			pick.take(&r.chunks, span.Chunk)
		} else if span.From >= r.at.First || r.at.First-span.From < (span.To-span.From)/8 {
			fresh = append(fresh, span.Chunk)
		}
	}
	for _, c := range fresh {
		if !pick.take(&r.chunks, c) {
			return
		}
	}
}

// picker collects chunks, each once, as many as limit bytes hold.
type picker struct {
	source *Source
	limit  int64
	seen   map[uint64]bool
}

func (p *picker) take(to *[]int, chunk uint64) bool {
	if p.seen[chunk] {
		return true
	}
	n := chunkcache.Cost(p.source.index.Chunk(int(chunk)).Length)
	if n > p.limit {
		return false
	}
	p.limit -= n
	p.seen[chunk] = true
	*to = append(*to, int(chunk))
	return true
}

// spans yields the spans of this epoch that the reader still needs, then those of the next.
func (r *reader) spans() iter.Seq2[shuffle.Span, bool] {
	return func(yield func(shuffle.Span, bool) bool) {
		for span := range r.at.Epoch.Spans(r.at.First) {
			if !yield(span, true) {
				return
			}
		}
		if r.next == nil {
			r.next = r.at.Plan.Epoch(r.at.Epoch.Number() + 1)
		}
		for span := range r.next.Spans(0) {
			if !yield(span, false) {
				return
			}
		}
	}
}

// Run maps memory, then prefetches until ctx ends, and returns when everything it started has ended.
func (p *Path) Run(ctx context.Context) error {
	var started sync.WaitGroup
	defer started.Wait()
	p.populate(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.kick:
		}
		if p.follow.forget(time.Now()) {
			p.mark()
		}
		if p.cfg.NoPrefetch {
			continue
		}
		p.prefetch(ctx, &started)
	}
}

// populate maps memory for the chunks, as much as may be used ahead, until the first reader comes: piece by piece,
// so that nothing waits for it.
func (p *Path) populate(ctx context.Context) {
	p.mu.Lock()
	sources := slices.Clone(p.open)
	p.mu.Unlock()
	room := ahead(p.budget.Total()) - p.budget.InUse()
	for _, s := range sources {
		for i := range s.index.Chunks() {
			n := s.index.Chunk(i).Length
			room -= chunkcache.Cost(n)
			if room < 0 || ctx.Err() != nil || len(p.kick) > 0 || !p.cache.Populate(n) {
				return
			}
		}
	}
}

// prefetch starts reads of what readers will need, in order of need, until there is
// no room or a reader has moved.
func (p *Path) prefetch(ctx context.Context, started *sync.WaitGroup) {
	now := time.Now()
	for _, n := range p.follow.list(p.cfg.Fetchers) {
		var missing []int
		for _, c := range n.chunks {
			if k := n.source.key(c); !p.cache.Contains(k) && !p.failed.has(now, k) {
				missing = append(missing, c)
			}
		}
		for _, group := range n.source.group(missing, p.cfg.PartSize) {
			if p.budget.Waiting() > 0 {
				return
			}
			if !p.gate.enterAhead(n.most) {
				break // whoever leaves makes Run look again
			}
			f := &fetch{source: n.source, ahead: true}
			for n, m := range group {
				group[n] = missing[m]
			}
			f.want(group)
			wait, err := p.cache.Start(ctx, f.request(true))
			if err != nil {
				p.gate.leaveAhead(true)
				return
			}
			started.Go(func() {
				l, err := wait()
				if err == nil { // an error is for whoever needs the chunk
					p.prefetched.Add(uint64(l.Len()))
					l.Close()
				}
				p.gate.leaveAhead(err != nil)
			})
			if len(p.kick) > 0 {
				return
			}
		}
	}
}
