package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// drawing applies the product's importance sampling epoch by epoch: it reports losses to a log,
// freezes a snapshot, and draws the next epoch by that snapshot.
type drawing struct {
	params  shuffle.Params
	first   []uint64 // prefix sums of the chunks' sample counts
	share   float64  // fraction of the samples that are hot
	repeat  uint32
	log     *importance.Log
	base    *importance.Snapshot // snapshot of the previous epoch; nil in epoch 0
	weights [][]uint32           // by chunk and by sample in the chunk
	hot     []bool
}

// newDrawing returns a drawing over chunks of each samples; the last chunk may have fewer.
func newDrawing(params shuffle.Params, samples, each int, share float64, repeat uint32) (*drawing, error) {
	store := memstore.New()
	log, err := importance.New(importance.Config{Reader: store, Writer: store, Prefix: prefix})
	if err != nil {
		return nil, err
	}
	d := &drawing{params: params, first: []uint64{0}, share: share, repeat: repeat, log: log, hot: make([]bool, samples)}
	for at := each; at < samples+each; at += each {
		d.first = append(d.first, uint64(min(at, samples)))
	}
	return d, nil
}

func (d *drawing) close() error {
	if d.base != nil {
		if err := d.base.Close(); err != nil {
			return err
		}
	}
	return d.log.Close()
}

// plan returns the plan of the next epoch.
func (d *drawing) plan() (*shuffle.Plan, error) {
	if d.base == nil {
		return shuffle.NewPlan(d.params, d.first)
	}
	params := d.params
	params.Importance = d.base.Digest()
	return shuffle.NewWeightedPlan(params, d.first, d.base.Totals())
}

// identity returns the key of reports for the next epoch.
func (d *drawing) identity() string {
	weights := ""
	if d.base != nil {
		weights = d.base.Digest()
	}
	return fmt.Sprintf("shuffle=%s&window=%d&seed=%d&importance=%s", d.params.Shuffle, d.params.Window, d.params.Seed, weights)
}

// order returns the samples of an epoch.
func (d *drawing) order(epoch uint64) ([]uint64, error) {
	p, err := d.plan()
	if err != nil {
		return nil, err
	}
	e := p.Epoch(epoch)
	order := e.Append(nil, 0, p.Samples())
	d.name(e, order)
	return order, nil
}

// name replaces virtual samples by the samples that they stand for.
func (d *drawing) name(e *shuffle.Epoch, order []uint64) {
	draws := e.Draws()
	if draws == nil {
		return
	}
	begins := draws.First()
	for i, v := range order {
		chunk := sort.Search(len(begins)-1, func(c int) bool { return begins[c+1] > v })
		order[i] = d.first[chunk] + draws.Sample(chunk, d.weights[chunk], v)
	}
}

// report adds the losses of one global batch to the log.
func (d *drawing) report(ctx context.Context, epoch, batch uint64, losses []float64) error {
	r := importance.Report{Plan: d.identity(), Epoch: epoch, Batch: batch, First: batch * batchSize, Count: uint64(len(losses)), Losses: losses}
	for i := range losses {
		r.Positions = append(r.Positions, r.First+uint64(i))
	}
	_, err := d.log.Add(ctx, r)
	return err
}

// freeze makes a snapshot of an epoch's losses, by which the next epoch is drawn.
func (d *drawing) freeze(ctx context.Context, epoch uint64) error {
	p, err := d.plan()
	if err != nil {
		return err
	}
	e := p.Epoch(epoch)
	generation := strings.Repeat("e", 64)
	frozen, err := d.log.Freeze(ctx, importance.FreezeRequest{
		Plan: d.identity(), Epoch: epoch, Generation: generation, BatchSize: batchSize, First: d.first, Base: d.base,
		HotShare: d.share, Repeat: d.repeat,
		Resolve: func(_ context.Context, positions []uint64) ([]uint64, error) {
			samples := make([]uint64, len(positions))
			for i, t := range positions {
				samples[i] = e.At(t)
			}
			d.name(e, samples)
			return samples, nil
		},
	})
	if err != nil {
		return err
	}
	next, err := d.log.Open(ctx, frozen.Digest, generation, d.first)
	if err != nil {
		return err
	}
	if d.base != nil {
		if err := d.base.Close(); err != nil {
			return err
		}
	}
	d.base = next
	d.weights = make([][]uint32, len(d.first)-1)
	for c := range d.weights {
		if d.weights[c], err = next.Weights(ctx, c); err != nil {
			return err
		}
	}
	d.findHot()
	return nil
}

// findHot finds the samples of the hot set. They have the largest weights, both with and without
// their repetition.
func (d *drawing) findHot() {
	all := slices.Concat(d.weights...)
	slices.Sort(all)
	least := all[len(all)-int(d.base.HotSamples())]
	for c, weights := range d.weights {
		for i, w := range weights {
			d.hot[d.first[c]+uint64(i)] = w >= least
		}
	}
}

// difficulty generates artificial losses: each sample has a log-normal difficulty, and each loss is
// that difficulty times a random factor.
type difficulty struct {
	of     []float64
	random *rand.Rand
}

func newDifficulty(samples int, seed uint64) *difficulty {
	d := &difficulty{random: rand.New(rand.NewPCG(seed, 11))}
	for range samples {
		d.of = append(d.of, d.random.NormFloat64())
	}
	return d
}

// loss returns a positive loss that grows with the sample's difficulty.
func (d *difficulty) loss(sample int) float64 {
	return math.Exp(d.of[sample] + .5*d.random.NormFloat64())
}

// mean returns the mean difficulty of the samples of some epochs.
func (d *difficulty) mean(stream [][]int) float64 {
	sum, n := 0.0, 0
	for _, epoch := range stream {
		for _, s := range epoch {
			sum += d.of[s]
		}
		n += len(epoch)
	}
	return sum / float64(n)
}
