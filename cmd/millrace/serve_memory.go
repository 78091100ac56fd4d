package main

import (
	"fmt"
	"slices"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/shuffle"
)

// need is what a dataset asks of the memory budget.
type need struct {
	resident int64 // of the index
	chunk    int64 // the largest
	body     int64 // of a batch of average samples, or the largest sample
	window   int64 // what the default order wants in memory at one time
}

// serving is what the dataset takes while it is read: a chunk that arrives while another is in use, and a body; and
// the chunks that are being written to disk.
func (n need) serving(chunks int64) int64 { return chunks*n.chunk + n.body }

func needs(x *chunkindex.Index) need {
	n := need{resident: x.Resident(), chunk: x.MaxChunk(), body: x.MaxSample()}
	d := x.Defaults()
	if s := x.Samples(); s > 0 {
		mean := float64(x.Bytes()) / float64(s)
		n.body = max(n.body, int64(mean*float64(min(d.BatchSize, s))))
	}
	if d.Shuffle != shuffle.Full { // which wants everything, and does without
		lengths := make([]uint64, x.Chunks())
		for i := range lengths {
			lengths[i] = uint64(x.Chunk(i).Length)
		}
		n.window = int64(shuffle.Memory(shuffle.Params{Shuffle: d.Shuffle, Window: d.Window}, lengths))
	}
	return n
}

// fits refuses a budget that could never serve the datasets and warns of those that will be read more than once an
// epoch. It reserves what the indexes and the list of the files on disk hold for as long as the process lives.
func (s *server) fits(b *budget.Budget, all []opened) error {
	var resident int64
	var hungry need // the one that takes most while it is read
	var name string
	chunks := int64(2)
	if s.cfg.diskDir != "" {
		chunks += diskWriters
	}
	indexes, asked := make([]*chunkindex.Index, len(all)), make([]need, len(all))
	for i, d := range all {
		n := needs(d.index)
		indexes[i], asked[i] = d.index, n
		resident += n.resident
		if n.serving(chunks) > hungry.serving(chunks) {
			hungry, name = n, d.loc.name
		}
	}
	resident += s.diskList(indexes)
	least, plans := leastBudget(resident+hungry.serving(chunks), indexes)
	r, ok := b.TryReserve(resident)
	if !ok || least > b.Total() {
		return &usageError{fmt.Errorf("--cache-size %s is too small: %d (indexes) + %d (plans) + %d x %d (largest chunk of %s) + %d (batch) = %d bytes are the least",
			formatSize(s.cfg.cacheSize), resident, plans, chunks, hungry.chunk, name, hungry.body, least), "millrace serve"}
	}
	s.closers = append(s.closers, r.Release)
	reserved := resident + gateway.PlanMemory(b.Total(), indexes)
	for i, n := range asked {
		if want := reserved + n.window + n.body; want > b.Total() {
			s.log.Warn().Str("dataset", all[i].loc.name).Int64("cache_size", b.Total()).Int64("wanted", want).
				Msg("the cache is smaller than the dataset's order wants: some chunks are read more than once an epoch")
		}
	}
	return s.fitDisk(all)
}

// leastBudget adds the memory of the plans, which grows with the budget that they are part of.
func leastBudget(rest int64, indexes []*chunkindex.Index) (total, plans int64) {
	for {
		total = rest + plans
		more := gateway.PlanMemory(total, indexes)
		if more == plans {
			return total, plans
		}
		plans = more
	}
}

// stats names the counters of the data path and of the stores for the metrics page.
func (s *server) stats() []gateway.Stat {
	t := s.path.Stats()
	var disk []gateway.Stat
	if s.cfg.diskDir != "" {
		disk = diskStats(t)
	}
	return append(slices.Concat(storeStats(s.stores), disk), []gateway.Stat{
		{Name: "cache_hits_total", Help: "Chunks found in memory.", Value: float64(t.Hits)},
		{Name: "cache_misses_total", Help: "Chunks not found in memory.", Value: float64(t.Misses)},
		{Name: "cache_loads_total", Help: "Loads of chunks that were started.", Value: float64(t.Loads)},
		{Name: "cache_joins_total", Help: "Requests that joined a load under way.", Value: float64(t.Joins)},
		{Name: "cache_evictions_total", Help: "Chunks evicted from memory.", Value: float64(t.Evictions)},
		{Name: "cache_expected_evictions_total", Help: "Of these, chunks that a reader was coming for soon: memory was too small.", Value: float64(t.ExpectedEvictions)},
		{Name: "cache_bytes", Help: "Bytes of chunks in memory.", Value: float64(t.CachedBytes)},
		{Name: "cache_chunks", Help: "Chunks in memory.", Value: float64(t.CachedChunks)},
		{Name: "store_reads_total", Help: "Ranged reads of stores.", Value: float64(t.StoreReads)},
		{Name: "store_read_bytes_total", Help: "Bytes read from stores.", Value: float64(t.StoreBytes)},
		{Name: "store_range_reads_total", Help: "Reads of samples' own ranges, part of all reads.", Value: float64(t.RangeReads)},
		{Name: "store_range_bytes_total", Help: "Bytes of samples' own ranges, part of all bytes.", Value: float64(t.RangeBytes)},
		{Name: "prefetched_chunks_total", Help: "Chunks fetched ahead of the readers.", Value: float64(t.PrefetchedChunks)},
		{Name: "cache_open_leases", Help: "Leases of cached chunks that are open.", Value: float64(t.OpenLeases)},
		{Name: "hot_hits_total", Help: "Samples served from those that plans draw often, kept by themselves.", Value: float64(t.HotHits)},
		{Name: "hot_hit_bytes_total", Help: "Bytes of such samples.", Value: float64(t.HotHitBytes)},
		{Name: "hot_bytes", Help: "Bytes of memory for samples that plans draw often.", Value: float64(t.HotBytes)},
		{Name: "table_bytes", Help: "Bytes of sample tables in memory.", Value: float64(t.TableBytes)},
	}...)
}
