// Package arrival stores in a context when the request for a batch arrived. The table of ranks thus
// knows how long a rank has waited when the read begins.
package arrival

import (
	"context"
	"time"
)

// Arrival is when and how a batch was requested. The zero value means that the batch is requested
// when its read begins.
type Arrival struct {
	At    time.Time
	Ahead bool // the batch continues an answer of many batches, so the reader does not wait for it yet
}

type key struct{}

// With returns a context that carries an arrival.
func With(ctx context.Context, a Arrival) context.Context { return context.WithValue(ctx, key{}, a) }

// Of returns the arrival in a context.
func Of(ctx context.Context) Arrival {
	a, _ := ctx.Value(key{}).(Arrival)
	return a
}
