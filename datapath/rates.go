package datapath

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/datapath/policy"
)

// rates is the measured time and throughput of store reads.
type rates struct {
	came atomic.Int64 // bytes received, including those of running reads

	mu  sync.Mutex // guards the fields below
	all policy.Rates
}

// note adds one read: the time to its first bytes, how many bytes followed, and how long these
// took.
func (r *rates) note(first time.Duration, bytes int64, rest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.Note(first, bytes, rest)
}

// cost returns the cost of one more store read, in bytes of transfer.
func (r *rates) cost() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.Cost()
}

// measurement is the measurement of one store read.
type measurement struct {
	rates   *rates
	begun   time.Time
	first   time.Time // when the first bytes arrived
	came    int64     // bytes of the first report
	last    int64     // bytes of the last report
	retried bool      // the store has begun to answer a retry
}

// begin begins the measurement of a read.
func (r *rates) begin() *measurement { return &measurement{rates: r, begun: time.Now()} }

// filled records that n bytes of the read have arrived.
func (m *measurement) filled(n int64) {
	if m.first.IsZero() {
		m.first, m.came = time.Now(), n
	} else if n == m.last {
		m.retried = true
	}
	m.rates.came.Add(max(n-m.last, 0))
	m.last = n
}

// ended records that the read has received all its n bytes. It ignores the rate of a read that the
// store delayed or that paused before a retry.
func (m *measurement) ended(n int64, paced bool) {
	m.rates.came.Add(n - m.last) // for stores that do not report progress
	if m.first.IsZero() || m.retried || paced {
		return
	}
	rest, others := time.Since(m.first), n-m.came
	if others > 0 { // the first report may cover many bytes: add the time that they took
		m.first = m.first.Add(-time.Duration(float64(rest) * float64(m.came) / float64(others)))
	}
	m.rates.note(max(m.first.Sub(m.begun), 0), others, rest)
}
