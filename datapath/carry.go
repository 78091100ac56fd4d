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
	mostCarried   = 8 << 20         // bytes that one question in the background asks for
	carryShare    = 32              // the part of the budget that these are at most: a thirty-second
	carriedShare  = 8               // the part that all carried samples may take together: an eighth
	carriedRuns   = 4               // under way at most, for one rank
	carriedIdle   = 2 * time.Second // after which a rank that its reader has left behind is thought to read elsewhere
	carriedSample = 128             // of a sample beside its bytes
)

// carry keeps a stock for each rank that reads from peers: what it needs in its next batches, asked for in the background while it is
// busy with the ones before, after Brand (the second version of Redox), whose remote nodes send more of a chunk than was asked for. So one
// question brings what several batches need, and the links work while the ranks train.
//
// What is under way is known: a batch that needs it waits for it, and asks for the rest. Samples are handed out once, to the rank
// that they were fetched for, without a copy. A rank that is elsewhere loses its stock, and so does one whose reader has gone.
type carry struct {
	path  *Path
	max   int64
	query int64 // bytes that one question may bring; 0 or less: no stock is kept

	hits, bytes atomic.Uint64
	running     sync.WaitGroup // runs under way

	mu     sync.Mutex          // guards what follows, and what is in it
	stocks map[rankID][]*stock // one for each place at which such a rank stands
	held   int64
	closed bool
}

// rankID is one rank of one job.
type rankID struct {
	source           *Source
	params           shuffle.Params
	batch, of, which uint64
}

// stock is what was fetched for one rank, and is on its way.
type stock struct {
	lookahead.Course
	number uint64    // of the reader in the table of them, when it came last
	seen   time.Time // when that was
	asker
	over     bool          // its reader has gone
	fits     bool          // the datasets that are read fit into memory together
	served   bool          // its first batch is there
	planning chan struct{} // closed when it is known what the next run holds; nil: none is worked out
	underway int           // runs
	parts    []*carried
	ctx      context.Context //nolint:containedctx // that of its runs, which outlive the batch that began them: ends when the reader is elsewhere
	cancel   context.CancelFunc
}

// carried is what one question brings.
type carried struct {
	buffer  *chunkcache.Buffer[key]
	cost    int64
	epoch   uint64
	last    uint64 // first position of the last batch that it is for
	samples []carriedSampleAt
	left    int           // samples that nobody has come for
	done    chan struct{} // closed when all that will come has come
	arrived bool          // so
	refs    int           // bodies that show some of them, and the question
	gone    bool          // it is in no stock: the memory goes back with the last of those
}

// carriedSampleAt is one of its samples.
type carriedSampleAt struct {
	chunk int
	chunkindex.Range
	data  []byte
	taken bool // or it has not come
	lost  bool // it has not come, or was wrong
}

func (s *carriedSampleAt) compare(chunk int, r *chunkindex.Range) int {
	if s.chunk != chunk {
		return s.chunk - chunk
	}
	if s.Offset != r.Offset {
		return cmp.Compare(s.Offset, r.Offset)
	}
	return cmp.Compare(s.Length, r.Length)
}

func newCarry(p *Path, total, most int64) *carry {
	if most == 0 {
		most = mostCarried
	}
	return &carry{path: p, max: total / carriedShare, query: min(most, total/carryShare), stocks: map[rankID][]*stock{}}
}

// come notes a request, and has the next run fetched if it is due. It returns the rank's stock, nil if it has none: one begins with the
// first batch of which a part is far. What is being worked out for this batch is waited for, no longer than ctx lasts.
func (c *carry) come(ctx context.Context, s *Source, at shuffle.Cursor, b *batch, far bool) *stock {
	if b.number == 0 || c.query <= 0 {
		return nil
	}
	id := rankID{s, at.Plan.Params(), at.BatchSize, max(at.WorldSize, 1), at.Rank}
	c.mu.Lock()
	defer c.mu.Unlock()
	var st *stock
	if n := slices.IndexFunc(c.stocks[id], func(st *stock) bool { return st.Near(at) }); n >= 0 {
		st = c.stocks[id][n]
	} else {
		if !far || c.closed {
			return nil
		}
		st = c.begin(id)
	}
	for st.planning != nil && st.Awaits(at) {
		planned := st.planning
		c.mu.Unlock()
		select {
		case <-planned:
		case <-ctx.Done():
		}
		c.mu.Lock()
		if ctx.Err() != nil {
			return nil
		}
	}
	st.Come(at)
	st.number, st.seen = b.number, time.Now()
	st.asker, st.fits = asker{source: s, plan: at.Plan, reader: b.reader}, b.fits
	c.retain(st, func(l *carried) bool { return !st.Behind(l.epoch, l.last) })
	c.more(st)
	return st
}

// begin begins a stock. What the same rank had elsewhere is given up: it has jumped, or there are two of it. The caller holds mu,
// as in what follows.
func (c *carry) begin(id rankID) *stock {
	for _, other := range c.stocks[id] {
		c.empty(other)
	}
	st := &stock{}
	st.ctx, st.cancel = context.WithCancel(context.Background())
	c.stocks[id] = append(c.stocks[id], st)
	return st
}

// empty gives up what a rank has, and what is under way.
func (c *carry) empty(st *stock) {
	st.cancel()
	st.ctx, st.cancel = context.WithCancel(context.Background())
	c.retain(st, func(*carried) bool { return false })
}

// served notes that a rank has its batch: now it is not in the way of the very first one to fetch the next ones.
func (c *carry) served(st *stock) {
	if st == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	st.served = true
	c.more(st)
}

// more begins the next run of a rank if it is due, and if there is memory that nobody waits for.
func (c *carry) more(st *stock) {
	if st.over || !st.served || st.planning != nil || !st.Ready() {
		return
	}
	if st.underway >= carriedRuns || c.held >= c.max || c.path.budget.Waiting() > 0 {
		return
	}
	st.planning = make(chan struct{})
	ctx := st.ctx
	c.running.Go(func() { c.fetch(ctx, st) })
}

// take hands out what of a batch is in the rank's stock or on its way there: for each such sample its memory is its segment. It
// returns the parts, which are to be released when the segments are not looked at any more, what to wait for, and what is left.
func (c *carry) take(st *stock, f *far, segments [][]byte) (parts []*carried, wait []awaited, rest *far) {
	rest = &far{twins: f.twins}
	var chunks []chunkindex.ChunkRanges
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, chunk := range f.chunks {
		var left []chunkindex.Range
		for _, r := range chunk.Ranges {
			l, n := st.find(chunk.Chunk, &r)
			if l == nil {
				left = append(left, r)
				continue
			}
			if !slices.Contains(parts, l) {
				l.refs++
				parts = append(parts, l)
			}
			x := &l.samples[n]
			x.taken, segments[r.Seq] = true, x.data
			if l.left--; !l.arrived {
				wait = append(wait, awaited{l, n, r})
				continue
			}
			c.hits.Add(1)
			c.bytes.Add(uint64(r.Length))
		}
		if len(left) > 0 {
			chunks, rest.owners = append(chunks, chunkindex.ChunkRanges{Chunk: chunk.Chunk, Ranges: left}), append(rest.owners, f.owners[i])
		}
	}
	if len(parts) > 0 {
		c.retain(st, func(l *carried) bool { return l.left > 0 })
	}
	rest.batch = f.of(chunks)
	return parts, wait, rest
}

// arrived sorts samples that were awaited into those that are there, of which it returns the bytes, and those that did not come, or not yet.
func (c *carry) arrived(all []awaited) (bytes int64, lost []awaited) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range all {
		if !w.part.arrived || w.part.samples[w.at].lost {
			lost = append(lost, w)
			continue
		}
		bytes += int64(w.want.Length)
		c.hits.Add(1)
		c.bytes.Add(uint64(w.want.Length))
	}
	return bytes, lost
}

// find finds a sample that is there or on its way.
func (st *stock) find(chunk int, r *chunkindex.Range) (*carried, int) {
	for _, l := range st.parts {
		n := sort.Search(len(l.samples), func(n int) bool { return l.samples[n].compare(chunk, r) >= 0 })
		if ok := n < len(l.samples) && l.samples[n].compare(chunk, r) == 0; ok && !l.samples[n].taken {
			return l, n
		}
	}
	return nil, 0
}

// release ends the use of some parts.
func (c *carry) release(parts []*carried) {
	if len(parts) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range parts {
		c.unref(l)
	}
}

func (c *carry) unref(l *carried) {
	if l.refs--; l.refs == 0 && l.gone {
		c.free(l)
	}
}

// retain leaves the parts of a stock that are to stay. The caller holds mu, as in what follows.
func (c *carry) retain(st *stock, stays func(*carried) bool) {
	st.parts = slices.DeleteFunc(st.parts, func(l *carried) bool {
		if stays(l) {
			return false
		}
		if l.gone = true; l.refs == 0 {
			c.free(l)
		}
		return true
	})
}

func (c *carry) free(l *carried) {
	l.buffer.Close()
	c.held -= l.cost
}

// expire gives up what was fetched for readers that have gone, and for ranks that their reader has left behind: they read elsewhere.
func (c *carry) expire(stands func(number uint64) (at shuffle.Cursor, ok bool), now time.Time) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(func(st *stock) bool {
		at, ok := stands(st.number)
		return !ok || st.LeftBy(at) && now.Sub(st.seen) > carriedIdle
	})
}

// end ends some stocks.
func (c *carry) end(which func(*stock) bool) {
	for id, all := range c.stocks {
		c.stocks[id] = slices.DeleteFunc(all, func(st *stock) bool {
			if !which(st) {
				return false
			}
			c.empty(st)
			st.cancel()
			st.over = true
			return true
		})
		if len(c.stocks[id]) == 0 {
			delete(c.stocks, id)
		}
	}
}

// stop ends everything that is under way, and waits for it. Nothing begins any more.
func (c *carry) stop() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.closed = true
	c.end(func(*stock) bool { return true })
	c.mu.Unlock()
	c.running.Wait()
}

// reclaim gives samples up until n bytes are free in the cache, and returns the bytes.
func (c *carry) reclaim(n int64) int64 {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.held
	for _, all := range c.stocks {
		for _, st := range all {
			c.retain(st, func(l *carried) bool { return l.refs > 0 || before-c.held >= n })
		}
	}
	return before - c.held
}

// idle returns the bytes that reclaim could give back now.
func (c *carry) idle() (n int64) {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, all := range c.stocks {
		for _, st := range all {
			for _, l := range st.parts {
				if l.refs == 0 {
					n += l.cost
				}
			}
		}
	}
	return n
}
