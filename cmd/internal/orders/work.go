package orders

import (
	"context"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/shuffle"
)

// maxExamined limits the samples whose costs Work reads, except that it reads those of a whole block.
const maxExamined = 1 << 20

// WorkQuestion selects the divisions that NewWork compares.
type WorkQuestion struct {
	Order      shuffle.Params
	BatchSize  uint64
	Bucket     uint64 // batches of a block; 0 or 1: no buckets
	WorldSizes []int
	Balance    string // the costs, as in URLs
	Costs      func(ctx context.Context, samples []uint64) ([]uint32, error)
}

// Work compares the work of ranks with equal numbers of samples, with balance and with buckets, in
// evenly chosen blocks of epoch 0.
type Work struct {
	Balance string     `json:"balance"`
	Bucket  uint64     `json:"bucket"`
	Batches uint64     `json:"batches"` // examined
	Of      uint64     `json:"of_batches"`
	Shares  []Division `json:"shares"`
	order   shuffle.Params
}

// Division is a way to divide batches among ranks.
type Division struct {
	WorldSize uint64   `json:"world_size"`
	Balance   string   `json:"balance"`
	Bucket    uint64   `json:"bucket"`
	Time      float64  `json:"time"`                // sum of the steps, each as long as its slowest rank's cost, over that of equal ranks
	Worst     float64  `json:"worst_step"`          // largest such ratio of a step
	Padding   float64  `json:"padding"`             // share of padded positions if each rank pads to its longest sample
	Variance  *float64 `json:"batch_cost_variance"` // variance of the batches' mean costs, relative to random batches; null: nothing to compare
}

// NewWork examines the work of ranks. It reads the costs of at most 2^20 samples, or of one block if
// that is more.
func NewWork(ctx context.Context, x *chunkindex.Index, q WorkQuestion) (*Work, error) {
	q.Bucket = max(q.Bucket, 1)
	blocks := shuffle.Buckets{Batches: q.Bucket, BatchSize: q.BatchSize, Samples: x.Samples()}
	w := &Work{Balance: q.Balance, Bucket: q.Bucket, Of: blocks.Samples / q.BatchSize, order: q.Order}
	switch {
	case w.Of == 0:
		return nil, fmt.Errorf("examine costs: a batch of %d samples is larger than the dataset, %d", q.BatchSize, blocks.Samples)
	case q.Bucket > 1 && q.Bucket*q.BatchSize > shuffle.MaxBlock:
		return nil, fmt.Errorf("examine costs: bucket %d of batches of %d exceeds %d samples", q.Bucket, q.BatchSize, shuffle.MaxBlock)
	}
	plan, err := shuffle.NewPlan(q.Order, x.First())
	if err != nil {
		return nil, fmt.Errorf("plan %s: %w", q.Order.Shuffle, err)
	}
	chosen := choose((w.Of+q.Bucket-1)/q.Bucket, max(1, maxExamined/(q.Bucket*q.BatchSize)))
	var samples []uint64
	for _, b := range chosen {
		from, to := blocks.Range(b)
		samples = plan.Epoch(0).Append(samples, from, to)
	}
	costs, err := q.Costs(ctx, samples)
	if err != nil {
		return nil, err
	}
	for i := range costs {
		costs[i] = max(costs[i], 1)
	}
	w.Batches = uint64(len(costs)) / q.BatchSize
	ways := []Division{{Balance: "samples", Bucket: 1}, {Balance: q.Balance, Bucket: 1}}
	if q.Bucket > 1 {
		ways = append(ways, Division{Balance: q.Balance, Bucket: q.Bucket})
	}
	arranged := arrange(blocks, chosen, q.Order.Seed, costs)
	for _, ranks := range q.WorldSizes {
		for _, d := range ways {
			of := costs
			if d.Bucket > 1 {
				of = arranged
			}
			d.measure(of, q.BatchSize, uint64(ranks))
			w.Shares = append(w.Shares, d)
		}
	}
	return w, ctx.Err()
}

// choose returns at most n evenly spaced numbers below of.
func choose(of, n uint64) []uint64 {
	n = min(n, of)
	chosen := make([]uint64, n)
	for i := range chosen {
		chosen[i] = uint64(i) * of / n
	}
	return chosen
}

// arrange returns the costs of the chosen blocks in the order of buckets.
func arrange(blocks shuffle.Buckets, chosen []uint64, seed uint64, costs []uint32) []uint32 {
	out := make([]uint32, 0, len(costs))
	for _, b := range chosen {
		from, to := blocks.Range(b)
		own := costs[len(out) : uint64(len(out))+to-from]
		for _, place := range blocks.Arrange(seed, 0, b, own) {
			out = append(out, own[place])
		}
	}
	return out
}

// measure divides each batch of a list of costs among ranks, and sets the results.
func (d *Division) measure(costs []uint32, batch, ranks uint64) {
	d.WorldSize = ranks
	var means, each moments
	var slow, equal, positions float64
	for of := range slices.Chunk(costs, int(batch)) {
		sum, slowest := 0.0, 0.0
		for share := range d.shares(of) {
			own, longest := 0.0, 0.0
			for _, c := range share {
				own, longest = own+float64(c), max(longest, float64(c))
				each.add(float64(c))
			}
			sum, slowest, positions = sum+own, max(slowest, own), positions+longest*float64(len(share))
		}
		mean := sum / float64(ranks)
		slow, equal, d.Worst = slow+slowest, equal+mean, max(d.Worst, slowest/mean)
		means.add(sum / float64(batch))
	}
	d.Time, d.Worst, d.Padding = round(slow/equal), round(d.Worst), round(1-equal*float64(ranks)/positions)
	if v := each.variance(); v > 0 && means.n > 1 {
		ratio := round(means.variance() * float64(batch) / v)
		d.Variance = &ratio
	}
}

// shares yields the costs of each rank's share of a batch.
func (d *Division) shares(costs []uint32) iter.Seq[[]uint32] {
	all := shuffle.Batching{Samples: uint64(len(costs)), BatchSize: uint64(len(costs))}
	var balanced shuffle.Division
	if d.Balance != "samples" {
		balanced = shuffle.Divide(costs, d.WorldSize)
	}
	return func(yield func([]uint32) bool) {
		for rank := range d.WorldSize {
			part := all.Share(0, rank, d.WorldSize)
			share := costs[part.First : part.First+part.Count]
			if d.Balance != "samples" {
				share = nil
				for _, place := range balanced.Share(rank) {
					share = append(share, costs[place])
				}
			}
			if !yield(share) {
				return
			}
		}
	}
}

// moments sums numbers and their squares.
type moments struct{ n, sum, squares float64 }

func (m *moments) add(x float64) {
	m.n, m.sum, m.squares = m.n+1, m.sum+x, m.squares+x*x
}

func (m *moments) variance() float64 { return max(0, m.squares/m.n-m.sum/m.n*m.sum/m.n) }

func round(x float64) float64 { return math.Round(x*1e4) / 1e4 }

func (w *Work) print(out io.Writer) {
	fmt.Fprintf(out, "\nwork of ranks, cost %s, shuffle %s, %s of %s whole batches:\n\n", strings.TrimPrefix(w.Balance, "cost:"), w.order.Describe(), humanize.Comma(int64(w.Batches)), humanize.Comma(int64(w.Of)))
	t := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "ranks\tbalance\tbucket\tepoch time\tworst step\tpadding\tvariance of batch cost")
	for _, d := range w.Shares {
		fmt.Fprintf(t, "%d\t%s\t%d\t%.3f\t%.3f\t%.1f %%\t%s\n", d.WorldSize, d.Balance, d.Bucket, d.Time, d.Worst, 100*d.Padding, variance(d.Variance))
	}
	t.Flush()
}
