package datapath

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/diskcache"
	"github.com/millrace-data/millrace/internal/testing/seeds"
	"github.com/millrace-data/millrace/shuffle"
)

// A dataset is opened, read in every way, queried by another gateway and closed, a thousand times
// in a long run. Meanwhile another dataset is read in the same small memory. No byte is wrong, and
// nothing of any round remains.
func TestSourcesComeAndGoUnderLoad(t *testing.T) {
	from, to, _ := seeds.Range(t, 60, 1000)
	disk, err := diskcache.Open(diskcache.Config{Dir: t.TempDir(), MaxBytes: 512 << 10})
	must(t, err)
	t.Cleanup(disk.Close)
	d, other := newDataset(t, 210, same(240, 1500), 40, 16<<10), newDataset(t, 211, same(240, 1500), 40, 16<<10)
	plan := d.plan(t, shuffle.Window, 4)
	f := newFleet(t, d, plan, 2, Config{Disk: disk, CheckSHA: true}, 640<<10)
	m, asker := f.members[0], f.members[1]
	m.source.Close()
	stays := m.path.Open(other.index, other.store, "set/")
	stays.KeepOnDisk("there")
	load, stop := context.WithCancel(t.Context())
	var loads sync.WaitGroup
	reads := func(d *dataset, s *Source, rank uint64) {
		loads.Go(func() {
			g := &fleet{dataset: d, plan: d.plan(t, shuffle.Window, 4)}
			for epoch := uint64(0); load.Err() == nil; epoch++ {
				err := g.readRank(load, t, &member{source: s}, epoch, 40, rank, 2)
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
					return
				}
			}
		})
	}
	reads(other, stays, 0)
	reads(other, stays, 1)
	reads(d, asker.source, 0)
	var was []openedOnce
	for seed := from; seed < to && !t.Failed(); seed++ {
		was = append(was, d.round(t, m.path, disk, seed))
	}
	stop()
	loads.Wait()
	stays.Close()
	m.path.empty(t, was...)
	if got := m.path.Stats(); got.PeerServedReads < to-from {
		t.Errorf("got %d answers to other gateways, want one a round at least", got.PeerServedReads)
	}
}

// round opens the dataset, lets a few readers read it from random positions, and closes it.
func (d *dataset) round(t *testing.T, p *Path, disk *diskcache.Cache, seed uint64) openedOnce {
	rnd := rand.New(rand.NewPCG(seed, 212))
	d, s := d.reopen(t, p)
	if disk != nil && rnd.IntN(2) == 0 {
		s.KeepOnDisk("here")
	}
	s.Share("set")
	var readers sync.WaitGroup
	for range 1 + rnd.IntN(3) {
		name := []string{shuffle.None, shuffle.Window, shuffle.Slot, shuffle.Full}[rnd.IntN(4)]
		plan, begin, warm := d.plan(t, name, 4), rnd.Uint64N(6), rnd.IntN(3) == 0
		readers.Go(func() {
			if err := d.readSome(t, s, plan, begin, warm); err != nil {
				t.Errorf("round %d: %v", seed, err)
			}
		})
	}
	readers.Wait()
	if seed%5 == 0 {
		time.Sleep(5 * time.Millisecond) // let read-ahead arrive
	}
	answered, asked := make(chan struct{}), make(chan error)
	go func() { asked <- d.ask(t, p, answered) }()
	<-answered
	was := openedOnce{weak.Make(s), weak.Make(d.index)}
	s.over()
	if err := <-asked; !errors.Is(err, peer.ErrNotServed) {
		t.Errorf("round %d: got %v for a question that came too late, want %v", seed, err, peer.ErrNotServed)
	}
	must(t, d.index.Close())
	return was
}

// ask sends queries like another gateway until it gets an error. It closes the channel after the
// first correct answer.
func (d *dataset) ask(t *testing.T, p *Path, answered chan struct{}) error {
	first := sync.OnceFunc(func() { close(answered) })
	defer first()
	chunks := d.ranges(t, []uint64{3, 77, 203})
	for {
		body, err := p.answer(t.Context(), d.query(chunks))
		if errors.Is(err, peer.ErrNoRoom) {
			continue
		}
		if err != nil {
			return err
		}
		if err := d.check(chunks, body); err != nil {
			return err
		}
		body.Close()
		first()
	}
}

// readSome reads three consecutive batches, some samples of which are hot, and checks every byte.
func (d *dataset) readSome(t *testing.T, s *Source, plan *shuffle.Plan, begin uint64, warm bool) error {
	e := plan.Epoch(0)
	if warm {
		at := shuffle.Cursor{Plan: plan, Epoch: e, First: begin * 30, End: begin*30 + 30, BatchSize: 30}
		if _, err := s.Warm(t.Context(), at); err != nil {
			return fmt.Errorf("warm: %w", err)
		}
	}
	for n := begin; n < begin+3; n++ {
		at := shuffle.Cursor{Plan: plan, Epoch: e, First: n * 30, End: min(n*30+30, plan.Samples()), BatchSize: 30}
		chunks := hotBatch(t, d, e.Append(nil, at.First, at.End), 60)
		body, err := s.Read(t.Context(), at, chunks)
		if err != nil {
			return fmt.Errorf("batch %d: %w", n, err)
		}
		if err := d.check(chunks, body); err != nil {
			return fmt.Errorf("batch %d: %w", n, err)
		}
		body.Close()
	}
	return nil
}
