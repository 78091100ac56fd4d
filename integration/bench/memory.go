package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// memory measures what a gateway's memory costs: a cache much smaller than the data, and one that holds it.
func (s *suite) memory(ctx context.Context) error {
	for _, cache := range []int64{s.mib << 20 / 4, s.room()} {
		if err := s.memoryOf(ctx, cache); err != nil {
			return fmt.Errorf("memory, cache of %d MiB: %w", cache>>20, err)
		}
	}
	return nil
}

func (s *suite) memoryOf(ctx context.Context, cache int64) error {
	s.logf("memory, cache of %d MiB", cache>>20)
	gw, err := s.world.serve(ctx, cache, nil, "GODEBUG=gctrace=1")
	if err != nil {
		return err
	}
	defer gw.stop()
	var gather []float64
	for _, d := range []set{s.world.photos, s.world.text} {
		for epoch := range int64(2) {
			if _, err := read(ctx, gw.addr, conns, 0, d.once(epoch)); err != nil {
				return err
			}
		}
		l, err := read(ctx, gw.addr, 1, 2*time.Second, d.epoch(1))
		if err != nil {
			return err
		}
		gather = append(gather, l.memory...)
	}
	used, err := gw.cpu()
	if errors.Is(err, errNoProc) {
		s.logf("memory: %v", err)
		return nil
	}
	peak, err2 := gw.peak()
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	gw.stop()
	what := fmt.Sprintf("cache of %d MiB", cache>>20)
	s.table.single(8, "largest resident size over the budget, "+what, []float64{(peak - float64(cache)) / (1 << 20)}, " MiB", 64)
	s.table.single(8, "collector's share of the processor time, "+what, []float64{collectorTime(gw.log.String()) / used}, "", 0.002)
	if cache == s.room() && len(gather) > 0 {
		s.table.single(8, "gather of one batch, the slowest", []float64{quantile(gather, 1)}, " ms", 2)
	}
	return nil
}

// collections matches the processor time in a line of gctrace: "..., 0.1+0.5/0.9/0+0.2 ms cpu, ...".
var collections = regexp.MustCompile(`clock, ([0-9.+/]+) ms cpu`)

// collectorTime adds up, in seconds, what the collections of a trace took. Idle workers' time, the last of the
// three figures in the middle, took nothing from anybody.
func collectorTime(trace string) float64 {
	total := 0.0
	for _, m := range collections.FindAllStringSubmatch(trace, -1) {
		for phase := range strings.SplitSeq(m[1], "+") {
			figures := strings.Split(phase, "/")
			for _, f := range figures[:min(2, len(figures))] {
				ms, err := strconv.ParseFloat(f, 64)
				if err == nil {
					total += ms / 1000
				}
			}
		}
	}
	return total
}
