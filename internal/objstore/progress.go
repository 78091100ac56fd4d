package objstore

import "context"

type progressKey struct{}

// WithProgress asks ReadRange to report its progress: it may call report, one call at a time and before it returns, when more
// bytes of dst are filled, with their number in all. ReadRange does not write to these bytes again, even if it fails. So a
// caller can use them while the rest is on its way. A report of the same number again says that the store begins to answer
// another request, for the rest. A store need not report.
func WithProgress(ctx context.Context, report func(filled int64)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// Progress returns the function that WithProgress set, or one that does nothing.
func Progress(ctx context.Context) (report func(filled int64)) {
	if report, ok := ctx.Value(progressKey{}).(func(int64)); ok {
		return report
	}
	return func(int64) {}
}
