package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/millrace-data/millrace/cluster/discovery"
	"github.com/millrace-data/millrace/cluster/peer"
)

// contact is an address where a gateway may be. One goroutine greets it.
type contact struct {
	address string
	listed  bool   // by the discovery; else a gateway named it as its own
	by      string // the host of that gateway; "": the discovery found it first
	wake    chan struct{}
	since   time.Time // it is known, or somebody answered last
	asked   bool      // its first hello has ended, with an answer or without

	misses int    // hellos without an answer, in a row
	reason string // why nobody answers, or why whoever does is no member; "" if it is one
	who    string // the member that answered there last
	alias  bool   // the member's own address is another one; or it is this gateway
}

func (k *contact) awake() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// found takes what the discovery knows.
func (c *Cluster) found(addresses []string) {
	listed := make(map[string]bool, len(addresses))
	for _, a := range addresses {
		if discovery.CheckAddress(a) == nil {
			listed[a] = true
			c.list(a)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.contacts {
		k.listed = listed[k.address]
	}
	c.listed = true
	c.settle()
}

// list takes one address that the discovery knows.
func (c *Cluster) list(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.meet(address, ""); k != nil {
		k.listed = true
	}
}

// meet returns the contact of an address, made if need be; nil if there are too many. by is the address of whoever names it, ""
// for the discovery: one host may name only a few where nobody answers, or else it could have every gateway dial whatever it likes,
// and leave no room for the others.
func (c *Cluster) meet(address, by string) *contact {
	k := c.contacts[address]
	if k != nil || len(c.contacts) >= mostContacts {
		return k
	}
	if host, _, err := net.SplitHostPort(by); err == nil {
		by = host
	}
	if by != "" {
		if discovery.Loopback(c.cfg.Address) && !discovery.Loopback(address) {
			return nil // whoever is on this machine is not to send us about the network, where nobody could reach us
		}
		named := 0
		for _, other := range c.contacts {
			if other.by == by && other.who == "" {
				named++
			}
		}
		if named >= mostNamed {
			return nil
		}
	}
	k = &contact{address: address, by: by, wake: make(chan struct{}, 1), since: time.Now()}
	c.contacts[address] = k
	c.greets(k)
	return k
}

// greets has a contact greeted from now on, or from when Run begins.
func (c *Cluster) greets(k *contact) {
	if c.start != nil {
		c.start(func(ctx context.Context) { c.keep(ctx, k) })
	}
}

// keep greets an address until ctx ends, or until nothing is left that names it.
func (c *Cluster) keep(ctx context.Context, k *contact) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-k.wake:
		}
		c.greet(ctx, k)
		c.try(ctx, k)
		pause, again := c.pause(k)
		if !again {
			return
		}
		timer.Reset(pause)
	}
}

// pause says when to greet again, or that it is not worth it any more.
func (c *Cluster) pause(k *contact) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.misses > 0 && !k.listed && time.Since(k.since) > remember {
		delete(c.contacts, k.address)
		return 0, false
	}
	every := helloEvery
	if k.misses > 0 && k.misses < missesGone {
		every /= 10 // it may be gone, and what it owns with it
	}
	pause := every*4/5 + time.Duration(c.rng.Int64N(int64(every*2/5)+1))
	if m := c.here(k); k.misses == 0 && !k.alias && m != nil && m.state == Ejected {
		pause = min(pause, max(0, time.Until(m.until))) // it may be back then
	}
	return pause, true
}

// greet says hello once and takes what comes of it.
func (c *Cluster) greet(ctx context.Context, k *contact) {
	begun := time.Now()
	h, err := c.cfg.Client.Hello(ctx, k.address, c.Self())
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.unlock()
	if err != nil {
		c.unanswered(k, err)
	} else {
		c.hear(k, h, begun)
	}
	k.asked = true
	c.settle()
}

// hear takes the answer to a hello.
func (c *Cluster) hear(k *contact, h peer.Hello, begun time.Time) {
	if k.misses >= missesGone {
		c.retry()
	}
	k.misses, k.since = 0, time.Now()
	if h.Boot == c.cfg.Boot && h.ID == c.cfg.ID {
		k.alias, k.reason = true, ""
		return
	}
	if err := c.check(h, k.address); err != nil {
		c.refuse(k, h.ID, err)
		return
	}
	if h.Address != k.address {
		k.alias, k.who = true, h.ID
		if other := c.meet(h.Address, k.address); other != nil && other.misses > 0 && c.members[h.ID] == nil {
			c.refuse(k, h.ID, fmt.Errorf("gateway %q answers here, but not at the address that it advertises, %s", h.ID, h.Address))
			return
		}
		k.reason = ""
		return
	}
	k.alias = false
	if m := c.here(k); m != nil && m.ID != h.ID {
		c.turn(m, Gone, fmt.Sprintf("gateway %q answers at its address now", h.ID))
	}
	c.alive(k, h, begun)
}

// retry greets all addresses at once that were given up. It is called when one of them answers
// again: the network was cut, and is whole. Members that come back one by one would make views differ
// for as long, and what two gateways take for their own is read twice.
func (c *Cluster) retry() {
	for _, k := range c.contacts {
		if k.misses >= missesGone {
			k.awake()
		}
	}
}

// unanswered counts a hello that came to nothing. Who refuses us is no member of ours either.
func (c *Cluster) unanswered(k *contact, err error) {
	if no, ok := errors.AsType[*peer.RefusalError](err); ok && slices.Contains([]string{peer.CodeRefused, peer.CodeOtherCluster, peer.CodeOtherVersion}, no.Code) {
		k.misses = 0
		c.refuse(k, k.who, fmt.Errorf("it refuses this gateway: %s", no.Detail))
		return
	}
	if errors.Is(err, peer.ErrName) {
		k.misses = 0
		c.refuse(k, k.who, err)
		return
	}
	k.misses++
	k.reason = err.Error()
	if k.by != "" {
		k.reason = fmt.Sprintf("%s says that a gateway is here: %v", k.by, err)
	}
	if k.misses == missesGone && k.who == "" {
		c.note(c.cfg.Log.Warn().Str("address", k.address).Str("why", k.reason), "nobody answers")
	}
	if m := c.here(k); m != nil && k.misses >= missesGone {
		c.turn(m, Gone, err.Error())
		m.reason = k.reason // of now: it may be gone for another reason than at first
	}
}

// refuse notes why whoever answers at an address is no member, once.
func (c *Cluster) refuse(k *contact, who string, why error) {
	if k.reason != why.Error() {
		k.reason = why.Error()
		c.note(c.cfg.Log.Warn().Str("address", k.address).Err(why), "not a member")
	}
	// Another one there than the member that was, or the member is another one now.
	if m := c.here(k); m != nil {
		c.turn(m, Gone, why.Error())
	}
	k.who = who
}

// forget drops members that have long been gone.
func (c *Cluster) forget() {
	c.mu.Lock()
	defer c.unlock()
	for id, m := range c.members {
		if m.state == Gone && time.Since(m.seen) > remember {
			delete(c.members, id)
		}
	}
	c.stale = c.stale || c.now.Load().recent && !c.recent()
}
