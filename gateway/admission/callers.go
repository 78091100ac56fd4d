// Package admission holds each caller to its limits. It does not know why a caller has them.
package admission

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Callers knows what each caller takes now. It is safe for concurrent use; the zero value knows nobody.
type Callers struct {
	mu sync.Mutex // guards what follows
	of map[string]*caller
}

// caller is what one of them takes.
type caller struct {
	bodies   int64 // bytes of answers that are being read or sent
	requests *rate.Limiter
	seen     time.Time
}

// Callers that were not seen for as long are forgotten once there are so many: by then their limit on requests allows a
// whole burst again.
const (
	mostCallers  = 10_000
	callerForget = time.Minute
)

// get returns what a caller takes. The lock is held.
func (c *Callers) get(name string, now time.Time) *caller {
	one := c.of[name]
	if one == nil {
		if len(c.of) >= mostCallers {
			for name, old := range c.of {
				if old.bodies == 0 && now.Sub(old.seen) > callerForget {
					delete(c.of, name)
				}
			}
		}
		if c.of == nil {
			c.of = map[string]*caller{}
		}
		one = &caller{requests: rate.NewLimiter(0, 0)}
		c.of[name] = one
	}
	one.seen = now
	return one
}

// Request counts a request. It returns 0 if limit requests a second allow it, else when they may. A second's worth of
// requests may come at once.
func (c *Callers) Request(name string, limit float64) (wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	one := c.get(name, now)
	if burst := int(max(1, math.Ceil(limit))); one.requests.Limit() != rate.Limit(limit) {
		one.requests = rate.NewLimiter(rate.Limit(limit), burst)
	}
	if one.requests.AllowN(now, 1) {
		return 0
	}
	return max(time.Millisecond, time.Duration(float64(time.Second)/limit))
}

// Hold takes n bytes out of the most bytes that a caller may hold. A caller that holds nothing may have any number: no share
// is too small for the batches of a job.
func (c *Callers) Hold(name string, n, most int64) (release func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.get(name, time.Now())
	if one.bodies > 0 && one.bodies+n > most {
		return nil, false
	}
	one.bodies += n
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		one.bodies -= n
	}, true
}
