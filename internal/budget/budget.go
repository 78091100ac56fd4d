// Package budget counts the bytes a process may hold, in one place: whatever grows
// reserves first. It knows nothing of what the bytes are for.
package budget

import (
	"context"
	"errors"
	"time"
)

// ErrTooLarge says that a reservation could never be met; ErrOverloaded that it could not be met in time.
var (
	ErrTooLarge   = errors.New("larger than the memory budget")
	ErrOverloaded = errors.New("memory budget exhausted")
)

// Budget is a number of bytes shared by everything that grows.
type Budget struct{}

// New returns a budget of total bytes. A reservation waits at most maxWait.
func New(total int64, maxWait time.Duration) *Budget { return &Budget{} }

// Reserve takes n bytes at once, all or nothing, waiting for others to release theirs.
func (b *Budget) Reserve(ctx context.Context, n int64) (*Reservation, error) { return nil, nil }

// Total, InUse and Peak return bytes.
func (b *Budget) Total() int64 { return 0 }
func (b *Budget) InUse() int64 { return 0 }

// Reservation is a share of a budget, given back by Release.
type Reservation struct{}

// Release gives the bytes back. A second call does nothing.
func (r *Reservation) Release() {}
