package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// Setting is one answer to everything that can be chosen: the job, the gateways and the store.
type Setting struct {
	Order     shuffle.Params
	BatchSize uint64
	Epochs    int

	Ranks     int
	Rate      float64 // samples per second that all ranks together consume when they never wait
	ReadAhead int     // batches that a rank asks for beyond the one that it computes on
	Skew      float64 // think time of the slowest rank, of the fastest one's; at least 1

	Gateways  int  // each with its own memory, disk, fetchers and link, and an equal share of the ranks
	Alone     bool // each gateway has a cache of its own; else they are one cluster, and each chunk has an owner among them
	CacheSize int64
	Policy    string  // lru or plan
	DiskSize  int64   // 0: no disk tier
	DiskRate  float64 // bytes per second of a disk
	Fetchers  int
	PartSize  int64
	ServeRate float64 // bytes per second from one gateway to its ranks; 0: no bound

	LinkRate    float64 // bytes per second of a gateway's link, each way: for store, other gateways and ranks; 0: no bound
	RanksNear   bool    // ranks run on their gateway's machine: answers to them stay off its link
	PeerLatency time.Duration
	NoReadAhead bool // nothing is asked of other gateways in the background for the next batches
	Sharing     shuffle.Sharing

	StoreRate   float64 // bytes per second of all reads together; 0: no bound
	StoreStream float64 // of one read; 0: no bound
	FirstByte   time.Duration
}

// The policies, by the names that serve knows them by.
const (
	LRU  = "lru"
	Plan = "plan"
)

// Policies lists them.
func Policies() []string { return []string{LRU, Plan} }

// Check reports everything in a setting that makes no sense.
func (s *Setting) Check() error {
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(s.BatchSize == 0, "batch size 0: want at least 1")
	fault(s.Epochs < 1 || s.Epochs > 100, "%d epochs: want 1 to 100", s.Epochs)
	fault(s.Ranks < 1 || s.Ranks > 10_000, "%d ranks: want 1 to 10000", s.Ranks)
	fault(s.Ranks > 0 && s.BatchSize > 0 && s.BatchSize < uint64(s.Ranks), "batches of %d samples for %d ranks: some would get none", s.BatchSize, s.Ranks)
	fault(!(s.Rate > 0), "rate %v: want samples per second, above 0", s.Rate)
	fault(!(s.Skew >= 1 && s.Skew <= 100), "skew %v: want the slowest rank's think time over the fastest one's, 1 to 100", s.Skew)
	fault(s.ReadAhead < 0 || s.ReadAhead > 64, "%d batches asked for ahead: want 0 to 64", s.ReadAhead)
	fault(s.Gateways < 1 || s.Gateways > s.Ranks, "%d gateways for %d ranks: want at least one, and a rank for each", s.Gateways, s.Ranks)
	fault(s.Gateways > mostGateways, "%d gateways: want %d at most", s.Gateways, mostGateways)
	fault(s.CacheSize < 1<<20, "cache of %d bytes: want at least 1 MiB", s.CacheSize)
	fault(!slices.Contains(Policies(), s.Policy), "unknown cache policy %q, want one of %s", s.Policy, strings.Join(Policies(), ", "))
	fault(s.DiskSize < 0, "disk cache of %d bytes: want 0 or more", s.DiskSize)
	fault(s.DiskSize > 0 && !(s.DiskRate > 0), "a disk cache of %v bytes per second: want above 0", s.DiskRate)
	fault(s.Fetchers < 1, "%d fetchers: want at least 1", s.Fetchers)
	fault(s.PartSize < 1, "store reads of %d bytes: want at least 1", s.PartSize)
	fault(s.ServeRate < 0 || s.StoreRate < 0 || s.StoreStream < 0 || s.FirstByte < 0 || s.LinkRate < 0 || s.PeerLatency < 0, "a rate or a time below 0")
	return errors.Join(faults...)
}

// CheckSharing reports why ranks cannot share a batch as they ask to.
func (s *Setting) CheckSharing(d *Data) error {
	if s.Sharing != shuffle.Locality {
		return nil
	}
	p, err := shuffle.NewPlan(s.Order, d.First)
	if err == nil {
		err = p.CheckSharing(uint64(s.Ranks), uint64(s.Ranks))
	}
	if err != nil {
		return fmt.Errorf("share %s: %w", s.Sharing, err)
	}
	return nil
}

// Least is the smallest cache that could serve the data at all: a chunk that arrives while another is in use, and a
// batch.
func (s *Setting) Least(d *Data) int64 { return 2*d.largest() + s.body(d) }

// mostGateways bounds a fleet.
const mostGateways = 1000

// cluster is how many gateways are one cache.
func (s *Setting) cluster() int {
	if s.Alone {
		return 1
	}
	return s.Gateways
}

// apart is how many gateways hold different parts of the data: those of a cluster, and with locality all, for each holds what is
// at home with its ranks.
func (s *Setting) apart() int {
	if s.Sharing == shuffle.Locality {
		return s.Gateways
	}
	return s.cluster()
}

// spread is by how much more than its part a gateway of a cluster may own.
const spread = 1.07

// held is the memory that all chunks of one gateway take.
func (s *Setting) held(d *Data) int64 {
	n := s.apart()
	if n == 1 {
		return d.cost()
	}
	return int64(float64(d.cost()) * spread / float64(n))
}

// Wanted is the cache of each gateway with which the order reads no chunk twice in an epoch.
func (s *Setting) Wanted(d *Data) int64 {
	lengths := make([]uint64, len(d.Chunks))
	for i, c := range d.Chunks {
		lengths[i] = uint64(c.Length)
	}
	return int64(shuffle.Memory(s.Order, lengths))/int64(s.cluster()) + s.body(d)
}

// body is about how long a batch of one rank is.
func (s *Setting) body(d *Data) int64 {
	mean := float64(d.Bytes()) / float64(max(d.Samples(), 1))
	return int64(mean * float64(min(s.BatchSize, d.Samples())) / float64(max(s.Ranks, 1)))
}
