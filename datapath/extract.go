package datapath

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/millrace-data/millrace/internal/tracing"
)

// extracts holds the samples that are in memory, or being loaded, without the rest of their chunks.
// Each sample is stored once, however many batches need it. A batch pins the extracts that have its
// samples, and loads the missing ones in an extract of its own.
//
//   - The memory of an extract stays reserved until its last pin ends. Its load is canceled only
//     then, not when the batch that began it ends.
//   - An error is delivered only to the batch that began the load. Other batches that wait for the
//     sample retry.
//   - A batch never waits for memory while it pins an extract.
//   - A request of a peer never waits for a sample that other peers are asked for, so gateways
//     cannot deadlock.
type extracts struct {
	mu      sync.Mutex // guards the fields below, and the pins of extracts
	samples map[samplePlace]*sample
	claims  uint64 // so far
}

// samplePlace identifies a sample: its source, chunk and range, and whether peers are asked for it.
type samplePlace struct {
	source *Source
	chunk  int
	offset uint32
	length uint32
	far    bool // peers are asked for the sample
}

// extract is memory with some samples of one dataset, each of them stored once.
type extract struct {
	all     *extracts
	source  *Source
	room    room
	used    int64 // total bytes of the samples; the rest of the room is for the gaps between them
	samples []*sample
	block   []sample // backing array for the next samples
	pins    int
	claimed uint64 // the last claim that pinned it
	ahead   bool   // loaded by read-ahead
	hot     bool   // kept for later batches

	span   tracing.Span       // span of the request that began the load
	ctx    context.Context    // context of the load
	cancel context.CancelFunc // ends the load; nil: the load has not begun
	ended  chan struct{}      // closed when the load has ended
	came   tally              // bytes loaded, by tier; read after ended
}

// sample is one sample of an extract. It implements receiver for its portion of a read.
type sample struct {
	in       *extract
	place    samplePlace
	data     []byte
	hot      bool
	finished atomic.Bool   // data is complete, or err is set
	err      error         // valid once finished
	done     chan struct{} // closed when finished; nil: no batch waits
}

// demand is the set of samples that one batch needs from extracts.
type demand struct {
	near   request // samples that this gateway reads itself
	copied int     // how many leading chunks of near are read whole and copied
	far    request // samples that peers are asked for
	joins  bool    // use samples that other batches are loading
}

// find returns a sample that is in memory, or is being loaded and may be waited for; otherwise nil.
// The caller holds mu.
func (x *extracts) find(p samplePlace) *sample {
	if s := x.samples[p]; s != nil {
		return s
	}
	p.far = !p.far
	if s := x.samples[p]; s != nil && (!p.far || s.came()) {
		return s
	}
	return nil
}

// came reports whether the sample is finished. find does not return a sample that has failed.
func (s *sample) came() bool { return s.finished.Load() }

// wait returns a channel that is closed when the sample is finished.
func (s *sample) wait() <-chan struct{} {
	s.in.all.mu.Lock()
	defer s.in.all.mu.Unlock()
	if s.done == nil {
		s.done = make(chan struct{})
		if s.came() {
			close(s.done)
		}
	}
	return s.done
}

// missing returns the number of bytes in those samples of a batch that are neither in memory nor
// being loaded.
func (x *extracts) missing(s *Source, d *demand) int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.absent(s, d)
}

// absent is like missing, for a caller that holds mu.
func (x *extracts) absent(s *Source, d *demand) int64 {
	if !d.joins || len(x.samples) == 0 {
		return d.near.bytes + d.far.bytes
	}
	return x.absentOf(s, &d.near, false) + x.absentOf(s, &d.far, true)
}

func (x *extracts) absentOf(s *Source, b *request, far bool) (n int64) {
	for _, c := range b.chunks {
		for _, r := range c.Ranges {
			if x.find(samplePlace{s, c.Chunk, r.Offset, r.Length, far}) == nil {
				n += int64(r.Length)
			}
		}
	}
	return n
}

// add adds a sample to the extract, in the next bytes of its memory.
func (e *extract) add(at samplePlace, hot bool) *sample {
	from, to := e.used, e.used+int64(at.length)
	if len(e.block) == 0 {
		e.block = make([]sample, 64)
	}
	is := &e.block[0]
	e.block = e.block[1:]
	is.in, is.place, is.data, is.hot = e, at, e.room.bytes[from:to:to], hot
	is.finished.Store(at.length == 0)
	e.used, e.samples = to, append(e.samples, is)
	return is
}

// pin begins one more use of the extract. The caller already pins it.
func (e *extract) pin() {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	e.pins++
}

// unpin ends one use of the extract. The last unpin cancels the load, waits for its end, and frees
// the memory.
func (e *extract) unpin() {
	x := e.all
	x.mu.Lock()
	e.pins--
	last := e.pins == 0
	if last {
		for _, s := range e.samples {
			x.forget(s)
		}
	}
	x.mu.Unlock()
	if !last {
		return
	}
	if e.cancel != nil {
		e.cancel()
		<-e.ended
	}
	e.room.close()
}

// sole reports whether the caller has the only pin on the extract.
func (e *extract) sole() bool {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	return e.pins == 1
}

// forget removes a sample from the map, so that find does not return it. The caller holds mu.
func (x *extracts) forget(s *sample) {
	if x.samples[s.place] == s {
		delete(x.samples, s.place)
	}
}

// begin starts the load of d. If the batch of ctx ends early, the load continues until the deadline
// of ctx.
func (e *extract) begin(ctx context.Context, d *demand) {
	e.ended = make(chan struct{})
	e.ctx = context.WithoutCancel(ctx)
	if until, ok := ctx.Deadline(); ok {
		e.ctx, e.cancel = context.WithDeadline(e.ctx, until)
	} else {
		e.ctx, e.cancel = context.WithCancel(e.ctx)
	}
	l := &load{source: e.source, spare: e.room.bytes[e.used:]}
	go func() {
		defer close(e.ended)
		l.extract(e.ctx, d, e)
		e.came = l.came
		e.source.path.hot.keep(e)
	}()
}

// extract loads the samples of a demand into an extract. It reads the near part in the same way as
// this gateway's own chunks, and concurrently requests the far part from its owners. Samples that
// no owner sent are read last, except for read-ahead.
func (l *load) extract(ctx context.Context, d *demand, e *extract) {
	near := 0
	for _, c := range d.near.chunks {
		near += len(c.Ranges)
	}
	asked, lost := &load{source: l.source}, &unsentTier{}
	var running sync.WaitGroup
	if len(d.far.chunks) > 0 {
		fills := fillsOf(d.far.chunks, e.samples)
		running.Go(func() { _ = ownersTier{&d.far, lost}.Load(ctx, asked, fills) }) // errors are recorded in lost
	}
	err := l.into(ctx, &d.near, d.near.chunks[:d.copied], d.near.chunks[d.copied:], e.samples)
	finishAll(e.samples[:near], err)
	running.Wait()
	l.came.add(asked.came)
	var unsent error
	if len(lost.fills) > 0 {
		if unsent = errUnsent; d.far.origin != ofRun {
			unsent = hereTier{&d.far}.Load(ctx, l, lost.fills)
		}
	}
	finishAll(e.samples[near:], unsent)
}

// finishAll finishes the samples that a load left unfinished.
func finishAll(samples []*sample, err error) {
	for _, s := range samples {
		if err == nil {
			s.Publish()
		} else {
			s.Fail(err)
		}
	}
}

// take copies the sample out of its chunk and publishes it. The sample is then no longer hot,
// because the chunk serves it while it is in memory.
func (s *sample) take(data []byte) {
	copy(s.data, data)
	s.hot = false
	s.Publish()
}

// Publish delivers the sample to the batches that wait for it, unless it is finished.
func (s *sample) Publish() { s.finish(nil) }

// Fail delivers an error to the batches that wait for the sample, unless it is finished. find does
// not return the sample afterwards.
func (s *sample) Fail(err error) { s.finish(err) }

func (s *sample) finish(err error) {
	x := s.in.all
	x.mu.Lock()
	defer x.mu.Unlock()
	if s.came() {
		return
	}
	if err != nil {
		s.err = err
		x.forget(s)
	}
	s.finished.Store(true)
	if s.done != nil {
		close(s.done)
	}
}

// Needed returns false: after a failed read of several samples, they are not read one by one.
// Batches that joined the load retry it.
func (s *sample) Needed() bool { return false }
