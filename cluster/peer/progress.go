package peer

import "context"

// Progress is told how far a Read has come. Its functions must not block.
type Progress struct {
	Alive func() // the peer has said that it brings the answer
	Begun func() // the answer has begun to arrive
}

type progressKey struct{}

// WithProgress returns a context for one Read that tells p.
func WithProgress(ctx context.Context, p *Progress) context.Context {
	return context.WithValue(ctx, progressKey{}, p)
}

// ProgressOf returns whom a Read tells, nobody if the context names nobody: for what stands in a Client's place.
func ProgressOf(ctx context.Context) *Progress {
	if p, ok := ctx.Value(progressKey{}).(*Progress); ok {
		return p
	}
	return &Progress{Alive: func() {}, Begun: func() {}}
}
