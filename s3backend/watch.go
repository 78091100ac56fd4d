package s3backend

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// watch ends an attempt that makes no progress.
type watch struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func newWatch(cancel context.CancelCauseFunc, first time.Duration) *watch {
	w := &watch{cancel: cancel}
	w.timer = time.AfterFunc(first, func() {
		cancel(&failure{kind: objstore.ErrTimeout, detail: "no progress", retry: true, lost: true})
	})
	return w
}

func (w *watch) arm(d time.Duration) { w.timer.Reset(d) }
func (w *watch) rest()               { w.timer.Stop() }

// watched is the body of an answer. Only time spent in Read counts: a slow consumer is no stall.
type watched struct {
	body  io.Reader
	watch *watch
	lim   *limits
	spent time.Duration // in the current window
	bytes int64
}

func (r *watched) Read(p []byte) (int, error) {
	r.watch.arm(r.lim.stall)
	start := time.Now()
	n, err := r.body.Read(p)
	r.spent += time.Since(start)
	r.watch.rest()
	r.bytes += int64(n)
	if r.spent >= r.lim.rateWindow {
		if err == nil && float64(r.bytes) < float64(r.lim.minRate)*r.spent.Seconds() {
			f := &failure{kind: objstore.ErrTimeout, detail: fmt.Sprintf("%d bytes in %s", r.bytes, r.spent.Round(time.Millisecond)), retry: true}
			r.watch.cancel(f)
			return n, f
		}
		r.spent, r.bytes = 0, 0
	}
	return n, err
}
