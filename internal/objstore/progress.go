package objstore

import "context"

type progressKey struct{}

// WithProgress asks ReadRange to say how far it is: it may call report, from its own goroutine, each time more bytes of
// dst are filled, with how many in all. Those bytes change no more, unless a smaller number says that it begins
// again from there. So a caller can work on them while they are in the processor's cache. A store need not report.
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
