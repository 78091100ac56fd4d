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

// Default values of Config.
const (
	DefaultFetchers = 12
	DefaultPartSize = 16 << 20
)

// Config configures a Path. The zero value of a field means its default.
type Config struct {
	Budget     *budget.Budget   // bounds all memory that can grow
	Fetchers   int              // concurrent store reads; 0: 12 at first, then adapted to the store's bandwidth
	PartSize   int64            // approximate bytes of one store read; default 16 MiB
	CheckSHA   bool             // verify the SHA-256 of a chunk when it arrives, in addition to CRC-32C
	Policy     string           // rule that chooses which chunk to evict (policy.Names); default: policy.Plan
	Disk       *diskcache.Cache // the tier between memory and store; nil: none
	Peers      Peers            // other gateways, asked for chunks that are neither in memory nor on disk; nil: none
	CarryBytes int64            // maximum bytes of one query to a peer for a rank's next batches; default 8 MiB; below 0: no read-ahead from peers
	Trace      tracing.Tracer   // begins the traces of background work
	Quota      bool             // the budget is the quota of one dataset
	NoPrefetch bool
	Debug      bool // poison freed memory, and panic if a lease is closed twice: for tests
}

// key identifies a chunk in memory. The digest is only the index's claim: without CheckSHA a
// chunk's bytes may differ from it. So only sources with CheckSHA share chunks, and a forged index
// cannot corrupt another dataset's data. Length and CRC are claims too: a chunk with the same
// digest but another length or CRC is another chunk.
type key struct {
	source uint64
	digest [32]byte
	length uint32
	crc    uint32
}

// Path is the data path of a process, shared by all its datasets. It is safe for concurrent use.
type Path struct {
	cfg    Config
	budget *budget.Budget
	cache  *chunkcache.Cache[key]
	tables *chunkcache.Objects[tableKey, chunkindex.Cached]
	gate   *gate            // limits the store's reads, except those of first, in total and per store
	first  *gate            // limits the reads of first batches by sample ranges; their reads of whole chunks use gate
	lone   *gate            // limits reads of samples that are objects and whose chunk is also prefetched: one place of gate is left to the prefetch
	failed *pause.List[key] // chunks that could not be fetched: prefetch skips them for a while
	rates  rates
	kick   chan struct{} // holds one token, which wakes Run
	short  atomic.Bool   // Run found too little memory for a prefetch

	segments sync.Pool // of *[][]byte: segment lists of closed bodies, for reuse

	readers  *lookahead.Readers
	ownReads atomic.Int64 // store reads by sample ranges that first batches wait for
	flights  sync.Map     // of *flight: running prefetches
	tiers    tier         // the first tier behind memory
	disk     *disk        // nil: none
	decoding *decoding
	hot      *hotSamples
	ahead    *readAhead
	yield    []yielder // holders of memory that can free it, in the order of preference
	askLimit *askLimit
	formers  formers

	extracts extracts

	reowning sync.Mutex    // held to change view
	view     atomic.Uint64 // the view that the table of readers is based on

	mu     sync.Mutex               // guards the fields below, and each source's time of last read, name and disk settings
	open   []*Source                // in the order of Open
	opened int                      // number of sources opened so far
	reads  map[string]*datasetReads // by dataset, see readsOf

	sources                atomic.Uint64
	rangeReads, rangeBytes atomic.Uint64
	prefetched             atomic.Uint64
	peerCounts             peerCounts
}

// New returns a path with nothing in memory. It becomes the budget's reclaimer, so a budget has one
// path.
func New(cfg Config) *Path {
	if cfg.PartSize <= 0 {
		cfg.PartSize = DefaultPartSize
	}
	p := &Path{
		cfg:      cfg,
		budget:   cfg.Budget,
		kick:     make(chan struct{}, 1),
		reads:    map[string]*datasetReads{},
		extracts: extracts{samples: map[samplePlace]*sample{}},
	}
	p.cache = chunkcache.New[key](chunkcache.Config{
		Budget: cfg.Budget, Debug: cfg.Debug,
	})
	p.decoding = newDecoding(p.cache)
	p.hot = &hotSamples{cache: p.cache, max: cfg.Budget.Total() / hotShare}
	p.first = &gate{idle: func() {}}
	p.lone = &gate{idle: func() {}}
	p.gate = &gate{idle: p.look, below: p.lone}
	if cfg.Fetchers <= 0 {
		cfg.Fetchers = DefaultFetchers
		held := policy.Ahead(cfg.Budget.Total()) / cfg.PartSize // no more reads than there is memory for
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

// yielder is a holder of memory that can free it on request.
type yielder struct {
	reclaim func(n int64) int64 // frees at least n bytes if it can, and returns the number of bytes freed
	idle    func() int64        // returns the number of bytes it could free now
}

// yields lists the holders of memory in order of the cost to reload, the cheapest first. These are
// free memory and chunks that no reader needs soon, then tables, samples that peers sent ahead of
// need, hot samples, and last any chunk that is not leased.
func (p *Path) yields() []yielder {
	// Read-ahead and hot samples free slots of the cache, so the cache then frees the same
	// amount.
	through := func(give func(n int64) int64) func(n int64) int64 {
		return func(n int64) int64 {
			if give(n) <= 0 {
				return 0
			}
			return p.cache.Reclaim(n, chunkcache.Soon)
		}
	}
	return []yielder{
		{func(n int64) int64 { return p.cache.Reclaim(n, chunkcache.Soon) }, p.cache.Free},
		{p.tables.Reclaim, p.tables.Bytes},
		{through(p.ahead.reclaim), p.ahead.idle},
		{through(p.hot.reclaim), p.hot.held},
		{func(n int64) int64 { return p.cache.Reclaim(n, chunkcache.AnyDue) }, p.cache.Idle},
	}
}

// reclaim frees at least n bytes if it can, and returns the number of bytes freed.
func (p *Path) reclaim(n int64) (back int64) {
	for _, y := range p.yield {
		if back < n {
			back += y.reclaim(n - back)
		}
	}
	return back
}

// reclaimable returns the number of bytes that reclaim could free now.
func (p *Path) reclaimable() (n int64) {
	for _, y := range p.yield {
		n += y.idle()
	}
	return n
}

// Close waits for running loads and frees all memory that is not leased. Reads must have ended, and
// Run must have returned.
func (p *Path) Close() {
	p.ahead.stop()
	p.decoding.close()
	p.hot.reclaim(p.budget.Total())
	p.cache.Drop()
	p.tables.Reclaim(p.budget.Total() + 1)
}

// BudgetFor returns the smallest budget that has n bytes for prefetched chunks.
func BudgetFor(n int64) int64 { return (n + 6) / 7 * 10 }

// free returns how much of the memory for prefetched chunks is unused.
func (p *Path) free() int64 {
	return policy.Ahead(p.budget.Total()) - p.budget.InUse() + p.cache.Free()
}

// spares reports whether n bytes are available that no reader needs soon: free memory, or the
// memory of a chunk that no reader needs soon. A gateway that has run for a while is full of such
// chunks.
func (p *Path) spares(n int64) bool { return p.free() >= n || p.cache.Goes(chunkcache.Soon) }

// readerShare is the divisor of the budget for memory that the readers' plans keep alive: a
// thirty-second. The budget does not count that memory.
const readerShare = 32

// tableShare is the divisor of the budget for sample tables, and for names and parts of samples: at
// most a quarter. Rows of 500 bytes in five columns need tables of 100 bytes per row, a fifth of
// their size. If the tables of the chunks that batches read do not fit, each batch decodes them
// again, which takes 10 ms for 30,000 rows.
const tableShare = 4

type tableKey struct {
	source uint64
	of     chunkindex.CacheKey
}

// tableCache gives one index access to the path's tables.
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

// Tables returns a cache for the tables of one index, under the path's budget.
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
	s.reads = p.readsOf("")
	p.mu.Unlock()
	p.sizeDecoding()
	p.decoding.grow()
	return s
}

// holds reports whether the budget can ever hold a body of n bytes.
func (p *Path) holds(n int64) bool {
	if decoding := p.decoding.size.Load(); decoding > 0 {
		return chunkcache.Cost(n)+chunkcache.Cost(decoding) <= p.budget.Total()
	}
	return n <= p.budget.Total()
}

// couldHold returns an error if the budget can never hold a body of n bytes.
func (p *Path) couldHold(n int64) error {
	if p.holds(n) {
		return nil
	}
	return fmt.Errorf("read a batch of %d bytes with a budget of %d, of which %d are to decode in: %w",
		n, p.budget.Total(), p.decoding.size.Load(), budget.ErrTooLarge)
}

// together is how long a dataset counts as being read after its last read.
const together = 30 * time.Second

// fits records a read of a dataset. It reports whether all its chunks, and those of the other
// datasets being read, fit into memory together.
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

// Readers lists the known readers, in the order in which their datasets were opened.
func (p *Path) Readers() []lookahead.Reader {
	rs := p.readers.List(time.Now())
	slices.SortStableFunc(rs, func(a, b lookahead.Reader) int { return a.Dataset.(*Source).place - b.Dataset.(*Source).place })
	return rs
}

// Stats is a snapshot of the path's counters.
type Stats struct {
	Hits, Misses, Loads, Joins, Evictions uint64
	ExpectedEvictions                     uint64 // evictions of chunks that a reader needed soon
	CachedBytes, CachedChunks             int64
	DatasetReads                                                  // store reads of all datasets
	Datasets                              map[string]DatasetReads // store reads by the dataset's name; "": datasets without a name
	StorePlaces                           int                     // current limit on concurrent store reads
	RangeReads, RangeBytes                uint64                  // store reads by sample ranges, included in the counters above
	PrefetchedChunks                      uint64
	PeerReads, PeerBytes                  uint64 // queries to peers, and the bytes that peers sent
	PeerFailed, PeerLies                  uint64 // queries to peers that failed, and those answered with bytes that differ from the index
	PeerServedReads, PeerServedBytes      uint64 // answers to peers
	CarriedHits, CarriedBytes             uint64 // samples served that read-ahead had received from a peer
	FormerChunks                          uint64 // whole chunks received from their former owner
	HotHits, HotHitBytes                  uint64 // samples served from the hot samples
	OpenLeases, TableBytes, HotBytes      int64
	BudgetTotal, BudgetInUse, BudgetPeak  int64
	Disk                                  diskcache.Stats
	DiskDropped                           uint64 // chunks not written: the queue was full, or they were evicted first
}

// DatasetReads are the store reads of a dataset.
type DatasetReads struct {
	StoreReads uint64
	StoreBytes uint64 // received, including the bytes of running and failed reads
	StoreOpen  int64  // reads that run, or wait for a place
}

// datasetReads counts the store reads of the generations of a dataset.
type datasetReads struct {
	reads, bytes atomic.Uint64
	open         atomic.Int64
}

// mostNamed is the maximum number of datasets with their own counters; the others share one.
const mostNamed = 100

// readsOf returns the counters of a dataset, which outlive its sources. The caller holds mu.
func (p *Path) readsOf(name string) *datasetReads {
	if p.reads[name] == nil && len(p.reads) > mostNamed {
		name = "other"
	}
	if p.reads[name] == nil {
		p.reads[name] = &datasetReads{}
	}
	return p.reads[name]
}

// countReads fills the counters of the store's reads.
func (p *Path) countReads(s *Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Datasets = make(map[string]DatasetReads, len(p.reads))
	for name, c := range p.reads {
		r := DatasetReads{c.reads.Load(), c.bytes.Load(), c.open.Load()}
		s.StoreReads, s.StoreBytes, s.StoreOpen = s.StoreReads+r.StoreReads, s.StoreBytes+r.StoreBytes, s.StoreOpen+r.StoreOpen
		s.Datasets[name] = r
	}
}

// Stats returns the counters.
func (p *Path) Stats() Stats {
	c := p.cache.Stats()
	s := Stats{
		Hits: c.Hits, Misses: c.Misses, Loads: c.Loads, Joins: c.Joins, Evictions: c.Evictions, ExpectedEvictions: c.Expected,
		CachedBytes: c.Bytes, CachedChunks: c.Chunks,
		StorePlaces: p.gate.places(),
		RangeReads:  p.rangeReads.Load(), RangeBytes: p.rangeBytes.Load(),
		PrefetchedChunks: p.prefetched.Load(),
		HotHits:          p.hot.hits.Load(), HotHitBytes: p.hot.hitBytes.Load(), HotBytes: p.hot.held(),
		OpenLeases: c.OpenLeases, TableBytes: p.tables.Bytes(),
		BudgetTotal: p.budget.Total(), BudgetInUse: p.budget.InUse(), BudgetPeak: p.budget.Peak(),
	}
	p.countReads(&s)
	p.peerCounts.fill(&s)
	s.CarriedHits, s.CarriedBytes = p.ahead.hits.Load(), p.ahead.bytes.Load()
	if p.disk != nil {
		s.Disk, s.DiskDropped = p.disk.cache.Stats(), p.disk.dropped.Load()
	}
	return s
}
