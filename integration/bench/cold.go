package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Settings of the arm STRAIGHT: the number of parallel reads and the size of each in bytes.
const (
	streams = 12
	part    = 16 << 20
)

// piece is one range to read.
type piece struct {
	ref    objstore.Ref
	offset int64
	length int64
}

// fetch reads all pieces, n at a time, into reused buffers, until span has passed (0: no limit).
func fetch(ctx context.Context, store objstore.RangeReader, pieces []piece, n int, span time.Duration) (load, error) {
	var next, got, done atomic.Int64
	var mu sync.Mutex
	var failure error
	longest := int64(1)
	for _, p := range pieces {
		longest = max(longest, p.length)
	}
	begin := time.Now()
	var wg sync.WaitGroup
	for range min(n, len(pieces)) {
		wg.Go(func() {
			buf := make([]byte, longest)
			for {
				i := next.Add(1) - 1
				if i >= int64(len(pieces)) || span > 0 && time.Since(begin) > span {
					return
				}
				p := pieces[i]
				if err := store.ReadRange(ctx, p.ref, p.offset, buf[:p.length]); err != nil {
					mu.Lock()
					failure = err
					mu.Unlock()
					return
				}
				got.Add(p.length)
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return load{bytes: got.Load(), samples: done.Load(), elapsed: time.Since(begin)}, failure
}

// fetch reads pieces from MinIO, once MinIO is idle.
func (s *suite) fetch(ctx context.Context, pieces []piece, n int, span time.Duration) (load, error) {
	s.world.minio.settle()
	return fetch(ctx, s.world.store, pieces, n, span)
}

// parts divides a dataset into pieces of part bytes for STRAIGHT.
func (d set) parts(ctx context.Context, store objstore.Store, part int64) ([]piece, error) {
	var pieces []piece
	for i := range d.shards {
		obj, err := store.Stat(ctx, d.shard(i))
		if err != nil {
			return nil, err
		}
		for at := int64(0); at < obj.Size; at += part {
			n := min(part, obj.Size-at)
			pieces = append(pieces, piece{obj.Ref(), at, n})
		}
	}
	return pieces, nil
}

// cold measures the first epoch of a gateway that was just started.
func (s *suite) cold(ctx context.Context) error {
	for _, d := range []set{s.world.photos, s.world.text} {
		if err := s.coldSet(ctx, d); err != nil {
			return fmt.Errorf("cold, %s: %w", d.name, err)
		}
	}
	return nil
}

// cost is the processor time of a cold epoch, in seconds.
type cost struct{ gateway, store float64 }

// coldEpoch starts a gateway and reads one epoch from it, with a CPU profile if a file is given.
func (s *suite) coldEpoch(ctx context.Context, d set, epoch int64, profile string) (load, cost, error) {
	admin := ""
	var more []string
	if profile != "" {
		var err error
		if admin, err = freePort(); err != nil {
			return load{}, cost{}, err
		}
		more = []string{"--admin-listen", admin}
	}
	gw, err := s.world.serve(ctx, s.room(), more)
	if err != nil {
		return load{}, cost{}, err
	}
	defer gw.stop()
	gw.settle()
	s.world.minio.settle()
	saved := make(chan error, 1)
	if profile == "" {
		saved <- nil
	} else {
		go func() { saved <- saveProfile(ctx, admin, 1, profile) }()
	}
	// Without /proc these times are zero, and so are the costs.
	gateway, _ := gw.cpu()
	store, _ := s.world.minio.cpu()
	l, err := read(ctx, gw.addr, conns, 0, d.once(epoch))
	gatewayEnd, _ := gw.cpu()
	storeEnd, _ := s.world.minio.cpu()
	if err = errors.Join(err, <-saved); err == nil && l.samples != d.samples() {
		err = fmt.Errorf("epoch %d: got %d samples, want %d", epoch, l.samples, d.samples())
	}
	if err == nil {
		_, err = d.genuine(ctx, s.world.store, gw.addr, d.path(epoch, 0))
	}
	return l, cost{gatewayEnd - gateway, storeEnd - store}, err
}

func (s *suite) coldSet(ctx context.Context, d set) error {
	if s.wants(11) {
		shares, err := s.checksumShare(ctx, d)
		if err != nil {
			return err
		}
		s.table.add(11, "CRC-32C, share of the gateway's processor time in a cold epoch, "+d.name, "", shares)
	}
	if !s.wants(4) {
		return nil
	}
	s.logf("cold, %s: %d rounds of 3 arms", d.name, s.rounds)
	pieces, err := d.parts(ctx, s.world.store, part)
	if err != nil {
		return err
	}
	var ours, straight, relays, gateway, store []float64
	gib := float64(d.samples()*d.stride()) / (1 << 30)
	profile := ""
	if s.profile != "" {
		profile = filepath.Join(s.profile, d.name+"-cold.pprof")
	}
	for round := range s.rounds {
		t, err := s.fetch(ctx, pieces, streams, 0)
		if err != nil {
			return err
		}
		r, err := s.relayed(ctx, d)
		if err != nil {
			return err
		}
		o, c, err := s.coldEpoch(ctx, d, int64(round), profile)
		if err != nil {
			return err
		}
		gateway, store = append(gateway, c.gateway/gib), append(store, c.store/gib)
		ours, straight, relays = append(ours, o.rate()), append(straight, t.rate()), append(relays, r.rate())
	}
	s.table.paired(4, "cold epoch, "+d.name, "RELAY", ours, relays, gigabytes())
	s.table.paired(4, "cold epoch, "+d.name, "STRAIGHT", ours, straight, gigabytes())
	s.table.ratio(4, "RELAY, "+d.name, "RELAY", "STRAIGHT", relays, straight, gigabytes())
	if median(gateway) > 0 { // /proc exists
		s.table.add(4, "gateway's processor time for a GiB of a cold epoch, "+d.name, "s", gateway)
		s.table.add(4, "store's processor time for a GiB of a cold epoch, "+d.name, "s", store)
	}
	return nil
}

// checksumShare returns, for each round, CRC-32C's share of the gateway's processor time in a cold
// epoch.
func (s *suite) checksumShare(ctx context.Context, d set) (shares []float64, err error) {
	s.logf("CRC-32C, %s: %d rounds", d.name, s.rounds)
	file := filepath.Join(s.dir, d.name+"-checks.pprof")
	for round := range s.rounds {
		if _, _, err := s.coldEpoch(ctx, d, int64(round), file); err != nil {
			return nil, err
		}
		out, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-nodecount=1000000", "-nodefraction=0", file).Output()
		if err != nil {
			return nil, fmt.Errorf("read a profile: %w", err)
		}
		shares = append(shares, flatShare(string(out), "hash/crc32."))
	}
	return shares, nil
}

// flatShare returns the sum of the flat shares of the functions with a prefix in the output of
// pprof -top.
func flatShare(top, prefix string) (share float64) {
	for line := range strings.Lines(top) {
		fields := strings.Fields(line) // columns: flat, flat %, sum %, cum, cum %, function
		if len(fields) < 6 || !strings.HasPrefix(fields[5], prefix) {
			continue
		}
		percent, err := strconv.ParseFloat(strings.TrimSuffix(fields[1], "%"), 64)
		if err == nil {
			share += percent / 100
		}
	}
	return share
}
