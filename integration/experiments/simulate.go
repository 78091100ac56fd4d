package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/datapath/simulate"
	"github.com/millrace-data/millrace/integration/experiments/lab"
	"github.com/millrace-data/millrace/internal/testing/shaped"
	"github.com/millrace-data/millrace/shuffle"
)

// simulateSize is the size of the experiment.
type simulateSize struct {
	chunks, each int
	shape        shaped.Shape
	cases        []predicted
}

// predicted is one setting that is predicted and measured.
type predicted struct {
	order  shuffle.Params
	policy string
	cache  float64 // cache size, relative to the data
	ranks  int
	job    float64 // rate of the job, relative to the store's rate for all samples
	skew   float64
	ahead  int // batches requested beyond the one in use
}

func fullSimulate() simulateSize {
	window, slot := predictedOrders(16)
	return simulateSize{
		chunks: 192, each: 128, shape: shaped.Shape{FirstByte: 20 * time.Millisecond, Stream: 20e6, Total: 40e6},
		cases: []predicted{
			{window, policy.Plan, 0.5, 8, 4, 1, 2},
			{window, policy.LRU, 0.5, 8, 4, 1, 2},
			{slot, policy.Plan, 0.25, 8, 4, 1, 2},
			{slot, policy.LRU, 0.25, 1, 4, 1, 0},
			{slot, policy.Plan, 0.5, 8, 0.7, 1, 2},
			{window, policy.Plan, 1.6, 1, 1.2, 1, 2},
			{window, policy.Plan, 0.5, 8, 1, 2, 2},
		},
	}
}

func predictedOrders(n uint64) (window, slot shuffle.Params) {
	return shuffle.Params{Shuffle: shuffle.Window, Window: n, Seed: 1}, shuffle.Params{Shuffle: shuffle.Slot, Window: n, Seed: 2}
}

func (c predicted) setting(d *data, shape shaped.Shape) simulate.Setting {
	return simulate.Setting{
		Order: c.order, BatchSize: batchSize, Epochs: 2, Ranks: c.ranks, Rate: c.job * shape.Total / sampleBytes, Skew: c.skew, ReadAhead: c.ahead,
		Gateways: 1, CacheSize: int64(c.cache * float64(d.bytes())), Policy: c.policy,
		Fetchers: datapath.DefaultFetchers, PartSize: datapath.DefaultPartSize,
		StoreRate: shape.Total, StoreStream: shape.Stream, FirstByte: shape.FirstByte,
	}
}

func simulated(z simulateSize) lab.Experiment {
	return lab.Experiment{
		Name:  "simulate",
		Title: "Millrace: the predictions of millrace simulate",
		Claim: "The simulation predicts the times of the first and the second epoch within 10 % of the measured ones on a shaped store. This holds for any order, policy, cache, ranks and job rate.",
		Setting: []string{
			fmt.Sprintf("%d chunks of %d samples of 4 KB, batches of %d; two consecutive epochs, which the ranks begin together", z.chunks, z.each, batchSize),
			fmt.Sprintf("store in memory, shaped: %v to the first byte, %.0f MB/s per stream, %.0f MB/s in total", z.shape.FirstByte, z.shape.Stream/1e6, z.shape.Total/1e6),
			"the model receives the dataset's index, the shape of the store and the job's rate, but no measurement",
		},
		Arms: []lab.Arm{
			{Name: "predicted", What: "package simulate, with its virtual clock"},
			{Name: "measured", What: "the data path in this process, with ranks as goroutines that wait between two batches. Each setting runs twice and the faster epoch counts, since other load can only delay it"},
		},
		Pass: []lab.Mark{
			{Name: "time", Want: "predicted time within 10 % of the measured one, for each epoch of each setting", Fails: "omit the store's first byte from the simulation", Measured: true},
			{Name: "bytes", Want: "predicted bytes from the store within 5 % of the data of the measured ones, for both epochs together of each setting with ranks in step", Fails: "simulate a cache of unlimited size"},
		},
		Run: func(ctx context.Context, r *lab.Report) error { return runSimulate(ctx, r, z) },
	}
}

func runSimulate(ctx context.Context, r *lab.Report, z simulateSize) error {
	d, err := newData(ctx, z.chunks, z.each, z.shape)
	if err != nil {
		return err
	}
	defer d.close()
	t := r.Table("Predicted and measured", "order", "policy", "cache", "ranks", "job", "epoch", "predicted", "measured", "error", "bytes predicted", "measured")
	var worstTime, worstBytes float64
	for _, c := range z.cases {
		set := c.setting(d, z.shape)
		guess, err := simulate.Run(ctx, d.known(), set)
		if err != nil {
			return err
		}
		r.Logf("%s, %s, cache %.2f, %d ranks: predicted %v", c.order.Shuffle, c.policy, c.cache, c.ranks, guess.Later().Time)
		times, bytes, err := d.measureTwice(ctx, set)
		if err != nil {
			return err
		}
		var off int64
		for i, took := range times {
			e := &guess.Epochs[i]
			err := float64(e.Time)/float64(took) - 1
			worstTime = max(worstTime, math.Abs(err))
			off += e.StoreBytes - bytes[i]
			t.Row(fmt.Sprintf("%s %d", c.order.Shuffle, c.order.Window), c.policy, c.cache, c.ranks, fmt.Sprintf("%.3g x store", c.job), i,
				e.Time, took, fmt.Sprintf("%+.1f %%", 100*err), simulate.Bytes(e.StoreBytes), simulate.Bytes(bytes[i]))
		}
		if c.skew == 1 { // if ranks drift apart, the amount of repeated reads depends on exact timing
			worstBytes = max(worstBytes, math.Abs(float64(off))/float64(d.bytes()))
		}
	}
	r.Judge("time", worstTime <= 0.1, fmt.Sprintf("maximum error %.1f %%", 100*worstTime))
	r.Judge("bytes", worstBytes <= 0.05, fmt.Sprintf("maximum error %.1f %% of the data", 100*worstBytes))
	return nil
}

// known returns the properties of the dataset that the model needs.
func (d *data) known() *simulate.Data {
	k := &simulate.Data{First: d.index.First(), Chunks: make([]simulate.Chunk, d.chunks)}
	for i := range k.Chunks {
		e := d.index.Extents(i)[0]
		k.Chunks[i] = simulate.Chunk{Shard: e.Shard, Offset: e.Offset, Length: e.Length}
	}
	return k
}

// measureTwice measures a setting twice, and returns the faster time of each epoch with the bytes
// that it read.
func (d *data) measureTwice(ctx context.Context, s simulate.Setting) (times []time.Duration, bytes []int64, err error) {
	times, bytes, err = d.measure(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	again, read, err := d.measure(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	for i := range again {
		if again[i] < times[i] {
			times[i], bytes[i] = again[i], read[i]
		}
	}
	return times, bytes, nil
}

// measure reads the epochs of a setting through the data path, and returns the time and bytes of
// each.
func (d *data) measure(ctx context.Context, s simulate.Setting) (times []time.Duration, bytes []int64, err error) {
	g, err := d.open(ctx, datapath.Config{Policy: s.Policy, Fetchers: s.Fetchers, PartSize: s.PartSize}, s.CacheSize)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if e := g.stop(); err == nil {
			err = e
		}
	}()
	plan, err := shuffle.NewPlan(s.Order, g.index.First())
	if err != nil {
		return nil, nil, err
	}
	for epoch := range s.Epochs {
		begun, before := time.Now(), d.store.Stats().BytesRead
		ranks, ctx := errgroup.WithContext(ctx)
		e := plan.Epoch(uint64(epoch))
		for rank := range s.Ranks {
			ranks.Go(func() error { return g.train(ctx, s, plan, e, rank) })
		}
		if err := ranks.Wait(); err != nil {
			return nil, nil, err
		}
		times = append(times, time.Since(begun))
		bytes = append(bytes, d.store.Stats().BytesRead-before)
	}
	return times, bytes, nil
}

// train runs one rank, which requests batches ahead of the one in use, and spends some time on
// each.
func (g *gateway) train(ctx context.Context, s simulate.Setting, plan *shuffle.Plan, epoch *shuffle.Epoch, rank int) error {
	batching := shuffle.Batching{Samples: plan.Samples(), BatchSize: s.BatchSize, Tail: shuffle.Short}
	requests, ctx := errgroup.WithContext(ctx)
	asked := make([]chan time.Time, 0, batching.Batches())
	ask := func() {
		m, done := uint64(len(asked)), make(chan time.Time, 1)
		asked = append(asked, done)
		requests.Go(func() error {
			err := g.share(ctx, plan, epoch, batching, m, uint64(rank), uint64(s.Ranks))
			if err == nil {
				done <- time.Now()
			}
			return err
		})
	}
	// A rank begins with a batch when the batch has arrived and the previous batch is done. The
	// time at which this busy machine wakes the goroutine does not matter.
	free := time.Now()
	for m := range batching.Batches() {
		for uint64(len(asked)) < min(m+uint64(s.ReadAhead)+1, batching.Batches()) {
			ask()
		}
		select {
		case came := <-asked[m]:
			if came.After(free) {
				free = came
			}
		case <-ctx.Done():
			return requests.Wait()
		}
		free = free.Add(s.Think(rank, batching.Share(m, uint64(rank), uint64(s.Ranks)).Count))
		time.Sleep(time.Until(free))
	}
	return requests.Wait()
}

// share reads one rank's share of a batch.
func (g *gateway) share(ctx context.Context, plan *shuffle.Plan, epoch *shuffle.Epoch, b shuffle.Batching, m, rank, of uint64) error {
	share := b.Share(m, rank, of)
	chunks, err := g.data.ranges(ctx, g.index, epoch.AppendShare(nil, share))
	if err != nil {
		return err
	}
	body, err := g.source.Read(ctx, shuffle.Cursor{
		Plan: plan, Epoch: epoch, First: m * b.BatchSize, End: min((m+1)*b.BatchSize, plan.Samples()), BatchSize: b.BatchSize,
		Rank: rank, WorldSize: of,
	}, chunks)
	if err != nil {
		return err
	}
	body.Close()
	return nil
}
