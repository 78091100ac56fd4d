package s3backend

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/millrace-data/millrace/internal/objstore"
)

// budget bounds what retries cost the store: a tenth of the first attempts, or ten a
// second where that is more.
type budget struct {
	purse
	floor *rate.Limiter
}

func newBudget() *budget {
	return &budget{purse: purse{share: 0.1, most: 100}, floor: rate.NewLimiter(10, 10)}
}

func (b *budget) spend() bool { return b.floor.Allow() || b.purse.spend() }

// purse saves a share of one request for each that is made, up to most, and pays for whole ones.
type purse struct {
	share, most float64

	mu    sync.Mutex
	saved float64
}

func (p *purse) earn() {
	p.mu.Lock()
	p.saved = min(p.saved+p.share, p.most)
	p.mu.Unlock()
}

func (p *purse) spend() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.saved < 1 {
		return false
	}
	p.saved--
	return true
}

// wait returns how long to wait before retry n, counted from 1: full jitter, so that
// many who failed together do not come back together.
func (l limits) wait(n int, throttled bool) time.Duration {
	base := l.base
	if throttled {
		base *= 10
	}
	most := min(base<<min(n-1, 16), max(l.top, base))
	return time.Duration(rand.Int64N(int64(most) + 1))
}

// breaker stops sending to a store that answers nothing but failures: what comes then fails at
// once, and one probe per interval finds out when the store is back.
type breaker struct {
	mu       sync.Mutex
	failures int
	since    time.Time // of the first failure in the row
	open     bool
	next     time.Time // of the next probe
	probing  bool
}

const (
	breakAfter    = 20
	breakTime     = time.Second // a short burst does not open it
	probeInterval = time.Second
)

// outcome is what an attempt tells about the store's health.
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
	b.next = time.Now().Add(probeInterval) // whatever stragglers report meanwhile
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
