package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/millrace-data/millrace/integration/experiments/datasets"
	"github.com/millrace-data/millrace/integration/experiments/lab"
	"github.com/millrace-data/millrace/integration/experiments/published"
	"github.com/millrace-data/millrace/shuffle"
)

// costsSize is the size of the experiment.
type costsSize struct {
	samples int       // of each artificial set; real sets are drawn to this size for Spread
	sigmas  []float64 // of the artificial sets
	texts   []costSet
	ranks   []int // for the spread
	few     int   // ranks for padding and mixing
	buckets []uint64
}

const (
	rankSamples = 16 // mean number of samples in a rank's step
	bucketed    = 32 // batches of a block where only one number is measured
	microed     = 4  // micro-batches of a share
)

// costSet is a list of costs, and a class for each. open reads those of a real set.
type costSet struct {
	name    string
	open    func() (*datasets.Texts, error)
	costs   []uint32
	class   []uint8
	classes int
}

func fullCosts() costsSize {
	return costsSize{
		samples: 1 << 20, sigmas: []float64{0.3, .6, .9}, ranks: []int{8, 64, 256, 1024}, few: 8, buckets: []uint64{8, 32, 128},
		texts: []costSet{{name: "Brown", open: datasets.Brown}, {name: "mails", open: datasets.Mails}},
	}
}

func costs(z costsSize) lab.Experiment {
	return lab.Experiment{
		Name:  "costs",
		Title: "Equal work per rank: balance and buckets, against Transformers' samplers",
		Claim: "`balance` gives ranks equal sums of costs, and `bucket=K` puts similar costs into a batch: little padding, and no rank waits for the longest sample of a step.",
		Setting: []string{
			fmt.Sprintf("artificial costs: %d samples, log-normal with a median of 512 and sigma %v", z.samples, z.sigmas),
			"real costs, in words: Brown, the 57,340 sentences of the Brown corpus (15 genres), and mails, the 6,046 of the SpamAssassin corpus (5 groups)",
			fmt.Sprintf("an epoch in `shuffle=full` order, without its last, incomplete batch. %d samples for each rank of a step", rankSamples),
			fmt.Sprintf("for the spread, %d samples are drawn at random, with repetition, from a real set", z.samples),
			"a rank's step takes as long as the sum of its costs; the ideal step is the mean of the ranks. No bytes are read",
			"padding: the share of positions without a token, if each rank pads its batch to its longest sample",
			"chi-square: of the classes in a batch, divided by their number less one; 1 for independent draws. Classes are ten of equally many samples by cost, or a real set's own",
		},
		Arms: []lab.Arm{
			{Name: "contiguous", What: "each rank gets a contiguous part of the batch"},
			{Name: "balance", What: "the samples of a batch [divided by cost](../spec/order.md#10-costs)"},
			{Name: "bucket=K", What: "`bucket=K`, with contiguous parts unless balance is named"},
			{Name: "micro=M", What: "each share divided by cost into M micro-batches, each of which is padded to its own longest sample"},
			{Name: "group_by_length", What: "Transformers' `LengthGroupedSampler`: megabatches of 50 batches of a rank, sorted by length. Step s of rank r is batch s x ranks + r of that order"},
			{Name: "batch_rebalance", What: fmt.Sprintf("Transformers' `BatchRebalanceSampler`, without and with %d accumulated micro-batches: contiguous parts of the sorted batch, sized so that padded costs are about equal. Its costs have no quadratic term here", microed)},
		},
		Pass: []lab.Mark{
			{Name: "bound", Want: "balance, with and without bucket: every step's slowest rank at most 1.02 x the mean, or the largest cost if that is more", Fails: "omit the exchanges after the longest samples are dealt", Measured: true},
			{Name: "whole", Want: "the same, with the mean rounded up to a whole number", Fails: "omit the exchanges after the longest samples are dealt"},
			{Name: "epoch", Want: fmt.Sprintf("balance and bucket=%d, sigma 0.9, most ranks: the epoch takes at most 1.02 x the ideal", bucketed), Fails: "deal a batch's samples by count"},
			{Name: "padding", Want: fmt.Sprintf("bucket=%d pads at most as much as group_by_length, for every set", bucketed), Fails: "sort only within a batch", Measured: true},
			{Name: "correlation", Want: "bucket: the mean costs of consecutive batches correlate by at most 1/K + 3/sqrt(batches)", Fails: "leave the batches of a block sorted"},
			{Name: "once", Want: "every order has every sample once, and every division every place", Fails: "omit the last sample of a block"},
		},
		Run: func(ctx context.Context, r *lab.Report) error { return z.run(ctx, r) },
	}
}

func (z costsSize) run(ctx context.Context, r *lab.Report) error {
	sets, err := z.sets()
	if err != nil {
		return err
	}
	once := true
	if err := z.spread(ctx, r, sets, &once); err != nil {
		return err
	}
	if err := z.grouped(ctx, r, sets, &once); err != nil {
		return err
	}
	r.Judge("once", once, "every order and division")
	return nil
}

// sets returns the artificial and the real sets.
func (z costsSize) sets() ([]*costSet, error) {
	var all []*costSet
	for _, sigma := range z.sigmas {
		random := rand.New(rand.NewPCG(uint64(1000*sigma), 5))
		s := &costSet{name: fmt.Sprintf("sigma %.1f", sigma), costs: make([]uint32, z.samples)}
		for i := range s.costs {
			s.costs[i] = max(1, uint32(512*math.Exp(sigma*random.NormFloat64())))
		}
		all = append(all, s)
	}
	for _, s := range z.texts {
		t, err := s.open()
		if err != nil {
			return nil, err
		}
		s.costs, s.class, s.classes = t.Words, t.Class, t.Classes
		all = append(all, &s)
	}
	return all, nil
}

// drawn returns the costs of n samples: the set's own, or n random ones of a real set.
func (s *costSet) drawn(n int) []uint32 {
	if len(s.costs) == n {
		return s.costs
	}
	random := rand.New(rand.NewPCG(6, 7))
	out := make([]uint32, n)
	for i := range out {
		out[i] = s.costs[random.IntN(len(s.costs))]
	}
	return out
}

// shuffled returns a permutation of n samples: an epoch of a full order.
func shuffled(n int) ([]uint32, error) {
	p, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.Full, Seed: 1}, []uint64{0, uint64(n)})
	if err != nil {
		return nil, err
	}
	order := make([]uint32, 0, n)
	for _, s := range p.Epoch(0).Append(nil, 0, uint64(n)) {
		order = append(order, uint32(s))
	}
	return order, nil
}

// arranged returns an order with buckets of k batches.
func arranged(costs, order []uint32, k, batch uint64) []uint32 {
	b := shuffle.Buckets{Batches: k, BatchSize: batch, Samples: uint64(len(order))}
	out := slices.Clone(order)
	for from, to := uint64(0), uint64(0); ; from = to {
		block, ok := b.Block(from)
		if !ok {
			return out
		}
		_, to = b.Range(block)
		for i, place := range b.Arrange(1, 0, block, of(costs, order[from:to])) {
			out[from+uint64(i)] = order[from+uint64(place)]
		}
	}
}

// lengthGrouped returns the order of group_by_length.
func lengthGrouped(costs []uint32) []uint32 {
	order := make([]uint32, 0, len(costs))
	for _, s := range published.LengthGrouped(rand.New(rand.NewPCG(8, 9)).Perm(len(costs)), costs, rankSamples) {
		order = append(order, uint32(s))
	}
	return order
}

// of returns the costs of samples.
func of(costs, samples []uint32) []uint32 {
	out := make([]uint32, len(samples))
	for i, s := range samples {
		out[i] = costs[s]
	}
	return out
}

// isPermutation reports whether an order has each sample once.
func isPermutation(order []uint32) bool {
	seen := make([]bool, len(order))
	for _, s := range order {
		if int(s) >= len(seen) || seen[s] {
			return false
		}
		seen[s] = true
	}
	return true
}

// steps is the work of an epoch's steps.
type steps struct {
	spread float64 // mean over the steps of the slowest rank over the mean
	epoch  float64 // sum of the slowest ranks over the sum of the means
	bound  float64 // the worst step: the slowest rank over the mean, or over the largest cost if that is more
	mean   float64 // the mean rank of that step
	whole  float64 // as bound, with the mean rounded up
	padded float64 // share of padded positions
	pads   float64 // sum of the slowest ranks, whose positions are counted with padding, over the sum of the means
	once   bool    // every division has every place
}

// walk runs the steps of an order. deal divides the costs of a batch among the ranks, and each share
// into micro-batches.
func walk(ctx context.Context, costs, order []uint32, ranks int, deal func(costs []uint32) [][][]uint32) (steps, error) {
	x := steps{once: true}
	batch, n := ranks*rankSamples, 0
	var slow, slowPadded, ideal, tokens, positions float64
	for ; (n+1)*batch <= len(order); n++ {
		if err := ctx.Err(); err != nil {
			return x, err
		}
		of := of(costs, order[n*batch:(n+1)*batch])
		slowest, padded, sum, count := uint64(0), 0.0, uint64(0), 0
		for _, share := range deal(of) {
			own, wide := uint64(0), 0.0
			for _, micro := range share {
				own, wide, count = own+total(micro), wide+width(micro), count+len(micro)
			}
			slowest, padded, sum, positions = max(slowest, own), max(padded, wide), sum+own, positions+wide
		}
		mean := float64(sum) / float64(ranks)
		x.once = x.once && count == batch && sum == total(of)
		x.spread += float64(slowest) / mean
		if at := float64(slowest) / max(mean, float64(slices.Max(of))); at > x.bound {
			x.bound, x.mean = at, mean
		}
		x.whole = max(x.whole, float64(slowest)/max(math.Ceil(mean), float64(slices.Max(of))))
		slow, slowPadded, ideal, tokens = slow+float64(slowest), slowPadded+padded, ideal+mean, tokens+float64(sum)
	}
	x.spread, x.epoch, x.pads, x.padded = x.spread/float64(n), slow/ideal, slowPadded/ideal, 1-tokens/positions
	return x, nil
}

// width returns the positions of a batch that is padded to its longest sample.
func width(costs []uint32) float64 {
	longest := uint32(0)
	for _, c := range costs {
		longest = max(longest, c)
	}
	return float64(longest) * float64(len(costs))
}

func total(costs []uint32) (sum uint64) {
	for _, c := range costs {
		sum += uint64(c)
	}
	return sum
}

// contiguous divides a batch into equal parts.
func contiguous(ranks int) func([]uint32) [][][]uint32 {
	return func(costs []uint32) (shares [][][]uint32) {
		for part := range slices.Chunk(costs, len(costs)/ranks) {
			shares = append(shares, [][]uint32{part})
		}
		return shares
	}
}

// rebalanced divides a batch as batch_rebalance does.
func rebalanced(ranks, micro int) func([]uint32) [][][]uint32 {
	return func(costs []uint32) (shares [][][]uint32) {
		for _, own := range published.Rebalance(costs, ranks, micro, 0) {
			var parts [][]uint32
			for _, places := range own {
				var part []uint32
				for _, place := range places {
					part = append(part, costs[place])
				}
				parts = append(parts, part)
			}
			shares = append(shares, parts)
		}
		return shares
	}
}

// balanced divides a batch by cost, and each share into micro-batches.
func balanced(ranks, micro int) func([]uint32) [][][]uint32 {
	return func(costs []uint32) (shares [][][]uint32) {
		d := shuffle.Divide(costs, uint64(ranks))
		for rank := range ranks {
			own := of(costs, d.Share(uint64(rank)))
			parts, m := [][]uint32{own}, shuffle.Division{}
			if micro > 1 {
				parts, m = nil, shuffle.Divide(own, uint64(micro))
			}
			for i := range micro {
				if micro > 1 {
					parts = append(parts, of(own, m.Share(uint64(i))))
				}
			}
			shares = append(shares, parts)
		}
		return shares
	}
}
