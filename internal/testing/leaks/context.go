package leaks

import (
	"context"
	"sync"
	"sync/atomic"
)

// Context is a context that never ends. It counts the contexts and functions that wait for its end.
type Context struct {
	context.Context //nolint:containedctx // it is a context itself
	done            chan struct{}
	open            *atomic.Int64
}

// NewContext returns a Context without waiting contexts or functions.
func NewContext() Context {
	return Context{context.Background(), make(chan struct{}), new(atomic.Int64)}
}

// Done returns a channel that is never closed.
func (c Context) Done() <-chan struct{} { return c.done }

// AfterFunc registers a context or function that waits for the end of this one. Package context
// calls it.
func (c Context) AfterFunc(func()) (stop func() bool) {
	c.open.Add(1)
	return sync.OnceValue(func() bool {
		c.open.Add(-1)
		return true
	})
}

// Open returns the number of waiting contexts and functions.
func (c Context) Open() int64 { return c.open.Load() }
