package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// missedSigns is the length of silence after which a peer counts as down when the asker's deadline
// expires: the time of two signs of life. Without this rule an asker with a short deadline could
// not distinguish a stopped peer from a slow one.
const missedSigns = 2 * defaultSignEvery

// watchdog cancels a request whose peer is silent for too long or misses a deadline. A slow store
// does not trigger it: a peer that waits for its store sends signs of life.
type watchdog struct {
	asker   func() error // returns why the asker canceled the request; nil if it has not
	end     context.CancelFunc
	silence time.Duration // maximum silence after last

	mu      sync.Mutex // guards the fields below
	timer   *time.Timer
	last    time.Time // when the last byte or sign of life arrived
	due     time.Time // when look runs next
	until   time.Time // deadline of the current step
	doing   string    // name of the current step
	verdict error     // why the watchdog canceled the request
}

// startWatchdog starts to watch a request. Until the peer's first sign of life, it allows
// additional silence for connecting.
func startWatchdog(ctx context.Context, connecting, silence, total time.Duration) (context.Context, *watchdog) {
	watched, end := context.WithCancel(ctx)
	now := time.Now()
	w := &watchdog{
		asker: func() error { return context.Cause(ctx) }, end: end, silence: silence,
		last: now.Add(connecting), until: now.Add(total), doing: "begin its response",
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(total, w.look)
	w.again(now)
	return watched, w
}

// again schedules look for the earliest possible timeout. The caller holds mu.
func (w *watchdog) again(now time.Time) {
	left := min(w.until.Sub(now), w.last.Add(w.silence).Sub(now))
	w.due = now.Add(left)
	w.timer.Reset(left)
}

// look runs when a timeout may have expired.
func (w *watchdog) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if now.Sub(w.due) > w.silence/2 {
		w.last = now // this gateway was stopped, so it may not have read the peer's signs of life yet
	}
	switch {
	case !now.Before(w.until):
		w.verdict = fmt.Errorf("it did not %s in time: %w", w.doing, ErrDown)
	case now.Sub(w.last) >= w.silence:
		w.verdict = fmt.Errorf("no sign of life for %v: %w", w.silence, ErrDown)
	default:
		w.again(now)
		return
	}
	w.end()
}

// heard records a sign of life.
func (w *watchdog) heard() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = time.Now()
	w.again(w.last)
}

// within begins a step with a new deadline.
func (w *watchdog) within(total time.Duration, doing string) {
	w.mu.Lock()
	w.until, w.doing = time.Now().Add(total), doing
	w.mu.Unlock()
	w.heard()
}

// finish stops the watchdog and ends the request's context.
func (w *watchdog) finish() {
	w.timer.Stop()
	w.end()
}

// fault returns the cause of an error: the asker's cancelation, the watchdog's verdict, or the fact
// that the peer is gone.
func (w *watchdog) fault(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if gone := w.asker(); gone != nil {
		if silent := time.Since(w.last); silent >= missedSigns && errors.Is(gone, context.DeadlineExceeded) {
			return fmt.Errorf("%w, without a sign of life for %v: %w", gone, silent, ErrDown)
		}
		return gone
	}
	if w.verdict != nil {
		return w.verdict
	}
	if record, ok := errors.AsType[tls.RecordHeaderError](err); ok && string(record.RecordHeader[:]) == "HTTP/" {
		err = http.ErrSchemeMismatch // same error as http.Client returns for a server without TLS
	}
	return fmt.Errorf("%w: %w", ErrDown, err)
}

// activityReader reports every byte to a watchdog. It only stores the time, which the timer reads
// when it fires.
type activityReader struct {
	io.Reader
	watch *watchdog
}

func (l *activityReader) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if n > 0 {
		l.watch.mu.Lock()
		l.watch.last = time.Now()
		l.watch.mu.Unlock()
	}
	return n, err
}
