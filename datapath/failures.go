package datapath

import (
	"maps"
	"sync"
	"time"
)

// retryAhead is how long a chunk that could not be fetched is left to those who need it.
const retryAhead = 2 * time.Second

// failures remembers which chunks could not be fetched of late. Who needs one asks for it and gets the error; ahead of
// need nobody does for a while. Without this memory whatever makes Run look again would ask the store for all of them
// again, and one read that fails can make it look for another.
type failures struct {
	mu    sync.Mutex // guards until
	until map[key]time.Time
}

// add notes a chunk, and forgets those that may be tried again.
func (f *failures) add(now time.Time, k key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.until, func(_ key, until time.Time) bool { return !now.Before(until) })
	if f.until == nil {
		f.until = map[key]time.Time{}
	}
	f.until[k] = now.Add(retryAhead)
}

// has reports whether it is too early to try a chunk again.
func (f *failures) has(now time.Time, k key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return now.Before(f.until[k])
}
