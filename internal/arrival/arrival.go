// Package arrival stores in a context when the request for a batch arrived. From it, the table of
// ranks computes how long a rank has waited when the read begins.
package arrival

import (
	"context"
	"time"
)

// Arrival is the time and kind of a request for a batch. The zero value means that the request
// arrived when its read begins.
type Arrival struct {
	At    time.Time
	Ahead bool // the batch continues a response of many batches, so the reader does not wait for it yet
}

type key struct{}

// With returns a context that carries an arrival.
func With(ctx context.Context, a Arrival) context.Context { return context.WithValue(ctx, key{}, a) }

// Of returns the arrival stored in a context.
func Of(ctx context.Context) Arrival {
	a, _ := ctx.Value(key{}).(Arrival)
	return a
}
