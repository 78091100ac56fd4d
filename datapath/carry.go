package datapath

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/millrace-data/millrace/chunkcache"
	"github.com/millrace-data/millrace/shuffle"
)

const (
	mostCarried   = 8 << 20 // bytes that one question asks for beside what its batch needs
	carryShare    = 32      // the part of the budget that these are at most: a thirty-second
	carriedShare  = 8       // the part that all carried samples may take together: an eighth
	carriedAhead  = 7       // batches: the owner, who hears of a reader when it asks, still takes it for the same one then
	carriedLoads  = 64      // at most kept for one rank
	carriedSample = 128     // of a sample beside its bytes
)

// carry keeps samples that peers have sent along with what a batch needs, because their rank comes for them in its next
// batches: Brand's piggybacking (SC 2023 calls it prefetching by request merging), between nodes. So one question brings what k batches
// need, and is answered from chunks that the owner has in memory for the first of them.
//
// Samples are checked before they come here. They are handed out once, to the rank that they were fetched for, without a copy. A rank
// that is elsewhere loses what it had, and so does one whose reader has gone.
type carry struct {
	cache *chunkcache.Cache[key]
	max   int64
	query int64 // bytes that one question may bring

	hits, bytes atomic.Uint64

	mu    sync.Mutex // guards what follows, and the loads
	ranks map[rankID][]*carried
	held  int64
}

// rankID is one rank of one job.
type rankID struct {
	source           *Source
	params           shuffle.Params
	batch, of, which uint64
}

// carried is what one answer brought along.
type carried struct {
	buffer      *chunkcache.Buffer[key]
	cost        int64
	number      uint64 // of the reader in the table of them
	epoch       uint64
	first, last uint64 // positions at which the batches begin that it was asked with, and the last one that it is for
	samples     map[sampleAt][]byte
	refs        int  // bodies that show some of them
	gone        bool // it is in no list: the memory goes back with the last body
}

// sampleAt is a sample by its place.
type sampleAt struct {
	chunk  int
	offset uint32
}

func newCarry(cache *chunkcache.Cache[key], total, most int64) *carry {
	if most == 0 {
		most = mostCarried
	}
	return &carry{cache: cache, max: total / carriedShare, query: min(most, total/carryShare), ranks: map[rankID][]*carried{}}
}

// rankAt names the rank that stands somewhere.
func rankAt(s *Source, at shuffle.Cursor) rankID {
	return rankID{s, at.Plan.Params(), at.BatchSize, max(at.WorldSize, 1), at.Rank}
}

// pass gives up what a rank was to read before the position at which it stands, or far from there.
func (c *carry) pass(id rankID, at shuffle.Cursor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retain(id, func(l *carried) bool {
		return l.epoch == at.Epoch.Number() && l.first <= at.First && at.First <= l.last
	})
}

// take hands a sample out, nil if it is not there. The load that it returns is to be released when the sample is not looked at any more.
func (c *carry) take(id rankID, at sampleAt) ([]byte, *carried) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.ranks[id] {
		b, ok := l.samples[at]
		if !ok {
			continue
		}
		delete(l.samples, at)
		l.refs++
		c.hits.Add(1)
		c.bytes.Add(uint64(len(b)))
		if len(l.samples) == 0 {
			c.retain(id, func(o *carried) bool { return o != l })
		}
		return b, l
	}
	return nil, nil
}

// has reports whether a sample is there.
func (c *carry) has(id rankID, at sampleAt) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.ranks[id], func(l *carried) bool { _, ok := l.samples[at]; return ok })
}

// release ends the use of some samples.
func (c *carry) release(loads []*carried) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range loads {
		if l.refs--; l.refs == 0 && l.gone {
			c.free(l)
		}
	}
}

// room returns memory for n bytes of samples, nil if there is none that nobody else needs. It must be kept or closed.
func (c *carry) room(n int64) *carried {
	cost := chunkcache.Cost(n)
	c.mu.Lock()
	if c.held+cost > c.max {
		c.mu.Unlock()
		return nil
	}
	c.held += cost
	c.mu.Unlock()
	buffer, ok := c.cache.TryBuffer(n)
	if !ok {
		c.mu.Lock()
		c.held -= cost
		c.mu.Unlock()
		return nil
	}
	return &carried{buffer: buffer, cost: cost, samples: map[sampleAt][]byte{}}
}

// keep takes in what has come for a rank.
func (c *carry) keep(id rankID, l *carried) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(l.samples) == 0 || len(c.ranks[id]) >= carriedLoads {
		c.free(l)
		return
	}
	c.ranks[id] = append(c.ranks[id], l)
}

// retain leaves the loads of a rank that are to stay. The caller holds mu, as in what follows.
func (c *carry) retain(id rankID, stays func(*carried) bool) {
	var left []*carried
	for _, l := range c.ranks[id] {
		if stays(l) {
			left = append(left, l)
		} else if l.gone = true; l.refs == 0 {
			c.free(l)
		}
	}
	if len(left) == 0 {
		delete(c.ranks, id)
		return
	}
	c.ranks[id] = left
}

func (c *carry) free(l *carried) {
	l.gone = true
	l.buffer.Close()
	c.held -= l.cost
}

// expire gives up what was fetched for readers that have gone.
func (c *carry) expire(follows func(number uint64) bool) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.ranks {
		c.retain(id, func(l *carried) bool { return follows(l.number) })
	}
}

// reclaim gives samples up until n bytes are free in the cache, and returns the bytes.
func (c *carry) reclaim(n int64) int64 {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.held
	for id := range c.ranks {
		c.retain(id, func(l *carried) bool { return l.refs > 0 || before-c.held >= n })
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
	for _, loads := range c.ranks {
		for _, l := range loads {
			if l.refs == 0 {
				n += l.cost
			}
		}
	}
	return n
}
