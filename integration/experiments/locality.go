package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/integration/experiments/lab"
	"github.com/millrace-data/millrace/integration/experiments/published"
	"github.com/millrace-data/millrace/shuffle"
)

// localitySize is the size of the experiment.
type localitySize struct {
	samples  int   // samples in the published arm's data
	learners []int // the published medians are for 64 learners
	local    []int // sizes of a learner's batch
	batches  int   // minimum number of batches per pair; they also cover the data at least twice

	chunks, each, batch int // of ours
	lanes, strata       uint64
	ranks               []uint64
	seeds               int
}

func fullLocality() localitySize {
	return localitySize{
		samples: 1 << 21, learners: []int{4, 8, 16, 32, 64, 128, 256}, local: []int{32, 64, 128}, batches: 400,
		chunks: 512, each: 128, batch: 2048, lanes: 128, strata: 64, ranks: []uint64{2, 3, 4, 8, 16, 32, 64}, seeds: 4,
	}
}

// publishedMedians returns the medians in the paper for 64 learners, by local batch.
func publishedMedians() map[int]float64 { return map[int]float64{32: 0.069, 64: 0.048, 128: .034} }

// meanImbalance returns the expected imbalance of p learners with a local batch of b: half the mean
// deviation of a binomial count, divided by its mean.
func meanImbalance(p, b int) float64 {
	return math.Sqrt((1 - 1/float64(p)) / float64(b) / (2 * math.Pi))
}

func locality(z localitySize) lab.Experiment {
	return lab.Experiment{
		Name:  "locality",
		Title: "Yang and Cong: every rank takes its local samples",
		Claim: "The learners share the list of a global batch, and each takes the samples that it caches. Few samples must move to make shares equal: medians of 6.9, 4.8 and 3.4 % for local batches of 32, 64 and 128. The sum of gradients is unchanged.",
		Setting: []string{
			fmt.Sprintf("published: %d samples, spread evenly at random over the caches of p learners. Global batches are p times the local batch, from a uniform permutation: %d batches for each pair, and at least twice the data", z.samples, z.batches),
			fmt.Sprintf("ours: %d chunks of %d samples, global batches of %d, a whole epoch of each of %d seeds", z.chunks, z.each, z.batch, z.seeds),
			"moved: the share of a batch that a rank takes from another's home. The experiment reads no bytes; it only assigns samples",
			"a gradient here is a vector of 64-bit integers computed from the sample's number, so sums are exact in any order",
		},
		Arms: []lab.Arm{
			{Name: "published", What: "as its authors describe: a directory of all samples at every learner, frozen after the first epoch. Surplus moves to deficit, largest first"},
			{Name: "slot", What: fmt.Sprintf("`share=locality` with `slot` of %d lanes: each lane has its home with one rank; no directory. A chunk cut at a lane's end belongs to the home of its larger part", z.lanes)},
			{Name: "window", What: fmt.Sprintf("`share=locality` with `window` of %d and as many strata", z.strata)},
			{Name: "by hash", What: "the same window without strata, if a hash of its number gave each chunk's home"},
		},
		Pass: []lab.Mark{
			{Name: "mean", Want: "published: the mean within 0.3 points of 0.399 sqrt((1 - 1/p) / b) for every p and local batch b", Fails: "give a moved sample to any rank"},
			{Name: "medians", Want: "published: the medians at p = 64 within 0.3 points of 6.9, 4.8 and 3.4 %", Fails: "give a moved sample to any rank"},
			{Name: "slot", Want: "slot: at most 1 % moved where the ranks divide the lanes", Fails: "deal rows to ranks instead of lanes"},
			{Name: "window", Want: "window: at most 6.5 % moved, and less than by hash, for every number of ranks from 3 up", Fails: "homes by hash of the chunk"},
			{Name: "plan", Want: "the plan's predicted moves equal the chunks of other homes in its shares; with slot, except chunks that two ranks have at home", Fails: "predict with homes of another epoch"},
			{Name: "tiling", Want: "every share has its quota, and all shares of a batch tile it", Fails: "round a share up"},
			{Name: "gradients", Want: "the sum of gradients over all ranks equals that of contiguous shares exactly, for every batch", Fails: "omit the last sample of a share"},
		},
		Run: func(ctx context.Context, r *lab.Report) error { return z.run(ctx, r) },
	}
}

func (z localitySize) run(ctx context.Context, r *lab.Report) error {
	if err := z.directory(ctx, r); err != nil {
		return err
	}
	return z.arithmetic(ctx, r)
}

// directory measures the arm of the paper.
func (z localitySize) directory(ctx context.Context, r *lab.Report) error {
	head := []string{"learners"}
	for _, b := range z.local {
		head = append(head, fmt.Sprintf("mean, b = %d", b), "formula", "median")
	}
	t := r.Table("Published: samples moved, in % of the batch.", append(head, "directory entries, all learners")...)
	f := &lab.Figure{Name: "published", Title: "Samples moved, sample by sample", X: "learners", Y: "% of the batch", LogX: true}
	mean, formula := make([]lab.Line, len(z.local)), make([]lab.Line, len(z.local))
	random := rand.New(rand.NewPCG(3, 4))
	off, medianOff := 0.0, 0.0
	var medians []string
	for _, p := range z.learners {
		if err := ctx.Err(); err != nil {
			return err
		}
		l := published.NewLocality(random.Perm(z.samples), p)
		row := []any{p}
		for i, b := range z.local {
			got, middle := z.imbalance(l, p*b, random)
			want := meanImbalance(p, b)
			row = append(row, 100*got, 100*want, 100*middle)
			off = max(off, math.Abs(got-want))
			if p == 64 {
				medianOff = max(medianOff, math.Abs(middle-publishedMedians()[b]))
				medians = append(medians, fmt.Sprintf("%.1f", 100*middle))
			}
			mean[i].Name, formula[i].Name, formula[i].Dashed = fmt.Sprintf("local batch %d", b), fmt.Sprintf("local batch %d, formula", b), true
			mean[i].X, mean[i].Y = append(mean[i].X, float64(p)), append(mean[i].Y, 100*got)
			formula[i].X, formula[i].Y = append(formula[i].X, float64(p)), append(formula[i].Y, 100*want)
		}
		t.Row(append(row, p*l.Entries())...)
		r.Logf("%d learners", p)
	}
	f.Lines = slices.Concat(mean, formula)
	r.Figure(f)
	r.Judge("mean", off <= 0.003, fmt.Sprintf("maximum error %.2g points", 100*off))
	r.Judge("medians", len(medians) == len(z.local) && medianOff <= 0.003, strings.Join(medians, ", ")+" %")
	return nil
}

// imbalance returns the mean and the median of the moved fraction, over batches of permutations of
// the data.
func (z localitySize) imbalance(l *published.Locality, batch int, random *rand.Rand) (mean, median float64) {
	var all []float64
	var order []int
	for batches := max(z.batches, 2*z.samples/batch); len(all) < batches; {
		if len(order) < batch {
			order = random.Perm(z.samples)
		}
		_, moved, _ := l.Batch(order[:batch])
		order = order[batch:]
		all = append(all, float64(moved)/float64(batch))
		mean += all[len(all)-1]
	}
	slices.Sort(all)
	return mean / float64(len(all)), (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// dealt is the result of dealing all batches of an epoch.
type dealt struct {
	moved            float64 // fraction moved to make shares equal, according to the plan
	foreign          float64 // fraction read from chunks whose home is another rank
	away             float64 // fraction read from chunks without any part at home with the rank
	tiling, gradient bool
	batches          int
}

// arithmetic measures Millrace's arm.
func (z localitySize) arithmetic(ctx context.Context, r *lab.Report) error {
	t := r.Table("Ours: samples moved, in % of an epoch.", "ranks", "slot", "slot, with cut chunks", "window", "by hash", "published, by the formula")
	f := &lab.Figure{Name: "moved", Title: "Samples moved, by arm", X: "ranks", Y: "% of the epoch", LogX: true}
	lines := []lab.Line{{Name: "slot"}, {Name: "slot, with cut chunks"}, {Name: "window with strata"}, {Name: "chunks by hash"}, {Name: "sample by sample, formula", Dashed: true}}
	slotMost, windowMost, better, exact, tiling, gradient, batches := 0.0, 0.0, true, true, true, true, 0
	for _, w := range z.ranks {
		var slot, cut, window, hashed float64
		for seed := range uint64(z.seeds) {
			if err := ctx.Err(); err != nil {
				return err
			}
			a, err := z.deal(shuffle.Params{Shuffle: shuffle.Slot, Window: z.lanes, Seed: seed}, w)
			if err != nil {
				return err
			}
			b, err := z.deal(shuffle.Params{Shuffle: shuffle.Window, Window: z.strata, Strata: z.strata, Seed: seed}, w)
			if err != nil {
				return err
			}
			h, err := z.byHash(seed, w)
			if err != nil {
				return err
			}
			n := float64(z.seeds)
			slot, cut, window, hashed = slot+max(a.moved, a.away)/n, cut+a.foreign/n, window+b.moved/n, hashed+h/n
			exact = exact && math.Abs(b.moved-b.foreign) < 1e-9 && a.moved <= a.foreign+1e-9 && a.moved >= a.away-1e-9
			tiling, gradient = tiling && a.tiling && b.tiling, gradient && a.gradient && b.gradient
			batches += a.batches + b.batches
		}
		if z.lanes%w == 0 {
			slotMost = max(slotMost, slot)
		}
		if w >= 3 {
			windowMost = max(windowMost, window)
			better = better && window < hashed
		}
		formula := math.Sqrt((1 - 1/float64(w)) / (float64(z.batch) / float64(w)) / (2 * math.Pi))
		t.Row(w, 100*slot, 100*cut, 100*window, 100*hashed, 100*formula)
		for i, y := range []float64{slot, cut, window, hashed, formula} {
			lines[i].X, lines[i].Y = append(lines[i].X, float64(w)), append(lines[i].Y, 100*y)
		}
		r.Logf("%d ranks: slot %.2f %%, window %.2f %%, by hash %.1f %%", w, 100*slot, 100*window, 100*hashed)
	}
	f.Lines = lines
	r.Figure(f)
	r.Note("With `slot` each row of samples has one sample of every lane, so that no sample moves while all lanes last. Moves occur only at the end of an epoch, where lanes end one after another. The cache keeps chunks whole. The second column therefore also counts samples of chunks cut at a lane's end, if their home is with the neighbour. A window holds equally many chunks of each stratum. A batch from a window is unequal only by chance, and less so than a batch from the whole data. A directory of samples costs an entry per sample at every learner; homes cost nothing and need no agreement.")
	r.Judge("slot", slotMost <= 0.01, fmt.Sprintf("maximum %.2g %%", 100*slotMost))
	r.Judge("window", windowMost <= 0.065 && better, fmt.Sprintf("maximum %.3g %%", 100*windowMost))
	r.Judge("plan", exact, "every seed and number of ranks")
	r.Judge("tiling", tiling, fmt.Sprintf("%d batches checked", batches))
	r.Judge("gradients", gradient, fmt.Sprintf("%d batches summed both ways", batches))
	return nil
}

// plan returns a plan over Millrace's data.
func (z localitySize) plan(params shuffle.Params) (*shuffle.Plan, shuffle.Batching, error) {
	first := make([]uint64, z.chunks+1)
	for i := range first {
		first[i] = uint64(i * z.each)
	}
	p, err := shuffle.NewPlan(params, first)
	return p, shuffle.Batching{Samples: first[z.chunks], BatchSize: uint64(z.batch), Tail: shuffle.Short}, err
}

// gradient is the artificial gradient of a sample.
type gradient [4]int64

func (g *gradient) add(sample uint64) {
	for i := range g {
		g[i] += int64(sample+1) * int64(0x9e3779b9+uint64(i)*0x85ebca6b) >> (i * 7)
	}
}

// deal distributes every batch of an epoch among w ranks with the product's code.
func (z localitySize) deal(params shuffle.Params, w uint64) (dealt, error) {
	p, b, err := z.plan(params)
	if err != nil {
		return dealt{}, err
	}
	if err := p.CheckSharing(w, w); err != nil {
		return dealt{}, err
	}
	e := p.Epoch(0)
	d := dealt{tiling: true, gradient: true}
	foreign, away := 0, 0
	for m := range b.Batches() {
		whole := b.Share(m, 0, 1)
		samples := e.AppendShare(nil, whole)
		var local, contiguous gradient
		times := make([]int, len(samples))
		for rank := range w {
			own := b.Share(m, rank, w)
			for _, x := range e.AppendShare(nil, own) {
				contiguous.add(x)
			}
			places := e.DealHomes(whole, rank, w, w)
			d.tiling = d.tiling && uint64(len(places)) == own.Count
			for _, place := range places {
				times[place]++
				local.add(samples[place])
				if z.home(p, samples[place], w) != rank {
					foreign++
				}
				if first, last, ok := p.HomeGroups(samples[place]/uint64(z.each), w); !ok || rank < first || rank > last {
					away++
				}
			}
		}
		d.tiling = d.tiling && slices.Max(times) == 1 && slices.Min(times) == 1
		d.gradient = d.gradient && local == contiguous
		d.batches++
	}
	d.moved = p.Moved(b, w, w)
	d.foreign, d.away = float64(foreign)/float64(b.Samples), float64(away)/float64(b.Samples)
	return d, nil
}

// home returns the home rank of a sample, which is that of its chunk. The exception is the few
// chunks of a slot order that span the end of a lane.
func (z localitySize) home(p *shuffle.Plan, sample, w uint64) uint64 {
	place, of := p.Home(sample / uint64(z.each))
	return place * w / of
}

// byHash returns the fraction that would move if the hash of a chunk's number determined its home.
func (z localitySize) byHash(seed, w uint64) (float64, error) {
	p, b, err := z.plan(shuffle.Params{Shuffle: shuffle.Window, Window: z.strata, Seed: seed})
	if err != nil {
		return 0, err
	}
	e := p.Epoch(0)
	random := rand.New(rand.NewPCG(seed, 9))
	home := make([]int, z.chunks)
	for c := range home {
		home[c] = random.IntN(int(w))
	}
	moved := 0
	for m := range b.Batches() {
		count := make([]int, w)
		for _, x := range e.AppendShare(nil, b.Share(m, 0, 1)) {
			count[home[x/uint64(z.each)]]++
		}
		for rank, n := range count {
			moved += max(0, n-int(b.Share(m, uint64(rank), w).Count))
		}
	}
	return float64(moved) / float64(b.Samples), nil
}
