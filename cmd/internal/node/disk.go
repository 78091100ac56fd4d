package node

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/cmd/internal/datasets"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/datapath/diskcache"
	"github.com/millrace-data/millrace/gateway"
)

// diskWriters is the maximum number of chunks that the disk cache holds in memory while it writes them.
const diskWriters = 2

// heldBy returns a predicate for the datasets of a division's disk cache. The main division also
// includes datasets with a quota: their caches are inside its directory, and it takes over their
// chunks after the quota is removed.
func (s *Node) heldBy(v *division) func(name string) bool {
	return func(name string) bool { return v == s.main() || v == s.division(name) }
}

// openDisk opens the disk cache of a division, if it has one. With --check it only inspects the cache, which a running
// gateway may use.
func (s *Node) openDisk(v *division, set datasets.Set) error {
	if v.dir == "" {
		return nil
	}
	cfg := diskcache.Config{Dir: v.dir, MaxBytes: v.quota.Disk, Tell: func(what string, err error) { s.diskTrouble(v.dir, what, err) }}
	cfg.Datasets = set.Places(s.heldBy(v))
	if s.cfg.Check {
		if err := diskcache.Check(cfg); err != nil {
			return settingError("disk-cache", err)
		}
		return nil
	}
	disk, err := diskcache.Open(cfg)
	if err != nil {
		return settingError("disk-cache", err)
	}
	v.disk = disk
	s.closers = append(s.closers, disk.Close)
	t := disk.Stats()
	s.log.Info().Str("dir", v.dir).Int64("limit", v.quota.Disk).Int64("chunks", t.Chunks).Int64("bytes", t.Bytes).Uint64("strays", t.Strays).Msg("disk cache opened")
	return nil
}

// diskTrouble logs that reads or writes of a disk cache were suspended or resumed.
func (s *Node) diskTrouble(dir, what string, err error) {
	if err == nil {
		s.log.Info().Str("dir", dir).Msg("disk cache: " + what + " resumed")
		return
	}
	s.log.Warn().Err(err).Str("dir", dir).Msg("disk cache: " + what + " suspended")
}

// diskList returns the maximum memory of the disk cache: the list of its files and the buffers of reads and writes.
func (v *division) diskList(indexes []*chunkindex.Index) int64 {
	if v.dir == "" {
		return 0
	}
	chunks := v.path.Stats().Disk.Chunks
	for _, x := range indexes {
		chunks += int64(x.Chunks())
	}
	return diskcache.Memory + min(chunks, diskcache.MostChunks(v.quota.Disk))*diskcache.EntryCost
}

// fitDisk returns an error if the disk cache is smaller than the largest chunk. Otherwise the cache would silently skip
// large chunks.
func (v *division) fitDisk(fresh []*generation) error {
	for _, g := range fresh {
		if least := diskcache.Cost(g.index.MaxChunk()); v.dir != "" && least > v.quota.Disk {
			return settingError(v.diskSetting(), fmt.Errorf("%s is too small: the largest chunk of %s takes %s", humanize.IBytes(uint64(v.quota.Disk)), g.at.Loc.Name, humanize.IBytes(uint64(least))))
		}
	}
	return nil
}

// diskStats names the counters of the disk tier.
func diskStats(t datapath.Stats) []gateway.Stat {
	d := t.Disk
	return []gateway.Stat{
		{Name: "disk_hits_total", Help: "Reads of chunks or samples from disk.", Value: float64(d.Hits)},
		{Name: "disk_hit_bytes_total", Help: "Bytes read from disk.", Value: float64(d.HitBytes)},
		{Name: "disk_writes_total", Help: "Chunks written to disk.", Value: float64(d.Writes)},
		{Name: "disk_write_bytes_total", Help: "Bytes written to disk.", Value: float64(d.WriteBytes)},
		{Name: "disk_evictions_total", Help: "Chunks removed from disk to make room.", Value: float64(d.Evictions)},
		{Name: "disk_refused_total", Help: "Chunks not written because those on disk are needed sooner.", Value: float64(d.Refused)},
		{Name: "disk_skipped_total", Help: "Chunks not written because writes are off.", Value: float64(d.Skipped)},
		{Name: "disk_dropped_total", Help: "Chunks not written because the queue was full or memory evicted them first.", Value: float64(t.DiskDropped)},
		{Name: "disk_corrupt_total", Help: "Damaged files removed from disk; above 0, check the disk.", Value: float64(d.Corrupt)},
		{Name: "disk_read_errors_total", Help: "Failed reads of the disk; above 0, check the disk.", Value: float64(d.ReadErrors)},
		{Name: "disk_write_errors_total", Help: "Failed writes to the disk; above 0, check the disk.", Value: float64(d.WriteErrors)},
		{Name: "disk_reads_off", Help: "1 while the gateway does not read the disk because it hangs or failed too often.", Value: flag(d.ReadsOff)},
		{Name: "disk_writes_off", Help: "1 while the gateway adds no chunks to the disk because it hangs, failed or is full.", Value: flag(d.WritesOff)},
		{Name: "disk_chunks", Help: "Chunks on disk.", Value: float64(d.Chunks)},
		{Name: "disk_bytes", Help: "Disk space of cached chunks.", Value: float64(d.Bytes)},
		{Name: "disk_limit_bytes", Help: "Limit of the disk space of cached chunks.", Value: float64(d.MaxBytes)},
	}
}
