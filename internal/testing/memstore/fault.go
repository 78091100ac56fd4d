package memstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Op is a kind of request.
type Op string

// The kinds of requests. There is one for each method of objstore.Store.
const (
	Stat   Op = "stat"
	List   Op = "list"
	Read   Op = "read"
	Open   Op = "open"
	Put    Op = "put"
	Delete Op = "delete"
)

// Call is one request, in the form that a script receives.
type Call struct {
	N      int // number of requests before this one
	Op     Op
	Key    string // for List: the prefix
	ETag   string // the version that a read expects
	Offset int64
	Length int64 // bytes to read or write; -1: to the end
}

// Fault is the fault of one request. The zero value means no fault. The fields take effect in this
// order.
type Fault struct {
	// Delay is the time to wait before anything else, unless the context ends.
	Delay time.Duration
	// Before is called next, without a lock held, so it may change or delete the object.
	Before func()
	// Corrupt changes the bytes that a read delivers or a put stores.
	Corrupt func([]byte)
	// Applied makes a put or a delete take effect before Err or Stall, as if its response were
	// lost.
	Applied bool
	// After is the number of bytes (for List: of objects) delivered before Err or Stall. It has
	// no effect without one of them.
	After int64
	// Stall keeps the request waiting until its context ends.
	Stall bool
	// Err ends the request. It should wrap an error of objstore's vocabulary.
	Err error
}

// strike returns the error that ends the request, or nil. With Stall it waits for the end of ctx.
func (f Fault) strike(ctx context.Context) error {
	if f.Stall {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.Err
}

// SetFault sets the function that decides the fault of each request from now on. It is called for
// one request at a time, so it needs no lock, and must not wait. nil ends all faults.
func (s *Store) SetFault(script func(Call) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = script
}

// begin counts a call, gets its fault from the script, and waits for the delay. done ends the call.
func (s *Store) begin(ctx context.Context, c Call) (f Fault, done func(), err error) {
	if err := ctx.Err(); err != nil {
		return Fault{}, nil, err
	}
	s.mu.Lock()
	c.N = s.stats.Total
	s.stats.Total++
	s.stats.Requests[c.Op]++
	if c.Op == Read || c.Op == Open {
		s.reads = append(s.reads, Range{Key: c.Key, Offset: c.Offset, Length: c.Length})
	}
	s.inFlight++
	s.stats.MaxInFlight = max(s.stats.MaxInFlight, s.inFlight)
	script := s.fault
	s.mu.Unlock()
	if script != nil {
		s.asking.Lock()
		f = script(c)
		s.asking.Unlock()
	}
	if f.Delay > 0 {
		if err := objstore.Sleep(ctx, f.Delay); err != nil {
			s.end()
			return Fault{}, nil, err
		}
	}
	if f.Before != nil {
		f.Before()
	}
	return f, s.end, nil
}

func (s *Store) end() {
	s.mu.Lock()
	s.inFlight--
	s.mu.Unlock()
}

// Stats are counters of requests.
type Stats struct {
	Total        int
	Requests     map[Op]int
	BytesRead    int64 // including bytes of reads that failed later
	BytesWritten int64
	MaxInFlight  int // maximum number of concurrent requests
}

// Range is the range of one read request.
type Range struct {
	Key    string
	Offset int64
	Length int64 // -1: to the end
}

// Stats returns the counts since New or Reset.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Requests = maps.Clone(st.Requests)
	return st
}

// Reads returns all requested ranges since New or Reset, in order.
func (s *Store) Reads() []Range {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.reads)
}

// InFlight returns the number of requests that have not ended.
func (s *Store) InFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlight
}

// Reset sets all counts to zero.
func (s *Store) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats = Stats{Requests: map[Op]int{}}
	s.reads = nil
}

func (s *Store) count(read int64) {
	s.mu.Lock()
	s.stats.BytesRead += read
	s.mu.Unlock()
}
