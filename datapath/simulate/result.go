package simulate

import (
	"slices"
	"time"
)

// Result is what becomes of a setting.
type Result struct {
	Setting Setting
	Bytes   int64 // of the data
	Samples uint64
	Epochs  []Epoch
	Moved   float64 // part of the samples that ranks take from homes other than their own, with share locality
	Peak    int64   // bytes of the budget of one gateway in use at one time, at most
	Coarse  string  // how much less finely than sample by sample it was followed; empty: not
}

// Epoch is one epoch of a job: from the first request to the end of the last rank's last think time. What is fetched ahead for the next
// one counts where it happens.
type Epoch struct {
	Time  time.Duration
	Ranks []Rank
	Counts
	Half    time.Duration // median of what a rank waited for a batch, or where several are followed at a time, for those
	Most    time.Duration // the 99th percentile
	Busiest int64         // bytes over the busiest link of a gateway, in or out, whatever is more
}

// Rank is how long one rank had nothing to compute on.
type Rank struct {
	Stall   time.Duration
	Longest time.Duration
	Stalls  int // batches that were not there at once
}

// percentiles takes them from all waits of the epoch, which it sorts.
func (e *Epoch) percentiles(waits []time.Duration) {
	slices.Sort(waits)
	at := func(part float64) time.Duration { return waits[int(part*float64(len(waits)-1))] }
	e.Half, e.Most = at(.5), at(.99)
}

// scale makes an epoch so many times as long.
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

// Counts is what gateways did.
type Counts struct {
	Served     int64 // bytes of batches
	Reads      int64 // of the store
	StoreBytes int64
	Ranges     int64 // reads of samples by themselves, among Reads
	DiskReads  int64
	DiskBytes  int64 // read from the disk
	DiskWrites int64 // bytes
	Hits       int64 // chunks that a batch found in memory
	Misses     int64 // those that it did not
	PeerReads  int64 // questions to other gateways
	PeerBytes  int64 // that they answered
	Carried    int64 // samples that had been asked for before their batch
	LinkIn     int64 // bytes that came over the links of all gateways
	LinkOut    int64 // that went
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

// Tiers returns what part of the bytes delivered came out of memory where they had been kept, from the disk and from the store. The
// store's is above 1 where bytes are read more than once.
func (e *Epoch) Tiers() (memory, disk, store float64) {
	if e.Served == 0 {
		return 0, 0, 0
	}
	disk = float64(e.DiskBytes) / float64(e.Served)
	store = float64(e.StoreBytes) / float64(e.Served)
	return max(1-disk-store, 0), disk, store
}

// Stall returns the mean and the most that a rank waited.
func (e *Epoch) Stall() (mean, most time.Duration) {
	for _, k := range e.Ranks {
		mean += k.Stall / time.Duration(len(e.Ranks))
		most = max(most, k.Stall)
	}
	return mean, most
}

// Later returns what an epoch after the first is like: the last one.
func (r *Result) Later() *Epoch { return &r.Epochs[len(r.Epochs)-1] }
