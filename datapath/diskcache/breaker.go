package diskcache

import "time"

const (
	readErrors = 10 // within errorTime: the disk is not read for a while
	errorTime  = 10 * time.Second
	shortPause = 10 * time.Second
	longPause  = 5 * time.Minute
)

// breaker keeps calls from a disk that fails them. After a pause, twice as long each time, one call finds out whether the
// disk works again. The cache's lock guards it.
type breaker struct {
	most    int         // errors within errorTime that open it
	errors  []time.Time // the latest, oldest first
	until   time.Time   // no call before; zero: closed
	pause   time.Duration
	probing bool
}

// off reports whether a call would be refused now.
func (b *breaker) off(now time.Time) bool {
	return !b.until.IsZero() && (b.probing || now.Before(b.until))
}

// enter reports whether a call may be made, and whether it is the probe. Each ok must be followed by leave.
func (b *breaker) enter(now time.Time) (probe, ok bool) {
	if b.off(now) {
		return false, false
	}
	b.probing = !b.until.IsZero()
	return b.probing, true
}

// leave tells how a call ended, and reports whether that opened or closed the breaker. While it is open only the probe
// counts: the others began before.
func (b *breaker) leave(now time.Time, probe, failed bool) (turned bool) {
	switch {
	case probe && failed:
		b.probing = false
		b.open(now)
	case probe:
		*b = breaker{most: b.most}
	case failed:
		return b.fail(now)
	}
	return probe
}

// fail notes an error, and reports whether it opened the breaker.
func (b *breaker) fail(now time.Time) (turned bool) {
	if !b.until.IsZero() {
		return false
	}
	for len(b.errors) > 0 && now.Sub(b.errors[0]) > errorTime {
		b.errors = b.errors[1:]
	}
	b.errors = append(b.errors, now)
	if len(b.errors) < b.most {
		return false
	}
	b.open(now)
	return true
}

func (b *breaker) open(now time.Time) {
	b.pause = min(max(2*b.pause, shortPause), longPause)
	b.until = now.Add(b.pause)
	b.errors = nil
}
