package leaks

import (
	"context"
	"sync"
	"sync/atomic"
)

// Context is a context that never ends. It counts the contexts and functions that wait for its end.
type Context struct {
	context.Context //nolint:containedctx // it is one
	done            chan struct{}
	open            *atomic.Int64
}

// NewContext returns a Context that nothing waits for.
func NewContext() Context {
	return Context{context.Background(), make(chan struct{}), new(atomic.Int64)}
}

// Done returns a channel that is never closed.
func (c Context) Done() <-chan struct{} { return c.done }

// AfterFunc is how package context adds to a context that it does not know.
func (c Context) AfterFunc(func()) (stop func() bool) {
	c.open.Add(1)
	return sync.OnceValue(func() bool {
		c.open.Add(-1)
		return true
	})
}

// Open returns how many contexts and functions wait.
func (c Context) Open() int64 { return c.open.Load() }
