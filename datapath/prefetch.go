package datapath

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/datapath/policy"
)

// retryAhead is the pause before prefetch retries a chunk that could not be fetched. Meanwhile
// requests that need the chunk read it themselves and get the error. Without the pause every
// wake-up of Run would send the read again.
const retryAhead = 2 * time.Second

// Run maps memory, then prefetches until ctx ends. It returns when everything it started has ended.
func (p *Path) Run(ctx context.Context) error {
	var started sync.WaitGroup
	defer started.Wait()
	defer p.ahead.stop()
	if p.disk != nil {
		p.disk.run(ctx, &started)
	}
	p.populate(ctx)
	again := time.NewTicker(retryAhead / 4)
	defer again.Stop()
	var changes uint64 // number of changes to the readers that Run has handled
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.kick:
		case <-again.C:
		}
		now := time.Now()
		p.reown()
		p.readers.Forget(now)
		if now := p.readers.Changes(); now != changes {
			changes = now
			p.giveUp()
		}
		p.hot.expire(now)
		p.ahead.expire()
		if !p.cfg.NoPrefetch && !p.busy() {
			p.prefetch(ctx, now, &started)
		}
	}
}

// busy reports whether no prefetch could begin now. A read that leaves a gate wakes Run.
func (p *Path) busy() bool { return p.gate.full() && (p.disk == nil || p.disk.gate.full()) }

// look wakes Run, which looks for chunks to prefetch.
func (p *Path) look() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// memoryFreed wakes Run if it had found too little memory.
func (p *Path) memoryFreed() {
	if p.short.Swap(false) {
		p.look()
	}
}

// prefetch starts reads of the chunks that readers will need, first the chunk that a reader would
// stall for first. It ends when the gate has no free place or there is no memory. Each free place
// goes to the read that is due first of all. This is Lobster's greedy allocation, applied chunk by
// chunk: one more fetcher goes to the reader that is slowest to get its data. Requests have
// priority over all prefetches.
func (p *Path) prefetch(ctx context.Context, now time.Time, started *sync.WaitGroup) {
	full := false
	defer func() { p.gate.starve(full) }()
	for n := range p.readers.Missing() {
		s := n.Dataset.(*Source)
		if !s.enter() {
			continue
		}
		more := p.fetch(ctx, n, now, started, &full)
		s.leave()
		if !more {
			return
		}
	}
}

// fetch starts a read of a chunk that a reader needs, if there is memory and a free place. It
// reports whether to continue with the next need, and sets full if the store's gate has no place.
func (p *Path) fetch(ctx context.Context, n lookahead.Need, now time.Time, started *sync.WaitGroup, full *bool) (more bool) {
	s := n.Dataset.(*Source)
	if s.finds(n.Chunk) || !p.brings(n, now) {
		return true
	}
	p.short.Store(true) // set before memory is checked, so that memory freed from now on wakes Run
	if p.budget.Waiting() > 0 || !p.hasRoom(n) {
		return false
	}
	gate, chunks := p.gate, []int{n.Chunk}
	if p.disk.answers(s, n.Chunk) {
		gate = &p.disk.gate
	} else {
		chunks = p.together(n, now)
	}
	most := p.gate.places()
	if n.First {
		most = policy.Early(most)
	}
	switch {
	case gate.enterAhead(most):
		if !p.start(ctx, s, chunks, gate, started) {
			return false
		}
	case gate == p.gate:
		if *full = true; !n.First {
			return false // the next read that leaves the gate wakes Run
		}
	}
	p.short.Store(false)
	return len(p.kick) == 0
}

// brings reports whether to read the whole chunk for a need: reading it pays for this need or, if
// all chunks stay in memory, for later epochs. It returns false for a chunk that failed recently.
func (p *Path) brings(n lookahead.Need, now time.Time) bool {
	s := n.Dataset.(*Source)
	return !p.failed.Paused(s.key(n.Chunk), now) && (s.worth(n.Chunk, n.Samples) || p.fits(s, now))
}

// hasRoom reports whether there is memory to prefetch a chunk: free memory in addition to the
// memory for bodies, or the memory of a chunk that is due later.
func (p *Path) hasRoom(n lookahead.Need) bool {
	s := n.Dataset.(*Source)
	return p.free() >= s.Cost(n.Chunk) || p.cache.Goes(chunkcache.Later(s.due(n.Chunk, chunkcache.AnyDue)))
}

// together returns the chunk of a need, followed by the chunks behind it in the same shard that
// some reader needs soon, up to the length of one store read.
func (p *Path) together(n lookahead.Need, now time.Time) []int {
	s := n.Dataset.(*Source)
	return policy.Together(n.Chunk, s.placeOf, p.cfg.PartSize, func(next int) bool {
		if next == s.Chunks() || s.finds(next) {
			return false
		}
		coming := p.readers.NextUse(s, next)
		return coming.Soon && p.brings(lookahead.Need{Dataset: s, Chunk: next, Samples: coming.Samples}, now)
	})
}

// start starts one prefetch of some chunks. The caller has taken a place of a gate for it. If there
// is no memory for all chunks, start retries with half of them. It reports whether there was memory
// for all chunks.
func (p *Path) start(ctx context.Context, s *Source, chunks []int, gate *gate, started *sync.WaitGroup) bool {
	f := &fetch{load: load{source: s, held: gate}, chunks: chunks}
	if !s.enter() {
		gate.leaveAhead(true)
		return false
	}
	read, cancel := s.until(ctx)
	flying := &flight{s, chunks, cancel}
	p.flights.Store(flying, nil)
	done := func() {
		p.flights.Delete(flying)
		cancel()
		s.leave()
	}
	wait, err := p.cache.Start(read, f.request())
	if err != nil {
		done()
		if half := chunks[:len(chunks)/2]; len(half) > 0 && errors.Is(err, chunkcache.ErrNoRoom) {
			p.start(ctx, s, half, gate, started)
			return false
		}
		gate.leaveAhead(true)
		return false
	}
	started.Go(func() {
		l, err := wait()
		if err == nil { // errors reach the requests that need the chunk
			p.prefetched.Add(uint64(len(chunks)))
			l.Close()
		}
		failed := err != nil && read.Err() == nil
		done()
		gate.leaveAhead(failed)
	})
	return true
}

// flight is a running prefetch.
type flight struct {
	source *Source
	chunks []int
	cancel func()
}

// giveUp cancels the prefetches of chunks that no reader needs soon any more, because the reader
// has ended or jumped. A load continues if a request waits for it: it belongs to all its waiters.
func (p *Path) giveUp() {
	for f := range p.flights.Range {
		f := f.(*flight)
		if !f.source.enter() {
			continue // the source is closed, which cancels the read
		}
		if !slices.ContainsFunc(f.chunks, func(c int) bool { return p.readers.NextUse(f.source, c).Soon }) {
			f.cancel()
		}
		f.source.leave()
	}
}
