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
	mostSegments     = 4096 // of all connections
	mostOfConnection = 64   // segments
	budgetShare      = 2    // segments take at most one part in so many of the budget
	spare            = 32   // a segment is longer than asked for by one part in so many: the next batch may be a little longer
	mostWaste        = 4    // a segment that is so many times as long as the batch is not used for it: the last batch of an epoch may be short
	smallWaste       = 64 << 10
	idleTime         = 10 * time.Second // after which a segment that is not used goes
	settleEvery      = time.Second
)

// Pool lends memory. It is safe for concurrent use.
type Pool struct {
	budget      *budget.Budget // segments are taken from it
	most        int64          // bytes of all segments
	descriptors int            // segments of all connections

	mu      sync.Mutex // guards what follows, and the states of all segments
	lenders map[*Lender]struct{}
	left    []*segment // that are never written again, and may still be mapped by a reader
	stats   Stats
}

// Stats says what is lent, and what was.
type Stats struct {
	Bytes    int64 // of segments, free ones too
	Lent     int64 // of these, bytes of segments that readers hold
	Segments int   // descriptors that are open for them
	Leases   int64 // that were given
	Refused  int64 // leases that were asked for and not given
}

// New returns a pool that takes its memory from a budget, or an error that says why no memory can be lent on this machine.
func New(b *budget.Budget) (*Pool, error) {
	if err := probe(); err != nil {
		return nil, err
	}
	return &Pool{budget: b, most: b.Total() / budgetShare, descriptors: mostDescriptors(), lenders: map[*Lender]struct{}{}}, nil
}

// state of a segment.
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
	state       state     // while the connection has it
	since       time.Time // when it became free
	lease       uint64
	ended       func() // of the lease; nil: there is none
	reservation *budget.Reservation
}

// Purpose is what a segment is used for. It is used for nothing else.
type Purpose struct {
	Principal string // who reads it
	Dataset   string
	Rules     int64 // number of the access rules by which the principal may
}

// Lender lends segments to the other end of one connection. One request at a time uses it.
type Lender struct {
	pool     *Pool
	segments []*segment // guarded by the pool's mutex, like what follows
	gone     []uint64   // dropped segments of which the reader was not told yet
	numbers  uint64     // segments so far
	leases   uint64     // so far
	closed   bool
}

// Lender returns one for a new connection.
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
	Bytes      []byte   // to write to before Sent is called; the whole segment
	Descriptor int      // to send along, if the reader does not have the segment yet; -1: the reader has it
	Gone       []uint64 // segments that the reader can unmap

	lender  *Lender
	segment *segment
}

// Lend returns memory of at least n bytes, unless there is none that this connection may have. ended is called once, when the lease is
// over. The caller writes to it, sends it, and calls Sent.
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

// take returns a segment in the state filling, and whether it is new to the reader; nil: there is none.
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
		if one.state == free && (one.size < n || one.purpose != purpose) { // it would be held in vain
			p.drop(l, one)
		}
	}
	page := int64(os.Getpagesize())
	size := (n + n/spare + page - 1) / page * page
	may := !l.closed && len(l.segments) < mostOfConnection && p.stats.Segments < p.descriptors && p.stats.Bytes+size <= p.most
	if may { // counted at once, since it is made without the lock
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

// make makes a segment that is counted already; nil: there is no memory.
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

// Sent ends the writing: ok says that the reader was sent the lease whole. If not, nobody knows what it has, and the memory is never
// used again.
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

// Release ends leases. Numbers that are not lent are passed over.
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

// drop takes a segment away from its connection: nothing is written there any more. Its bytes count as lent until no reader has it open
// or mapped. The caller holds the pool's mutex, and no request writes to the segment.
func (p *Pool) drop(l *Lender, s *segment) {
	l.segments = slices.DeleteFunc(l.segments, func(one *segment) bool { return one == s })
	l.gone = append(l.gone, s.number)
	s.unmap()
	if s.state == free {
		p.stats.Lent += s.size // until the reader has unmapped it
	}
	p.left = append(p.left, s)
}

// Close ends the connection: its memory is never written again.
func (l *Lender) Close() error {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	l.closed = true
	delete(p.lenders, l)
	for _, s := range slices.Clone(l.segments) {
		if s.state != filling { // else Sent drops it
			p.drop(l, s)
		}
	}
	return nil
}

// Run finds out from time to time what is over, until ctx ends.
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

// settle gives back what nobody holds any more.
func (p *Pool) settle(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.lenders {
		for _, s := range slices.Clone(l.segments) {
			// What nobody has while its connection lives was a reader's that has ended, and another process keeps the socket.
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

// forget ends a segment that was dropped. The mutex is held.
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

// Close ends this process's part in all that is lent. No connection may be left.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.left {
		p.forget(s)
	}
	p.left = nil
}
