package datapath

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/diskcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/pause"
	"github.com/millrace-data/millrace/internal/tracing"
)

// Defaults of Config.
const (
	DefaultFetchers = 12
	DefaultPartSize = 16 << 20
)

// Config of a Path. The zero value of a field means its default.
type Config struct {
	Budget     *budget.Budget   // everything that grows
	Fetchers   int              // store reads side by side (places of the gate); 0: 12 at first, and then as many as the bandwidth of the store pays
	PartSize   int64            // bytes of one store read, near 16 MiB
	CheckSHA   bool             // compare SHA-256 too when a chunk arrives
	Policy     Policy           // which chunk goes first, PolicyPlan
	Disk       *diskcache.Cache // the tier between memory and store; nil: none
	Peers      Peers            // other gateways, asked for what is neither in memory nor on disk; nil: none
	CarryBytes int64            // bytes of a rank's next batches that one question to a peer asks for, 8 MiB; below 0: nothing is asked for ahead
	Trace      tracing.Tracer   // begins the traces of what no request has asked for
	NoPrefetch bool
	Debug      bool // poison freed memory and panic at leases closed twice: for tests
}

// key names a chunk in memory. The digest is what an index claims, and where only CRC-32C is compared a chunk may
// have other bytes than it says; so only sources whose chunks are all held against SHA-256 share
// them, and a hostile index spoils nobody else's data. Length and CRC are claims too: a chunk that claims another's
// digest without them is another chunk.
type key struct {
	source uint64
	digest [32]byte
	length uint32
	crc    uint32
}

// Path is one process's data path, shared by all its datasets. It is safe for concurrent use.
type Path struct {
	cfg    Config
	budget *budget.Budget
	cache  *chunkcache.Cache[key]
	tables *chunkcache.Objects[tableKey, chunkindex.Cached]
	gate   *gate            // of the store's reads, but for those of first: how many run side by side, and whose
	first  *gate            // of the reads of first batches' own ranges, beside gate: whole chunks come through that meanwhile
	lone   *gate            // for samples that are objects and whose chunk is fetched ahead too: it leaves one place of gate to that
	failed *pause.List[key] // chunks that could not be fetched: what looks ahead leaves them alone
	rates  rates
	kick   chan struct{} // holds one token: Run looks again
	short  atomic.Bool   // Run has found too little memory for what it would fetch

	segments sync.Pool // of *[][]byte: the lists of bodies that are closed

	readers  *lookahead.Readers
	ownReads atomic.Int64 // store reads of their own samples that first batches wait for
	flights  sync.Map     // of *flight, the reads ahead that are under way
	tiers    tier         // the first one behind memory
	disk     *disk        // nil: none
	decoding *decoding
	hot      *hot
	ahead    *readAhead
	yield    []yielding // to who needs memory now, in this order
	askLimit *askLimit
	formers  formers

	extracts extracts

	reowning sync.Mutex    // held to change view
	view     atomic.Uint64 // the one that the table of readers was told of last

	mu     sync.Mutex // guards what follows, when each source was read, its name and its place on disk
	open   []*Source  // in the order of Open
	opened int        // sources so far

	sources                                        atomic.Uint64
	storeReads, storeBytes, rangeReads, rangeBytes atomic.Uint64
	prefetched                                     atomic.Uint64
	peerCounts                                     peerCounts
}

// New returns a path with nothing in memory. It becomes the budget's reclaimer, so a budget has one path.
func New(cfg Config) *Path {
	if cfg.PartSize <= 0 {
		cfg.PartSize = DefaultPartSize
	}
	p := &Path{
		cfg:      cfg,
		budget:   cfg.Budget,
		kick:     make(chan struct{}, 1),
		extracts: extracts{samples: map[samplePlace]*sample{}},
	}
	p.cache = chunkcache.New[key](chunkcache.Config{
		Budget: cfg.Budget, Debug: cfg.Debug,
	})
	p.decoding = newDecoding(p.cache)
	p.hot = newHot(p.cache, cfg.Budget.Total())
	p.first = &gate{idle: func() {}}
	p.lone = &gate{idle: func() {}}
	p.gate = &gate{idle: p.look, below: p.lone}
	if cfg.Fetchers <= 0 {
		cfg.Fetchers = DefaultFetchers
		held := policy.Ahead(cfg.Budget.Total()) / cfg.PartSize // as many reads as there is memory for
		p.gate.climb = &climb{least: leastPlaces, most: int(min(max(held, DefaultFetchers), mostPlaces)), came: &p.rates.came}
	}
	p.gate.resize(cfg.Fetchers)
	p.first.resize(cfg.Fetchers)
	p.segments.New = func() any { return new([][]byte) }
	total := cfg.Budget.Total()
	followed := lookahead.Config{Budget: policy.Ahead(total), Plans: total / readerShare}
	if cfg.Peers != nil {
		followed.Mine = mine
	}
	p.ahead, p.askLimit = newReadAhead(p, total, cfg.CarryBytes), newAskLimit(total)
	p.readers = lookahead.New(followed)
	p.tables = chunkcache.NewObjects[tableKey](cfg.Budget, max(total/tableShare, 1), chunkindex.Cached.Bytes,
		func(n int64) { p.cache.Reclaim(n, chunkcache.Soon) })
	p.yield = p.yields()
	cfg.Budget.SetReclaim(p.reclaim, p.reclaimable)
	cfg.Budget.SetFreed(p.memoryFreed)
	p.failed = pause.NewList[key](pause.Rule{Failures: 1, First: retryAhead})
	if cfg.Disk != nil {
		p.disk = newDisk(p, cfg.Disk)
	}
	p.tiers = p.chain()
	return p
}

// yielding is a holder of memory that gives it back to who needs it now.
type yielding struct {
	reclaim func(n int64) int64 // gives at least n bytes back if it can, and returns the bytes
	idle    func() int64        // how many bytes it could give back now
}

// yields lists who gives memory back, what is the cheapest to bring again first: free memory and chunks
// that no reader comes for soon, then tables, then what peers sent ahead of need, then hot samples,
// then any chunk that is not leased.
func (p *Path) yields() []yielding {
	// What read-ahead and hot samples give back is free memory of the cache then.
	through := func(give func(n int64) int64) func(n int64) int64 {
		return func(n int64) int64 {
			if give(n) <= 0 {
				return 0
			}
			return p.cache.Reclaim(n, chunkcache.Soon)
		}
	}
	return []yielding{
		{func(n int64) int64 { return p.cache.Reclaim(n, chunkcache.Soon) }, p.cache.Free},
		{p.tables.Reclaim, p.tables.Bytes},
		{through(p.ahead.reclaim), p.ahead.idle},
		{through(p.hot.reclaim), p.hot.held},
		{func(n int64) int64 { return p.cache.Reclaim(n, chunkcache.Whatever) }, p.cache.Idle},
	}
}

// reclaim gives back at least n bytes if it can, and returns the bytes.
func (p *Path) reclaim(n int64) (back int64) {
	for _, y := range p.yield {
		if back < n {
			back += y.reclaim(n - back)
		}
	}
	return back
}

// reclaimable returns the bytes that reclaim could give back now.
func (p *Path) reclaimable() (n int64) {
	for _, y := range p.yield {
		n += y.idle()
	}
	return n
}

// Close waits for loads that are still on their way and gives all memory back that nobody leases. Reads
// must have ended, and Run must have returned.
func (p *Path) Close() {
	p.ahead.stop()
	p.decoding.close()
	p.hot.reclaim(p.budget.Total())
	p.cache.Drop()
	p.tables.Reclaim(p.budget.Total() + 1)
}

// BudgetFor returns the least budget that holds so many bytes for what readers come for.
func BudgetFor(n int64) int64 { return (n + 6) / 7 * 10 }

// free returns how much memory for what readers come for nobody uses.
func (p *Path) free() int64 {
	return policy.Ahead(p.budget.Total()) - p.budget.InUse() + p.cache.Free()
}

// spares reports whether there is room for n bytes that takes nothing from readers: free memory, or
// that of a chunk that no reader comes for soon. Any gateway that has run for a while is full of those.
func (p *Path) spares(n int64) bool { return p.free() >= n || p.cache.Goes(chunkcache.Soon) }

// readerShare is the part of the budget that the readers' plans may keep alive beside it: a thirty-second.
const readerShare = 32

// tableShare is the part of the budget that sample tables, and names and parts of samples, may take at most: a quarter.
// Rows of 500 bytes in five columns have tables of 100 bytes, a fifth of their own. Where the tables of the chunks that
// batches come from do not fit, each batch decodes all of them anew, which takes 10 ms for 30,000 rows.
const tableShare = 4

type tableKey struct {
	source uint64
	of     chunkindex.CacheKey
}

// tableCache is one index's view of the path's tables.
type tableCache struct {
	path   *Path
	source uint64
}

func (t tableCache) Get(key chunkindex.CacheKey) (chunkindex.Cached, bool) {
	return t.path.tables.Get(tableKey{t.source, key})
}

func (t tableCache) Close() {
	t.path.tables.Drop(func(k tableKey) bool { return k.source == t.source })
}

func (t tableCache) Add(key chunkindex.CacheKey, c chunkindex.Cached) {
	t.path.tables.Add(tableKey{t.source, key}, c)
}

// Tables returns a cache for what one index reads of its chunks, under the path's budget.
func (p *Path) Tables() chunkindex.TableCache { return tableCache{p, p.sources.Add(1)} }

// Open returns the source of one dataset. Source.Close ends it.
func (p *Path) Open(x *chunkindex.Index, store objstore.RangeReader, prefix string) *Source {
	s := &Source{path: p, index: x, store: store, prefix: prefix, decodes: largestDecoding(x), uses: newUses()}
	s.uses.leave = s.leave
	if held, ok := store.(interface{ Paced() bool }); ok {
		s.paced = held.Paced()
	}
	if !p.cfg.CheckSHA {
		s.number = p.sources.Add(1)
	}
	s.chunks = chunkcache.NewTable(x.Chunks(), chunkcache.Dataset[key]{Chunk: s.describe, Due: s.due, Gone: s.gone, Owner: s})
	for i := range x.Chunks() {
		s.cost += chunkcache.Cost(x.Chunk(i).Length)
	}
	p.mu.Lock()
	s.place = p.opened
	p.opened++
	p.open = append(p.open, s)
	p.mu.Unlock()
	p.sizeDecoding()
	p.decoding.grow()
	return s
}

// holds reports whether the budget ever has room for a body of n bytes.
func (p *Path) holds(n int64) bool {
	if decoding := p.decoding.size.Load(); decoding > 0 {
		return chunkcache.Cost(n)+chunkcache.Cost(decoding) <= p.budget.Total()
	}
	return n <= p.budget.Total()
}

// couldHold refuses a body for which the budget never has room.
func (p *Path) couldHold(n int64) error {
	if p.holds(n) {
		return nil
	}
	return fmt.Errorf("read a batch of %d bytes with a budget of %d, of which %d are to decode in: %w",
		n, p.budget.Total(), p.decoding.size.Load(), budget.ErrTooLarge)
}

// together is for how long a dataset that was read counts among those read now.
const together = 30 * time.Second

// fits notes that a dataset is read, and reports whether all its chunks and those of the others read now fit into
// memory together.
func (p *Path) fits(s *Source, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.seen = now
	var sum int64
	for _, o := range p.open {
		if now.Sub(o.seen) < together {
			sum += o.held()
		}
	}
	return sum <= policy.Ahead(p.budget.Total())
}

// Readers returns what is known of those who read, in the order in which their datasets were opened.
func (p *Path) Readers() []lookahead.Reader {
	rs := p.readers.List(time.Now())
	slices.SortStableFunc(rs, func(a, b lookahead.Reader) int { return a.Dataset.(*Source).place - b.Dataset.(*Source).place })
	return rs
}

// Stats is a snapshot of the path's counters.
type Stats struct {
	Hits, Misses, Loads, Joins, Evictions uint64
	ExpectedEvictions                     uint64 // of chunks that a reader was coming for
	CachedBytes, CachedChunks             int64
	StoreReads, StoreBytes                uint64
	StorePlaces                           int    // store reads that may run side by side now
	RangeReads, RangeBytes                uint64 // store reads of samples' own ranges, part of the above
	PrefetchedChunks                      uint64
	PeerReads, PeerBytes                  uint64 // questions to peers, and what they sent
	PeerFailed, PeerLies                  uint64 // of those questions: without an answer, and with one that the index denies
	PeerServedReads, PeerServedBytes      uint64 // answers to peers
	CarriedHits, CarriedBytes             uint64 // samples served that were asked of a peer before their batch
	FormerChunks                          uint64 // brought whole from the gateway that held them before
	HotHits, HotHitBytes                  uint64 // samples served from those that are kept by themselves
	OpenLeases, TableBytes, HotBytes      int64
	BudgetTotal, BudgetInUse, BudgetPeak  int64
	Disk                                  diskcache.Stats
	DiskDropped                           uint64 // chunks not written: too many waited, or memory evicted them first
}

// Stats returns the counters.
func (p *Path) Stats() Stats {
	c := p.cache.Stats()
	s := Stats{
		Hits: c.Hits, Misses: c.Misses, Loads: c.Loads, Joins: c.Joins, Evictions: c.Evictions, ExpectedEvictions: c.Expected,
		CachedBytes: c.Bytes, CachedChunks: c.Chunks,
		StoreReads: p.storeReads.Load(), StoreBytes: p.storeBytes.Load(), StorePlaces: p.gate.places(),
		RangeReads: p.rangeReads.Load(), RangeBytes: p.rangeBytes.Load(),
		PrefetchedChunks: p.prefetched.Load(),
		HotHits:          p.hot.hits.Load(), HotHitBytes: p.hot.hitBytes.Load(), HotBytes: p.hot.held(),
		OpenLeases: c.OpenLeases, TableBytes: p.tables.Bytes(),
		BudgetTotal: p.budget.Total(), BudgetInUse: p.budget.InUse(), BudgetPeak: p.budget.Peak(),
	}
	p.peerCounts.fill(&s)
	s.CarriedHits, s.CarriedBytes = p.ahead.hits.Load(), p.ahead.bytes.Load()
	if p.disk != nil {
		s.Disk, s.DiskDropped = p.disk.cache.Stats(), p.disk.dropped.Load()
	}
	return s
}
