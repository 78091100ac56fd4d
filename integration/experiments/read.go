package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

const batchSize = 256

// gateway is the product's data path for a dataset: the part that produces batches, without HTTP.
type gateway struct {
	data   *data
	path   *datapath.Path
	source *datapath.Source
	index  *chunkindex.Index
	stop   func() error
}

// room returns a budget in which the path has memory for the given number of prefetched chunks, in
// addition to bodies and tables.
func (d *data) room(chunks int) int64 {
	return int64(float64(chunks)*float64(chunkcache.Cost(d.chunkBytes()))/.7) + 4*batchSize*sampleBytes
}

// open starts a data path with an empty cache.
func (d *data) open(ctx context.Context, cfg datapath.Config, bytes int64) (*gateway, error) {
	cfg.Budget = budget.New(bytes, time.Minute)
	g := &gateway{data: d, path: datapath.New(cfg)}
	var err error
	if g.index, err = chunkindex.Open(ctx, d.inner, prefix, chunkindex.OpenOptions{Tables: g.path.Tables()}); err != nil {
		return nil, err
	}
	g.source = g.path.Open(g.index, d.store, prefix)
	run, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- g.path.Run(run) }()
	g.stop = func() error {
		cancel()
		err := <-ended
		g.path.Close()
		return errors.Join(err, g.index.Close())
	}
	return g, nil
}

// job describes how a training job reads an epoch.
type job struct {
	params   shuffle.Params
	epoch    uint64
	ahead    int           // number of batches requested in parallel, at least 1
	think    time.Duration // time between a batch and the next
	rank, of uint64        // its rank and the world size
}

// reading is a job's result of one epoch.
type reading struct {
	took    time.Duration
	waits   []time.Duration // for each batch, in the order of the epoch
	samples int
	twice   int // samples that arrived more than once
	never   int // samples that never arrived
	spread  float64
	reads   int64 // store reads for this epoch; valid, like bytes, if no other job reads at the same time
	bytes   int64
	peak    int64 // largest use of the path's budget, in bytes
}

func (r *reading) rate() float64 { return float64(r.samples) / r.took.Seconds() }

// read reads an epoch as a job, and checks that each sample arrives once.
func (g *gateway) read(ctx context.Context, j job) (*reading, error) {
	plan, err := shuffle.NewPlan(j.params, g.index.First())
	if err != nil {
		return nil, err
	}
	j.of = max(j.of, 1)
	batching := shuffle.Batching{Samples: plan.Samples(), BatchSize: batchSize, Tail: shuffle.Short}
	r := &reading{waits: make([]time.Duration, batching.Batches())}
	c := newCensus(g.data.chunks, g.data.each)
	epoch := plan.Epoch(j.epoch)
	before := len(g.data.inner.Reads())
	var next atomic.Uint64
	begun := time.Now()
	workers, ctx := errgroup.WithContext(ctx)
	for range max(j.ahead, 1) {
		workers.Go(func() error {
			for m := next.Add(1) - 1; m < batching.Batches(); m = next.Add(1) - 1 {
				asked := time.Now()
				if err := g.batch(ctx, plan, epoch, batching, m, j, c); err != nil {
					return fmt.Errorf("batch %d: %w", m, err)
				}
				r.waits[m] = time.Since(asked)
				if j.think > 0 {
					time.Sleep(j.think)
				}
			}
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		return nil, err
	}
	r.took = time.Since(begun)
	r.reads, r.bytes = g.data.epochReads(g.data.inner.Reads()[before:])
	r.peak = g.path.Stats().BudgetPeak
	r.samples, r.twice, r.never, r.spread = c.total, c.twice(), c.never(), c.spread()
	return r, nil
}

// epochReads counts the store reads until all data has been read. Later reads prepare the next
// epoch.
func (d *data) epochReads(all []memstore.Range) (reads, bytes int64) {
	type place struct {
		key    string
		offset int64
	}
	missing := map[place]bool{} // samples
	for sample := range d.samples() {
		ref, at := d.ref(sample)
		missing[place{ref.Key, at}] = true
	}
	for _, r := range all {
		if len(missing) == 0 {
			break
		}
		reads, bytes = reads+1, bytes+r.Length
		for at := (r.Offset + sampleBytes - 1) / sampleBytes * sampleBytes; at+sampleBytes <= r.Offset+r.Length; at += sampleBytes {
			delete(missing, place{r.Key, at})
		}
	}
	return reads, bytes
}

// batch reads a job's share of one global batch.
func (g *gateway) batch(ctx context.Context, plan *shuffle.Plan, epoch *shuffle.Epoch, b shuffle.Batching, m uint64, j job, c *census) error {
	share := b.Share(m, j.rank, j.of)
	samples := epoch.AppendShare(nil, share)
	chunks, err := g.data.ranges(ctx, g.index, samples)
	if err != nil {
		return err
	}
	at := shuffle.Cursor{
		Plan: plan, Epoch: epoch, First: m * b.BatchSize, End: min((m+1)*b.BatchSize, plan.Samples()),
		BatchSize: b.BatchSize, Rank: j.rank, WorldSize: j.of,
	}
	body, err := g.source.Read(ctx, at, chunks)
	if err != nil {
		return err
	}
	defer body.Close()
	got := make([]uint64, len(body.Segments))
	for i, s := range body.Segments {
		if got[i] = numberOf(s); got[i] != samples[i] {
			return fmt.Errorf("place %d: got sample %d, want %d", i, got[i], samples[i])
		}
	}
	c.note(got)
	return nil
}

// census counts the samples that arrived, and measures how evenly batches mix the chunks' samples.
type census struct {
	chunks, each int

	mu      sync.Mutex // guards the fields below
	seen    []uint16   // how often each sample arrived
	total   int
	batches int
	squares float64 // square of the number of samples from a chunk in a batch, summed over chunks and batches
}

func newCensus(chunks, each int) *census {
	return &census{chunks: chunks, each: each, seen: make([]uint16, chunks*each)}
}

// note counts one whole batch.
func (c *census) note(samples []uint64) {
	counts := map[uint64]int{}
	for _, s := range samples {
		counts[s/uint64(c.each)]++
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range samples {
		c.seen[s]++
	}
	for _, n := range counts {
		c.squares += float64(n) * float64(n)
	}
	c.total += len(samples)
	c.batches++
}

func (c *census) twice() (n int) {
	for _, k := range c.seen {
		n += max(int(k)-1, 0)
	}
	return n
}

func (c *census) never() (n int) {
	for _, k := range c.seen {
		if k == 0 {
			n++
		}
	}
	return n
}

// spread returns the variance of a class's share in a batch relative to independent draws, for data
// sorted by class, averaged over the possible positions of classes on chunks. With n chunks and a
// mean batch size of b, it is n/(n-1) * (E/b - b/n), where E is the mean over batches of the summed
// squares of the number of samples per chunk.
func (c *census) spread() float64 {
	if c.batches == 0 || c.chunks < 2 {
		return 0
	}
	n, b := float64(c.chunks), float64(c.total)/float64(c.batches)
	return n / (n - 1) * (c.squares/float64(c.batches)/b - b/n)
}

// quantile returns the smallest duration that is at least as large as a fraction q of them. d may
// be unsorted.
func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Sorted(slices.Values(d))
	return d[min(int(q*float64(len(d))), len(d)-1)]
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
