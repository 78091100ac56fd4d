// Package arrival carries in a context when the request came that a batch is read for, so that the table of ranks knows how long
// a rank has waited already when the read begins.
package arrival

import (
	"context"
	"time"
)

// Arrival is when and how a batch was asked for. The zero value says nothing: the batch is asked for as its read begins.
type Arrival struct {
	At    time.Time
	Ahead bool // an answer of many batches goes on with this one: the reader does not wait for it yet
}

type key struct{}

// With returns a context that carries an arrival.
func With(ctx context.Context, a Arrival) context.Context { return context.WithValue(ctx, key{}, a) }

// Of returns what With has put into a context.
func Of(ctx context.Context) Arrival {
	a, _ := ctx.Value(key{}).(Arrival)
	return a
}
