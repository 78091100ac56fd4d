package node

import (
	"fmt"
	"strings"

	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/s3backend"
)

// stats returns the metrics of the data paths, added up, and of the stores.
func (s *Node) stats() []gateway.Stat {
	out := storeStats(s.cfg.Stores.Stats())
	if s.peers != nil {
		out = append(out, memberStats(s.peers.cluster.Status())...)
	}
	out = append(out, s.certificateStats()...)
	out = append(out, s.accessStats()...)
	out = append(out, s.keeper.stats()...)
	out = append(out, s.sharedStats()...)
	at := map[string]int{} // by name and labels
	for _, v := range s.divisions {
		t := v.path.Stats()
		own := append(pathStats(t), v.stats()...)
		if v.dir != "" {
			own = append(diskStats(t), own...)
		}
		if s.peers != nil {
			own = append(own, peerStats(t)...)
		}
		for _, x := range own {
			key := x.Name + fmt.Sprint(x.Labels)
			if i, known := at[key]; known {
				out[i].Value += x.Value
				continue
			}
			at[key] = len(out)
			out = append(out, x)
		}
	}
	return out
}

// flag returns the value of a gauge for a boolean.
func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// pathStats returns the metrics of a data path.
func pathStats(t datapath.Stats) []gateway.Stat {
	out := []gateway.Stat{
		{Name: "cache_hits_total", Help: "Chunks found in memory.", Value: float64(t.Hits)},
		{Name: "cache_misses_total", Help: "Chunks not found in memory.", Value: float64(t.Misses)},
		{Name: "cache_loads_total", Help: "Chunk loads started.", Value: float64(t.Loads)},
		{Name: "cache_joins_total", Help: "Requests that joined a load already in progress.", Value: float64(t.Joins)},
		{Name: "cache_evictions_total", Help: "Chunks evicted from memory.", Value: float64(t.Evictions)},
		{Name: "cache_expected_evictions_total", Help: "Evicted chunks that a reader needed soon; if this grows, memory is too small for all readers.", Value: float64(t.ExpectedEvictions)},
		{Name: "cache_bytes", Help: "Memory for chunks.", Value: float64(t.CachedBytes)},
		{Name: "cache_chunks", Help: "Chunks in memory.", Value: float64(t.CachedChunks)},
		{Name: "store_reads_limit", Help: "Current limit of concurrent range reads of stores.", Value: float64(t.StorePlaces)},
		{Name: "store_range_reads_total", Help: "Range reads of single samples (included in store_reads_total).", Value: float64(t.RangeReads)},
		{Name: "store_range_bytes_total", Help: "Bytes of range reads of single samples (included in store_read_bytes_total).", Value: float64(t.RangeBytes)},
		{Name: "prefetched_chunks_total", Help: "Chunks prefetched before a reader requested them.", Value: float64(t.PrefetchedChunks)},
		{Name: "cache_open_leases", Help: "Open leases of cached chunks.", Value: float64(t.OpenLeases)},
		{Name: "hot_hits_total", Help: "Samples served from the copies of frequently drawn samples (importance).", Value: float64(t.HotHits)},
		{Name: "hot_hit_bytes_total", Help: "Bytes of samples served from these copies.", Value: float64(t.HotHitBytes)},
		{Name: "hot_bytes", Help: "Memory for copies of frequently drawn samples (importance).", Value: float64(t.HotBytes)},
		{Name: "table_bytes", Help: "Memory for sample tables.", Value: float64(t.TableBytes)},
	}
	for name, r := range t.Datasets {
		if name != "" {
			of := map[string]string{"dataset": name}
			out = append(out, gateway.Stat{Name: "store_reads_open", Help: "Range reads of stores that run or wait for a place.", Value: float64(r.StoreOpen), Labels: of},
				gateway.Stat{Name: "store_reads_total", Help: "Range reads of stores, for readers, prefetch and other gateways.", Value: float64(r.StoreReads), Labels: of},
				gateway.Stat{Name: "store_read_bytes_total", Help: "Bytes received from stores, for readers, prefetch and other gateways.", Value: float64(r.StoreBytes), Labels: of})
		}
	}
	return out
}

// storeStats returns the metrics of all S3 stores, added up. Directories have none.
func storeStats(stores []s3backend.Stats) []gateway.Stat {
	var sum s3backend.Stats
	limit, open := 0, 0
	for _, t := range stores {
		sum.Add(t)
		limit += t.Limit
		if t.BreakerOpen {
			open++
		}
	}
	if len(stores) == 0 {
		return nil
	}
	out := []gateway.Stat{
		{Name: "store_requests_total", Help: "Requests to S3 services, including retries.", Value: float64(sum.Requests)},
		{Name: "store_retries_total", Help: "Retries of failed requests to S3 services.", Value: float64(sum.Retries)},
		{Name: "store_hedges_total", Help: "Requests sent to S3 services a second time because the first was late.", Value: float64(sum.Hedges)},
		{Name: "store_request_limit", Help: "Current limit of concurrent requests to S3 services.", Value: float64(limit)},
		{Name: "store_breakers_open", Help: "S3 stores that only get probes after repeated failures.", Value: float64(open)},
	}
	for _, err := range objstore.Vocabulary() {
		kind := err.Error()
		out = append(out, gateway.Stat{
			Name: "store_errors_" + strings.ReplaceAll(kind, " ", "_") + "_total",
			Help: "Failed requests to S3 services: " + kind + ".", Value: float64(sum.Errors[kind]),
		})
	}
	return out
}
