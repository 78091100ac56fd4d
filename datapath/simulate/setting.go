package simulate

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/shuffle"
)

// Setting is one configuration of all choices: the job, the gateways and the store.
type Setting struct {
	Order     shuffle.Params
	BatchSize uint64
	Epochs    int

	Ranks     int
	Rate      float64 // samples per second that all ranks together consume without waiting
	ReadAhead int     // batches that a rank requests beyond the one that it computes on
	Skew      float64 // think time of the slowest rank relative to the fastest one's; at least 1

	Gateways  int  // each gateway has its own memory, disk, fetchers and link, and an equal share of the ranks
	Alone     bool // each gateway has its own cache; otherwise they are one cluster, and each chunk has an owner
	CacheSize int64
	Policy    string  // of policy.Names
	DiskSize  int64   // 0: no disk tier
	DiskRate  float64 // bytes per second of a disk
	Fetchers  int
	PartSize  int64
	ServeRate float64 // bytes per second from one gateway to its ranks; 0: no bound

	LinkRate    float64 // bytes per second of a gateway's link, each way, for the store, other gateways and ranks; 0: no bound
	RanksNear   bool    // ranks run on the machine of their gateway, so answers to them do not use its link
	PeerLatency time.Duration
	Sharing     shuffle.Sharing

	StoreRate   float64 // bytes per second of all reads together; 0: no bound
	StoreStream float64 // bytes per second of one read; 0: no bound
	FirstByte   time.Duration
}

// Check reports the invalid values of a setting, except those that no flag accepts.
func (s *Setting) Check() error {
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(s.BatchSize == 0, "batch size 0: must be at least 1")
	fault(s.Epochs < 1 || s.Epochs > 100, "%d epochs: must be 1 to 100", s.Epochs)
	fault(s.Ranks < 1 || s.Ranks > 10_000, "%d ranks: must be 1 to 10000", s.Ranks)
	fault(s.Ranks > 0 && s.BatchSize > 0 && s.BatchSize < uint64(s.Ranks), "batches of %d samples for %d ranks: some ranks would get no samples", s.BatchSize, s.Ranks)
	fault(!(s.Rate > 0), "rate %v: must be above 0 samples per second", s.Rate)
	fault(!(s.Skew >= 1 && s.Skew <= 100), "skew %v: the slowest rank's time per sample divided by the fastest rank's must be 1 to 100", s.Skew)
	fault(s.ReadAhead > 64, "%d batches requested ahead: must be 0 to 64", s.ReadAhead)
	fault(s.Gateways < 1 || s.Gateways > s.Ranks, "%d gateways for %d ranks: must be at least one, with a rank for each", s.Gateways, s.Ranks)
	fault(s.Gateways > mostGateways, "%d gateways: must be at most %d", s.Gateways, mostGateways)
	fault(s.CacheSize < 1<<20, "cache of %d bytes: must be at least 1 MiB", s.CacheSize)
	fault(s.DiskSize > 0 && !(s.DiskRate > 0), "a disk cache of %v bytes per second: must be above 0", s.DiskRate)
	fault(s.Fetchers < 1, "%d fetchers: must be at least 1", s.Fetchers)
	fault(s.PartSize < 1, "store reads of %d bytes: must be at least 1", s.PartSize)
	return errors.Join(faults...)
}

// CheckSharing reports why ranks cannot share batches as the setting requires.
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

// Least returns the smallest cache that can serve the data: room for two chunks of the largest size
// (one in use, one arriving) and for a rank's batch.
func (s *Setting) Least(d *Data) int64 { return 2*d.largest() + s.body(d) }

// mostGateways limits the number of gateways.
const mostGateways = 1000

// cluster returns the number of gateways that have one common cache.
func (s *Setting) cluster() int {
	if s.Alone {
		return 1
	}
	return s.Gateways
}

// apart returns the number of gateways that hold different parts of the data: the gateways of a
// cluster or, with locality, all gateways, since each holds the chunks at home with its ranks.
func (s *Setting) apart() int {
	if s.Sharing == shuffle.Locality {
		return s.Gateways
	}
	return s.cluster()
}

// held returns the memory for all the chunks of one gateway.
func (s *Setting) held(d *Data) int64 {
	n := s.apart()
	if n == 1 {
		return d.cost()
	}
	return int64(float64(d.cost()) * policy.Spread / float64(n))
}

// Needed returns the cache size of each gateway with which the order reads no chunk twice in an
// epoch.
func (s *Setting) Needed(d *Data) int64 {
	lengths := make([]uint64, len(d.Chunks))
	for i, c := range d.Chunks {
		lengths[i] = uint64(c.Length)
	}
	return int64(shuffle.Memory(s.Order, lengths))/int64(s.cluster()) + s.body(d)
}

// Small reports that the cache is smaller than an order of whole chunks needs.
func (s *Setting) Small(d *Data) bool {
	return s.Order.Shuffle != shuffle.Full && s.CacheSize < s.Needed(d)
}

// body returns the approximate number of bytes of one rank's batch.
func (s *Setting) body(d *Data) int64 {
	mean := float64(d.Bytes()) / float64(max(d.Samples(), 1))
	return int64(mean * float64(min(s.BatchSize, d.Samples())) / float64(max(s.Ranks, 1)))
}
