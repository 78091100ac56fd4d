// Package admission holds each caller to its limits. It does not know why a caller has them.
package admission

import (
	"maps"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Callers knows what each caller takes now. It is safe for concurrent use; the zero value knows nobody.
type Callers struct {
	mu    sync.Mutex // guards what follows
	of    map[string]*caller
	sweep int // callers at which those are forgotten who take nothing
}

// caller is what one of them takes.
type caller struct {
	bodies   int64 // bytes of answers that are being read or sent
	lent     int64 // bytes of memory that its processes hold
	requests *rate.Limiter
}

// idle reports whether a caller takes nothing, and may make as many requests as one that was never seen.
func (c *caller) idle(now time.Time) bool {
	return c.bodies == 0 && c.lent == 0 && c.requests.TokensAt(now) >= float64(c.requests.Burst())
}

// mostCallers is how many callers are known before those are forgotten who are idle.
const mostCallers = 10_000

// get returns what a caller takes. The lock is held.
func (c *Callers) get(name string, now time.Time) *caller {
	if one := c.of[name]; one != nil {
		return one
	}
	if len(c.of) >= max(mostCallers, c.sweep) {
		maps.DeleteFunc(c.of, func(_ string, old *caller) bool { return old.idle(now) })
		c.sweep = 2 * len(c.of) // so that callers who are all busy are not looked through for each new one
	}
	if c.of == nil {
		c.of = map[string]*caller{}
	}
	one := &caller{requests: rate.NewLimiter(0, 0)}
	c.of[name] = one
	return one
}

// Account is what one caller may take. A nil Account has no limits.
type Account struct {
	Callers  *Callers
	Name     string
	Requests float64 // a second; 0: any number
	Memory   int64   // bytes of answers at a time; 0: any number
}

// Request counts a request. It returns 0 if the limit allows it, else when it may come. A second's worth of requests may
// come at once.
func (a *Account) Request() (wait time.Duration) {
	if a == nil || a.Requests <= 0 {
		return 0
	}
	c := a.Callers
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	one := c.get(a.Name, now)
	if burst := int(min(max(1, math.Ceil(a.Requests)), math.MaxInt32)); one.requests.Limit() != rate.Limit(a.Requests) {
		one.requests = rate.NewLimiter(rate.Limit(a.Requests), burst)
	}
	if one.requests.AllowN(now, 1) {
		return 0
	}
	return max(time.Millisecond, time.Duration(float64(time.Second)/a.Requests))
}

// Hold takes n bytes out of the memory that the caller may hold. One that holds nothing may have any number: no share is
// too small for the batches of a job.
func (a *Account) Hold(n int64) (release func(), ok bool) {
	return a.take(n, func(c *caller) *int64 { return &c.bodies }, true)
}

// Lend takes n bytes out of the memory that the caller may hold, for its processes to keep. What they keep never hinders an answer that
// is sent: Hold does not count it.
func (a *Account) Lend(n int64) (release func(), ok bool) {
	return a.take(n, func(c *caller) *int64 { return &c.lent }, false)
}

// take adds n bytes to a count of the caller, as far as its share allows. first says that the first bytes are allowed in any case.
func (a *Account) take(n int64, count func(*caller) *int64, first bool) (release func(), ok bool) {
	if a == nil || a.Memory <= 0 {
		return func() {}, true
	}
	c := a.Callers
	c.mu.Lock()
	defer c.mu.Unlock()
	held := count(c.get(a.Name, time.Now()))
	if *held+n > a.Memory && !(first && *held == 0) {
		return nil, false
	}
	*held += n
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		*held -= n
	}, true
}
