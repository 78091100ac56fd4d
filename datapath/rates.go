package datapath

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

const (
	// readCost is what one more store read costs, in bytes of transfer, until the store is measured: on a machine of
	// our own, ranged reads win below about 13 wanted samples in a chunk of 8 MiB.
	readCost = 8 << 20 / 13
	// A measured cost beyond these says more of one bad moment than of a store.
	leastReadCost, mostReadCost = 64 << 10, 16 << 20

	ratedReads = 16       // reads before the measured cost counts
	ratedBytes = 64 << 10 // shorter ones say nothing of the stream's rate
)

// rates is what the store needs for a read: the time to the first bytes, and the rate of one stream from
// then on, each the mean of late.
type rates struct {
	came atomic.Int64 // bytes, also of reads that are under way

	mu     sync.Mutex // guards what follows
	reads  int
	first  float64 // seconds
	stream float64 // bytes per second
}

// note adds one read: the time to its first bytes, how many others there were, and how long those took.
func (r *rates) note(first time.Duration, bytes int64, rest time.Duration) {
	if bytes < ratedBytes || rest <= 0 {
		return
	}
	stream := float64(bytes) / rest.Seconds()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	weight := max(1/float64(r.reads), 1./32)
	r.first += (first.Seconds() - r.first) * weight
	r.stream += (stream - r.stream) * weight
}

// cost returns what one more store read costs, in bytes of transfer.
func (r *rates) cost() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reads < ratedReads {
		return readCost
	}
	return int64(min(max(r.first*r.stream, leastReadCost), mostReadCost))
}

// timed measures one read of n bytes that fn makes with the context it is given.
func (r *rates) timed(ctx context.Context, n int, fn func(context.Context) error) error {
	begin := time.Now()
	var first time.Time
	var came, last int64
	report := objstore.Progress(ctx)
	err := fn(objstore.WithProgress(ctx, func(filled int64) {
		if first.IsZero() {
			first, came = time.Now(), filled
		}
		r.came.Add(max(filled-last, 0))
		last = filled
		report(filled)
	}))
	if err == nil {
		r.came.Add(int64(n) - last) // of a store that does not report
	}
	if err == nil && !first.IsZero() {
		rest := time.Since(first)
		others := int64(n) - came
		if others > 0 { // the first report may tell of many bytes at once: they took their time too
			first = first.Add(-time.Duration(float64(rest) * float64(came) / float64(others)))
		}
		r.note(max(first.Sub(begin), 0), others, rest)
	}
	return err
}
