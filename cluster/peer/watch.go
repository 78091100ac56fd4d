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

// maxSigns bounds the signs of life of one request: twice what a server sends in the longest wait.
const maxSigns = 2 * int(maxWait/defaultSignEvery)

// lifeWatch ends a request whose peer has been silent for too long, or not done in time. A peer that has stopped is so
// told from one whose store is slow: the latter says every while that it lives.
type lifeWatch struct {
	cancel context.CancelCauseFunc
	asker  func() error // why the asker gave up, nil if it has not
	cause  func() error // why the request ended

	mu      sync.Mutex // guards what follows
	timer   *time.Timer
	last    time.Time     // when the peer was heard of
	silence time.Duration // that is borne after last
	due     time.Time     // when look is to run next
	end     time.Time     // by when it must be done
	doing   string        // what it must have done by then
	signs   int
	over    bool
}

// watch begins to watch a request. Before the first word of the peer it bears first, which has room for a connection.
func watch(ctx context.Context, first, total time.Duration) (context.Context, *lifeWatch) {
	watched, cancel := context.WithCancelCause(ctx)
	now := time.Now()
	w := &lifeWatch{
		cancel: cancel, last: now, silence: first, end: now.Add(total), doing: "begin its answer",
		asker: func() error { return context.Cause(ctx) },
		cause: func() error { return context.Cause(watched) },
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = now.Add(min(first, total))
	w.timer = time.AfterFunc(min(first, total), w.look)
	return watched, w
}

// look runs when the time may be up.
func (w *lifeWatch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	now := time.Now()
	if now.Sub(w.due) > w.silence/2 {
		w.last = now // it was we who stood still: what the peer has said meanwhile is still to be read
	}
	left := min(w.end.Sub(now), w.last.Add(w.silence).Sub(now))
	switch {
	case left > 0:
		w.again(now, left)
	case now.Before(w.end):
		w.cancel(fmt.Errorf("no sign of life for %v: %w", w.silence, ErrDown))
	default:
		w.cancel(fmt.Errorf("it did not %s in time: %w", w.doing, ErrDown))
	}
}

// heard says that the peer is there, and that from now on silence is how long it may say nothing.
func (w *lifeWatch) heard(silence time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.silence = time.Now(), silence
	if w.over {
		return
	}
	w.again(w.last, min(silence, w.end.Sub(w.last)))
}

// again has look run after d. It needs mu.
func (w *lifeWatch) again(now time.Time, d time.Duration) {
	w.due = now.Add(d)
	w.timer.Reset(d)
}

// sign counts a sign of life.
func (w *lifeWatch) sign(silence time.Duration) error {
	w.heard(silence)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.signs++; w.signs > maxSigns {
		return fmt.Errorf("more than %d signs of life: %w", maxSigns, ErrMalformed)
	}
	return nil
}

// within gives the peer another end, and says for what.
func (w *lifeWatch) within(total time.Duration, doing string, silence time.Duration) {
	w.mu.Lock()
	w.end, w.doing = time.Now().Add(total), doing
	w.mu.Unlock()
	w.heard(silence)
}

// finish ends the watch and the request's context.
func (w *lifeWatch) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
	w.cancel(nil)
}

// fault says what an error on the way means: the asker's own end, the watch's verdict, or a peer that is gone.
func (w *lifeWatch) fault(err error) error {
	if gone := w.asker(); gone != nil {
		if silent := w.silent(); silent >= missedSigns && errors.Is(gone, context.DeadlineExceeded) {
			return fmt.Errorf("%w, without a sign of life for %v: %w", gone, silent, ErrDown)
		}
		return gone
	}
	if cause := w.cause(); cause != nil {
		return cause
	}
	var record tls.RecordHeaderError
	if errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/" {
		err = http.ErrSchemeMismatch // the words of http.Client for a server without TLS
	}
	return fmt.Errorf("%w: %w", ErrDown, err)
}

// missedSigns is after how long without any sign a peer counts as down if the asker can wait no longer: two have failed to come. Else
// one that has stopped would never be told from a slow one by those whose time is short.
const missedSigns = 2 * defaultSignEvery

// silent returns for how long nothing was heard of the peer.
func (w *lifeWatch) silent() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.last)
}

// lively tells a watch of every byte that comes.
type lively struct {
	io.Reader
	watch *lifeWatch
}

func (l *lively) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if n > 0 {
		l.watch.alive()
	}
	return n, err
}

// alive is heard for what comes often: the timer finds out by itself when it fires.
func (w *lifeWatch) alive() {
	w.mu.Lock()
	w.last = time.Now()
	w.mu.Unlock()
}
