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

// missedSigns is after how long without any sign a peer counts as down if the asker can wait no longer: two signs have failed to
// come. Else askers whose time is short would never tell a peer that has stopped from a slow one.
const missedSigns = 2 * defaultSignEvery

// watchdog cancels a request whose peer is silent for too long or misses a deadline. A slow store
// does not trigger it: a peer that waits for its store sends signs of life.
type watchdog struct {
	asker   func() error // why the asker gave up, nil if it has not
	end     context.CancelFunc
	silence time.Duration // that is borne after last

	mu      sync.Mutex // guards what follows
	timer   *time.Timer
	last    time.Time // when the peer was heard of
	due     time.Time // when look is to run next
	until   time.Time // when it must be done
	doing   string    // what it must have done by then
	verdict error     // why the request was ended
}

// startWatchdog begins to watch a request. Until the first byte from the peer, it tolerates
// additional silence for connecting.
func startWatchdog(ctx context.Context, connecting, silence, total time.Duration) (context.Context, *watchdog) {
	watched, end := context.WithCancel(ctx)
	now := time.Now()
	w := &watchdog{
		asker: func() error { return context.Cause(ctx) }, end: end, silence: silence,
		last: now.Add(connecting), until: now.Add(total), doing: "begin its answer",
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(total, w.look)
	w.again(now)
	return watched, w
}

// again has look run when the time may be up. The caller holds mu.
func (w *watchdog) again(now time.Time) {
	left := min(w.until.Sub(now), w.last.Add(w.silence).Sub(now))
	w.due = now.Add(left)
	w.timer.Reset(left)
}

// look runs when the time may be up.
func (w *watchdog) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if now.Sub(w.due) > w.silence/2 {
		w.last = now // it was this gateway that stood still: what the peer has said meanwhile is still to be read
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

// heard says that the peer is there.
func (w *watchdog) heard() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = time.Now()
	w.again(w.last)
}

// within gives the peer another end, and says for what.
func (w *watchdog) within(total time.Duration, doing string) {
	w.mu.Lock()
	w.until, w.doing = time.Now().Add(total), doing
	w.mu.Unlock()
	w.heard()
}

// finish ends the watch and the request's context.
func (w *watchdog) finish() {
	w.timer.Stop()
	w.end()
}

// fault says what an error on the way means: the asker's own end, the watch's verdict, or a peer that is gone.
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
		err = http.ErrSchemeMismatch // the words of http.Client for a server without TLS
	}
	return fmt.Errorf("%w: %w", ErrDown, err)
}

// activityReader tells a watchdog of every byte. It stores a time; the timer reads it when it
// fires.
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
