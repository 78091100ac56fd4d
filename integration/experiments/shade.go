package main

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/millrace-data/millrace/integration/experiments/lab"
	"github.com/millrace-data/millrace/integration/experiments/published"
	"github.com/millrace-data/millrace/integration/experiments/replay"
	"github.com/millrace-data/millrace/shuffle"
)

// shadeSize is the size of the experiment.
type shadeSize struct {
	samples, each int // number of samples, in all and in a chunk
	epochs        int
	caches        []float64 // fractions of the data
	repeat        int
}

func fullShade() shadeSize {
	return shadeSize{samples: 20480, each: 64, epochs: 8, caches: []float64{.1, 0.2, 0.35, 0.5, .75}, repeat: 3}
}

func shade(z shadeSize) lab.Experiment {
	return lab.Experiment{
		Name:  "shade",
		Title: "SHADE: importance sampling makes caches effective",
		Claim: "Random sampling makes caches useless; importance sampling draws some samples more often. Up to 4.5 x the hit ratio of LRU with a small cache.",
		Setting: []string{
			fmt.Sprintf("%d samples of 4 KB in chunks of %d, batches of %d, %d epochs. The cache holds samples; a hit is a sample that needs no store read", z.samples, z.each, batchSize, z.epochs),
			"losses are synthetic: each sample has a fixed difficulty (log-normal, sigma 1). Its loss in an epoch is the difficulty times a random factor (sigma 0.5), so that ranks remain similar from epoch to epoch",
			"epoch 0 is uniform in every arm and has no hits. The figures cover the later epochs and include cold misses. Coverage is the share of the samples that an epoch delivers",
			fmt.Sprintf("repetition %d for SHADE and for ours; Millrace's hot set is as large as the cache", z.repeat),
		},
		Arms: []lab.Arm{
			{Name: "LRU, uniform", What: "a new permutation each epoch; evicts the least recently used sample"},
			{Name: "LRU, same stream", What: "the same cache with the stream of SHADE's sampler"},
			{Name: "never evict", What: "a new permutation each epoch; the first samples stay"},
			{Name: "SHADE", What: "as in its authors' code: multinomial draws, cached samples repeated and placed first, a queue by score and a ghost cache. Cold misses count here"},
			{Name: "ours", What: "`importance=<snapshot>` with `full`: Millrace's own code reports, folds and freezes losses after each epoch. A store of hot samples loads them on their first draw"},
			{Name: "ours, slot", What: "the same with `slot`: it reads chunks, so only its bytes are comparable"},
		},
		Pass: []lab.Mark{
			{Name: "ratio", Want: "ours: at least 4.5 x the hit ratio of LRU on uniform sampling, for a cache of at most 0.35", Fails: "ignore the cache when drawing samples"},
			{Name: "keep", Want: "ours: a higher hit ratio than never-evict, at the coverage printed", Fails: "never evict"},
			{Name: "hard", Want: "ours: the mean difficulty of drawn samples at least 0.1 sigma above that of the data, with every cache", Fails: "give all samples of a batch one weight"},
			{Name: "same", Want: "the same reports in another order give the same snapshot and the same next epoch; different losses give different ones", Fails: "add weights in the order of reports"},
		},
		Run: func(ctx context.Context, r *lab.Report) error { return z.run(ctx, r) },
	}
}

// course is the result of an arm at one cache size, over all epochs except the first.
type course struct {
	hits, bytes, coverage float64 // fractions: of the samples, of the data, of the samples
	difficulty            float64 // mean difficulty of the drawn samples; only for the product's arms
}

func (z shadeSize) run(ctx context.Context, r *lab.Report) error {
	arms := r.Arms
	found := make([][]course, len(z.caches))
	for i, share := range z.caches {
		r.Logf("cache %.2g of the data", share)
		c, err := z.at(ctx, int(share*float64(z.samples)))
		if err != nil {
			return err
		}
		found[i] = c
	}
	head := []string{"arm"}
	for _, share := range z.caches {
		head = append(head, fmt.Sprintf("cache %.2g", share))
	}
	for _, table := range []struct {
		title string
		of    func(course) float64
	}{
		{"Hit ratio.", func(c course) float64 { return c.hits }},
		{"Bytes read from the store per epoch, relative to the size of the data.", func(c course) float64 { return c.bytes }},
		{"Coverage.", func(c course) float64 { return c.coverage }},
	} {
		t := r.Table(table.title, head...)
		for a, arm := range arms {
			row := []any{arm.Name}
			for i := range z.caches {
				row = append(row, table.of(found[i][a]))
			}
			t.Row(row...)
		}
	}
	z.figures(r, found)
	r.Note("A repeated sample is a hit and replaces another sample. More hits therefore cost coverage, in SHADE as in ours. Systematic resampling loses less coverage than independent draws. With a cache of 0.35 or more, SHADE as published repeats its cached samples until they fill the epoch. It reads nothing and never sees the rest of the data again. Orders with locality (slot) read chunks completely, regardless of the drawn samples. There importance only selects samples and saves no bytes.")
	z.judge(r, found)
	same, err := z.same(ctx)
	if err != nil {
		return err
	}
	r.Judge("same", same, fmt.Sprintf("%d batches reported in both directions, and with other losses", z.samples/batchSize))
	return nil
}

func (z shadeSize) judge(r *lab.Report, found [][]course) {
	least, compared, better, hard := math.Inf(1), true, true, math.Inf(1)
	for i, share := range z.caches {
		lru, keep, ours := found[i][0].hits, found[i][2].hits, found[i][4].hits
		if share <= 0.35 {
			least, compared = min(least, ours/lru), compared && lru > 0
		}
		better = better && ours > keep
		hard = min(hard, found[i][4].difficulty, found[i][5].difficulty)
	}
	r.Judge("ratio", compared && least >= 4.5 && !math.IsInf(least, 1), fmt.Sprintf("minimum %.3g x", least))
	last := found[len(found)-1]
	r.Judge("keep", better, fmt.Sprintf("%.3g against %.3g at cache %.2g, coverage %.3g; %.3g against %.3g at %.2g, coverage %.3g",
		found[0][4].hits, found[0][2].hits, z.caches[0], found[0][4].coverage, last[4].hits, last[2].hits, z.caches[len(z.caches)-1], last[4].coverage))
	r.Judge("hard", hard >= 0.1, fmt.Sprintf("minimum %.3g sigma", hard))
}

func (z shadeSize) figures(r *lab.Report, found [][]course) {
	hits := &lab.Figure{Name: "hits", Title: "Hit ratio by cache size", X: "cache / data", Y: "hit ratio"}
	covered := &lab.Figure{Name: "coverage", Title: "Share of the samples that an epoch delivers", X: "cache / data", Y: "coverage"}
	for a, arm := range r.Arms {
		h, c := lab.Line{Name: arm.Name, X: z.caches}, lab.Line{Name: arm.Name, X: z.caches}
		for i := range z.caches {
			h.Y, c.Y = append(h.Y, found[i][a].hits), append(c.Y, found[i][a].coverage)
		}
		if arm.Name != "ours, slot" {
			hits.Lines = append(hits.Lines, h)
		}
		covered.Lines = append(covered.Lines, c)
	}
	r.Figure(hits)
	r.Figure(covered)
}

// at runs all arms with a cache for the given number of samples, in the order of the experiment's
// arms.
func (z shadeSize) at(ctx context.Context, capacity int) ([]course, error) {
	var uniform [][]int
	random := rand.New(rand.NewPCG(1, 2))
	for range z.epochs {
		uniform = append(uniform, random.Perm(z.samples))
	}
	stream, shade := z.published(capacity)
	ours, slot, err := z.ours(ctx, capacity)
	if err != nil {
		return nil, err
	}
	return []course{
		z.replay(replay.LRU[int], capacity, uniform),
		z.replay(replay.LRU[int], capacity, stream),
		z.replay(replay.Keep[int], capacity, uniform),
		shade, ours, slot,
	}, nil
}

// replay runs a stream of epochs with an eviction policy.
func (z shadeSize) replay(policy replay.Policy[int], capacity int, stream [][]int) course {
	var uses iter.Seq2[int, int64] = func(yield func(int, int64) bool) {
		for _, s := range slices.Concat(stream...) {
			if !yield(s, 1) {
				return
			}
		}
	}
	r := replay.Replay(policy, int64(capacity), uses)
	c := course{hits: float64(r.Hits)} // epoch 0 has no hits
	return z.mean(c, float64(z.samples*(z.epochs-1)-r.Hits), stream)
}

// mean converts sums to fractions.
func (z shadeSize) mean(c course, misses float64, stream [][]int) course {
	all := float64(z.samples * (z.epochs - 1))
	c.hits /= all
	c.bytes = misses / all
	for _, epoch := range stream[1:] {
		c.coverage += float64(distinct(epoch, z.samples)) / all
	}
	return c
}

func distinct[T int | uint64](order []T, samples int) (n int) {
	seen := make([]bool, samples)
	for _, s := range order {
		if !seen[s] {
			seen[s] = true
			n++
		}
	}
	return n
}

// published runs SHADE's own protocol, and also returns its stream.
func (z shadeSize) published(capacity int) ([][]int, course) {
	s := published.NewShade(z.samples, capacity, z.repeat, 1)
	d := newDifficulty(z.samples, 1)
	var stream [][]int
	var c course
	misses := 0.0
	for epoch := range z.epochs {
		order := s.Epoch(epoch)
		stream = append(stream, order)
		for batch := range slices.Chunk(order, batchSize) {
			losses := make([]float64, len(batch))
			for i, x := range batch {
				switch hit := s.Access(x); {
				case epoch == 0:
				case hit:
					c.hits++
				default:
					misses++
				}
				losses[i] = d.loss(x)
			}
			s.Report(batch, losses)
		}
	}
	return stream, z.mean(c, misses, stream)
}

// ours runs the product's importance sampling with a hot set as large as the cache, under a full
// order and under slot.
func (z shadeSize) ours(ctx context.Context, capacity int) (full, slot course, err error) {
	if full, err = z.drawn(ctx, capacity, shuffle.Params{Shuffle: shuffle.Full}); err != nil {
		return full, slot, err
	}
	slot, err = z.drawn(ctx, capacity, shuffle.Params{Shuffle: shuffle.Slot, Window: uint64(max(z.samples/z.each/8, 1))})
	slot.hits = math.NaN() // it would count all samples of a chunk except the first
	return full, slot, err
}

func (z shadeSize) drawn(ctx context.Context, capacity int, params shuffle.Params) (course, error) {
	d, err := newDrawing(params, z.samples, z.each, float64(capacity)/float64(z.samples), uint32(z.repeat))
	if err != nil {
		return course{}, err
	}
	defer d.close() // its files have no names
	var c course
	var stream [][]int
	misses := 0.0
	hard := newDifficulty(z.samples, 1)
	stored := make([]bool, z.samples)
	for epoch := range uint64(z.epochs) {
		order, err := d.order(epoch)
		if err != nil {
			return c, err
		}
		ints := make([]int, len(order))
		for i, s := range order {
			ints[i] = int(s)
		}
		stream = append(stream, ints)
		if epoch > 0 {
			hits, missed := z.serve(d, order, stored)
			c.hits += hits
			misses += missed
		}
		for m := range slices.Collect(slices.Chunk(order, batchSize)) {
			batch := order[m*batchSize : min((m+1)*batchSize, len(order))]
			losses := make([]float64, len(batch))
			for i, s := range batch {
				losses[i] = hard.loss(int(s))
			}
			if err := d.report(ctx, epoch, uint64(m), losses); err != nil {
				return c, err
			}
		}
		if err := d.freeze(ctx, epoch); err != nil {
			return c, err
		}
	}
	c.difficulty = hard.mean(stream[1:]) - hard.mean(stream[:1])
	return z.mean(c, misses, stream), nil
}

// serve counts the samples of an epoch that are in the store of hot samples, and the samples that
// it reads. Under an order with locality it reads a whole chunk, once, unless all of the chunk's
// drawn samples are in that store.
func (z shadeSize) serve(d *drawing, order []uint64, stored []bool) (hits, misses float64) {
	for s := range stored {
		stored[s] = stored[s] && d.hot[s] // samples that are no longer hot are evicted
	}
	read := map[uint64]bool{}
	for _, s := range order {
		if stored[s] {
			hits++
			continue
		}
		stored[s] = d.hot[s]
		chunk := s / uint64(z.each)
		switch {
		case d.params.Shuffle == shuffle.Full:
			misses++
		case read[chunk]:
			hits++
		default:
			read[chunk] = true
			misses += float64(d.first[chunk+1] - d.first[chunk])
		}
	}
	return hits, misses
}

// same reports the losses of an epoch to two logs, forwards and backwards, and other losses to a
// third log. It returns whether only the first two yield the same snapshot and order.
func (z shadeSize) same(ctx context.Context) (bool, error) {
	forwards := func(m int) int { return m }
	backwards := func(m int) int { return z.samples/batchSize - 1 - m }
	first, next, err := z.filed(ctx, forwards, newDifficulty(z.samples, 1))
	if err != nil {
		return false, err
	}
	again, nextAgain, err := z.filed(ctx, backwards, newDifficulty(z.samples, 1))
	if err != nil {
		return false, err
	}
	other, nextOther, err := z.filed(ctx, forwards, newDifficulty(z.samples, 2))
	return first == again && slices.Equal(next, nextAgain) && first != other && !slices.Equal(next, nextOther), err
}

// filed reports the losses of an epoch, batch by batch, and returns the snapshot's digest and the
// order of the next epoch.
func (z shadeSize) filed(ctx context.Context, batch func(m int) int, hard *difficulty) (digest string, next []uint64, err error) {
	d, err := newDrawing(shuffle.Params{Shuffle: shuffle.Full}, z.samples, z.each, 0.1, uint32(z.repeat))
	if err != nil {
		return "", nil, err
	}
	order, err := d.order(0)
	if err != nil {
		return "", nil, err
	}
	for i := range z.samples / batchSize {
		m := batch(i)
		losses := make([]float64, batchSize)
		for k := range losses {
			losses[k] = hard.of[order[m*batchSize+k]]
		}
		if err := d.report(ctx, 0, uint64(m), losses); err != nil {
			return "", nil, err
		}
	}
	if err := d.freeze(ctx, 0); err != nil {
		return "", nil, err
	}
	if next, err = d.order(1); err != nil {
		return "", nil, err
	}
	return d.base.Digest(), next, d.close()
}
