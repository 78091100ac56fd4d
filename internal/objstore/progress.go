package objstore

import "context"

type progressKey struct{}

// WithProgress sets a function by which ReadRange reports progress. ReadRange may call report, one
// call at a time and before it returns, with the number of bytes of dst filled so far. It does not
// write to these bytes again, even if it fails, so a caller can use them while the rest is read. A
// repeated number means that the response to another request begins, with the rest of the bytes.
// Reports are optional.
func WithProgress(ctx context.Context, report func(filled int64)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// Progress returns the function set by WithProgress, or one that does nothing.
func Progress(ctx context.Context) (report func(filled int64)) {
	if report, ok := ctx.Value(progressKey{}).(func(int64)); ok {
		return report
	}
	return func(int64) {}
}
