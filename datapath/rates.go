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

// note records one read: the time to its first bytes, the number of bytes after them, and the time
// these took.
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

// measurement measures one store read.
type measurement struct {
	rates   *rates
	of      *datasetReads
	begun   time.Time
	first   time.Time // time when the first bytes arrived
	came    int64     // bytes in the first progress report
	last    int64     // bytes in the last progress report
	retried bool      // the store has begun to answer a retry
}

// begin begins the measurement of a read of a dataset.
func (r *rates) begin(of *datasetReads) *measurement {
	return &measurement{rates: r, of: of, begun: time.Now()}
}

// filled records that n bytes of the read have arrived.
func (m *measurement) filled(n int64) {
	if m.first.IsZero() {
		m.first, m.came = time.Now(), n
	} else if n == m.last {
		m.retried = true
	}
	m.count(n)
}

// count counts the bytes that have arrived since the last report.
func (m *measurement) count(n int64) {
	more := max(n-m.last, 0)
	m.rates.came.Add(more)
	m.of.bytes.Add(uint64(more))
	m.last = n
}

// ended records that the read has received all its n bytes. It records no rate for a read that the
// store delayed or that was retried.
func (m *measurement) ended(n int64, paced bool) {
	m.count(n) // covers stores that do not report progress
	if m.first.IsZero() || m.retried || paced {
		return
	}
	rest, others := time.Since(m.first), n-m.came
	if others > 0 { // the first report may cover many bytes: subtract the estimated time that they took
		m.first = m.first.Add(-time.Duration(float64(rest) * float64(m.came) / float64(others)))
	}
	m.rates.note(max(m.first.Sub(m.begun), 0), others, rest)
}
