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

// quarter returns the size of a cache for a quarter of the data, but at least the smallest size
// that a gateway accepts. The minimum matters with -quick.
func (s *suite) quarter() int64 { return max(s.mib<<20/4, 64<<20) }

// memory measures the effect of a gateway's memory: with a cache much smaller than the data, and
// with one that can hold all data.
func (s *suite) memory(ctx context.Context) error {
	if err := s.memoryOf(ctx, "a quarter of the data", s.quarter()); err != nil {
		return fmt.Errorf("memory, a quarter of the data: %w", err)
	}
	if err := s.memoryOf(ctx, "all data", s.room()); err != nil {
		return fmt.Errorf("memory, all data: %w", err)
	}
	return nil
}

func (s *suite) memoryOf(ctx context.Context, what string, cache int64) error {
	s.logf("memory, room for %s: %d MiB", what, cache>>20)
	gw, err := s.world.serve(ctx, cache, nil, "GODEBUG=gctrace=1")
	if err != nil {
		return err
	}
	defer gw.stop()
	var gather []float64
	var asked int64
	for _, d := range []set{s.world.photos, s.world.text} {
		for epoch := range int64(2) {
			if _, err := read(ctx, gw.addr, conns, 0, d.once(epoch)); err != nil {
				return err
			}
		}
		l, err := read(ctx, gw.addr, 1, 2*time.Second, d.epoch(1))
		if err == nil {
			_, err = d.genuine(ctx, s.world.store, gw.addr, d.path(1, 0))
		}
		if err != nil {
			return err
		}
		gather, asked = append(gather, l.memory...), asked+l.requests
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
	s.table.add(8, "largest resident size over the budget, room for "+what, "MiB", []float64{(peak - float64(cache)) / (1 << 20)})
	s.table.add(8, "collector's share of the processor time, room for "+what, "", []float64{collectorTime(gw.log.String()) / used})
	if cache == s.room() {
		if int64(len(gather)) != asked {
			return fmt.Errorf("%d of %d answers say how long they were gathered", len(gather), asked)
		}
		s.table.add(8, "gather of one batch, the slowest", "ms", []float64{quantile(gather, 1)})
	}
	return nil
}

// collections matches the processor times in a line of gctrace: "..., 0.1+0.5/0.9/0+0.2 ms cpu,
// ...".
var collections = regexp.MustCompile(`clock, ([0-9.+/]+) ms cpu`)

// collectorTime returns the processor time, in seconds, of the garbage collections in a trace. It
// omits the time of idle workers (the last of the three figures in the middle), because this time
// costs nothing.
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
