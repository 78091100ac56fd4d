package diskcache

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/internal/pause"
)

// Stall is the timeout for a disk that hangs.
const Stall = 2 * time.Second

// After 10 failed reads within 10 s, or one failed write, no such call is made for 10 s. Each
// further failure doubles the pause, up to 5 min.
const (
	readErrors  = 10
	writeErrors = 1
	errorTime   = 10 * time.Second
	longPause   = 5 * time.Minute
)

const (
	mostReads  = 16 // concurrent
	mostWrites = 4
	blockBytes = 64 << 10 // bytes of one call to the file system
)

// Memory is the memory for the reads and writes of a cache.
const Memory = (mostReads + mostWrites) * blockBytes

var (
	errHangs = errors.New("the disk does not respond")
	errLeft  = errors.New("the caller has left")
)

var all struct{}

// calls runs the reads of a disk, or its writes. A goroutine that hangs in the kernel can neither
// be ended nor waited for. So each call runs in a goroutine of its own, which uses the memory of
// its caller only while the caller waits. A hanging call keeps its place and one block, and no
// other call begins while it hangs. At most as many calls hang as there are places.
type calls struct {
	tell   func(err error) // reports that calls are off, or with a nil error that they are on again
	pauses *pause.List[struct{}]
	blocks chan []byte  // one place for each concurrent call, with its buffer; nil: the buffer is not allocated yet
	hung   atomic.Int64 // running calls that have taken longer than Stall
}

func newCalls(most, failures int, tell func(err error)) *calls {
	c := &calls{
		tell:   tell,
		pauses: pause.NewList[struct{}](pause.Rule{Failures: failures, First: errorTime, Longest: longPause}),
		blocks: make(chan []byte, most),
	}
	for range most {
		c.blocks <- nil
	}
	return c
}

// memory is the memory of a call: its own block, and the memory of its caller until the caller
// leaves.
type memory struct {
	block []byte

	mu   sync.Mutex // guards left, and the caller's memory while it is copied
	left bool
}

// copy copies from or to the memory of the caller, unless the caller has left.
func (m *memory) copy(dst, src []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left {
		return errLeft
	}
	copy(dst, src)
	return nil
}

func (m *memory) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = true
}

// do runs call in a goroutine and returns its error. If ctx ends or the call takes longer than
// Stall, do returns the error of that event, and m refuses further copies. do waits at most Stall
// for a place.
func (c *calls) do(ctx context.Context, call func(m *memory) error) error {
	if c.hung.Load() > 0 {
		return errHangs
	}
	m := &memory{}
	turn, cancel := context.WithTimeoutCause(ctx, Stall, errHangs)
	defer cancel()
	select {
	case m.block = <-c.blocks:
	case <-turn.Done():
		return context.Cause(turn)
	}
	done, hangs := make(chan error, 1), make(chan struct{})
	go c.run(m, call, done, hangs) // not waited for if the disk hangs
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		m.leave()
		return context.Cause(ctx)
	case <-hangs:
		m.leave()
		return errHangs
	}
}

// run makes a call and sends its error. It closes hangs after Stall.
func (c *calls) run(m *memory, call func(m *memory) error, done chan<- error, hangs chan<- struct{}) {
	stall := time.AfterFunc(Stall, func() {
		if c.hung.Add(1) == 1 {
			c.tell(errHangs)
		}
		close(hangs)
	})
	if m.block == nil {
		m.block = make([]byte, blockBytes)
	}
	err := call(m)
	if !stall.Stop() && c.hung.Add(-1) == 0 {
		c.tell(nil)
	}
	c.blocks <- m.block
	done <- err
}

// off reports whether calls are suspended, because the disk hangs or has failed too often.
func (c *calls) off() bool { return c.hung.Load() > 0 || c.pauses.Paused(all, time.Now()) }

// noted records the result of a call, and reports when calls are turned off or on. A canceled call
// does not count as a failure of the disk.
func (c *calls) noted(err error) {
	now := time.Now()
	if err == nil && c.pauses.Works(all, now) || err != nil && !errors.Is(err, errLeft) && c.pauses.Failed(all, now) {
		c.tell(err)
	}
}

// end waits for running calls until ctx ends.
func (c *calls) end(ctx context.Context) {
	ended := 0
	for ended < cap(c.blocks) && ctx.Err() == nil {
		select {
		case <-c.blocks:
			ended++
		case <-ctx.Done():
		}
	}
	for range ended {
		c.blocks <- nil
	}
}
