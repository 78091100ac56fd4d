package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/millrace-data/millrace/integration/experiments/lab"
)

// exactly formats a ratio with three decimals.
func exactly(x float64) string { return fmt.Sprintf("%.3f", x) }

// spread measures the work of steps without and with balance and buckets, for each number of ranks.
func (z costsSize) spread(ctx context.Context, r *lab.Report, sets []*costSet, once *bool) error {
	arms := []string{"contiguous", "balance", fmt.Sprintf("bucket=%d, balance", bucketed)}
	spread := r.Table("Step time: the slowest rank over the mean rank, mean over all steps.", append([]string{"costs", "ranks"}, arms...)...)
	epoch := r.Table("Epoch time over the ideal.", append([]string{"costs", "ranks"}, arms...)...)
	bound := r.Table("The worst step: the slowest rank over the mean rank, or over the largest cost if that is more.", append([]string{"costs", "ranks"}, arms...)...)
	f := &lab.Figure{Name: "epoch", Title: "Epoch time, costs of the widest log-normal set", X: "ranks", Y: "over the ideal", LogX: true}
	lines := make([]lab.Line, len(arms))
	worst, mean, whole, last := 0.0, 0.0, 0.0, 0.0
	for i, set := range sets {
		costs := set.drawn(z.samples)
		order, err := shuffled(len(costs))
		if err != nil {
			return err
		}
		for _, ranks := range z.ranks {
			buckets := arranged(costs, order, bucketed, uint64(ranks*rankSamples))
			*once = *once && isPermutation(buckets)
			rows := [3][]any{{set.name, ranks}, {set.name, ranks}, {set.name, ranks}}
			for a, deal := range []func([]uint32) [][][]uint32{contiguous(ranks), balanced(ranks, 1), balanced(ranks, 1)} {
				x, err := walk(ctx, costs, [][]uint32{order, order, buckets}[a], ranks, deal)
				if err != nil {
					return err
				}
				*once = *once && x.once
				for t, v := range []float64{x.spread, x.epoch, x.bound} {
					rows[t] = append(rows[t], exactly(v))
				}
				if a > 0 && x.bound > worst {
					worst, mean = x.bound, x.mean
				}
				if a > 0 {
					whole = max(whole, x.whole)
				}
				if i == len(z.sigmas)-1 {
					last = x.epoch
					lines[a].Name, lines[a].X, lines[a].Y = arms[a], append(lines[a].X, float64(ranks)), append(lines[a].Y, x.epoch)
				}
			}
			spread.Row(rows[0]...)
			epoch.Row(rows[1]...)
			bound.Row(rows[2]...)
			r.Logf("%s, %d ranks: epoch %v", set.name, ranks, rows[1][2:])
		}
	}
	f.Lines = lines
	r.Figure(f)
	r.Note(fmt.Sprintf("Costs are whole numbers, and so are sums. In the worst step of the arms with balance, the mean rank has a cost of %.1f, of which 1 is %.1f %%.", mean, 100/mean))
	r.Judge("bound", worst <= 1.02, "maximum "+exactly(worst))
	r.Judge("whole", whole <= 1.02, "maximum "+exactly(whole))
	r.Judge("epoch", last <= 1.02, exactly(last))
	return nil
}

// orderArm is an order of a set's samples and a way to divide its batches.
type orderArm struct {
	name  string
	order []uint32
	k     uint64 // batches of a block; 0: no buckets
	deal  func([]uint32) [][][]uint32
	mixed bool // the order is that of another arm, and so is its mixing
}

// arms returns the arms of padding and mixing.
func (z costsSize) arms(costs []uint32) ([]orderArm, error) {
	order, err := shuffled(len(costs))
	if err != nil {
		return nil, err
	}
	plain, batch := contiguous(z.few), uint64(z.few*rankSamples)
	all := []orderArm{
		{name: "contiguous", order: order, deal: plain},
		{name: "balance", order: order, deal: balanced(z.few, 1), mixed: true},
		{name: fmt.Sprintf("balance, micro=%d", microed), order: order, deal: balanced(z.few, microed), mixed: true},
	}
	for _, k := range z.buckets {
		all = append(all, orderArm{name: fmt.Sprintf("bucket=%d", k), order: arranged(costs, order, k, batch), k: k, deal: plain})
	}
	buckets := arranged(costs, order, bucketed, batch)
	return append(all,
		orderArm{name: fmt.Sprintf("bucket=%d, balance", bucketed), order: buckets, deal: balanced(z.few, 1), mixed: true},
		orderArm{name: fmt.Sprintf("bucket=%d, balance, micro=%d", bucketed, microed), order: buckets, deal: balanced(z.few, microed), mixed: true},
		orderArm{name: "group_by_length", order: lengthGrouped(costs), deal: plain},
		orderArm{name: "batch_rebalance", order: order, deal: rebalanced(z.few, 1), mixed: true},
		orderArm{name: fmt.Sprintf("batch_rebalance, %d", microed), order: order, deal: rebalanced(z.few, microed), mixed: true},
	), nil
}

// grouped measures padding and mixing of buckets and of group_by_length.
func (z costsSize) grouped(ctx context.Context, r *lab.Report, sets []*costSet, once *bool) error {
	padding := r.Table(fmt.Sprintf("Padding in %%, and epoch time over the ideal, %d ranks.", z.few), "costs", "arm", "padding", "epoch", "epoch, with padding")
	mixing := r.Table(fmt.Sprintf("The price in mixing, %d ranks.", z.few),
		"costs", "arm", "batches", "chi-square, by cost", "chi-square, own classes", "variance of mean costs, x independent", "correlation, lag 1")
	less, apart, found := true, true, 0.0
	for _, set := range sets {
		arms, err := z.arms(set.costs)
		if err != nil {
			return err
		}
		pads := map[string]float64{}
		for _, a := range arms {
			x, err := walk(ctx, set.costs, a.order, z.few, a.deal)
			if err != nil {
				return err
			}
			*once = *once && x.once && isPermutation(a.order)
			padding.Row(set.name, a.name, 100*x.padded, exactly(x.epoch), exactly(x.pads))
			pads[a.name] = x.padded
			if a.mixed {
				continue
			}
			m := set.mixing(a.order, z.few*rankSamples)
			mixing.Row(set.name, a.name, m.batches, m.byCost, m.own, m.variance, fmt.Sprintf("%.2f", m.lag))
			if a.k > 0 {
				apart, found = apart && math.Abs(m.lag) <= 1/float64(a.k)+3/math.Sqrt(float64(m.batches)), max(found, math.Abs(m.lag))
			}
		}
		less = less && pads[fmt.Sprintf("bucket=%d", bucketed)] <= pads["group_by_length"]
		r.Logf("%s: %d arms", set.name, len(arms))
	}
	r.Judge("padding", less, "see the table")
	r.Judge("correlation", apart, fmt.Sprintf("maximum %.2f", found))
	return nil
}

// mixing is how evenly the batches of an order mix.
type mixing struct {
	batches     int
	byCost, own float64 // chi-square of classes per degree of freedom; NaN without classes
	variance    float64 // variance of the batches' mean costs, over that of independent draws
	lag         float64 // correlation of the mean costs of consecutive batches
}

func (s *costSet) mixing(order []uint32, batch int) mixing {
	var means []float64
	for b := range slices.Chunk(order[:len(order)/batch*batch], batch) {
		means = append(means, float64(total(of(s.costs, b)))/float64(batch))
	}
	each := make([]float64, len(s.costs))
	for i, c := range s.costs {
		each[i] = float64(c)
	}
	_, independent := moments(each)
	_, variance := moments(means)
	m := mixing{batches: len(means), own: math.NaN(), variance: variance / independent * float64(batch), lag: lagOne(means)}
	m.byCost = chiSquare(order, batch, deciles(s.costs), 10)
	if s.classes > 0 {
		m.own = chiSquare(order, batch, s.class, s.classes)
	}
	return m
}

func moments(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x))
	}
	return mean, variance
}

// lagOne returns the correlation of consecutive values.
func lagOne(x []float64) float64 {
	mean, variance := moments(x)
	sum := 0.0
	for i := range len(x) - 1 {
		sum += (x[i] - mean) * (x[i+1] - mean)
	}
	return sum / variance / float64(len(x))
}

// deciles returns ten classes of equally many samples, by cost.
func deciles(costs []uint32) []uint8 {
	by := make([]uint64, len(costs))
	for i, c := range costs {
		by[i] = uint64(c)<<32 | uint64(i)
	}
	slices.Sort(by)
	class := make([]uint8, len(costs))
	for i, v := range by {
		class[uint32(v)] = uint8(10 * i / len(by))
	}
	return class
}

// chiSquare returns the mean over the batches of the chi-square statistic of their classes, per
// degree of freedom.
func chiSquare(order []uint32, batch int, class []uint8, classes int) float64 {
	all := make([]float64, classes)
	for _, c := range class {
		all[c]++
	}
	sum, n := 0.0, 0
	for b := range slices.Chunk(order[:len(order)/batch*batch], batch) {
		count := make([]float64, classes)
		for _, s := range b {
			count[class[s]]++
		}
		for c, got := range count {
			want := all[c] / float64(len(class)) * float64(batch)
			sum += (got - want) * (got - want) / want
		}
		n++
	}
	return sum / float64(n) / float64(classes-1)
}
