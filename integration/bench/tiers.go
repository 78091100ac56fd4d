package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/shaped"
)

// tiers measures epochs that are neither cold nor in memory: an epoch from disk after a restart, a
// second epoch with a cache for half the data, and an epoch for eight ranks, one of which is slow.
func (s *suite) tiers(ctx context.Context) error {
	for _, d := range []set{s.world.photos, s.world.text} {
		if err := s.fromDisk(ctx, d); err != nil {
			return fmt.Errorf("from disk, %s: %w", d.name, err)
		}
	}
	return nil
}

// counters returns the gateway's counters.
func counters(ctx context.Context, addr string) (map[string]float64, error) {
	var stats struct {
		Counters map[string]float64 `json:"counters"`
	}
	err := askJSON(ctx, http.MethodGet, base(addr)+"/v1/stats", &stats)
	for key, value := range maps.Clone(stats.Counters) {
		if name, _, labelled := strings.Cut(key, "{"); labelled {
			stats.Counters[name] += value
		}
	}
	return stats.Counters, err
}

// ask sends a request without a body, and returns the response if its status is 200.
func ask(ctx context.Context, method, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: anyServer()}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close() // only the status counts
		return nil, fmt.Errorf("%s %s: %s", method, url, resp.Status)
	}
	return resp, nil
}

// askJSON sends a request without a body and decodes the response.
func askJSON(ctx context.Context, method, url string, v any) error {
	resp, err := ask(ctx, method, url)
	if err != nil {
		return err
	}
	defer resp.Body.Close() // read to the end
	return json.NewDecoder(resp.Body).Decode(v)
}

// fromDisk fills a disk tier, and reads an epoch from each of several gateways that start with the
// full disk.
func (s *suite) fromDisk(ctx context.Context, d set) error {
	s.logf("from disk, %s: %d rounds of 3 arms", d.name, s.rounds)
	cache := s.quarter()
	disk := []string{"--disk-cache", filepath.Join(s.dir, "disk-"+d.name), "--disk-cache-size", fmt.Sprint(s.mib << 20 * 2)}
	if err := s.fillDisk(ctx, d, cache, disk); err != nil {
		return err
	}
	pieces, err := d.parts(ctx, s.world.store, part)
	if err != nil {
		return err
	}
	bare, err := startYardstick(ctx, d.body(), s.mib<<20)
	if err != nil {
		return err
	}
	defer bare.stop()
	var ours, hot, straight []float64
	for round := range s.rounds {
		h, err := s.measure(ctx, bare, func(int64) string { return "/hot" })
		if err != nil {
			return err
		}
		t, err := s.fetch(ctx, pieces, streams, 0)
		if err != nil {
			return err
		}
		o, err := s.diskEpoch(ctx, d, cache, disk, int64(round))
		if err != nil {
			return err
		}
		hot, straight, ours = append(hot, h.rate()), append(straight, t.rate()), append(ours, o.rate())
	}
	s.table.paired(13, "epoch from disk after a restart, "+d.name, "HOT", ours, hot, gigabytes())
	s.table.paired(13, "epoch from disk after a restart, "+d.name, "STRAIGHT", ours, straight, gigabytes())
	return nil
}

// fillDisk warms the whole dataset before the first read.
func (s *suite) fillDisk(ctx context.Context, d set, cache int64, disk []string) error {
	gw, err := s.world.serve(ctx, cache, append([]string{"--allow", "read,warm"}, disk...))
	if err != nil {
		return err
	}
	defer gw.stop()
	for from, done := int64(0), false; !done; {
		path := fmt.Sprintf("http://%s/v1/datasets/%s/warm?epoch=0&shuffle=window&window=%d&from=%d", gw.addr, d.name, window, from)
		var warmed struct {
			Next       int64
			Full, Done bool
		}
		if err := askJSON(ctx, http.MethodPost, path, &warmed); err != nil {
			return err
		}
		if warmed.Full {
			return errors.New("the disk tier took a part of the dataset only")
		}
		from, done = warmed.Next, warmed.Done
	}
	return nil
}

// diskEpoch reads one epoch from a newly started gateway, and fails if the gateway reads from the
// store.
func (s *suite) diskEpoch(ctx context.Context, d set, cache int64, disk []string, epoch int64) (load, error) {
	gw, err := s.world.serve(ctx, cache, disk)
	if err != nil {
		return load{}, err
	}
	defer gw.stop()
	gw.settle()
	l, err := read(ctx, gw.addr, conns, 0, d.once(epoch))
	if err != nil {
		return load{}, err
	}
	after, err := counters(ctx, gw.addr)
	if n, counted := after["millrace_store_reads_total"]; err == nil && (n > 0 || !counted) {
		err = fmt.Errorf("an epoch from disk made %v store reads", n)
	}
	if err == nil {
		_, err = d.genuine(ctx, s.world.store, gw.addr, d.path(epoch, 0))
	}
	return l, err
}

// onTheWay is the number of chunks that a gateway prefetches beyond a window. They pass through the
// cache, so their memory cannot hold chunks from one epoch to the next.
const onTheWay = 16

// halfCached measures the second epoch with a cache for half of the data, behind the shaped store.
// One reader uses every chunk once per epoch, so every cache must read at least the part that does
// not fit.
func (s *suite) halfCached(ctx context.Context, d set, inner objstore.Store, line *shaped.Store) error {
	pieces, err := d.parts(ctx, inner, chunkSize)
	if err != nil {
		return err
	}
	bare, err := startYardstick(ctx, d.body(), s.mib<<20)
	if err != nil {
		return err
	}
	defer bare.stop()
	total := int64(len(pieces)) * chunkSize
	cache := total / 2
	s.logf("cache of half the data: %d rounds of 3 arms", s.rounds)
	var ours, hot, straight, reads, least []float64
	for round := range s.rounds {
		h, err := s.measure(ctx, bare, func(int64) string { return "/hot" })
		if err != nil {
			return err
		}
		t, err := fetch(ctx, line, pieces, 16, 0)
		if err != nil {
			return err
		}
		o, got, err := s.secondEpoch(ctx, d, line, cache, int64(2*round))
		if err != nil {
			return err
		}
		hot, straight, ours = append(hot, h.rate()), append(straight, t.rate()), append(ours, o.rate())
		reads, least = append(reads, got), append(least, float64(total-cache+(window+onTheWay)*chunkSize))
	}
	s.table.paired(14, "second epoch, cache of half the data, shaped store", "HOT", ours, hot, gigabytes())
	s.table.paired(14, "second epoch, cache of half the data, shaped store", "STRAIGHT", ours, straight, gigabytes())
	s.table.paired(14, "store reads of the second epoch, cache of half the data", "the bound N - (C - W - 16)", reads, least, megabytes())
	return nil
}

// secondEpoch returns the load of the second of two epochs, and the bytes that it read from the
// store.
func (s *suite) secondEpoch(ctx context.Context, d set, line *shaped.Store, cache, epoch int64) (load, float64, error) {
	gw, err := startLocal(ctx, d, line, cache)
	if err != nil {
		return load{}, 0, err
	}
	_, err = read(ctx, gw.addr, conns, 0, d.once(epoch))
	before := line.Stats().BytesRead
	l := load{}
	if err == nil {
		l, err = read(ctx, gw.addr, conns, 0, d.once(epoch+1))
	}
	after := line.Stats().BytesRead
	if err == nil {
		_, err = d.genuine(ctx, line, gw.addr, d.path(epoch+1, 0))
	}
	return l, float64(after - before), errors.Join(err, gw.close())
}

const (
	ranks    = 8
	slowness = 4 // factor of the straggler's time
)

// straggler measures an epoch for eight ranks with a cache for half the data. One rank is four
// times slower than the others. The data that the slow rank still needs must stay in memory, and
// the other ranks must not wait for it.
func (s *suite) straggler(ctx context.Context, d set, inner objstore.Store, line *shaped.Store) error {
	pieces, err := d.parts(ctx, inner, chunkSize)
	if err != nil {
		return err
	}
	s.logf("8 ranks, one of them slow: %d rounds of 3 arms", s.rounds)
	var ours, even, straight, reads, least []float64
	for round := range s.rounds {
		t, err := fetch(ctx, line, pieces, 16, 0)
		if err != nil {
			return err
		}
		e, _, err := s.ranksEpoch(ctx, d, line, int64(round), 1)
		if err != nil {
			return err
		}
		o, got, err := s.ranksEpoch(ctx, d, line, int64(round), slowness)
		if err != nil {
			return err
		}
		straight, even, ours = append(straight, t.rate()), append(even, e.rate()), append(ours, o.rate())
		reads, least = append(reads, got), append(least, float64(int64(len(pieces))*chunkSize))
	}
	s.table.paired(15, "the other 7 ranks beside a straggler", "STRAIGHT", ours, straight, gigabytes())
	s.table.paired(15, "the other 7 ranks beside a straggler", "the same without one", ours, even, gigabytes())
	s.table.paired(15, "store reads of all 8", "one pass", reads, least, megabytes())
	return nil
}

// ranksEpoch reads one epoch as eight ranks. The last rank takes factor times as long for a batch
// as the store needs to supply it. ranksEpoch returns the load of the other ranks, and the bytes
// that all ranks read from the store.
func (s *suite) ranksEpoch(ctx context.Context, d set, line *shaped.Store, epoch int64, factor int) (load, float64, error) {
	gw, err := startLocal(ctx, d, line, s.mib<<20/2)
	if err != nil {
		return load{}, 0, err
	}
	before := line.Stats().BytesRead
	var mu sync.Mutex
	var others load
	var wg sync.WaitGroup
	step := time.Duration(float64(d.body()) / 500e6 * float64(time.Second)) // duration of a global batch at the rate of the line
	for rank := range ranks {
		wg.Go(func() {
			l, e := read(ctx, gw.addr, 1, 0, func(i int64) string {
				if rank == ranks-1 && i > 0 {
					time.Sleep(step * time.Duration(factor-1))
				}
				if i >= d.batches() {
					return ""
				}
				return d.path(epoch, i) + fmt.Sprintf("&world_size=%d&rank=%d", ranks, rank)
			})
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, e)
			if rank < ranks-1 {
				others.bytes += l.bytes
				others.elapsed = max(others.elapsed, l.elapsed)
			}
		})
	}
	wg.Wait()
	got := float64(line.Stats().BytesRead - before)
	return others, got, errors.Join(err, gw.close())
}

// planAware measures caches and ranks on the shaped store.
func (s *suite) planAware(ctx context.Context) error {
	d := setOf("text", s.mib)
	inner, line, err := s.shapedSet(ctx, d)
	if err != nil {
		return err
	}
	if s.wants(14) {
		if err := s.halfCached(ctx, d, inner, line); err != nil {
			return err
		}
	}
	if s.wants(15) {
		return s.straggler(ctx, d, inner, line)
	}
	return nil
}
