package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// What the arm STRAIGHT does: so many reads of so many bytes side by side.
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

// fetch reads all pieces, n at a time, into buffers that are used again, until span is over (0: no limit).
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

// fetch does so from MinIO, once it is quiet.
func (s *suite) fetch(ctx context.Context, pieces []piece, n int, span time.Duration) (load, error) {
	s.world.minio.settle()
	return fetch(ctx, s.world.store, pieces, n, span)
}

// parts cuts a dataset into pieces of part bytes for STRAIGHT.
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
type cost struct{ gateway, store, all float64 }

// coldEpoch starts a gateway and reads one epoch from it.
func (s *suite) coldEpoch(ctx context.Context, d set, epoch int64) (load, cost, error) {
	admin := ""
	var more []string
	if s.profile != "" {
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
	if s.profile == "" {
		saved <- nil
	} else {
		go func() { saved <- saveProfile(ctx, admin, 1, filepath.Join(s.profile, d.name+"-cold.pprof")) }()
	}
	// Without /proc these are zero, and so are the costs.
	gateway, _ := gw.cpu()
	store, _ := s.world.minio.cpu()
	l, err := read(ctx, gw.addr, conns, 0, d.once(epoch))
	gatewayEnd, _ := gw.cpu()
	storeEnd, _ := s.world.minio.cpu()
	return l, cost{gatewayEnd - gateway, storeEnd - store, l.elapsed.Seconds() * float64(runtime.NumCPU())}, errors.Join(err, <-saved)
}

func (s *suite) coldSet(ctx context.Context, d set) error {
	s.logf("cold, %s: %d rounds of 2 arms", d.name, s.rounds)
	pieces, err := d.parts(ctx, s.world.store, part)
	if err != nil {
		return err
	}
	var ours, straight, check []float64
	var costs []cost
	sum := checksumCost()
	for round := range s.rounds {
		t, err := s.fetch(ctx, pieces, streams, 0)
		if err != nil {
			return err
		}
		o, c, err := s.coldEpoch(ctx, d, int64(round))
		if err != nil {
			return err
		}
		costs = append(costs, c)
		ours, straight = append(ours, o.rate()), append(straight, t.rate())
		check = append(check, sum*o.rate())
	}
	bound := 0.74
	if d.name == "text" {
		bound = 0.66
	}
	if s.wants(4) {
		s.tell(d, costs, straight)
		s.table.paired(4, "cold epoch, "+d.name+", against STRAIGHT", ours, straight, gigabytes, bound, false)
	}
	if s.wants(11) {
		s.table.single(11, "CRC-32C of all bytes, share of the processor time of a cold epoch, "+d.name, check, "", 0.1)
	}
	return nil
}

// tell notes where the processor time of cold epochs went, as a line of a table.
func (s *suite) tell(d set, costs []cost, straight []float64) {
	if s.costs == "" {
		s.costs = "\n## Processor time of a cold epoch, seconds per GiB\n\n" +
			"All processors together. What is neither the gateway's nor the store's is the reader's, the kernel's and idle.\n\n" +
			"| data | gateway | store | the rest | together | STRAIGHT together |\n|---|---|---|---|---|---|\n"
	}
	gib := float64(d.samples()*d.stride()) / (1 << 30)
	part := func(of func(cost) float64) float64 {
		var x []float64
		for _, c := range costs {
			x = append(x, of(c)/gib)
		}
		return median(x)
	}
	s.costs += fmt.Sprintf("| %s | %.2f | %.2f | %.2f | %.2f | %.2f |\n", d.name,
		part(func(c cost) float64 { return c.gateway }), part(func(c cost) float64 { return c.store }),
		part(func(c cost) float64 { return c.all - c.gateway - c.store }), part(func(c cost) float64 { return c.all }),
		(1<<30)/median(straight)*float64(runtime.NumCPU()))
}

// checksumCost is the share of the machine's processor time that CRC-32C takes at a rate of one byte per second.
func checksumCost() float64 {
	data := make([]byte, 64<<20)
	for i := range data {
		data[i] = byte(i)
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	var crc uint32
	var times []float64
	for range 9 {
		since := stopwatch()
		for at := 0; at < len(data); at += chunkSize {
			crc ^= crc32.Checksum(data[at:at+chunkSize], table)
		}
		times = append(times, since())
	}
	runtime.KeepAlive(crc)
	return median(times) / float64(len(data)) / float64(runtime.NumCPU())
}
