package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/integration/experiments/lab"
	"github.com/millrace-data/millrace/internal/testing/shaped"
	"github.com/millrace-data/millrace/shuffle"
)

// nopfsSize is the size of the experiment.
type nopfsSize struct {
	chunks, each int
	shape        shaped.Shape
	window       uint64 // W and M
	think        time.Duration
}

func fullNopfs() nopfsSize {
	return nopfsSize{chunks: 512, each: 128, shape: distant(), window: 32, think: 20 * time.Millisecond}
}

func nopfs(z nopfsSize) lab.Experiment {
	return lab.Experiment{
		Name:  "nopfs",
		Title: "NoPFS: clairvoyant prefetching",
		Claim: "The order is known, so the loader fetches samples before they are requested, and batches do not wait for storage. Up to 5.4 x faster end to end.",
		Setting: []string{
			fmt.Sprintf("%d chunks of %d samples of 4 KB, batches of %d, one cold epoch per arm. The reader requests one batch after the other and computes for %s after each", z.chunks, z.each, batchSize, z.think),
			distantText,
			"memory: the chunks in the plan's description and 16 more, divided by 0.7",
			"the time of a batch is from the request to the last sample; all batches of the epoch count, including the first",
		},
		Arms: []lab.Arm{
			{Name: "no prefetch", What: "the same data path with `--no-prefetch`: it fetches a batch's chunks concurrently when the batch is requested"},
			{Name: "prefetch", What: "the product"},
		},
		Pass: []lab.Mark{
			{Name: "p99", Want: "p99 batch time with prefetch at most 1/5 of that without, `window` and `slot`", Fails: "disable read-ahead", Measured: true},
			{Name: "once", Want: "0 duplicate samples, 0 missing, in every arm", Fails: "skip the first sample of a batch"},
			{Name: "ahead", Want: "no chunk is read ahead without prefetch; most chunks are with it", Fails: "disable read-ahead"},
		},
		Run: func(ctx context.Context, r *lab.Report) error { return z.run(ctx, r) },
	}
}

func (z nopfsSize) run(ctx context.Context, r *lab.Report) error {
	d, err := newData(ctx, z.chunks, z.each, z.shape)
	if err != nil {
		return err
	}
	defer d.close() // opened only for reading
	t := r.Table("Batch times of a cold epoch.", "order", "arm", "p50", "p99", "longest", "epoch", "store reads", "chunks read ahead")
	f := &lab.Figure{Name: "times", Title: "Batch times", X: "share of the batches, %", Y: "ms", LogY: true}
	once, ahead, worst, counts := true, true, 0.0, ""
	for _, order := range []string{shuffle.Window, shuffle.Slot} {
		p := shuffle.Params{Shuffle: order, Window: z.window}
		var p99 [2]time.Duration
		for i, arm := range r.Arms {
			got, fetched, err := z.arm(ctx, d, p, i == 0)
			if err != nil {
				return err
			}
			p99[i] = quantile(got.waits, 0.99)
			r.Logf("%s %d, %s: p99 %s", order, z.window, arm.Name, p99[i])
			t.Row(fmt.Sprintf("%s %d", order, z.window), arm.Name, quantile(got.waits, 0.5), p99[i], quantile(got.waits, 1), got.took, got.reads, fetched)
			l := lab.Line{Name: order + ", " + arm.Name}
			for _, q := range []float64{0, 10, 25, 50, 75, 90, 95, 99, 100} {
				l.X, l.Y = append(l.X, q), append(l.Y, float64(max(quantile(got.waits, q/100), time.Microsecond))/float64(time.Millisecond))
			}
			f.Lines = append(f.Lines, l)
			once = once && got.twice == 0 && got.never == 0
			counts += fmt.Sprintf("%s, %s %d; ", order, arm.Name, fetched)
			ahead = ahead && (i == 0 && fetched == 0 || i == 1 && fetched > uint64(z.chunks/2))
		}
		worst = max(worst, float64(p99[1])/float64(p99[0]))
	}
	r.Figure(f)
	r.Judge("p99", worst <= 0.2, fmt.Sprintf("%.2g of it at the worst", worst))
	r.Judge("once", once, "each sample checked")
	r.Judge("ahead", ahead, strings.TrimSuffix(counts, "; "))
	return nil
}

// arm reads an epoch and returns the number of prefetched chunks.
func (z nopfsSize) arm(ctx context.Context, d *data, p shuffle.Params, without bool) (*reading, uint64, error) {
	g, err := d.open(ctx, datapath.Config{NoPrefetch: without}, d.room(d.needs(p)+16))
	if err != nil {
		return nil, 0, err
	}
	got, err := g.read(ctx, job{params: p, think: z.think})
	fetched := g.path.Stats().PrefetchedChunks
	if stopped := g.stop(); err == nil {
		err = stopped
	}
	return got, fetched, err
}
