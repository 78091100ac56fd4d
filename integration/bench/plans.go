package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"

	"github.com/millrace-data/millrace/shuffle"
)

// plans measures the order of 10^9 samples in 10^6 chunks.
func (s *suite) plans() error {
	samples, chunks := uint64(1e9), 1_000_000
	if s.quick {
		samples, chunks = 1e7, 10_000
	}
	s.logf("plans of %d samples in %d chunks", samples, chunks)
	first := make([]uint64, chunks+1)
	for i := range first {
		first[i] = samples / uint64(chunks) * uint64(i)
	}
	for _, params := range []shuffle.Params{{Shuffle: shuffle.Window, Window: 64}, {Shuffle: shuffle.Slot, Window: 128}} {
		var ready, size, locate []float64
		for round := range s.rounds {
			params.Seed = uint64(round)
			ms, mib, us, err := planOnce(params, first)
			if err != nil {
				return fmt.Errorf("plan %s: %w", params.Shuffle, err)
			}
			ready, size, locate = append(ready, ms), append(size, mib), append(locate, us)
		}
		s.table.add(9, params.Shuffle+": plan and epoch ready", "ms", ready)
		s.table.add(9, params.Shuffle+": memory", "MiB", size)
		s.table.add(9, params.Shuffle+": one of its batches located, window known", "us", locate)
	}
	since := stopwatch()
	n := int(samples / 100)
	order := make([]uint32, n)
	for i := range order {
		order[i] = uint32(i)
	}
	rand.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
	s.logf("plans: a shuffled array of %d samples, a hundredth, takes %.2f s and %d MiB", n, since(), n*4>>20)
	runtime.KeepAlive(order)
	return nil
}

// mixed returns an error unless a batch has its samples, each once, from many chunks. Without this
// check an order that does nothing would be the fastest.
func mixed(samples, first []uint64) error {
	chunks, once := map[int]bool{}, map[uint64]bool{}
	for _, s := range samples {
		if s >= first[len(first)-1] {
			return fmt.Errorf("got sample %d of %d", s, first[len(first)-1])
		}
		chunk, _ := slices.BinarySearch(first, s+1)
		chunks[chunk], once[s] = true, true
	}
	if len(once) != batch || len(samples) != batch || len(chunks) < batch/16 {
		return fmt.Errorf("got a batch of %d samples, %d of them different ones, of %d chunks", len(samples), len(once), len(chunks))
	}
	return nil
}

// planOnce returns the milliseconds until an epoch is ready, its memory in MiB, and the
// microseconds to locate a batch.
func planOnce(params shuffle.Params, first []uint64) (ms, mib, us float64, err error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	since := stopwatch()
	plan, err := shuffle.NewPlan(params, first)
	if err != nil {
		return 0, 0, 0, err
	}
	epoch := plan.Epoch(params.Seed)
	ms = since() * 1e3
	runtime.GC()
	runtime.ReadMemStats(&after)
	mib = float64(after.HeapAlloc) - float64(before.HeapAlloc)
	dst := make([]uint64, 0, batch)
	batches := plan.Samples() / batch
	var times []float64
	for range 200 {
		lo := rand.Uint64N(batches-1) * batch
		dst = epoch.Append(dst[:0], lo, lo+batch) // compute the batch's window first
		since := stopwatch()
		dst = epoch.Append(dst[:0], lo, lo+batch)
		times = append(times, since()*1e6)
		if err := mixed(dst, first); err != nil {
			return 0, 0, 0, err
		}
	}
	runtime.KeepAlive(plan)
	return ms, mib / (1 << 20), median(times), nil
}
