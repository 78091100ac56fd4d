package s3backend

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// watchdog cancels an attempt that makes no progress.
type watchdog struct{ timer *time.Timer }

func newWatchdog(cancel context.CancelCauseFunc, first time.Duration) *watchdog {
	return &watchdog{time.AfterFunc(first, func() {
		cancel(&failure{kind: objstore.ErrTimeout, detail: "no progress", retry: true, lost: true})
	})}
}

func (w *watchdog) arm(d time.Duration) { w.timer.Reset(d) }
func (w *watchdog) rest()               { w.timer.Stop() }

// watchedBody is a response body that must reach a minimum rate. Only time spent in Read counts, so
// a slow consumer is not a stall.
type watchedBody struct {
	body     io.Reader
	watchdog *watchdog
	policy   *retryPolicy
	spent    time.Duration // time spent in the current window
	bytes    int64
}

func (r *watchedBody) Read(p []byte) (int, error) {
	r.watchdog.arm(r.policy.stall)
	start := time.Now()
	n, err := r.body.Read(p)
	r.spent += time.Since(start)
	r.watchdog.rest()
	r.bytes += int64(n)
	if r.spent >= r.policy.rateWindow {
		if err == nil && float64(r.bytes) < float64(r.policy.minRate)*r.spent.Seconds() {
			detail := fmt.Sprintf("%d bytes in %s", r.bytes, r.spent.Round(time.Millisecond))
			return n, &failure{kind: objstore.ErrTimeout, detail: detail, retry: true}
		}
		r.spent, r.bytes = 0, 0
	}
	return n, err
}
