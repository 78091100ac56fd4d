package datapath

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/datapath/policy"
)

// rates is what the store needs for a read, as measured.
type rates struct {
	came atomic.Int64 // bytes, also of reads that are under way

	mu  sync.Mutex // guards what follows
	all policy.Rates
}

// note adds one read: the time to its first bytes, how many others there were, and how long those took.
func (r *rates) note(first time.Duration, bytes int64, rest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.Note(first, bytes, rest)
}

// cost returns what one more store read costs, in bytes of transfer.
func (r *rates) cost() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.Cost()
}

// measured is one read of the store that is measured.
type measured struct {
	rates *rates
	begun time.Time
	first time.Time // when the first bytes came
	came  int64     // with the first report
	last  int64     // with the last one
	anew  bool      // the store has begun to answer another request, after a retry
}

// begin begins to measure a read.
func (r *rates) begin() *measured { return &measured{rates: r, begun: time.Now()} }

// filled notes that so many bytes of the read have come.
func (m *measured) filled(n int64) {
	if m.first.IsZero() {
		m.first, m.came = time.Now(), n
	} else if n == m.last {
		m.anew = true
	}
	m.rates.came.Add(max(n-m.last, 0))
	m.last = n
}

// ended notes that the read has brought all its n bytes. The pace of one that was held back, or that paused before a retry, says
// nothing of stores.
func (m *measured) ended(n int64, paced bool) {
	m.rates.came.Add(n - m.last) // of a store that does not report
	if m.first.IsZero() || m.anew || paced {
		return
	}
	rest, others := time.Since(m.first), n-m.came
	if others > 0 { // the first report may tell of many bytes at once: they took their time too
		m.first = m.first.Add(-time.Duration(float64(rest) * float64(m.came) / float64(others)))
	}
	m.rates.note(max(m.first.Sub(m.begun), 0), others, rest)
}
