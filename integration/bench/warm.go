package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// conns is the number of keep-alive connections of a reader.
const conns = 4

// warm measures a gateway with all data in memory, against bare handlers.
func (s *suite) warm(ctx context.Context) error {
	for _, d := range []set{s.world.photos, s.world.text} {
		if err := s.warmSet(ctx, d); err != nil {
			return fmt.Errorf("warm, %s: %w", d.name, err)
		}
	}
	return nil
}

// room returns the size of a cache that can hold a whole dataset.
func (s *suite) room() int64 { return s.mib<<20*3/2 + 256<<20 }

// epoch returns a function from i to the path of the i-th batch, counted from an epoch.
func (d set) epoch(first int64) func(int64) string {
	return func(i int64) string { return d.path(first+i/d.batches(), i%d.batches()) }
}

// once returns a function from i to the path of the i-th batch of an epoch, and to "" after the
// last.
func (d set) once(epoch int64) func(int64) string {
	return func(i int64) string {
		if i >= d.batches() {
			return ""
		}
		return d.path(epoch, i)
	}
}

func (s *suite) warmSet(ctx context.Context, d set) error {
	admin, err := freePort()
	if err != nil {
		return err
	}
	gw, err := s.world.serve(ctx, s.room(), []string{"--admin-listen", admin})
	if err != nil {
		return err
	}
	defer gw.stop()
	bare, err := startYardstick(ctx, d.body(), s.mib<<20)
	if err != nil {
		return err
	}
	defer bare.stop()
	for epoch := range int64(2) {
		if _, err := read(ctx, gw.addr, conns, 0, d.once(epoch)); err != nil {
			return err
		}
	}
	if _, err := d.genuine(ctx, s.world.store, gw.addr, d.path(0, 0)); err != nil {
		return err
	}
	if s.wants(1, 2, 3, 11) {
		if err := s.warmArms(ctx, d, gw, bare); err != nil {
			return err
		}
	}
	if s.profile != "" {
		if err := s.takeProfile(ctx, d, gw, admin); err != nil {
			return err
		}
	}
	if s.wants(12) {
		return s.scale(ctx, d, gw, bare)
	}
	return nil
}

// arm is the load of one measurement, with the processor time of the server.
type arm struct {
	load
	cpu float64 // seconds per byte
}

func (s *suite) measure(ctx context.Context, p *process, path func(int64) string) (arm, error) {
	before, err := p.cpu()
	if err != nil && !errors.Is(err, errNoProc) {
		return arm{}, err
	}
	l, err := read(ctx, p.addr, conns, s.span, path)
	if err != nil {
		return arm{}, err
	}
	after, err := p.cpu()
	if errors.Is(err, errNoProc) {
		err = nil
	}
	return arm{l, (after - before) / float64(l.bytes)}, err
}

func (s *suite) warmArms(ctx context.Context, d set, gw, bare *process) error {
	s.logf("warm, %s: %d rounds of 4 arms", d.name, s.rounds)
	nginx, err := s.startNginx(ctx, d, gw)
	if err != nil {
		return err
	}
	defer nginx.stop()
	var ours, hot, cold, files, cpuOurs, cpuHot, cpuFiles, tail, bareTail, late, bareLate []float64
	same := func(path string) func(int64) string { return func(int64) string { return path } }
	for round := range s.rounds {
		h, err := s.measure(ctx, bare, same("/hot"))
		if err != nil {
			return err
		}
		o, err := s.measure(ctx, gw, d.epoch(int64(round*1000)))
		if err != nil {
			return err
		}
		c, err := s.measure(ctx, bare, same("/cold"))
		if err != nil {
			return err
		}
		f, err := s.measure(ctx, nginx, d.fromNginx)
		if err != nil {
			return err
		}
		ours, hot, cold, files = append(ours, o.rate()), append(hot, h.rate()), append(cold, c.rate()), append(files, f.rate())
		cpuOurs, cpuHot, cpuFiles = append(cpuOurs, o.cpu), append(cpuHot, h.cpu), append(cpuFiles, f.cpu)
		tail, bareTail = append(tail, o.tail()), append(bareTail, h.tail())
		late, bareLate = append(late, o.late()), append(bareLate, h.late())
	}
	goal := 1
	if d.name == "text" {
		goal = 2
	}
	if s.wants(goal) {
		s.table.paired(goal, "warm, "+d.name, "HOT", ours, hot, gigabytes())
		s.table.paired(goal, "warm, "+d.name, "COLD-MEM", ours, cold, gigabytes())
		s.table.paired(goal, "warm, "+d.name, "nginx", ours, files, gigabytes())
	}
	if s.wants(3) && goal == 1 && cpuHot[0] > 0 {
		s.table.paired(3, "processor time per byte, warm, "+d.name, "HOT", cpuOurs, cpuHot, nanoPerKB())
		s.table.paired(3, "processor time per byte, warm, "+d.name, "nginx", cpuOurs, cpuFiles, nanoPerKB())
	}
	if s.wants(11) {
		s.table.paired(11, "warm latency, p99, "+d.name, "HOT's", late, bareLate, seconds())
		s.table.paired(11, "warm latency, p99 over p50, "+d.name, "HOT's", tail, bareTail, times())
	}
	return nil
}

// scale reads with increasing numbers of connections, and in epochs far from the first.
func (s *suite) scale(ctx context.Context, d set, gw, bare *process) error {
	s.logf("scale-up, %s", d.name)
	if err := s.otherOrders(ctx, d, gw); err != nil {
		return err
	}
	var ours, hot, far, near []float64
	for round := range s.rounds {
		o, h, err := s.worst(ctx, gw, bare, d.epoch(int64(round*1000)))
		if err != nil {
			return err
		}
		ours, hot = append(ours, o), append(hot, h)
		a, err := read(ctx, gw.addr, conns, s.span/2, d.epoch(0))
		if err != nil {
			return err
		}
		b, err := read(ctx, gw.addr, conns, s.span/2, d.epoch(1<<40+int64(round)))
		if err != nil {
			return err
		}
		near, far = append(near, a.rate()), append(far, b.rate())
	}
	s.table.paired(12, "1 to 64 connections, the number at which it is worst, "+d.name, "HOT with as many", ours, hot, gigabytes())
	s.table.paired(12, "epoch 2^40, "+d.name, "epoch 0", far, near, gigabytes())
	return nil
}

// otherOrders returns an error unless the first batch of a distant epoch is correct and differs
// from that of epoch 0.
func (s *suite) otherOrders(ctx context.Context, d set, gw *process) error {
	near, err := d.genuine(ctx, s.world.store, gw.addr, d.path(0, 0))
	if err != nil {
		return err
	}
	far, err := d.genuine(ctx, s.world.store, gw.addr, d.path(1<<40, 0))
	if err == nil && slices.Equal(near, far) {
		err = errors.New("epoch 2^40 has the first batch of epoch 0")
	}
	return err
}

// worst returns the rates of a gateway and of HOT at the number of connections, from 1 to 64, at
// which the gateway is slowest relative to HOT. A bound on the decrease with more connections would
// not suffice: the rate of a gateway that serves one request at a time never decreases.
func (s *suite) worst(ctx context.Context, gw, bare *process, path func(int64) string) (ours, hot float64, err error) {
	least := math.Inf(1)
	for n := 1; n <= 64; n *= 2 {
		o, err := read(ctx, gw.addr, n, s.span/2, path)
		if err != nil {
			return 0, 0, err
		}
		h, err := read(ctx, bare.addr, n, s.span/2, func(int64) string { return "/hot" })
		if err != nil {
			return 0, 0, err
		}
		if ratio := o.rate() / h.rate(); ratio < least {
			least, ours, hot = ratio, o.rate(), h.rate()
		}
	}
	return ours, hot, nil
}

// takeProfile saves a CPU profile of the warm gateway.
func (s *suite) takeProfile(ctx context.Context, d set, gw *process, admin string) error {
	const length = 4 * time.Second
	result := make(chan error, 1)
	go func() {
		result <- saveProfile(ctx, admin, int(length/time.Second), filepath.Join(s.profile, d.name+".pprof"))
	}()
	_, err := read(ctx, gw.addr, conns, length+time.Second/2, d.epoch(0))
	return errors.Join(err, <-result)
}

// saveProfile saves a CPU profile from a gateway's admin port.
func saveProfile(ctx context.Context, admin string, seconds int, into string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", admin, seconds)
	resp, err := ask(ctx, http.MethodGet, url)
	if err != nil {
		return err
	}
	defer resp.Body.Close() // read to the end
	f, err := os.Create(into)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	return errors.Join(err, f.Close())
}
