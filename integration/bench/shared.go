package main

import (
	"context"
	"fmt"
	"path/filepath"
)

// sharedRates holds figures for each round, in shared memory and over a socket: samples per second
// of a reader on the gateway's machine, and the processor seconds per sample that gateway and
// reader use together.
type sharedRates struct {
	Shared    []float64 `json:"shared"`
	Socket    []float64 `json:"socket"`
	SharedCPU []float64 `json:"shared_cpu"`
	SocketCPU []float64 `json:"socket_cpu"`
}

// together holds three amounts of memory: that of a gateway with eight workers, that of workers
// that read nothing, and the part of the budget that the gateway reports as used.
type together struct {
	PSS   float64 `json:"pss"`
	Alone float64 `json:"alone"`
	Used  float64 `json:"used"`
}

const sharedWorkers = 8

// shared measures readers on the gateway's machine.
func (s *suite) shared(ctx context.Context) error {
	for _, d := range []set{s.world.photos, s.world.text} {
		if err := s.sharedSet(ctx, d); err != nil {
			return fmt.Errorf("shared memory, %s: %w", d.name, err)
		}
	}
	return nil
}

func (s *suite) sharedSet(ctx context.Context, d set) error {
	s.logf("shared memory, %s: %d rounds of 2 arms", d.name, s.rounds)
	socket := filepath.Join(s.dir, "socket")
	addr, err := freePort()
	if err != nil {
		return err
	}
	budget := 2 * s.room() // half of it is for readers
	near, err := s.world.serveAt(ctx, addr, "unix:"+socket, budget, []string{"--admin-listen", addr})
	if err != nil {
		return err
	}
	defer near.stop()
	bare, err := s.world.serve(ctx, budget, nil)
	if err != nil {
		return err
	}
	defer bare.stop()
	query := fmt.Sprintf("shuffle=window&window=%d", window)
	pid := fmt.Sprint(near.cmd.Process.Pid)
	var found sharedRates
	if err := s.script(ctx, &found, "shared.py", socket, "http://"+bare.addr, d.name, query, fmt.Sprint(s.span.Seconds()), fmt.Sprint(s.rounds),
		pid, fmt.Sprint(bare.cmd.Process.Pid)); err != nil {
		return err
	}
	if _, err := d.genuine(ctx, s.world.store, bare.addr, d.path(0, 0)); err != nil {
		return err
	}
	if err := s.fast(ctx, d, median(found.Socket)); err != nil {
		return err
	}
	loop := "a bare readinto loop over loopback"
	s.table.paired(18, "shared memory, "+d.name, loop+", every sample summed in both", found.Shared, found.Socket, perSecond())
	s.table.paired(18, "processor time of gateway and reader, "+d.name, loop, found.SharedCPU, found.SocketCPU, microPerSample())
	var held []float64
	for range min(s.rounds, 3) {
		var one together
		if err := s.script(ctx, &one, "together.py", socket, d.name, query, fmt.Sprint(sharedWorkers), pid, "http://"+addr); err != nil {
			return err
		}
		held = append(held, (one.PSS-one.Alone-one.Used)/(1<<20))
	}
	s.table.add(18, fmt.Sprintf("memory of the gateway and %d workers (PSS) over torch and the budget in use, %s", sharedWorkers, d.name), "MiB", held)
	return nil
}

// fast returns an error if a loop over loopback reached less than a twentieth of HOT's rate. In
// that case the gateway has a fault, and every comparison with the loop would look good.
func (s *suite) fast(ctx context.Context, d set, samples float64) error {
	bare, err := startYardstick(ctx, d.body(), s.mib<<20)
	if err != nil {
		return err
	}
	defer bare.stop()
	hot, err := s.measure(ctx, bare, func(int64) string { return "/hot" })
	if err == nil && samples*float64(d.stride()) < hot.rate()/20 {
		err = fmt.Errorf("the bare loop had %.3g samples/s, HOT allows %.3g", samples, hot.rate()/float64(d.stride()))
	}
	return err
}
