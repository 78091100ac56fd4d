package cluster

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Times of names: how often they are looked up, and how long the addresses last found are kept while no look-up succeeds.
const (
	resolveEvery = 5 * time.Second
	keepResolved = 5 * time.Minute
)

// Resolver looks up names; net.Resolver is one.
type Resolver interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
}

// Names finds gateways by name or address: each name is looked up again every few seconds, and all its addresses count. What
// a name service that has failed said last is good for another five minutes.
type Names struct {
	Targets  []string // host:port
	Resolver Resolver // nil: that of the system
	Log      zerolog.Logger
}

// target is one host of the list and what is known of it.
type target struct {
	host, port string
	addresses  []string
	at         time.Time // of the last good look-up
	failing    bool
}

// Run looks names up until ctx ends. Addresses need no look-up, so that a list of them alone is handed over once.
func (n *Names) Run(ctx context.Context, found func([]string)) error {
	targets := make([]*target, len(n.Targets))
	fixed := true
	for i, t := range n.Targets {
		host, port, err := net.SplitHostPort(t)
		if err != nil {
			return err
		}
		targets[i] = &target{host: host, port: port}
		if net.ParseIP(host) != nil {
			targets[i].addresses = []string{t}
		} else {
			fixed = false
		}
	}
	tick := time.NewTicker(resolveEvery)
	defer tick.Stop()
	var last []string
	for first := true; ; first = false {
		var looking sync.WaitGroup
		for _, t := range targets {
			looking.Go(func() { n.resolve(ctx, t) })
		}
		looking.Wait()
		var all []string
		for _, t := range targets {
			all = append(all, t.addresses...)
		}
		slices.Sort(all)
		if all = slices.Compact(all); first || !slices.Equal(all, last) {
			found(slices.Clone(all))
			last = all
		}
		if fixed {
			<-ctx.Done()
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (n *Names) resolve(ctx context.Context, t *target) {
	if net.ParseIP(t.host) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, resolveEvery)
	defer cancel()
	var r Resolver = net.DefaultResolver
	if n.Resolver != nil {
		r = n.Resolver
	}
	hosts, err := r.LookupHost(ctx, t.host)
	if err != nil || len(hosts) == 0 {
		if !t.failing {
			t.failing = true
			n.Log.Warn().Err(err).Str("name", t.host).Int("kept", len(t.addresses)).Msg("cluster: the name is not found; its last addresses are kept for 5 minutes")
		}
		if time.Since(t.at) > keepResolved {
			t.addresses = nil
		}
		return
	}
	t.failing, t.at, t.addresses = false, time.Now(), nil
	for _, h := range hosts {
		t.addresses = append(t.addresses, net.JoinHostPort(h, t.port))
	}
}
