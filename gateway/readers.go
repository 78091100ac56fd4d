package gateway

import "github.com/millrace-data/millrace/gateway/stats"

// readerStats returns totals over all readers. A metric per rank of each job would be too many
// metrics.
func readerStats(rs []stats.Reader) []Stat {
	var rate, behind, waiting float64
	for _, r := range rs {
		rate += r.SamplesPerSecond
		behind = max(behind, float64(r.BatchesBehind))
		waiting = max(waiting, r.WaitingShare)
	}
	return []Stat{
		{Name: "readers", Help: "Ranks active in the last five minutes.", Value: float64(len(rs))},
		{Name: "readers_samples_per_second", Help: "Recent total throughput of all ranks.", Value: rate},
		{Name: "readers_most_batches_behind", Help: "Batches between the slowest rank and the fastest rank of its job, at most over jobs.", Value: behind},
		{Name: "readers_most_waiting_share", Help: "Largest recent share of time that one rank waited for data.", Value: waiting},
	}
}
