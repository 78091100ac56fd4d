package simulate

import (
	"slices"
	"time"
)

// Result is the prediction for a setting.
type Result struct {
	Setting Setting
	Bytes   int64 // bytes of the data
	Samples uint64
	Epochs  []Epoch
	Moved   float64 // part of the samples that ranks read from homes other than their own, with share=locality
	Peak    int64   // maximum bytes in use of a gateway's budget
	Coarse  string  // how the simulation was scaled down; empty: it was not
}

// Epoch is one epoch of a job, from the first request to the end of the last rank's last think
// time. Prefetches for the next epoch count in the epoch in which they happen.
type Epoch struct {
	Time  time.Duration
	Ranks []Rank
	Counts
	Half    time.Duration // median of the ranks' waits for a batch, or for a simulated batch that represents several
	Most    time.Duration // 99th percentile of these waits
	Busiest int64         // bytes over the busiest link of a gateway, in its busier direction
}

// Rank is the waiting time of one rank: the time in which it had no batch to compute on.
type Rank struct {
	Stall   time.Duration
	Longest time.Duration
	Stalls  int // batches that did not arrive in time
}

// percentiles computes Half and Most from all waits of the epoch, which it sorts.
func (e *Epoch) percentiles(waits []time.Duration) {
	slices.Sort(waits)
	at := func(part float64) time.Duration { return waits[int(part*float64(len(waits)-1))] }
	e.Half, e.Most = at(.5), at(.99)
}

// scale multiplies the times and counts of an epoch.
func (e *Epoch) scale(by float64) {
	e.Busiest = int64(float64(e.Busiest) * by)
	e.Time = time.Duration(float64(e.Time) * by)
	e.Counts.scale(by)
	for i := range e.Ranks {
		k := &e.Ranks[i]
		k.Stall = time.Duration(float64(k.Stall) * by)
		k.Stalls = int(float64(k.Stalls) * by)
	}
}

func (k *Rank) waited(d time.Duration) {
	k.Stall += d
	k.Longest = max(k.Longest, d)
	if d > 0 {
		k.Stalls++
	}
}

// Counts are the counters of gateways.
type Counts struct {
	Served     int64 // bytes of batches sent
	Reads      int64 // store reads
	StoreBytes int64
	Ranges     int64 // reads of samples by their ranges, included in Reads
	DiskReads  int64
	DiskBytes  int64 // bytes read from the disk
	DiskWrites int64 // bytes
	Hits       int64 // chunks that batches found in memory
	Misses     int64 // chunks that batches did not find in memory
	PeerReads  int64 // queries to other gateways
	PeerBytes  int64 // bytes of their answers
	Carried    int64 // samples that were requested ahead of their batch
	LinkIn     int64 // bytes received over the links of all gateways
	LinkOut    int64 // bytes sent
}

func (c *Counts) fields() []*int64 {
	return []*int64{
		&c.Served, &c.Reads, &c.StoreBytes, &c.Ranges, &c.DiskReads, &c.DiskBytes, &c.DiskWrites, &c.Hits, &c.Misses,
		&c.PeerReads, &c.PeerBytes, &c.Carried, &c.LinkIn, &c.LinkOut,
	}
}

func (c *Counts) add(o Counts, times int64) {
	for i, f := range o.fields() {
		*c.fields()[i] += *f * times
	}
}

func (c *Counts) scale(by float64) {
	for _, f := range c.fields() {
		*f = int64(float64(*f) * by)
	}
}

// Tiers returns the parts of the delivered bytes that came from memory, disk and store. The store's
// part is above 1 if bytes are read more than once.
func (e *Epoch) Tiers() (memory, disk, store float64) {
	if e.Served == 0 {
		return 0, 0, 0
	}
	disk = float64(e.DiskBytes) / float64(e.Served)
	store = float64(e.StoreBytes) / float64(e.Served)
	return max(1-disk-store, 0), disk, store
}

// Stall returns the mean and the maximum of the ranks' waiting times.
func (e *Epoch) Stall() (mean, most time.Duration) {
	for _, k := range e.Ranks {
		mean += k.Stall / time.Duration(len(e.Ranks))
		most = max(most, k.Stall)
	}
	return mean, most
}

// Later returns the last epoch, whose caches are warm.
func (r *Result) Later() *Epoch { return &r.Epochs[len(r.Epochs)-1] }
