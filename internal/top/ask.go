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
	attemptTime = 5 * time.Second        // a gateway that has not answered for so long does not answer
	patience    = 700 * time.Millisecond // the screen shows what is there, and a later answer comes with the next look
	mostAtOnce  = 64                     // requests under way: a fleet of thousands is asked bit by bit
)

var errLate = errors.New("no answer yet")

// Look is what one gateway has said, and when.
type Look struct {
	Gateway string
	At      time.Time // when the answer was there
	Stats   Stats
	Cluster *Cluster // nil: the gateway is in no cluster, or does not say
	Err     error    // why there is no answer; then Stats is empty
}

// Fleet is the gateways that are watched.
type Fleet struct {
	names   []string // as they were given
	clients []*client.Client
	places  chan struct{} // holds a token for each request under way
	asking  sync.WaitGroup

	mu   sync.Mutex
	last map[string]*state // guarded by mu
}

// state is what is known of a gateway.
type state struct {
	look  Look
	under bool          // a request is under way
	done  chan struct{} // closed when the request has ended
}

// NewFleet takes the addresses of gateways, in all forms that client.Config takes. Each has a client of its own, so that a name without an
// address hides no other gateway.
func NewFleet(gateways []string) (*Fleet, error) {
	f := &Fleet{names: gateways, places: make(chan struct{}, mostAtOnce), last: map[string]*state{}}
	for _, g := range gateways {
		c, err := client.New(client.Config{Gateways: []string{g}, Deadline: attemptTime, AttemptTimeout: attemptTime, UserAgent: "millrace-top"})
		if err != nil {
			return nil, err
		}
		f.clients = append(f.clients, c)
	}
	return f, nil
}

// Close waits for the requests under way: end their context first.
func (f *Fleet) Close() {
	f.asking.Wait()
	for _, c := range f.clients {
		c.CloseIdle()
	}
}

// Ask asks each gateway that has no question open, and returns what is known of all of them after most at the latest, in the order of the addresses.
func (f *Fleet) Ask(ctx context.Context, most time.Duration) []Look {
	end := time.NewTimer(most)
	defer end.Stop()
	late := false
	var known []*state
	for _, s := range f.begin(ctx) {
		if !late {
			select {
			case <-s.done:
			case <-end.C:
				late = true
			}
		}
		known = append(known, s)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	looks := make([]Look, len(known))
	for i, s := range known {
		looks[i] = s.look
	}
	return looks
}

// begin sees to it that each gateway has a question open.
func (f *Fleet) begin(ctx context.Context) []*state {
	found, faults := f.find(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*state
	listed := map[string]bool{}
	for i, name := range f.names {
		if faults[i] != nil {
			done := make(chan struct{})
			close(done)
			all = append(all, &state{look: Look{Gateway: name, At: time.Now(), Err: faults[i]}, done: done})
			continue
		}
		for _, g := range found[i] {
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

// find returns the gateways that each address stands for now. Names are looked up side by side.
func (f *Fleet) find(ctx context.Context) ([][]client.Gateway, []error) {
	found, faults := make([][]client.Gateway, len(f.clients)), make([]error, len(f.clients))
	var looking sync.WaitGroup
	for i, c := range f.clients {
		looking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, attemptTime)
			defer cancel()
			found[i], faults[i] = c.Each(ctx)
			slices.SortStableFunc(found[i], func(a, b client.Gateway) int { return compareNames(a.String(), b.String()) })
		})
	}
	looking.Wait()
	return found, faults
}

// open returns the state of a gateway, with a question open. The caller holds mu.
func (f *Fleet) open(ctx context.Context, g client.Gateway) *state {
	name := g.String()
	s := f.last[name]
	if s == nil {
		s = &state{look: Look{Gateway: name, At: time.Now(), Err: errLate}}
		f.last[name] = s
	}
	if s.under {
		return s
	}
	s.under, s.done = true, make(chan struct{})
	f.asking.Go(func() {
		look := f.ask(ctx, g)
		f.mu.Lock()
		defer f.mu.Unlock()
		s.look, s.under = look, false
		close(s.done)
	})
	return s
}

// ask asks one gateway.
func (f *Fleet) ask(ctx context.Context, g client.Gateway) Look {
	look := Look{Gateway: g.String()}
	select {
	case f.places <- struct{}{}:
		defer func() { <-f.places }()
	case <-ctx.Done():
		look.At, look.Err = time.Now(), ctx.Err()
		return look
	}
	// Gateways of earlier releases do not know readers=jobs, and answer with a list.
	look.Err = g.JSON(ctx, "/v1/stats", url.Values{"readers": {"jobs"}}, &look.Stats)
	if look.Err == nil && look.Stats.Counters == nil {
		look.Err = fmt.Errorf("%s: %w: no counters", g, client.ErrProtocol)
	}
	look.At = time.Now()
	if look.Err != nil {
		look.Stats = Stats{}
		return look
	}
	if _, member := look.Stats.Counters["millrace_cluster_members"]; member {
		var c Cluster
		if g.JSON(ctx, "/v1/cluster", nil, &c) == nil { // without it the counters say enough
			look.Cluster = &c
		}
	}
	return look
}

// compareNames orders names as people count: gateways-9 before gateways-10.
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
