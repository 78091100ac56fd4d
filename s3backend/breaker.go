package s3backend

import (
	"fmt"
	"sync"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// breaker is a circuit breaker. If the store has returned only failures for a while, requests fail
// immediately, and one probe per interval tests whether the store works again.
type breaker struct {
	mu       sync.Mutex
	failures int
	since    time.Time // time of the first consecutive failure
	open     bool
	next     time.Time // time of the next probe
	probing  bool
}

const (
	breakAfter    = 20
	breakTime     = time.Second // a shorter burst of failures does not open the breaker
	probeInterval = time.Second
)

// outcome describes the health of the store after an attempt.
type outcome int

const (
	unclear outcome = iota
	healthy
	failed
)

func (b *breaker) allow() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return nil
	}
	if b.probing || time.Now().Before(b.next) {
		return &failure{kind: objstore.ErrUnavailable, detail: fmt.Sprintf("no answer in %d attempts, waiting for the next probe", b.failures)}
	}
	b.probing = true
	b.next = time.Now().Add(probeInterval) // so that reports of earlier requests do not allow another probe
	return nil
}

func (b *breaker) report(o outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	switch o {
	case healthy:
		b.open, b.failures = false, 0
	case failed:
		if b.failures == 0 {
			b.since = time.Now()
		}
		b.failures++
		if b.open || b.failures >= breakAfter && time.Since(b.since) >= breakTime {
			b.open = true
			b.next = time.Now().Add(probeInterval)
		}
	}
}

func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}
