package shared

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/millrace-data/millrace/internal/budget"
)

const (
	mostSegments     = 4096 // maximum number of open segments, for all connections
	mostOfConnection = 64   // maximum number of segments of one connection
	budgetShare      = 2    // all segments together take at most 1/budgetShare of the budget
	spare            = 32   // a segment is longer by 1/spare than requested, since the next batch may be a little longer
	mostWaste        = 4    // a segment that is more than mostWaste times as long as a batch is not reused for it: the batch may be the last of an epoch
	smallWaste       = 64 << 10
	idleTime         = 10 * time.Second // an unused segment is dropped after this time
	settleEvery      = time.Second
)

// Pool lends memory to readers. It is safe for concurrent use.
type Pool struct {
	budget      *budget.Budget // source of the memory
	most        int64          // limit on the bytes of all segments
	descriptors int            // limit on the number of segments

	mu      sync.Mutex // guards the fields below, and the states of all segments
	lenders map[*Lender]struct{}
	left    []*segment // dropped segments, never written again, that a reader may still have mapped
	stats   Stats
}

// Stats are counters of a Pool.
type Stats struct {
	Bytes    int64 // of all segments, including free ones
	Lent     int64 // bytes of the segments that readers hold
	Segments int   // number of open segments, each with one descriptor
	Leases   int64 // number of leases granted
	Refused  int64 // number of leases refused
}

// New returns a pool that reserves its memory in a budget, or the reason why this machine cannot
// lend memory.
func New(b *budget.Budget) (*Pool, error) {
	if err := probe(); err != nil {
		return nil, err
	}
	return &Pool{budget: b, most: b.Total() / budgetShare, descriptors: mostDescriptors(), lenders: map[*Lender]struct{}{}}, nil
}

// state is the state of a segment.
type state int

const (
	free    state = iota
	filling       // a batch is being written to it or sent
	lent          // a reader has it
)

// segment is memory that belongs to a connection.
type segment struct {
	*memory
	number      uint64
	size        int64
	purpose     Purpose
	state       state     // used while the segment belongs to the connection
	since       time.Time // when it became free
	lease       uint64
	ended       func() // called at the end of the lease; nil: there is no lease
	reservation *budget.Reservation
}

// Purpose is the only use of a segment. A segment is reused only for an equal Purpose.
type Purpose struct {
	Principal string // the reader
	Dataset   string
	Rules     int64 // number of the access rules that allow the read
}

// Lender lends segments to the other end of one connection. Only one request at a time uses it.
type Lender struct {
	pool     *Pool
	segments []*segment // guarded by the pool's mutex, as are the fields below
	gone     []uint64   // numbers of dropped segments that the reader does not know of yet
	numbers  uint64     // number of segments made
	leases   uint64     // number of leases granted
	closed   bool
}

// Lender returns a Lender for a new connection.
func (p *Pool) Lender() *Lender {
	l := &Lender{pool: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lenders[l] = struct{}{}
	return l
}

// Lease is memory that is about to be lent.
type Lease struct {
	Number     uint64
	Segment    uint64
	Bytes      []byte   // the whole segment, to be written before Sent is called
	Descriptor int      // descriptor to send to the reader; -1: the reader already has it
	Gone       []uint64 // numbers of segments that the reader can unmap

	lender  *Lender
	segment *segment
}

// Lend returns memory of at least n bytes, or false if this connection cannot have it. The caller
// writes to the memory, sends the lease, and calls Sent. ended is called once, when the lease has
// ended.
func (l *Lender) Lend(n int64, purpose Purpose, ended func()) (_ Lease, ok bool) {
	s, fresh := l.take(n, purpose)
	if s == nil {
		return Lease{}, false
	}
	lease := Lease{Segment: s.number, Bytes: s.bytes, Descriptor: -1, lender: l, segment: s}
	if fresh {
		reader, err := s.reader()
		if err != nil {
			lease.Sent(false)
			return Lease{}, false
		}
		lease.Descriptor = reader
	}
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	l.leases++
	s.lease, s.ended = l.leases, ended
	lease.Number, lease.Gone = s.lease, l.gone
	l.gone = nil
	p.stats.Leases++
	return lease, true
}

// take returns a segment in the state filling, and whether the segment is new to the reader. It
// returns nil if there is none.
func (l *Lender) take(n int64, purpose Purpose) (s *segment, fresh bool) {
	p := l.pool
	p.mu.Lock()
	for _, one := range l.segments {
		if one.state == free && one.purpose == purpose && n <= one.size && one.size <= mostWaste*n+smallWaste && (s == nil || one.size < s.size) {
			s = one
		}
	}
	if s != nil {
		s.state = filling
		p.mu.Unlock()
		return s, false
	}
	for _, one := range slices.Clone(l.segments) {
		if one.state == free && (one.size < n || one.purpose != purpose) { // the segment would only use up memory
			p.drop(l, one)
		}
	}
	page := int64(os.Getpagesize())
	size := (n + n/spare + page - 1) / page * page
	may := !l.closed && len(l.segments) < mostOfConnection && p.stats.Segments < p.descriptors && p.stats.Bytes+size <= p.most
	if may { // count it now, because the lock is released while the segment is made
		p.stats.Segments++
		p.stats.Bytes += size
	} else {
		p.stats.Refused++
	}
	p.mu.Unlock()
	if !may {
		return nil, false
	}
	return l.make(size, purpose), true
}

// make makes a segment that has been counted already. It returns nil if there is no memory.
func (l *Lender) make(size int64, purpose Purpose) *segment {
	p := l.pool
	reservation, ok := p.budget.ReserveNow(size)
	var m *memory
	if ok {
		var err error
		if m, err = newMemory(int(size)); err != nil {
			reservation.Release()
			ok = false
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !ok {
		p.stats.Segments--
		p.stats.Bytes -= size
		p.stats.Refused++
		return nil
	}
	l.numbers++
	s := &segment{memory: m, number: l.numbers, size: size, purpose: purpose, state: filling, reservation: reservation}
	l.segments = append(l.segments, s)
	return s
}

// Sent ends the writing. ok reports that the whole lease was sent. Otherwise the reader may have
// received any part of it, so the memory is never used again.
func (s Lease) Sent(ok bool) {
	if s.Descriptor >= 0 {
		closeDescriptor(s.Descriptor)
	}
	l, p := s.lender, s.lender.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.segment.state = lent
	p.stats.Lent += s.segment.size
	if !ok || l.closed {
		p.drop(l, s.segment)
	}
}

// Release ends leases. It ignores numbers of leases that have ended or never existed.
func (l *Lender) Release(leases []uint64) {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range l.segments {
		if s.state == lent && slices.Contains(leases, s.lease) {
			p.stats.Lent -= s.size
			if s.ended != nil {
				s.ended()
				s.ended = nil
			}
			s.state, s.since = free, time.Now()
		}
	}
}

// drop removes a segment from its connection, so that nothing is written to it again. Its bytes
// count as lent until no reader has it open or mapped. The caller holds the pool's mutex, and no
// request writes to the segment.
func (p *Pool) drop(l *Lender, s *segment) {
	l.segments = slices.DeleteFunc(l.segments, func(one *segment) bool { return one == s })
	l.gone = append(l.gone, s.number)
	s.unmap()
	if s.state == free {
		p.stats.Lent += s.size // until the reader has unmapped it
	}
	p.left = append(p.left, s)
}

// Close ends the connection. Its memory is never written again.
func (l *Lender) Close() error {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	l.closed = true
	delete(p.lenders, l)
	for _, s := range slices.Clone(l.segments) {
		if s.state != filling { // a segment that is being filled is dropped by Sent
			p.drop(l, s)
		}
	}
	return nil
}

// Run calls settle once every settleEvery, until ctx ends.
func (p *Pool) Run(ctx context.Context) {
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			p.settle(now)
		}
	}
}

// settle drops idle segments and those whose reader has ended, and releases dropped segments that
// no process holds.
func (p *Pool) settle(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.lenders {
		for _, s := range slices.Clone(l.segments) {
			// No process holds this lent segment, but its connection is open. So the
			// reader has ended, and another process keeps the socket open.
			if s.state == lent && !s.held() || s.state == free && now.Sub(s.since) > idleTime {
				p.drop(l, s)
			}
		}
	}
	p.left = slices.DeleteFunc(p.left, func(s *segment) bool {
		if s.held() {
			return false
		}
		p.forget(s)
		return true
	})
}

// forget releases a dropped segment. The caller holds the mutex.
func (p *Pool) forget(s *segment) {
	p.stats.Lent -= s.size
	p.stats.Segments--
	p.stats.Bytes -= s.size
	if s.ended != nil {
		s.ended()
	}
	s.close()
	s.reservation.Release()
}

// Stats returns counters for metrics.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Close releases this process's share of all lent memory. All connections must be closed.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.left {
		p.forget(s)
	}
	p.left = nil
}
