// Package admission enforces the limits of callers. It does not set the limits.
package admission

import (
	"maps"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Callers tracks the current use of each caller. It is safe for concurrent use; the zero value is
// empty.
type Callers struct {
	mu    sync.Mutex // guards the fields below
	of    map[string]*caller
	sweep int // number of callers at which idle ones are removed
}

// caller is the current use of one caller.
type caller struct {
	bodies   int64 // bytes of responses being read or sent
	lent     int64 // bytes of shared memory that its processes hold
	requests *rate.Limiter
}

// idle reports whether a caller uses no memory and has its full allowance of requests, like a new
// caller.
func (c *caller) idle(now time.Time) bool {
	return c.bodies == 0 && c.lent == 0 && c.requests.TokensAt(now) >= float64(c.requests.Burst())
}

// mostCallers is the number of callers above which idle ones are removed.
const mostCallers = 10_000

// get returns the use of a caller. The caller of get holds mu.
func (c *Callers) get(name string, now time.Time) *caller {
	if one := c.of[name]; one != nil {
		return one
	}
	if len(c.of) >= max(mostCallers, c.sweep) {
		maps.DeleteFunc(c.of, func(_ string, old *caller) bool { return old.idle(now) })
		c.sweep = 2 * len(c.of) // prevents a search for idle callers on every call if all are busy
	}
	if c.of == nil {
		c.of = map[string]*caller{}
	}
	one := &caller{requests: rate.NewLimiter(0, 0)}
	c.of[name] = one
	return one
}

// Account has the limits of one caller. A nil Account has no limits.
type Account struct {
	Callers  *Callers
	Name     string
	Requests float64 // per second; 0: unlimited
	Memory   int64   // bytes of concurrent responses; 0: unlimited
}

// Request counts a request. It returns 0 if the limit allows it, otherwise the time to wait. The
// burst is one second of requests.
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

// Hold reserves n bytes of the caller's memory for a body. A caller without other bodies may
// reserve any amount, because its limit may be smaller than a batch of its job.
func (a *Account) Hold(n int64) (release func(), ok bool) {
	return a.take(n, func(c *caller) *int64 { return &c.bodies }, true)
}

// Lend reserves n bytes of the caller's memory for its processes. Hold does not count these bytes,
// so they never block a response.
func (a *Account) Lend(n int64) (release func(), ok bool) {
	return a.take(n, func(c *caller) *int64 { return &c.lent }, false)
}

// take adds n bytes to a counter of the caller, within its limit. With first, a reservation is
// always allowed if the counter is zero.
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
