package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// lanes of the slot plan that is read.
const lanes = 32

// frontRoom is the cache of the front: enough for the batches that are under way.
const frontRoom = 256 << 20

// homed is the address of a batch of a slot plan.
func (d set) homed(epoch, batch int64) string {
	return fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches/%d?shuffle=slot&window=%d", d.name, epoch, batch, lanes)
}

// pair is two gateways of one cluster: the holder, whose cache is much larger, owns nearly every chunk, and the front asks it for them.
type pair struct{ front, holder *process }

func (p *pair) stop() {
	for _, gw := range []*process{p.front, p.holder} {
		if gw != nil {
			gw.stop()
		}
	}
}

// startPair starts both, and waits until each has met the other.
func (s *suite) startPair(ctx context.Context) (*pair, error) {
	var ports [2]string
	for i := range ports {
		var err error
		if ports[i], err = freePort(); err != nil {
			return nil, err
		}
	}
	p := &pair{}
	flags := []string{"--cluster", "bench", "--join", ports[0] + "," + ports[1], "--peer-insecure"}
	var err error
	p.holder, err = s.world.serve(ctx, s.room(), append(flags, "--peer-listen", ports[0], "--member", "holder"))
	if err == nil {
		p.front, err = s.world.serve(ctx, frontRoom, append(flags, "--peer-listen", ports[1], "--member", "front"))
	}
	if err == nil {
		err = errors.Join(met(ctx, p.front), met(ctx, p.holder))
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// met waits until a gateway knows another one that is alive.
func met(ctx context.Context, gw *process) error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var c struct {
			Members []struct {
				State string `json:"state"`
			} `json:"members"`
		}
		if err := askJSON(ctx, http.MethodGet, "http://"+gw.addr+"/v1/cluster", &c); err != nil {
			return err
		}
		if len(c.Members) == 1 && c.Members[0].State == "alive" {
			return nil
		}
	}
	return fmt.Errorf("%s has not met the other gateway", gw.addr)
}

// peers measures a gateway that asks another one for everything, against two bare hops.
func (s *suite) peers(ctx context.Context) error {
	for _, d := range []set{s.world.photos, s.world.text} {
		if err := s.throughPeer(ctx, d); err != nil {
			return fmt.Errorf("through a peer, %s: %w", d.name, err)
		}
	}
	return nil
}

func (s *suite) throughPeer(ctx context.Context, d set) error {
	s.logf("through a peer, %s: %d rounds of 2 arms", d.name, s.rounds)
	p, err := s.startPair(ctx)
	if err != nil {
		return err
	}
	defer p.stop()
	far, err := startYardstick(ctx, d.body(), d.body())
	if err != nil {
		return err
	}
	defer far.stop()
	near, err := startYardstick(ctx, d.body(), d.body(), "-from", far.addr)
	if err != nil {
		return err
	}
	defer near.stop()
	batches := func(first int64) func(int64) string {
		return func(i int64) string { return d.homed(first+i/d.batches(), i%d.batches()) }
	}
	fill := func(i int64) string {
		if i >= d.batches() {
			return ""
		}
		return d.homed(0, i)
	}
	if _, err := read(ctx, p.front.addr, conns, 0, fill); err != nil {
		return err
	}
	before, err := counters(ctx, p.front.addr)
	if err != nil {
		return err
	}
	var ours, bare []float64
	for round := range s.rounds {
		b, err := s.measure(ctx, near, func(int64) string { return "/relay" })
		if err != nil {
			return err
		}
		o, err := s.measure(ctx, p.front, batches(int64(1+round*1000)))
		if err != nil {
			return err
		}
		ours, bare = append(ours, o.rate()), append(bare, b.rate())
	}
	after, err := counters(ctx, p.front.addr)
	if err != nil {
		return err
	}
	if n := after["millrace_store_reads_total"] - before["millrace_store_reads_total"]; n > 0 {
		return fmt.Errorf("a warm cluster made %v store reads", n)
	}
	what := "warm through the peer tier, " + d.name + ", against two bare hops"
	if d.name == "photos" {
		s.table.paired(16, what, ours, bare, gigabytes, 0.8, false)
	} else {
		s.table.shown(16, what, ours, bare, gigabytes)
	}
	return nil
}
