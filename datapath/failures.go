package datapath

import (
	"sync"
	"time"
)

// retryAhead is how long a chunk that could not be fetched is left to the requests that need it.
const retryAhead = 2 * time.Second

// failures remembers which chunks could not be fetched of late. A request that needs one asks for it and gets the error;
// ahead of need nothing asks for it for a while. Without this memory every wake-up of Run would ask the store for all of
// them again, and one read that fails can be a wake-up for another.
type failures struct {
	retry func() // called when some chunk may be tried again

	mu    sync.Mutex // guards what follows
	until map[key]time.Time
	queue []key // the keys of until, in the order in which they may be tried again
	armed bool  // over will be called
}

// add notes a chunk, and forgets those that may be tried again.
func (f *failures) add(now time.Time, k key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(now)
	if _, ok := f.until[k]; ok {
		return
	}
	if f.until == nil {
		f.until = map[key]time.Time{}
	}
	f.until[k] = now.Add(retryAhead)
	f.queue = append(f.queue, k)
	if !f.armed {
		f.armed = true
		time.AfterFunc(retryAhead, f.over)
	}
}

// forget forgets the chunks that may be tried again. Every chunk waits for as long, so they are the first of the queue,
// and each costs one step however many wait. The caller holds mu.
func (f *failures) forget(now time.Time) {
	n := 0
	for n < len(f.queue) && !now.Before(f.until[f.queue[n]]) {
		delete(f.until, f.queue[n])
		n++
	}
	f.queue = f.queue[n:]
}

// over tells that some chunk may be tried again, and comes again for the others: a few times a second at most, for
// thousands of chunks may have failed one after another.
func (f *failures) over() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.forget(now)
	if f.armed = len(f.queue) > 0; f.armed {
		time.AfterFunc(max(f.until[f.queue[0]].Sub(now), retryAhead/8), f.over)
	}
	f.retry()
}

// has reports whether it is too early to try a chunk again.
func (f *failures) has(now time.Time, k key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return now.Before(f.until[k])
}
