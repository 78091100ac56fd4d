package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
)

// Members of a pair.
const holder, front = "holder", "front"

// lanes is the number of lanes of the slot plan.
const lanes = 32

// Caches of a pair. The front's cache is large enough for the batches in progress. Gateways own
// chunks in proportion to their caches, so the front owns a tenth of them and caches these.
const (
	frontRoom  = 384 << 20
	holderRoom = 9 * frontRoom
)

// homed returns the path of a batch in an epoch of a slot plan.
func (d set) homed(epoch, batch int64) string {
	return fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches/%d?shuffle=slot&window=%d", d.name, epoch, batch, lanes)
}

// homedFrom returns a function from i to the path of the i-th batch of a slot plan, counted from an
// epoch.
func (d set) homedFrom(first int64) func(int64) string {
	return func(i int64) string { return d.homed(first+i/d.batches(), i%d.batches()) }
}

// pair is two gateways of one cluster. The holder has a much larger cache and owns nearly every
// chunk; the front requests chunks from it, over mutual TLS 1.3. far and near are the same pair of
// bare handlers.
type pair struct {
	front, holder *process
	near, far     *process
	admin         map[string]string // addresses of the gateways' admin ports, by member
}

func (p *pair) stop() {
	for _, each := range []*process{p.front, p.holder, p.near, p.far} {
		if each != nil {
			each.stop()
		}
	}
}

// startPair starts both pairs, and waits until each gateway has met the other. With outer, readers
// use TLS too.
func (s *suite) startPair(ctx context.Context, d set, outer bool) (p *pair, err error) {
	p = &pair{admin: map[string]string{}}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	cert, key, err := certificate(s.dir)
	if err != nil {
		return p, err
	}
	var readers []string
	if outer {
		readers = []string{"--tls-cert", cert, "--tls-key", key}
	}
	var ports [3]string
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return p, err
		}
	}
	gateway := func(member, peerPort string, room int64) (*process, error) {
		admin, err := freePort()
		if err != nil {
			return nil, err
		}
		p.admin[member] = scheme(readers) + admin
		return s.world.serve(ctx, room, append(readers,
			"--cluster", "bench", "--join", ports[0]+","+ports[1], "--peer-listen", peerPort, "--member", member,
			"--peer-cert", cert, "--peer-key", key, "--peer-ca", cert, "--admin-listen", admin))
	}
	if p.holder, err = gateway(holder, ports[0], holderRoom); err != nil {
		return p, err
	}
	if p.front, err = gateway(front, ports[1], frontRoom); err != nil {
		return p, err
	}
	hop := []string{"-hop-cert", cert, "-hop-key", key}
	if p.far, err = startYardstick(ctx, d.body(), d.body(), append(hop, "-hop-listen", ports[2])...); err != nil {
		return p, err
	}
	if p.near, err = startYardstick(ctx, d.body(), d.body(), append(append(readers, hop...), "-from", ports[2])...); err != nil {
		return p, err
	}
	return p, errors.Join(met(ctx, p.admin[front]), met(ctx, p.admin[holder]))
}

// met waits until a gateway sees another living gateway.
func met(ctx context.Context, admin string) error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var c struct {
			Members []struct {
				State string `json:"state"`
			} `json:"members"`
		}
		if err := askJSON(ctx, http.MethodGet, base(admin)+"/v1/cluster", &c); err != nil {
			return err
		}
		if len(c.Members) == 1 && c.Members[0].State == "alive" {
			return nil
		}
	}
	return fmt.Errorf("%s has not met the other gateway", admin)
}

// peers measures a gateway that requests all data from another gateway, against two bare hops.
func (s *suite) peers(ctx context.Context) error {
	for _, d := range []set{s.world.photos, s.world.text} {
		for _, outer := range []bool{false, true} {
			if err := s.throughPeer(ctx, d, outer); err != nil {
				return fmt.Errorf("through a peer, %s: %w", d.name, err)
			}
		}
	}
	return nil
}

func (s *suite) throughPeer(ctx context.Context, d set, outer bool) error {
	s.logf("through a peer, %s: %d rounds of 2 arms", d.name, s.rounds)
	p, err := s.startPair(ctx, d, outer)
	if err != nil {
		return err
	}
	defer p.stop()
	p.holder.settle()
	p.front.settle()
	fill := func(i int64) string {
		if i >= d.batches() {
			return ""
		}
		return d.homed(0, i)
	}
	if _, err := read(ctx, p.front.addr, conns, 0, fill); err != nil {
		return err
	}
	if _, err := d.genuine(ctx, s.world.store, p.front.addr, d.homed(0, 0)); err != nil {
		return err
	}
	before, err := counters(ctx, p.admin[front])
	if err != nil {
		return err
	}
	var ours, bare []float64
	var sent int64
	for round := range s.rounds {
		b, err := s.measure(ctx, p.near, func(int64) string { return "/relay" })
		if err != nil {
			return err
		}
		o, err := s.measure(ctx, p.front, d.homedFrom(int64(1+round*1000)))
		if err != nil {
			return err
		}
		ours, bare, sent = append(ours, o.rate()), append(bare, b.rate()), sent+o.bytes
	}
	after, err := counters(ctx, p.admin[front])
	if err != nil {
		return err
	}
	if err := throughPeers(before, after, sent); err != nil {
		return err
	}
	s.peerRow(d, outer, ours, bare)
	if s.profile == "" || outer {
		return nil
	}
	return s.profilePair(ctx, d, p)
}

// throughPeers returns an error unless the front read at least three quarters of the bytes that it
// sent from the holder, and none from the store. before and after are its counters. In the first
// epoch it must have read from the store, which proves that the counter works.
func throughPeers(before, after map[string]float64, sent int64) error {
	const stored, asked = "millrace_store_reads_total", "millrace_peer_read_bytes_total"
	if n := after[stored] - before[stored]; before[stored] == 0 || n > 0 {
		return fmt.Errorf("a warm cluster made %v store reads after %v", n, before[stored])
	}
	if n := after[asked] - before[asked]; n < 0.75*float64(sent) {
		return fmt.Errorf("%.0f of %d bytes came from the other gateway", n, sent)
	}
	return nil
}

// peerRow adds the measurements to the table.
func (s *suite) peerRow(d set, outer bool, ours, bare []float64) {
	yard := "two bare hops with it between them"
	if outer {
		yard += ", readers over TLS too"
	}
	s.table.paired(16, "warm through the peer tier with mutual TLS, "+d.name, yard, ours, bare, gigabytes())
}

// profilePair saves a CPU profile of each gateway.
func (s *suite) profilePair(ctx context.Context, d set, p *pair) error {
	const length = 4 * time.Second
	g, profiling := errgroup.WithContext(ctx)
	for member, admin := range p.admin {
		g.Go(func() error {
			return saveProfile(profiling, admin, int(length/time.Second), filepath.Join(s.profile, member+"-"+d.name+".pprof"))
		})
	}
	_, err := read(ctx, p.front.addr, conns, length+time.Second/2, d.homedFrom(1<<20))
	return errors.Join(err, g.Wait())
}
