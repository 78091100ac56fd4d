package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/millrace-data/millrace/integration/experiments/datasets"
	"github.com/millrace-data/millrace/integration/experiments/lab"
	"github.com/millrace-data/millrace/integration/experiments/train"
	"github.com/millrace-data/millrace/shuffle"
)

// This file is the second half of the experiment diesel: learning from data that is sorted by class.

// schedule describes the learning rate over time.
type schedule struct {
	name   string
	decays bool
}

func schedules() []schedule { return []schedule{{"constant", false}, {"falling", true}} }

// ordering is a way to order sorted data.
type ordering struct {
	name   string
	memory float64 // fraction of the chunks that are in memory and mixed
	params shuffle.Params
	slides bool // a sliding buffer: not one of Millrace's orders
}

// orderings lists the orderings for n chunks, full first.
func (z dieselSize) orderings(n int) []ordering {
	all := []ordering{{name: "full", memory: 1, params: shuffle.Params{Shuffle: shuffle.Full}}}
	for _, share := range z.windows {
		w := max(int(share*float64(n)+.5), 1)
		all = append(all, ordering{name: fmt.Sprintf("window, %.3g %%", share*100), memory: share, params: shuffle.Params{Shuffle: shuffle.Window, Window: uint64(w)}})
	}
	for _, share := range z.slots {
		m := max(int(share*float64(n)+.5), 1)
		all = append(all, ordering{name: fmt.Sprintf("slot, %.3g %%", share*100), memory: share, params: shuffle.Params{Shuffle: shuffle.Slot, Window: uint64(m)}})
	}
	return append(all,
		ordering{name: fmt.Sprintf("sliding buffer, %.3g %%", z.sliding*100), memory: z.sliding, params: shuffle.Params{Shuffle: shuffle.None}, slides: true},
		ordering{name: "none", params: shuffle.Params{Shuffle: shuffle.None}})
}

// variance returns the worst-case variance of the batches, or "-" for a sliding buffer.
func (o ordering) variance(chunks, each int) any {
	if o.slides {
		return "-"
	}
	return batchVariance(o.params, chunks, each)
}

// batchVariance returns the variance of a plan's batches over equal chunks, if each chunk is one
// class.
func batchVariance(params shuffle.Params, chunks, each int) float64 {
	first := make([]uint64, chunks+1)
	for i := range first {
		first[i] = uint64(i * each)
	}
	plan, err := shuffle.NewPlan(params, first)
	if err != nil {
		panic(err) // the experiment's parameters are valid
	}
	v, _ := plan.BatchVariance(batchSize)
	return v.Chunk
}

// epoch returns the order of an epoch.
func (o ordering) epoch(plan *shuffle.Plan, number, seed uint64, buffer int) []uint64 {
	if !o.slides {
		return plan.Epoch(number).Append(nil, 0, plan.Samples())
	}
	// The buffer fills in the order of the data. For each new sample it returns one of its
	// samples at random.
	random := rand.New(rand.NewPCG(seed, number))
	var held, out []uint64
	for s := range plan.Samples() {
		if len(held) < buffer {
			held = append(held, s)
			continue
		}
		i := random.IntN(len(held))
		out = append(out, held[i])
		held[i] = s
	}
	random.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
	return append(out, held...)
}

// study trains on sorted pictures in all orders.
func (z dieselSize) study(ctx context.Context, r *lab.Report) error {
	learned, test, err := z.pictures.open()
	if err != nil {
		return err
	}
	learned = learned.Sorted()
	first := []uint64{0}
	for at := z.pictureChunk; at < learned.Len()+z.pictureChunk; at += z.pictureChunk {
		first = append(first, uint64(min(at, learned.Len())))
	}
	chunks := len(first) - 1
	orders := z.orderings(chunks)
	head := []string{"order", "chunks mixed", "variance"}
	for _, m := range models() {
		for _, s := range schedules() {
			head = append(head, m.short+", "+s.name+" rate")
		}
	}
	t := r.Table(fmt.Sprintf("Accuracy after %d epochs of %s sorted by class, in %d chunks of %d; means of %d seeds.", z.epochs, z.pictures.name, chunks, z.pictureChunk, z.seeds), head...)
	accuracy := make([][]float64, len(orders)) // by order, then by model and schedule
	for i, o := range orders {
		row := []any{o.name, int(o.memory*float64(chunks) + 0.5), o.variance(chunks, z.pictureChunk)}
		for _, m := range models() {
			for _, s := range schedules() {
				a, err := z.lesson(ctx, learned, test, first, o, m, s)
				if err != nil {
					return err
				}
				accuracy[i] = append(accuracy[i], a)
				row = append(row, fmt.Sprintf("%.4f", a))
			}
		}
		t.Row(row...)
		r.Logf("sorted data, %s: %.4f", o.name, accuracy[i])
	}
	z.conclude(r, orders, accuracy, head[3:])
	return nil
}

// lesson returns the mean accuracy of a model after training in one order.
func (z dieselSize) lesson(ctx context.Context, learned, test *datasets.Set, first []uint64, o ordering, m model, s schedule) (float64, error) {
	mean := 0.0
	for seed := range uint64(z.seeds) {
		n := train.New(learned.Width, m.hidden, datasets.Classes, seed)
		o.params.Seed = seed
		plan, err := shuffle.NewPlan(o.params, first)
		if err != nil {
			return 0, err
		}
		steps := z.epochs * ((learned.Len() + batchSize - 1) / batchSize)
		step := 0
		for e := range uint64(z.epochs) {
			for batch := range slices.Chunk(o.epoch(plan, e, seed, int(o.memory*float64(learned.Len()))), batchSize) {
				if err := ctx.Err(); err != nil {
					return 0, err
				}
				rate := m.rate
				if s.decays {
					rate *= 1 - float64(step)/float64(steps)
				}
				n.Step(learned, learned.Class, batch, rate)
				step++
			}
		}
		mean += n.Accuracy(test, test.Class) / float64(z.seeds)
	}
	return mean, nil
}

// conclude finds the smallest window from which the loss of accuracy against full stays below one
// point, and judges.
func (z dieselSize) conclude(r *lab.Report, orders []ordering, accuracy [][]float64, columns []string) {
	t := r.Table("Smallest tested window whose loss against `full` stays below a point, also in all larger ones.", "model and rate", "share of the chunks")
	f := &lab.Figure{Name: "accuracy", Title: "Loss against full on data sorted by class", X: "window, share of the chunks", Y: "points", LogX: true}
	loss, sliding, corgi := true, true, true
	corgis := make([]float64, len(schedules()))
	worst, gap := -100.0, 100.0
	for c, column := range columns {
		from := "none of them"
		var xs, ys []float64
		for i := len(orders) - 1; i > 0; i-- {
			o := orders[i]
			if o.params.Shuffle != shuffle.Window {
				continue
			}
			lost := (accuracy[0][c] - accuracy[i][c]) * 100
			xs, ys = append(xs, o.memory), append(ys, lost)
			if o.memory >= 0.25 {
				loss = loss && lost < 1
				worst = max(worst, lost)
			}
			if o.memory == 0.1 && c < len(schedules()) { // softmax regression
				corgi = corgi && lost < 1
				corgis[c] = lost
			}
			if o.memory == z.sliding {
				less := (accuracy[i][c] - accuracy[len(orders)-2][c]) * 100
				sliding = sliding && less >= 3
				gap = min(gap, less)
			}
		}
		for i, lost := range ys { // from the largest window down
			if lost >= 1 {
				break
			}
			from = fmt.Sprintf("%.3g %%", xs[i]*100)
		}
		t.Row(column, from)
		f.Lines = append(f.Lines, lab.Line{Name: column, X: xs, Y: ys})
	}
	r.Figure(f)
	r.Judge("loss", loss, fmt.Sprintf("maximum %.2g points", worst))
	r.Judge("corgi", corgi, fmt.Sprintf("%.2g points at a constant rate, %.2g at a falling one", corgis[0], corgis[1]))
	r.Judge("sliding", sliding, fmt.Sprintf("minimum %.3g points", gap))
}
