package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/millrace-data/millrace/internal/objstore"
)

// slots is the number of parts that a RELAY holds: those that it fetches and those that it sends.
const slots = 16

// stream is a RELAY: it receives a dataset from the store, like STRAIGHT, and sends it in pieces of
// equal length, each byte once and in stored order. It does not check, gather or cache.
type stream struct {
	store  objstore.Store
	pieces []piece // parts of the dataset
	starts []int64 // start of each part in the dataset
	total  int64
	body   int64
	ready  []chan []byte  // bytes of each part, once they have arrived
	left   []atomic.Int64 // unsent bytes of each part
	free   chan []byte
	begin  func() // starts fetching on its first call
}

// newStream opens a dataset in a store.
func newStream(ctx context.Context, store objstore.Store, d set) (s *stream, err error) {
	s = &stream{store: store, body: d.body(), free: make(chan []byte, slots)}
	if s.pieces, err = d.parts(ctx, store, part); err != nil {
		return nil, err
	}
	s.ready, s.left = make([]chan []byte, len(s.pieces)), make([]atomic.Int64, len(s.pieces))
	for i, p := range s.pieces {
		s.starts = append(s.starts, s.total)
		s.total += p.length
		s.ready[i] = make(chan []byte, 1)
		s.left[i].Store(p.length)
	}
	for range slots {
		buf := make([]byte, part)
		for at := 0; at < len(buf); at += 4096 {
			buf[at] = 1 // touched: resident
		}
		s.free <- buf
	}
	return s, nil
}

// fetch reads all parts in order, several at a time, into the free slots.
func (s *stream) fetch(ctx context.Context) error {
	var next atomic.Int64
	var order sync.Mutex // parts receive their buffers in order
	var all sync.WaitGroup
	failed := make(chan error, streams)
	for range streams {
		all.Go(func() {
			for {
				order.Lock()
				i := next.Add(1) - 1
				if i >= int64(len(s.pieces)) {
					order.Unlock()
					return
				}
				var buf []byte
				select {
				case buf = <-s.free:
				case <-ctx.Done():
				}
				order.Unlock()
				if buf == nil {
					return
				}
				p := s.pieces[i]
				if err := s.store.ReadRange(ctx, p.ref, p.offset, buf[:p.length]); err != nil {
					failed <- err
					return
				}
				s.ready[i] <- buf[:p.length]
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}

// ServeHTTP sends piece n. The first request starts fetching.
func (s *stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
	if err != nil || n < 0 || n*s.body >= s.total {
		http.Error(w, "no such piece", http.StatusNotFound)
		return
	}
	s.begin()
	at, end := n*s.body, min((n+1)*s.body, s.total)
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Content-Length", strconv.FormatInt(end-at, 10))
	for i := 0; i < len(s.pieces) && s.starts[i] < end; i++ {
		from, to := max(at, s.starts[i]), min(end, s.starts[i]+s.pieces[i].length)
		if from >= to {
			continue
		}
		var data []byte
		select {
		case data = <-s.ready[i]:
		case <-r.Context().Done():
			return
		}
		s.ready[i] <- data                               // for other pieces from the same part
		w.Write(data[from-s.starts[i] : to-s.starts[i]]) //nolint:errcheck // the reader has gone
		if s.left[i].Add(from-to) == 0 {
			s.free <- data[:part]
		}
	}
}

// relayed reads the whole dataset from a newly started RELAY.
func (s *suite) relayed(ctx context.Context, d set) (load, error) {
	relay, err := startYardstick(ctx, d.body(), 0, "-stream", d.name, "-store", "http://"+s.world.minio.addr, "-mib", fmt.Sprint(s.mib))
	if err != nil {
		return load{}, err
	}
	defer relay.stop()
	s.world.minio.settle()
	pieces := (int64(d.shards)*(d.each*d.stride()+1024) + d.body() - 1) / d.body()
	return read(ctx, relay.addr, conns, 0, func(i int64) string {
		if i >= pieces {
			return ""
		}
		return fmt.Sprintf("/stream?n=%d", i)
	})
}
