package datapath

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
)

// Run maps memory, then prefetches until ctx ends, and returns when everything it started has ended.
func (p *Path) Run(ctx context.Context) error {
	var started sync.WaitGroup
	defer started.Wait()
	defer p.ahead.stop()
	p.writeDisk(ctx, &started)
	p.populate(ctx)
	var done sight
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.kick:
		}
		now := time.Now()
		p.reown()
		p.readers.Forget(now)
		p.flights.keep(p.readers.Horizon())
		p.hot.expire(now)
		p.ahead.expire(p.readers.Stands, now)
		switch is := p.sight(); {
		case p.cfg.NoPrefetch || p.busy():
		case is == done:
			p.gate.starve(false)
		default:
			missing, all := p.missing(p.readers.Needs(now), now)
			if all {
				done = is
			}
			p.prefetch(ctx, missing, &started)
		}
	}
}

// sight is what Run goes by: while it is the same, what was in memory still is, and nothing else is needed.
type sight struct {
	horizon *lookahead.Horizon
	evicted uint64 // chunks that a reader was coming for soon
}

func (p *Path) sight() sight { return sight{p.readers.Horizon(), p.cache.Stats().Expected} }

// busy reports whether no read ahead could begin now: whoever leaves a gate makes Run look again.
func (p *Path) busy() bool { return p.gate.full() && (p.disk == nil || p.disk.gate.full()) }

// look makes Run look again for what to fetch ahead.
func (p *Path) look() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// memoryFreed makes Run look again if it has found too little memory.
func (p *Path) memoryFreed() {
	if p.short.Swap(false) {
		p.look()
	}
}

// missing returns the needs that are not in memory nor on their way there, and that a read of the whole chunk pays for. all
// says that every need is in memory.
func (p *Path) missing(needs []lookahead.Need, now time.Time) (missing []lookahead.Need, all bool) {
	all = true
	missing = slices.DeleteFunc(needs, func(n lookahead.Need) bool {
		s := n.Dataset.(*Source)
		k := s.key(n.Chunk)
		if p.cache.Resident(k) {
			return true
		}
		all = false
		return p.cache.Contains(k) || p.failed.has(now, k) || !s.worth(n.Chunk, n.Samples)
	})
	return missing, all
}

// prefetch starts reads of what readers will need, the one first that a reader would stall for first, until there is
// no room or a reader has moved. Each fetcher that is free takes the read whose deadline comes first of all: Lobster's
// greedy allocation, which gives one more fetcher to whoever is the slowest to get its data, taken chunk by
// chunk. Requests go before all of them.
func (p *Path) prefetch(ctx context.Context, missing []lookahead.Need, started *sync.WaitGroup) {
	full := false
	defer func() { p.gate.starve(full) }()
	for len(missing) > 0 {
		p.short.Store(true) // before memory is looked at: what is freed from here on makes Run look again
		if p.budget.Waiting() > 0 {
			return
		}
		group, rest := p.together(missing)
		most := p.cfg.Fetchers
		if group[0].First {
			most = early(most)
		}
		switch gate := p.gateOf(group); {
		case gate.enterAhead(most):
			if !p.start(ctx, group, gate, started) {
				return
			}
		case gate == p.gate:
			if full = true; !group[0].First {
				return // whoever leaves makes Run look again
			}
			rest = slices.DeleteFunc(rest, func(n lookahead.Need) bool { return n.First && !n.Dataset.(*Source).readsDisk(n.Chunk) })
		}
		p.short.Store(false)
		if missing = rest; len(p.kick) > 0 {
			return
		}
	}
}

// early is how many of the fetchers may work ahead of a reader that waits for its first batch: so few that it waits
// a third longer at most, and enough that the line does not run dry when its chunks are there.
func early(fetchers int) int { return max(fetchers/4, 1) }

// nearNeeds is how far ahead in the queue a chunk may stand that the read of one before it carries along.
const nearNeeds = 32

// together returns the first of the missing chunks, and with it those near it in the queue that lie behind it in the same
// shard, as many as one store read brings, and the others.
func (p *Path) together(missing []lookahead.Need) (group, rest []lookahead.Need) {
	s := missing[0].Dataset.(*Source)
	if s.readsDisk(missing[0].Chunk) {
		return missing[:1], missing[1:]
	}
	chunks := []int{missing[0].Chunk}
	taken := map[int]bool{0: true}
	for {
		last := chunks[len(chunks)-1]
		i := 1 + slices.IndexFunc(missing[1:min(nearNeeds, len(missing))], func(n lookahead.Need) bool {
			return n.Dataset == missing[0].Dataset && n.Chunk == last+1 && n.First == missing[0].First
		})
		if i == 0 || len(s.group(append(chunks, last+1), p.cfg.PartSize)) > 1 {
			break
		}
		chunks, taken[i] = append(chunks, last+1), true
	}
	for i, n := range missing {
		if taken[i] {
			group = append(group, n)
		} else {
			rest = append(rest, n)
		}
	}
	slices.SortFunc(group, func(a, b lookahead.Need) int { return a.Chunk - b.Chunk })
	return group, rest
}

// gateOf returns the gate of the tier that answers for a group.
func (p *Path) gateOf(group []lookahead.Need) *gate {
	if len(group) == 1 && group[0].Dataset.(*Source).readsDisk(group[0].Chunk) {
		return &p.disk.gate
	}
	return p.gate
}

// start starts one read ahead, for which the caller has taken a place of a gate, of as many chunks of a group as there is
// room for: half of them, or half of those. It reports whether there was room for all.
func (p *Path) start(ctx context.Context, group []lookahead.Need, gate *gate, started *sync.WaitGroup) bool {
	f := &fetch{source: group[0].Dataset.(*Source), held: gate, plan: group[0].Plan}
	chunks := make([]int, len(group))
	for i, n := range group {
		chunks[i] = n.Chunk
	}
	f.want(chunks)
	read, cancel := context.WithCancel(ctx)
	done := p.flights.begin(f.source, chunks, cancel)
	wait, err := p.cache.Start(read, f.request())
	if err != nil {
		done()
		if half := group[:len(group)/2]; len(half) > 0 && errors.Is(err, chunkcache.ErrNoRoom) {
			p.start(ctx, half, gate, started)
			return false
		}
		gate.leaveAhead(true)
		return false
	}
	started.Go(func() {
		l, err := wait()
		if err == nil { // an error is for whoever needs the chunk
			p.prefetched.Add(uint64(l.Len()))
			l.Close()
		}
		failed := err != nil && read.Err() == nil
		done()
		gate.leaveAhead(failed)
	})
	return true
}

// flights are the reads ahead that are under way.
type flights struct {
	mu      sync.Mutex // guards what follows
	all     map[*flight]struct{}
	horizon *lookahead.Horizon // that keep saw last
}

type flight struct {
	source *Source
	chunks []int
	cancel func()
}

// begin notes a read, until the function it returns is called.
func (fs *flights) begin(s *Source, chunks []int, cancel func()) (done func()) {
	f := &flight{s, chunks, cancel}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.all == nil {
		fs.all = map[*flight]struct{}{}
	}
	fs.all[f] = struct{}{}
	return func() {
		cancel()
		fs.mu.Lock()
		defer fs.mu.Unlock()
		delete(fs.all, f)
	}
}

// keep gives up the reads that nobody comes for any more, because their reader has gone or jumped. A request that waits for
// one keeps it: a load belongs to its waiters together.
func (fs *flights) keep(h *lookahead.Horizon) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.horizon == h {
		return
	}
	fs.horizon = h
	for f := range fs.all {
		if !slices.ContainsFunc(f.chunks, func(c int) bool { return h.Has(f.source, c) }) {
			f.cancel()
		}
	}
}
