package simulate

import (
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/datapath/policy"
)

// gateway simulates the data path of one gateway: its waits for chunks, and its prefetching.
type gateway struct {
	clock     *clock
	set       *Setting
	data      *Data
	store     *line // link of the store, shared by all gateways
	out       *line // output to its ranks
	up        *line // outgoing direction of its link
	down      *line // incoming direction of its link
	cluster   *cluster
	disk      *disk // nil: none
	gate      *gate
	first     *gate // limits the reads of first batches by sample ranges
	lone      *gate // limits reads of objects whose chunks are also prefetched: one place is left to the prefetch
	memory    *memory
	readers   *lookahead.Readers
	ownReads  int64   // store reads by sample ranges that first batches wait for
	fits      bool    // all data fits into memory
	beyond    float64 // factor from simulated bytes to actual bytes from other gateways
	bodies    float64 // part of a request's bytes that is in memory at the same time: one simulated batch represents several
	passing   bool    // a pass is scheduled
	short     bool    // the last pass found too little memory
	rates     policy.Rates
	came      float64      // think time before the readers' position, in seconds
	asking    queue        // requests that wait for their turn to ask other gateways
	askable   int64        // bytes that further requests may ask for at the same time
	aheadHeld int64        // bytes of memory for samples that read-ahead received from other gateways
	aheads    []*readAhead // read-ahead of its ranks
	count     Counts
}

func newGateway(c *clock, q *scaledQuestion, store *line) *gateway {
	s := &q.set
	g := &gateway{
		clock: c, set: s, data: q.data, store: store, fits: q.fits, bodies: q.bodies, beyond: q.beyond,
		out: &line{total: s.ServeRate}, up: &line{total: s.LinkRate}, down: &line{total: s.LinkRate},
		askable: max(s.CacheSize/policy.AskShare, 1),
	}
	followed := lookahead.Config{Budget: policy.Ahead(s.CacheSize)}
	if s.cluster() > 1 {
		followed.Mine = func(_ lookahead.Dataset, chunk int) bool { return g.cluster.owner(int32(chunk)) == g }
	}
	g.readers = lookahead.New(followed)
	g.asking = queue{clock: c, take: func(n int64) bool {
		free := n <= g.askable
		if free {
			g.askable -= n
		}
		return free
	}}
	g.gate = newGate(c, s.Fetchers, g.look)
	g.first = newGate(c, s.Fetchers, func() {})
	g.lone = newGate(c, max(s.Fetchers-1, 1), func() {})
	g.memory = newMemory(c, s.CacheSize, g.due, g.gone)
	g.memory.ahead, g.memory.freed = g.giveUp, g.memoryFreed
	if s.DiskSize > 0 {
		g.disk = newDisk(c, s, g.nextRead, g.look)
	}
	return g
}

// due returns when readers need a chunk next.
func (g *gateway) due(chunk int32) int64 {
	c := g.readers.NextUse(g, int(chunk))
	return chunkcache.DueIn(c.In, c.Soon, g.set.Policy == policy.LRU)
}

// memoryFreed calls look if the last pass found too little memory.
func (g *gateway) memoryFreed() {
	if g.short {
		g.short = false
		g.look()
	}
}

// gone records the eviction of a chunk.
func (g *gateway) gone(chunk int32) {
	if g.readers.NextUse(g, int(chunk)).Soon {
		g.readers.Lost()
		g.look()
	}
}

// dueLast returns the time when the last of the given chunks is needed.
func (g *gateway) dueLast(chunks []int32) (due int64) {
	for _, c := range chunks {
		due = max(due, g.due(c))
	}
	return due
}

// nextRead returns the time until a chunk must be read next, for the disk. A chunk in memory serves
// its next use from there, so the use after that counts. The time is computed from positions at the
// job's own rate, so that it does not pass while readers wait.
func (g *gateway) nextRead(chunk int32) int64 {
	d := g.readers.NextRead(g, int(chunk), g.memory.shelf.Has(chunk))
	if d == lookahead.Never {
		return chunkcache.Never
	}
	return chunkcache.Soon + int64(seconds(g.came)) + int64(min(d, chunkcache.Never/4))
}

// Chunks, Cost and Resident implement lookahead.Dataset.
func (g *gateway) Chunks() int { return len(g.data.Chunks) }

func (g *gateway) Cost(chunk int) int64 { return chunkcache.Cost(g.data.Chunks[chunk].Length) }

func (g *gateway) Resident(chunk int) bool { return g.memory.contains(int32(chunk)) }
