package discovery

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Names are looked up, and a file is read, every resolveEvery, so a newly registered gateway gets a
// hello within seconds. Again causes an earlier lookup, but at least resolveApart after the last
// one.
const (
	resolveEvery = 5 * time.Second
	resolveApart = time.Second
)

// Resolver looks up DNS names. *net.Resolver implements it.
type Resolver interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// Names finds gateways according to a Join. The last result of a DNS server or file stays valid
// until the next one: an address without a gateway costs only an occasional hello.
type Names struct {
	Where    Join
	Resolver Resolver
	Log      zerolog.Logger

	again   chan struct{}
	last    map[string][]string // the last result of each name
	failing map[string]bool
}

// New returns Names for a Join, with the system's resolver.
func New(where Join, log zerolog.Logger) *Names {
	return &Names{
		Where: where, Resolver: net.DefaultResolver, Log: log,
		again: make(chan struct{}, 1), last: map[string][]string{}, failing: map[string]bool{},
	}
}

// Again implements cluster.Discovery.
func (n *Names) Again() {
	select {
	case n.again <- struct{}{}:
	default:
	}
}

// Run looks up names until ctx ends.
func (n *Names) Run(ctx context.Context, found func([]string)) error {
	var last []string
	for first := true; ; first = false {
		looked := time.Now()
		all := n.hosts(ctx, n.targets(ctx))
		slices.Sort(all)
		if all = slices.Compact(all); first || !slices.Equal(all, last) {
			found(slices.Clone(all))
			last = all
		}
		if err := n.pause(ctx, looked); err != nil {
			return err
		}
	}
}

// pause waits until the next lookup is due.
func (n *Names) pause(ctx context.Context, looked time.Time) error {
	due := time.NewTimer(time.Until(looked.Add(resolveEvery)))
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-due.C:
			return nil
		case <-n.again:
			due.Reset(time.Until(looked.Add(resolveApart)))
		}
	}
}

// targets returns the current hosts and ports of the Join.
func (n *Names) targets(ctx context.Context) []string {
	from := n.Where.Targets
	switch n.Where.Scheme {
	case SchemeFile:
		all, err := ReadList(from[0])
		return n.note(from[0], all, err)
	case SchemeSRV:
		ctx, cancel := context.WithTimeout(ctx, resolveEvery)
		defer cancel()
		_, records, err := n.Resolver.LookupSRV(ctx, "", "", from[0])
		var all []string
		for _, r := range records {
			all = append(all, net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port))))
		}
		return n.note(from[0], all, err)
	}
	return from
}

// hosts looks up the DNS names among some targets concurrently, so that a slow lookup delays no
// other.
func (n *Names) hosts(ctx context.Context, targets []string) []string {
	ctx, cancel := context.WithTimeout(ctx, resolveEvery)
	defer cancel()
	found, faults := make([][]string, len(targets)), make([]error, len(targets))
	var looking sync.WaitGroup
	for i, t := range targets {
		host, port, err := net.SplitHostPort(t)
		if err != nil || net.ParseIP(host) != nil {
			found[i] = []string{t}
			continue
		}
		looking.Go(func() {
			var ips []string
			ips, faults[i] = n.Resolver.LookupHost(ctx, host)
			for _, ip := range ips {
				found[i] = append(found[i], net.JoinHostPort(ip, port))
			}
		})
	}
	looking.Wait()
	var all []string
	for i, t := range targets {
		all = append(all, n.note(t, found[i], faults[i])...)
	}
	return all
}

// note stores the result for a name, and returns the last one if the lookup failed.
func (n *Names) note(name string, found []string, err error) []string {
	if err == nil && len(found) == 0 {
		err = errors.New("the file lists no gateways")
	}
	if err == nil {
		n.last[name], n.failing[name] = found, false
		return found
	}
	if !n.failing[name] {
		n.failing[name] = true
		n.Log.Warn().Err(err).Str("name", name).Int("kept", len(n.last[name])).
			Msg("cluster: lookup of other gateways failed; using the last addresses")
	}
	return n.last[name]
}
