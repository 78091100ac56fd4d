// Package shaped makes a fast store behave like a remote one. It delays the first byte, limits the
// bandwidth of each stream and of all together, and limits the number of connections. Benchmarks
// and experiments use a shaped directory in place of S3.
package shaped

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Shape is the behaviour of a shaped store. The zero value of a field sets no limit.
type Shape struct {
	FirstByte   time.Duration // time before a request is answered
	Stream      float64       // bytes per second of one request
	Total       float64       // bytes per second of all requests together
	Connections int           // maximum number of concurrent requests; others wait
	Piece       int64         // bytes that a stream transfers at a time, default 256 KiB
}

// Store is a shaped store.
type Store struct {
	next  objstore.Store
	shape Shape
	conns chan struct{} // nil: unlimited
	total *pipe         // nil: unlimited

	requests, reads, opens  atomic.Int64
	bytesRead, bytesWritten atomic.Int64
	inFlight, mostInFlight  atomic.Int64
	waited                  atomic.Int64
}

// New returns a shaped store on top of next.
func New(next objstore.Store, shape Shape) *Store {
	if shape.Piece <= 0 {
		shape.Piece = 256 << 10
	}
	s := &Store{next: next, shape: shape}
	if shape.Connections > 0 {
		s.conns = make(chan struct{}, shape.Connections)
	}
	if shape.Total > 0 {
		s.total = &pipe{rate: shape.Total}
	}
	return s
}

// Stats are counters of requests.
type Stats struct {
	Requests     int64 // requests of all kinds
	Reads        int64 // calls of ReadRange
	Opens        int64
	BytesRead    int64 // bytes requested by ReadRange, or delivered by Open
	BytesWritten int64
	MaxInFlight  int64         // maximum number of concurrent requests with a connection
	Waited       time.Duration // total time spent waiting for connections
}

// Stats returns the counts since New or Reset.
func (s *Store) Stats() Stats {
	return Stats{
		Requests:     s.requests.Load(),
		Reads:        s.reads.Load(),
		Opens:        s.opens.Load(),
		BytesRead:    s.bytesRead.Load(),
		BytesWritten: s.bytesWritten.Load(),
		MaxInFlight:  s.mostInFlight.Load(),
		Waited:       time.Duration(s.waited.Load()),
	}
}

// Reset sets all counts to zero.
func (s *Store) Reset() {
	for _, c := range []*atomic.Int64{&s.requests, &s.reads, &s.opens, &s.bytesRead, &s.bytesWritten, &s.mostInFlight, &s.waited} {
		c.Store(0)
	}
}

// pipe is a link with a fixed rate, on which transfers follow one another.
type pipe struct {
	mu   sync.Mutex
	rate float64   // bytes per second
	free time.Time // end of the transfers so far
}

// book adds a transfer of n bytes to the link and returns the time at which it ends.
func (p *pipe) book(n int64) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	return p.free
}

// transfer waits until n bytes have passed the stream's own link and the common one, and reports
// progress.
func (s *Store) transfer(ctx context.Context, stream *pipe, n int64) error {
	report := objstore.Progress(ctx)
	for passed := int64(0); passed < n; report(passed) {
		piece := min(n-passed, s.shape.Piece)
		passed += piece
		var until time.Time
		if stream != nil {
			until = stream.book(piece)
		}
		if s.total != nil {
			if at := s.total.book(piece); at.After(until) {
				until = at
			}
		}
		if err := objstore.Sleep(ctx, time.Until(until)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) stream() *pipe {
	if s.shape.Stream <= 0 {
		return nil
	}
	return &pipe{rate: s.shape.Stream}
}

// begin waits for a connection and for the first byte. end releases the connection.
func (s *Store) begin(ctx context.Context) (end func(), err error) {
	s.requests.Add(1)
	if s.conns != nil {
		start := time.Now()
		select {
		case s.conns <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		s.waited.Add(int64(time.Since(start)))
	}
	now := s.inFlight.Add(1)
	for most := s.mostInFlight.Load(); now > most && !s.mostInFlight.CompareAndSwap(most, now); {
		most = s.mostInFlight.Load()
	}
	end = sync.OnceFunc(func() {
		s.inFlight.Add(-1)
		if s.conns != nil {
			<-s.conns
		}
	})
	if err := objstore.Sleep(ctx, s.shape.FirstByte); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// ReadRange implements objstore.RangeReader.
func (s *Store) ReadRange(ctx context.Context, ref objstore.Ref, offset int64, dst ...[]byte) error {
	end, err := s.begin(ctx)
	if err != nil {
		return fmt.Errorf("read %q at %d: %w", ref.Key, offset, err)
	}
	defer end()
	s.reads.Add(1)
	objstore.Progress(ctx)(0) // the response has begun
	whole := objstore.WithProgress(ctx, func(int64) {})
	if err := s.next.ReadRange(whole, ref, offset, dst...); err != nil {
		return err
	}
	var n int64
	for _, d := range dst {
		n += int64(len(d))
	}
	s.bytesRead.Add(n)
	if err := s.transfer(ctx, s.stream(), n); err != nil {
		return fmt.Errorf("read %q at %d: %w", ref.Key, offset, err)
	}
	return nil
}

// Stat implements objstore.Store.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Object, error) {
	end, err := s.begin(ctx)
	if err != nil {
		return objstore.Object{}, fmt.Errorf("stat %q: %w", key, err)
	}
	defer end()
	return s.next.Stat(ctx, key)
}

// List implements objstore.Store.
func (s *Store) List(ctx context.Context, prefix string, visit func(objstore.Object) error) error {
	end, err := s.begin(ctx)
	if err != nil {
		return fmt.Errorf("list %q: %w", prefix, err)
	}
	var found []objstore.Object
	err = s.next.List(ctx, prefix, func(o objstore.Object) error {
		found = append(found, o)
		return nil
	})
	end() // visit may call the store again, so List must not hold the last connection
	if err != nil {
		return err
	}
	for _, o := range found {
		if err := visit(o); err != nil {
			return err
		}
	}
	return nil
}

// Open implements objstore.Store. The reader holds a connection until it is closed.
func (s *Store) Open(ctx context.Context, ref objstore.Ref, offset int64) (io.ReadCloser, error) {
	end, err := s.begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("open %q at %d: %w", ref.Key, offset, err)
	}
	s.opens.Add(1)
	body, err := s.next.Open(ctx, ref, offset)
	if err != nil {
		end()
		return nil, err
	}
	return &reader{ctx: ctx, store: s, body: body, stream: s.stream(), end: end}, nil
}

type reader struct {
	ctx    context.Context
	store  *Store
	body   io.ReadCloser
	stream *pipe
	end    func()
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p[:min(int64(len(p)), r.store.shape.Piece)])
	r.store.bytesRead.Add(int64(n))
	if serr := r.store.transfer(r.ctx, r.stream, int64(n)); serr != nil {
		return 0, fmt.Errorf("read: %w", serr)
	}
	return n, err
}

func (r *reader) Close() error {
	r.end()
	return r.body.Close()
}

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, key string, body io.ReaderAt, size int64, cond objstore.Condition) (objstore.Object, error) {
	end, err := s.begin(ctx)
	if err != nil {
		return objstore.Object{}, fmt.Errorf("put %q: %w", key, err)
	}
	defer end()
	if err := s.transfer(ctx, s.stream(), size); err != nil {
		return objstore.Object{}, fmt.Errorf("put %q: %w", key, err)
	}
	o, err := s.next.Put(ctx, key, body, size, cond)
	if err == nil {
		s.bytesWritten.Add(size)
	}
	return o, err
}

// Delete implements objstore.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	end, err := s.begin(ctx)
	if err != nil {
		return fmt.Errorf("delete %q: %w", key, err)
	}
	defer end()
	return s.next.Delete(ctx, key)
}
