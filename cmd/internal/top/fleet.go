package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/millrace-data/millrace/client"
)

const (
	attemptTime = 5 * time.Second        // time limit of one request to a gateway
	patience    = 700 * time.Millisecond // wait for answers of one screen; the next screen shows later ones
	maxRequests = 64                     // concurrent requests, to limit the load of fleets of thousands
)

var errLate = errors.New("no answer yet")

// Poll is the answer of one gateway with its time.
type Poll struct {
	Gateway string
	At      time.Time // arrival of the answer
	Stats   Stats
	Cluster *Cluster // nil: no cluster, or no answer about it
	Err     error    // reason for a missing answer; Stats is then empty
}

// Fleet requests the statistics of the watched gateways.
type Fleet struct {
	sources  []*source
	slots    chan struct{} // has a token for each open request
	requests sync.WaitGroup

	mu    sync.Mutex
	polls map[string]*latest[Poll] // by gateway; the values are guarded by mu
}

// source is one given address, which may resolve to several gateways.
type source struct {
	name      string
	each      func(context.Context) ([]client.Gateway, error)
	closeIdle func()
	found     latest[lookup] // its value is guarded by Fleet.mu
}

type lookup struct {
	gateways []client.Gateway
	err      error
}

// latest is the last result of a request that is repeated, at most one at a time.
type latest[T any] struct {
	value T
	open  bool
	done  chan struct{} // closed when the request has ended; nil: never requested
}

// NewFleet takes the addresses of gateways, in all forms that client.Config takes. Each has a client
// of its own, so that an address that fails hides no other gateway.
func NewFleet(gateways []string) (*Fleet, error) {
	f := &Fleet{slots: make(chan struct{}, maxRequests)}
	for _, g := range gateways {
		c, err := client.New(client.Config{Gateways: []string{g}, Deadline: attemptTime, AttemptTimeout: attemptTime, UserAgent: "millrace-top"})
		if err != nil {
			return nil, err
		}
		f.sources = append(f.sources, &source{name: g, each: c.Each, closeIdle: c.CloseIdle, found: latest[lookup]{value: lookup{err: errLate}}})
	}
	return f, nil
}

// Close waits for open requests. The caller cancels their context first.
func (f *Fleet) Close() {
	f.requests.Wait()
	for _, s := range f.sources {
		s.closeIdle()
	}
}

// Poll sends a request to each gateway without an open one, and returns the last poll of each gateway
// in the order of the addresses. It waits at most limit for answers, and half of it for name lookups.
func (f *Fleet) Poll(ctx context.Context, limit time.Duration) []Poll {
	names, cancel := context.WithTimeout(ctx, limit/2)
	defer cancel()
	answers, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, s := range f.sources {
		refresh(f, &s.found, func() lookup { return s.lookUp(ctx) })
	}
	for _, s := range f.sources {
		s.found.wait(names)
	}
	known := f.request(ctx)
	for _, l := range known {
		l.wait(answers)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	polls := make([]Poll, len(known))
	for i, l := range known {
		polls[i] = l.value
	}
	return polls
}

// refresh starts get in the background, unless a request is open.
func refresh[T any](f *Fleet, l *latest[T], get func() T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.open {
		return
	}
	l.open, l.done = true, make(chan struct{})
	f.requests.Go(func() {
		value := get()
		f.mu.Lock()
		defer f.mu.Unlock()
		l.value, l.open = value, false
		close(l.done)
	})
}

// wait waits until the request ends or ctx ends.
func (l *latest[T]) wait(ctx context.Context) {
	if l.done != nil {
		select {
		case <-l.done:
		case <-ctx.Done():
		}
	}
}

func (s *source) lookUp(ctx context.Context) lookup {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	found, err := s.each(ctx)
	slices.SortStableFunc(found, func(a, b client.Gateway) int { return compareNames(a.String(), b.String()) })
	return lookup{found, err}
}

// request refreshes the poll of each known gateway, and returns them all. A failed lookup is a poll with its error.
func (f *Fleet) request(ctx context.Context) []*latest[Poll] {
	var all []*latest[Poll]
	polls := map[string]*latest[Poll]{}
	for _, s := range f.sources {
		f.mu.Lock()
		found := s.found.value
		f.mu.Unlock()
		if found.err != nil {
			all = append(all, &latest[Poll]{value: Poll{Gateway: s.name, At: time.Now(), Err: found.err}})
		}
		for _, g := range found.gateways {
			name := g.String()
			if polls[name] != nil {
				continue
			}
			l := cmp.Or(f.polls[name], &latest[Poll]{value: Poll{Gateway: name, At: time.Now(), Err: errLate}})
			refresh(f, l, func() Poll { return f.ask(ctx, g) })
			polls[name], all = l, append(all, l)
		}
	}
	f.polls = polls
	return all
}

// ask requests the statistics of one gateway.
func (f *Fleet) ask(ctx context.Context, g client.Gateway) Poll {
	f.slots <- struct{}{}
	defer func() { <-f.slots }()
	poll := Poll{Gateway: g.String()}
	// Gateways of earlier releases do not know readers=jobs, and answer with a list.
	poll.Err = g.JSON(ctx, "/v1/stats", url.Values{"readers": {"jobs"}}, &poll.Stats)
	if poll.Err == nil && poll.Stats.Counters == nil {
		poll.Err = fmt.Errorf("%s: %w: no counters", g, client.ErrProtocol)
	}
	poll.At = time.Now()
	if poll.Err != nil {
		poll.Stats = Stats{}
		return poll
	}
	if _, member := poll.Stats.Counters["millrace_cluster_members"]; member {
		var c Cluster
		if g.JSON(ctx, "/v1/cluster", nil, &c) == nil { // optional: the counters suffice
			poll.Cluster = &c
		}
	}
	return poll
}

// compareNames orders numbered names by their number: gw-9 before gw-10.
func compareNames(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
