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
	mostAtOnce  = 64                     // concurrent requests, to limit the load of fleets of thousands
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
	sources []*source
	places  chan struct{} // has a token for each open request
	asking  sync.WaitGroup

	mu   sync.Mutex
	last map[string]*state // guarded by mu
}

// source is one given address, which may resolve to several gateways.
type source struct {
	name string
	each func(context.Context) ([]client.Gateway, error)
	idle func() // closes connections that no request uses

	// Guarded by Fleet.mu:
	found []client.Gateway
	err   error
	under bool          // a lookup is open
	done  chan struct{} // closed when the lookup has ended
}

// state is the last poll of a gateway and its open request.
type state struct {
	poll  Poll
	under bool          // a request is open
	done  chan struct{} // closed when the request has ended
}

// NewFleet takes the addresses of gateways, in all forms that client.Config takes. Each has a client of its own, so that a name without an
// address hides no other gateway.
func NewFleet(gateways []string) (*Fleet, error) {
	f := &Fleet{places: make(chan struct{}, mostAtOnce), last: map[string]*state{}}
	for _, g := range gateways {
		c, err := client.New(client.Config{Gateways: []string{g}, Deadline: attemptTime, AttemptTimeout: attemptTime, UserAgent: "millrace-top"})
		if err != nil {
			return nil, err
		}
		f.sources = append(f.sources, &source{name: g, each: c.Each, idle: c.CloseIdle, err: errLate})
	}
	return f, nil
}

// Close waits for open requests. The caller cancels their context first.
func (f *Fleet) Close() {
	f.asking.Wait()
	for _, s := range f.sources {
		s.idle()
	}
}

// Ask sends a request to each gateway without an open one, and returns the last poll of each gateway in the order of the
// addresses. It waits at most the given time for answers, and half of it for name lookups.
func (f *Fleet) Ask(ctx context.Context, most time.Duration) []Poll {
	names, end := time.NewTimer(most/2), time.NewTimer(most)
	defer names.Stop()
	defer end.Stop()
	for _, done := range f.find(ctx) {
		if !ended(done, names) {
			break
		}
	}
	known := f.begin(ctx)
	for _, s := range known {
		if !ended(s.done, end) {
			break
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	polls := make([]Poll, len(known))
	for i, s := range known {
		polls[i] = s.poll
	}
	return polls
}

// ended waits until done is closed, or time is over.
func ended(done chan struct{}, end *time.Timer) bool {
	select {
	case <-done:
		return true
	case <-end.C:
		return false
	}
}

// find starts a lookup of each address without an open one, and returns channels that close at their end. Poll-ups run
// separately, since a name server may be slow.
func (f *Fleet) find(ctx context.Context) []chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]chan struct{}, len(f.sources))
	for i, s := range f.sources {
		if !s.under {
			s.under, s.done = true, make(chan struct{})
			f.asking.Go(func() { f.lookUp(ctx, s) })
		}
		all[i] = s.done
	}
	return all
}

func (f *Fleet) lookUp(ctx context.Context, s *source) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	found, err := s.each(ctx)
	slices.SortStableFunc(found, func(a, b client.Gateway) int { return compareNames(a.String(), b.String()) })
	f.mu.Lock()
	defer f.mu.Unlock()
	s.found, s.err, s.under = found, err, false
	close(s.done)
}

// begin starts a request to each known gateway without an open one.
func (f *Fleet) begin(ctx context.Context) []*state {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*state
	listed := map[string]bool{}
	for _, s := range f.sources {
		if s.err != nil {
			done := make(chan struct{})
			close(done)
			all = append(all, &state{poll: Poll{Gateway: s.name, At: time.Now(), Err: s.err}, done: done})
		}
		for _, g := range s.found {
			if listed[g.String()] {
				continue
			}
			listed[g.String()] = true
			all = append(all, f.open(ctx, g))
		}
	}
	for name := range f.last {
		if !listed[name] {
			delete(f.last, name)
		}
	}
	return all
}

// open returns the state of a gateway, and starts a request unless one is open. The caller holds mu.
func (f *Fleet) open(ctx context.Context, g client.Gateway) *state {
	name := g.String()
	s := f.last[name]
	if s == nil {
		s = &state{poll: Poll{Gateway: name, At: time.Now(), Err: errLate}}
		f.last[name] = s
	}
	if s.under {
		return s
	}
	s.under, s.done = true, make(chan struct{})
	f.asking.Go(func() {
		poll := f.ask(ctx, g)
		f.mu.Lock()
		defer f.mu.Unlock()
		s.poll, s.under = poll, false
		close(s.done)
	})
	return s
}

// ask requests the statistics of one gateway.
func (f *Fleet) ask(ctx context.Context, g client.Gateway) Poll {
	poll := Poll{Gateway: g.String()}
	select {
	case f.places <- struct{}{}:
		defer func() { <-f.places }()
	case <-ctx.Done():
		poll.At, poll.Err = time.Now(), ctx.Err()
		return poll
	}
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

// compareNames orders names with numbers by their value: gateways-9 before gateways-10.
func compareNames(a, b string) int {
	digit := func(s string, i int) bool { return i < len(s) && s[i] >= '0' && s[i] <= '9' }
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if !digit(a, i) || !digit(b, j) {
			if a[i] != b[j] {
				return cmp.Compare(a[i], b[j])
			}
			i, j = i+1, j+1
			continue
		}
		m, n := i, j
		for digit(a, i) {
			i++
		}
		for digit(b, j) {
			j++
		}
		if c := cmp.Or(cmp.Compare(i-m, j-n), cmp.Compare(a[m:i], b[n:j])); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}
