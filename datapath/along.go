package datapath

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/shuffle"
)

const (
	runWait   = 10 * time.Second // after which what a run asks for is left to the batches
	runFits   = 16               // chunks of one member that a run asks for before the rank has begun with them: as many as that one fetches ahead by itself,
	runFresh  = 8                // and half of that where memory is short
	runRanges = 1 << 15          // samples of one question
)

// fetch brings the next run of a rank: it works out what that holds, takes memory, and asks all owners at once.
func (c *carry) fetch(ctx context.Context, st *stock) {
	c.mu.Lock()
	is := st.Course
	r := &errand{asker: st.asker, at: is.At(), fits: st.fits, query: c.query, chunks: map[int]string{}, wants: map[string]*wants{}}
	r.reader = standsAt(*r.reader, is.Heard(), is.At())
	c.mu.Unlock()
	is.Run(func(sample, first uint64) bool { return r.add(ctx, sample, first) })
	parts, ok := c.parts(r)
	c.mu.Lock()
	close(st.planning)
	st.planning = nil
	if ok && ctx.Err() == nil {
		st.Take(is)
		for _, l := range parts {
			l.refs++
			st.parts = append(st.parts, l)
		}
		st.underway++
	} else {
		for _, l := range parts {
			c.free(l)
		}
		parts = nil
	}
	c.mu.Unlock()
	if parts == nil {
		return
	}
	var asked sync.WaitGroup
	for member, l := range parts {
		asked.Go(func() { c.bring(ctx, st, r, member, l) })
	}
	asked.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	st.underway--
	c.more(st)
}

// bring asks one member for its part of a run. What does not come is asked for by whoever needs it.
func (c *carry) bring(ctx context.Context, st *stock, r *errand, member string, l *carried) {
	ctx, cancel := context.WithTimeout(ctx, runWait)
	defer cancel()
	a := r.asker
	a.segments = make([][]byte, len(l.samples))
	var chunks []chunkindex.ChunkRanges
	for n := range l.samples {
		x := &l.samples[n]
		want := x.Range // the sample itself may be looked at meanwhile
		want.Seq, a.segments[n] = n, x.data
		if k := len(chunks); k == 0 || chunks[k-1].Chunk != x.chunk {
			chunks = append(chunks, chunkindex.ChunkRanges{Chunk: x.chunk})
		}
		last := &chunks[len(chunks)-1]
		last.Ranges = append(last.Ranges, want)
	}
	_, lost := a.question(ctx, chunks, member)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, chunk := range lost {
		for _, w := range chunk.Ranges {
			if x := &l.samples[w.Seq]; !x.taken {
				l.left--
			}
			l.samples[w.Seq].taken, l.samples[w.Seq].lost = true, true
		}
	}
	l.arrived = true
	close(l.done)
	c.unref(l)
	c.retain(st, func(l *carried) bool { return l.left > 0 })
}

// parts takes memory for what a run brings, by member; false if there is not enough that nobody needs.
func (c *carry) parts(r *errand) (map[string]*carried, bool) {
	parts := map[string]*carried{}
	for member, w := range r.wants {
		if len(w.samples) == 0 {
			continue
		}
		slices.SortFunc(w.samples, func(a, b carriedSampleAt) int { return a.compare(b.chunk, &b.Range) })
		w.samples = slices.CompactFunc(w.samples, func(a, b carriedSampleAt) bool { return a.compare(b.chunk, &b.Range) == 0 })
		l := c.room(w.samples)
		if l == nil {
			return parts, false
		}
		l.epoch, l.last = r.at.Epoch.Number(), w.last
		parts[member] = l
	}
	return parts, true
}

// room returns memory for samples, nil if there is none that nobody else needs.
func (c *carry) room(samples []carriedSampleAt) *carried {
	var n int64
	for i := range samples {
		n += int64(samples[i].Length) + carriedSample
	}
	cost := chunkcache.Cost(n)
	c.mu.Lock()
	enough := c.held+cost <= c.max
	if enough {
		c.held += cost
	}
	c.mu.Unlock()
	if !enough {
		return nil
	}
	buffer, ok := c.path.cache.TryBuffer(n)
	if !ok {
		c.mu.Lock()
		c.held -= cost
		c.mu.Unlock()
		return nil
	}
	c.mu.Lock()
	cost, c.held = buffer.Cost(), c.held+buffer.Cost()-cost
	c.mu.Unlock()
	buf := buffer.Bytes()
	for i := range samples {
		k := samples[i].Length
		samples[i].data, buf = buf[:k:k], buf[k:]
	}
	return &carried{buffer: buffer, cost: cost, samples: samples, left: len(samples), done: make(chan struct{})}
}

// errand is what is worked out of the next batches of a rank.
type errand struct {
	asker
	at     shuffle.Cursor
	fits   bool
	query  int64
	chunks map[int]string // whom to ask for a chunk; "": nobody
	wants  map[string]*wants
}

// wants is what one member is asked for.
type wants struct {
	samples []carriedSampleAt
	bytes   int64
	fresh   int    // chunks that the rank has not begun with
	last    uint64 // first position of the last batch
}

// add adds a sample of the batch that begins at a position, if it is one to ask for. It reports whether the run goes on: it ends with
// the bytes that one question may bring, and with as many chunks as an owner would fetch ahead by itself.
func (r *errand) add(ctx context.Context, sample, first uint64) bool {
	s := r.source
	chunk := s.index.ChunkOf(sample)
	member, known := r.chunks[chunk]
	if !known {
		if member = s.elsewhere(r.plan, chunk); member != "" && !r.begin(member, chunk) {
			return false
		}
		r.chunks[chunk] = member
	}
	if member == "" {
		return true
	}
	t, err := s.index.Table(ctx, chunk)
	if err != nil {
		return false
	}
	i := sample - s.index.Chunk(chunk).First
	if t.Length[i] == 0 {
		return true
	}
	w := r.wants[member]
	n := int64(t.Length[i]) + carriedSample
	if w.bytes+n > r.query || len(w.samples) == runRanges {
		return false
	}
	w.bytes, w.last = w.bytes+n, first
	w.samples = append(w.samples, carriedSampleAt{chunk: chunk, Range: chunkindex.Range{Offset: t.Offset[i], Length: t.Length[i], CRC32C: t.CRC32C[i]}})
	return true
}

// begin counts a chunk of a member, and reports whether to ask for it. An owner must not be made to bring a chunk before its time: where
// memory is short it has room for what is needed soon and no more.
func (r *errand) begin(member string, chunk int) bool {
	w := r.wants[member]
	if w == nil {
		w = &wants{}
		r.wants[member] = w
	}
	if span, ok := r.at.Epoch.Next(uint64(chunk), r.at.First); ok && span.From < r.at.End {
		return true
	}
	w.fresh++
	return w.fresh <= runFresh || r.fits && w.fresh <= runFits
}

// awaited is a sample that a batch waits for.
type awaited struct {
	part *carried
	at   int // in its samples
	want chunkindex.Range
}
