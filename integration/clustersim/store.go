package clustersim

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// storeTime is how long a backend waits for a store that does not respond.
const storeTime = 5 * time.Second

// reach is one process's access to the store.
type reach struct {
	p     *process
	store depot
	books *books
}

// ReadRange implements objstore.RangeReader.
func (r reach) ReadRange(ctx context.Context, ref objstore.Ref, offset int64, dst ...[]byte) error {
	var n int64
	for _, d := range dst {
		n += int64(len(d))
	}
	limited, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	out := route{r.p.machine.number, theStore}
	if err := r.p.net.pass(limited, out, 0); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("read %q at %d: %w", ref.Key, offset, objstore.ErrTimeout)
	}
	defer r.books.read(r.p.machine.number, ref.Key, offset, n)()
	r.p.machine.run.trace("%s reads %d bytes of %s at %d", r.p.boot, n, ref.Key, offset)
	select {
	case r.store.line <- struct{}{}:
		defer func() { <-r.store.line }()
	case <-ctx.Done():
		return ctx.Err()
	}
	err := r.store.ReadRange(limited, ref, offset, dst...)
	if limited.Err() != nil && ctx.Err() == nil { // the store stalls: a backend would stop waiting
		return fmt.Errorf("read %q at %d: %w", ref.Key, offset, objstore.ErrTimeout)
	}
	if err != nil {
		return err
	}
	return r.p.net.cross(ctx, route{theStore, r.p.machine.number}, n) // without a limit, because bytes keep arriving
}

// Network numbers of machines that are not gateways.
const (
	theStore   = -1
	theReaders = -2
)

// books counts store reads.
type books struct {
	data *Data
	mark time.Time

	mu       sync.Mutex // guards the fields below
	requests map[int]int
	flights  map[flight]int
	chunks   []int64 // bytes read, by chunk
	late     []int64 // bytes read after mark, by chunk
	last     time.Time
	wanted   []bool // chunks that some request needed
	lost     []int  // chunks that were in the memory of a process, or in transit to it, when it was killed
}

func newBooks(d *Data) *books {
	n := d.Index.Chunks()
	return &books{data: d, requests: map[int]int{}, flights: map[flight]int{}, chunks: make([]int64, n), late: make([]int64, n), wanted: make([]bool, n)}
}

// read records a store read, which lasts until done is called.
func (b *books) read(machine int, key string, offset, n int64) (done func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests[machine]++
	var begun []flight
	for c := range b.chunks {
		part := b.data.part(c, key, offset, n)
		if part == 0 {
			continue
		}
		b.chunks[c] += part
		begun = append(begun, flight{machine, c})
		b.flights[flight{machine, c}]++
		if !b.mark.IsZero() && time.Now().After(b.mark) {
			b.late[c] += part
			b.last = time.Now()
		}
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, f := range begun {
			b.flights[f]--
		}
	}
}

// part returns how many stored bytes of a chunk are in a range of n bytes of an object.
func (d *Data) part(chunk int, key string, offset, n int64) (part int64) {
	for _, e := range d.Index.Extents(chunk) {
		if d.Prefix+d.Index.Shard(e.Shard).Key == key {
			part += max(0, min(offset+n, e.Offset+e.Length)-max(offset, e.Offset))
		}
	}
	return part
}

// flight is a chunk, or a part of it, in transit to a machine.
type flight struct{ machine, chunk int }

// want records that a request needs chunks.
func (b *books) want(chunks []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range chunks {
		b.wanted[c] = true
	}
}

// lose records the chunks that are lost when a machine's process dies: those in memory and those in
// transit to it.
func (b *books) lose(machine int, held []peer.Chunk) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range held {
		b.lost = append(b.lost, c.Number)
	}
	for f, n := range b.flights {
		if f.machine == machine && n > 0 && !slices.ContainsFunc(held, func(c peer.Chunk) bool { return c.Number == f.chunk }) {
			b.lost = append(b.lost, f.chunk)
		}
	}
}

// needed returns the number of unavoidable chunk reads: one per chunk that a request needed, and
// one more per loss.
func (b *books) needed() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, wanted := range b.wanted {
		if wanted {
			n++
		}
	}
	return n + len(b.lost)
}

// bytes returns the number of bytes read.
func (b *books) bytes() (sum int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.chunks {
		sum += n
	}
	return sum
}

// strays returns the number of chunks that were read after the mark although they were not lost.
func (b *books) strays() (sum float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c, n := range b.late {
		if n > 0 && !slices.Contains(b.lost, c) {
			sum += float64(n) / float64(b.data.Index.Chunk(c).Stored)
		}
	}
	return sum
}

// whole converts bytes to chunks. It returns the maximum for one chunk, and the sum over all.
func (b *books) whole(read []int64) (most, sum float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c, n := range read {
		if length := b.data.Index.Chunk(c).Stored; length > 0 {
			most = max(most, float64(n)/float64(length))
			sum += float64(n) / float64(length)
		}
	}
	return most, sum
}

// usual returns the delays of a healthy store: up to h.Store, or exactly that if h.Even is set.
func (h *History) usual() func(memstore.Call) memstore.Fault {
	if h.Even {
		return func(memstore.Call) memstore.Fault { return memstore.Fault{Delay: h.Store} }
	}
	return script(h.Seed, h.Store, 0)
}

// script returns a function with the faults of a store. Level of ten requests fail, in one of many
// ways. The fault depends only on the request's range and on the number of earlier requests for
// that range. It does not depend on the order of requests, which the scheduler determines.
func script(seed uint64, limit time.Duration, level int) func(memstore.Call) memstore.Fault {
	type part struct {
		key            string
		offset, length int64
	}
	var mu sync.Mutex // guards asked
	asked := map[part]uint64{}
	vocabulary := []error{
		objstore.ErrNotFound, objstore.ErrChanged, objstore.ErrDenied, objstore.ErrThrottled,
		objstore.ErrUnavailable, objstore.ErrTimeout, objstore.ErrShort,
	}
	return func(c memstore.Call) memstore.Fault {
		mu.Lock()
		p := part{c.Key, c.Offset, c.Length}
		asked[p]++
		name := fnv.New64a()
		fmt.Fprint(name, p, asked[p])
		mu.Unlock()
		rnd := rand.New(rand.NewPCG(seed, name.Sum64()))
		f := memstore.Fault{Delay: time.Duration(rnd.Int64N(int64(limit) + 1))}
		if rnd.IntN(10) >= level {
			return f
		}
		bit := rnd.IntN(1 << 20)
		switch rnd.IntN(5) {
		case 0:
			f.Err = vocabulary[rnd.IntN(len(vocabulary))]
		case 1:
			f.After, f.Err = rnd.Int64N(c.Length+1), vocabulary[rnd.IntN(len(vocabulary))]
		case 2:
			f.Stall = true // until the caller gives up
		case 3:
			f.Delay = time.Duration(rnd.IntN(3000)) * time.Millisecond
		case 4:
			f.Corrupt = func(b []byte) { b[bit/8%len(b)] ^= 1 << (bit % 8) }
		}
		return f
	}
}
