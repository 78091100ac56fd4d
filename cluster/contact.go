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

// contact is an address from the discovery. One goroutine sends it hellos.
type contact struct {
	address string
	listed  bool // the discovery still lists it
	wake    chan struct{}
	since   time.Time // when it was added, or last answered
	asked   bool      // its first hello has ended, with or without an answer

	misses int    // number of consecutive hellos without an answer
	reason string // why there is no answer, or why the gateway that answers is no member; "" for a member
	who    string // ID of the member that answered last
	alias  bool   // the member is reached at another address, or it is this gateway
}

func (k *contact) awake() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// found handles the current addresses of the discovery.
func (c *Cluster) found(addresses []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.contacts {
		k.listed = false
	}
	for _, a := range addresses {
		if discovery.CheckAddress(a) == nil {
			c.list(a)
		}
	}
	c.listed = true
	c.settle()
}

// list adds one address of the discovery. The caller holds mu.
func (c *Cluster) list(address string) {
	k := c.contacts[address]
	if k == nil {
		if len(c.contacts) >= mostContacts {
			return
		}
		k = &contact{address: address, wake: make(chan struct{}, 1), since: time.Now()}
		c.contacts[address] = k
		c.greets(k)
	}
	k.listed = true
}

// seek sends hellos to all known addresses of a host at once, after a gateway there has reported a
// change. If there are none, the discovery repeats its lookup. So a gateway cannot make another one
// dial an address of its choice. The caller holds mu.
func (c *Cluster) seek(remote string) {
	host, _, _ := net.SplitHostPort(remote)
	known := false
	for _, k := range c.contacts {
		if at, _, _ := net.SplitHostPort(k.address); at == host {
			known = true
			k.awake()
		}
	}
	if !known {
		c.cfg.Discovery.Again()
	}
}

// greets starts the goroutine that sends hellos to a contact, now or when Run begins.
func (c *Cluster) greets(k *contact) {
	if c.start != nil {
		c.start(func(ctx context.Context) { c.keep(ctx, k) })
	}
}

// keep sends hellos to an address until ctx ends, or until the address is dropped.
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

// pause returns the time until the next hello. It returns false, and drops the address, after a
// long time without an answer.
func (c *Cluster) pause(k *contact) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.misses > 0 && !k.listed && time.Since(k.since) > remember {
		delete(c.contacts, k.address)
		return 0, false
	}
	every := helloEvery
	if k.misses > 0 && k.misses < missesGone {
		every /= 10 // the gateway may be gone, with the chunks that it owns
	}
	pause := every*4/5 + time.Duration(c.rng.Int64N(int64(every*2/5)+1))
	if m := c.here(k); k.misses == 0 && !k.alias && m != nil && m.state == Ejected {
		pause = min(pause, max(0, time.Until(m.until))) // the member may be readmitted at that time
	}
	return pause, true
}

// greet sends one hello and handles the answer or error.
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

// hear handles the answer to a hello. A member is reached at the first of its addresses that
// answers, until that address stops answering.
func (c *Cluster) hear(k *contact, h peer.Hello, begun time.Time) {
	if k.misses >= missesGone {
		c.retry()
	}
	k.misses, k.since, k.alias = 0, time.Now(), false
	if h.Boot == c.cfg.Boot && h.ID == c.cfg.ID {
		k.alias, k.reason, c.address = true, "", k.address
		return
	}
	if err := c.check(h, k.address); err != nil {
		c.refuse(k, h.ID, err)
		return
	}
	if m := c.members[h.ID]; m != nil && m.at != k && m.state != Gone && m.at.misses == 0 {
		switch {
		case m.Boot == h.Boot:
			k.alias, k.who, k.reason = true, h.ID, ""
			return
		case !m.Draining:
			c.refuse(k, h.ID, fmt.Errorf("two gateways have the name %q, one at %s and one at %s: give each its own --member name", h.ID, m.at.address, k.address))
			return
		}
	}
	if m := c.here(k); m != nil && m.ID != h.ID {
		c.turn(m, Gone, fmt.Sprintf("gateway %q now responds at its address", h.ID))
	}
	c.alive(k, h, begun)
}

// retry sends hellos to all unresponsive addresses at once. It is called when one of them answers
// again, since a network partition may have ended. If members came back one by one, views would
// differ for longer. A chunk that two gateways own, each in its own view, would be read twice.
func (c *Cluster) retry() {
	for _, k := range c.contacts {
		if k.misses >= missesGone {
			k.awake()
		}
	}
}

// unanswered handles a failed hello. A gateway that refuses this gateway cannot be a member either.
func (c *Cluster) unanswered(k *contact, err error) {
	if no, ok := errors.AsType[*peer.RefusalError](err); ok && slices.Contains([]string{peer.CodeRefused, peer.CodeOtherCluster, peer.CodeOtherVersion}, no.Code) {
		k.misses = 0
		c.refuse(k, k.who, fmt.Errorf("it rejected this gateway: %s", no.Detail))
		return
	}
	if errors.Is(err, peer.ErrName) {
		k.misses = 0
		c.refuse(k, k.who, err)
		return
	}
	k.misses++
	k.reason = err.Error()
	if k.misses == missesGone && k.who == "" {
		c.note(c.cfg.Log.Warn().Str("address", k.address).Str("why", k.reason), "no answer")
	}
	if m := c.here(k); m != nil && k.misses >= missesGone {
		c.turn(m, Gone, err.Error())
		m.reason = k.reason // the current reason, which may differ from the first
	}
}

// refuse records why the gateway at an address is no member, and logs each reason once.
func (c *Cluster) refuse(k *contact, who string, why error) {
	if k.reason != why.Error() {
		k.reason = why.Error()
		c.note(c.cfg.Log.Warn().Str("address", k.address).Err(why), "not a member")
	}
	// Another gateway answers at the address now, or the member has changed.
	if m := c.here(k); m != nil {
		c.turn(m, Gone, why.Error())
	}
	k.who = who
}

// forget removes members that have been gone for a long time.
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
