package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/integration/experiments/datasets"
	"github.com/millrace-data/millrace/integration/experiments/lab"
	"github.com/millrace-data/millrace/integration/experiments/published"
	"github.com/millrace-data/millrace/integration/experiments/train"
	"github.com/millrace-data/millrace/shuffle"
)

// pictures is a data set for training. open reads it on demand.
type pictures struct {
	name string
	open func() (train, test *datasets.Set, err error)
}

// model is a classifier and its initial learning rate.
type model struct {
	name   string
	short  string
	hidden int
	rate   float64
}

// models returns the models of all experiments that train.
func models() []model {
	return []model{{"softmax regression", "softmax", 0, .02}, {"64 hidden units, batch normalisation", "network", 64, .1}}
}

const modelsText = "softmax regression (rate 0.02), and a network with one hidden layer of 64 units and batch normalisation (rate 0.1). Both use stochastic gradient descent with momentum 0.9"

// learnSize is the size of the experiment.
type learnSize struct {
	sets   []pictures
	epochs int
	seeds  int
	cache  float64 // fraction of the data in the cache, and of the samples that are hot
	repeat int
}

func fullLearn() learnSize {
	return learnSize{
		sets:   []pictures{{"MNIST", datasets.MNIST}, {"CIFAR-10", datasets.CIFAR10}},
		epochs: 8, seeds: 3, cache: 0.1, repeat: 3,
	}
}

func learn(z learnSize) lab.Experiment {
	return lab.Experiment{
		Name:  "learn",
		Title: "SHADE: effect of importance sampling on accuracy",
		Claim: "Importance sampling keeps accuracy and saves reads.",
		Setting: []string{
			"MNIST (60,000 images of 28 x 28) and CIFAR-10 (50,000 images, reduced to 16 x 16 x 3), from packages of the npm registry. Accuracy is that on their 10,000 test images",
			modelsText + "; the rate falls linearly to 0",
			fmt.Sprintf("batches of %d, %d epochs, means of %d seeds. Models, rates and schedule were fixed before the first run", batchSize, z.epochs, z.seeds),
			fmt.Sprintf("a cache of %.2g of the data; a sample outside the cache costs its bytes", z.cache),
		},
		Arms: []lab.Arm{
			{Name: "uniform", What: "`full`; a cache that never evicts"},
			{Name: "importance", What: fmt.Sprintf("`full` with `importance=<snapshot>`, a new snapshot after each epoch, hot set as large as the cache, repetition %d; as many samples as uniform", z.repeat)},
			{Name: "importance, equal bytes", What: "the same, for as many epochs as the bytes of uniform allow"},
			{Name: "SHADE", What: "as in its authors' code; as many samples as uniform"},
		},
		Pass: []lab.Mark{
			{Name: "accuracy", Want: "importance: with equal samples at most 1 point worse than uniform, whose accuracy is at least a quarter, on every dataset, with every model", Fails: "draw only the hardest samples"},
			{Name: "bytes", Want: "importance reads less than uniform with the same cache", Fails: "ignore the cache when drawing importance samples"},
		},
		Run: func(ctx context.Context, r *lab.Report) error { return z.run(ctx, r) },
	}
}

// sampler returns the samples of an epoch, batch by batch, and receives their losses.
type sampler interface {
	// order returns an epoch's samples, and how much of the data was read from the store for
	// it.
	order(epoch int) ([]uint64, float64, error)
	report(ctx context.Context, epoch, batch int, samples []uint64, losses []float64) error
	ended(ctx context.Context, epoch int) error
}

// lesson is the result of one training run.
type lesson struct{ accuracy, bytes, epochs float64 }

// teach trains a model for the given number of epochs. If limit is not 0, it stops after reading
// limit times the size of the data.
func teach(ctx context.Context, learned, test *datasets.Set, m model, s sampler, epochs int, seed uint64, limit float64) (lesson, error) {
	n := train.New(learned.Width, m.hidden, datasets.Classes, seed)
	var l lesson
	batches := (learned.Len() + batchSize - 1) / batchSize
	for epoch := 0; epoch < epochs && (limit == 0 || l.bytes < limit); epoch++ {
		order, read, err := s.order(epoch)
		if err != nil {
			return l, err
		}
		if limit > 0 && l.bytes+read > limit { // the epoch ends at the limit
			order = order[:int(float64(len(order))*(limit-l.bytes)/read)/batchSize*batchSize]
			read = limit - l.bytes
		}
		l.epochs += float64(len(order)) / float64(learned.Len())
		i := 0
		for batch := range slices.Chunk(order, batchSize) {
			if ctx.Err() != nil {
				return l, ctx.Err()
			}
			left := 1 - float64(epoch*batches+i)/float64(epochs*batches)
			if limit > 0 { // with a limit, the schedule follows the bytes read
				left = 1 - (l.bytes+read*float64(i*batchSize)/float64(len(order)))/limit
			}
			losses := n.Step(learned, learned.Class, batch, m.rate*left)
			if err := s.report(ctx, epoch, i, batch, losses); err != nil {
				return l, err
			}
			i++
		}
		l.bytes += read
		if err := s.ended(ctx, epoch); err != nil {
			return l, err
		}
	}
	l.accuracy = n.Accuracy(test, test.Class)
	return l, nil
}

// uniform is a full order with a cache that never evicts. After the first epoch its hit ratio is
// the cache's fraction of the data.
type uniform struct {
	plan  *shuffle.Plan
	cache float64
}

func newUniform(samples int, seed uint64, cache float64) (*uniform, error) {
	p, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.Full, Seed: seed}, []uint64{0, uint64(samples)})
	return &uniform{p, cache}, err
}

func (u *uniform) order(epoch int) ([]uint64, float64, error) {
	read := 1.0
	if epoch > 0 {
		read = 1 - u.cache
	}
	return u.plan.Epoch(uint64(epoch)).Append(nil, 0, u.plan.Samples()), read, nil
}

func (u *uniform) report(context.Context, int, int, []uint64, []float64) error { return nil }
func (u *uniform) ended(context.Context, int) error                            { return nil }

// weighted is the product's importance sampling with a store of hot samples.
type weighted struct {
	*drawing
	stored []bool
}

func newWeighted(samples int, seed uint64, cache float64, repeat int) (*weighted, error) {
	const each = 128
	d, err := newDrawing(shuffle.Params{Shuffle: shuffle.Full, Seed: seed}, samples, each, cache, uint32(repeat))
	return &weighted{d, make([]bool, samples)}, err
}

func (w *weighted) order(epoch int) ([]uint64, float64, error) {
	order, err := w.drawing.order(uint64(epoch))
	if err != nil {
		return nil, 0, err
	}
	misses := 0
	for s := range w.stored {
		w.stored[s] = w.stored[s] && w.hot[s]
	}
	for _, s := range order {
		if !w.stored[s] {
			misses++
			w.stored[s] = w.hot[s]
		}
	}
	return order, float64(misses) / float64(len(order)), nil
}

func (w *weighted) report(ctx context.Context, epoch, batch int, _ []uint64, losses []float64) error {
	return w.drawing.report(ctx, uint64(epoch), uint64(batch), losses)
}

func (w *weighted) ended(ctx context.Context, epoch int) error { return w.freeze(ctx, uint64(epoch)) }

// shaded is SHADE's sampler with its cache.
type shaded struct{ *published.Shade }

func (s shaded) order(epoch int) ([]uint64, float64, error) {
	order := s.Epoch(epoch)
	out := make([]uint64, len(order))
	misses := 0
	for i, x := range order {
		out[i] = uint64(x)
		if !s.Access(x) {
			misses++
		}
	}
	return out, float64(misses) / float64(len(order)), nil
}

func (s shaded) report(_ context.Context, _, _ int, samples []uint64, losses []float64) error {
	ints := make([]int, len(samples))
	for i, x := range samples {
		ints[i] = int(x)
	}
	s.Report(ints, losses)
	return nil
}

func (s shaded) ended(context.Context, int) error { return nil }

func (z learnSize) run(ctx context.Context, r *lab.Report) error {
	t := r.Table("Mean accuracy on the test images over the seeds; bytes relative to the size of the data.",
		"data", "model", "arm", "epochs", "bytes", "accuracy", "against uniform, points")
	worst, learns, saves, found, saved := 100.0, true, true, []string{}, []string{}
	f := &lab.Figure{Name: "accuracy", Title: "Accuracy against uniform sampling", Y: "points"}
	arms := r.Arms
	groups := make([]lab.Bars, len(arms)-1)
	for i := range groups {
		groups[i].Name = arms[i+1].Name
	}
	for _, set := range z.sets {
		learned, test, err := set.open()
		if err != nil {
			return err
		}
		for _, m := range models() {
			means, err := z.arms(ctx, learned, test, m, r)
			if err != nil {
				return err
			}
			f.Names = append(f.Names, set.name+", "+m.short)
			for i, l := range means {
				points := (l.accuracy - means[0].accuracy) * 100
				t.Row(set.name, m.name, arms[i].Name, l.epochs, l.bytes, fmt.Sprintf("%.4f", l.accuracy), fmt.Sprintf("%+.2f", points))
				if i > 0 {
					groups[i-1].Y = append(groups[i-1].Y, points)
				}
			}
			points := (means[1].accuracy - means[0].accuracy) * 100
			worst, learns = min(worst, points), learns && means[0].accuracy >= 0.25
			found = append(found, fmt.Sprintf("%s, %s %+.2f", set.name, m.short, points))
			saves = saves && means[1].bytes < means[0].bytes
			saved = append(saved, fmt.Sprintf("%.3g against %.3g", means[1].bytes, means[0].bytes))
		}
	}
	f.Groups = groups
	r.Figure(f)
	r.Judge("accuracy", learns && worst >= -1, strings.Join(found, "; ")+" points")
	r.Judge("bytes", saves, strings.Join(saved, "; ")+" times the size of the data")
	return nil
}

// arms returns the mean result of each arm over all seeds.
func (z learnSize) arms(ctx context.Context, learned, test *datasets.Set, m model, r *lab.Report) ([]lesson, error) {
	means := make([]lesson, len(r.Arms))
	for seed := range uint64(z.seeds) {
		var bytes float64
		for i := range means {
			l, err := z.arm(ctx, i, learned, test, m, seed, bytes)
			if err != nil {
				return nil, err
			}
			if i == 0 {
				bytes = l.bytes
			}
			means[i].accuracy += l.accuracy / float64(z.seeds)
			means[i].bytes += l.bytes / float64(z.seeds)
			means[i].epochs += l.epochs / float64(z.seeds)
		}
		r.Logf("%d pictures of %d numbers, %s: seed %d of %d", learned.Len(), learned.Width, m.name, seed+1, z.seeds)
	}
	return means, nil
}

// arm runs one training as arm i of the experiment. bytes is the amount that uniform has read.
func (z learnSize) arm(ctx context.Context, i int, learned, test *datasets.Set, m model, seed uint64, bytes float64) (lesson, error) {
	n := learned.Len()
	switch i {
	case 0:
		u, err := newUniform(n, seed, z.cache)
		if err != nil {
			return lesson{}, err
		}
		return teach(ctx, learned, test, m, u, z.epochs, seed, 0)
	case 1, 2:
		w, err := newWeighted(n, seed, z.cache, z.repeat)
		if err != nil {
			return lesson{}, err
		}
		defer w.close() // its files have no names
		if i == 1 {
			return teach(ctx, learned, test, m, w, z.epochs, seed, 0)
		}
		return teach(ctx, learned, test, m, w, 4*z.epochs, seed, bytes) // the byte limit ends it before its last epoch
	}
	s := shaded{published.NewShade(n, int(z.cache*float64(n)), z.repeat, seed)}
	return teach(ctx, learned, test, m, s, z.epochs, seed, 0)
}
