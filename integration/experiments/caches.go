package main

import (
	"context"
	"fmt"
	"math"
	"sort"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/integration/experiments/lab"
	"github.com/millrace-data/millrace/integration/experiments/replay"
	"github.com/millrace-data/millrace/internal/testing/shaped"
	"github.com/millrace-data/millrace/shuffle"
)

// cachesSize is the size of the experiment.
type cachesSize struct {
	items  int // chunks in the replayed orders
	each   int // samples in each of them
	window int // W and M
	epochs int
	caches []float64 // fractions of the data

	chunks, chunkSamples int // chunks of the dataset that the data path reads, and samples in each
	pathWindow           uint64
	shape                shaped.Shape
	jobs                 []int
	apart                time.Duration // time between the starts of jobs
	think                time.Duration
}

func fullCaches() cachesSize {
	return cachesSize{
		items: 4096, each: 16, window: 64, epochs: 8, caches: []float64{.1, 0.35, 0.5, 0.65, .8},
		chunks: 256, chunkSamples: 64, pathWindow: 16, shape: distant(), jobs: []int{1, 2, 4, 8},
		apart: 40 * time.Millisecond, think: 10 * time.Millisecond,
	}
}

// lruUniform returns the hit ratio of an LRU cache by its size, under a new permutation in each
// epoch. The numbers are from a simulation of 20,000 items.
func lruUniform() map[float64]float64 {
	return map[float64]float64{.1: 0.005, 0.35: 0.070, 0.5: 0.154, 0.65: 0.283, 0.8: .480}
}

func policies() []string {
	return []string{policy.LRU, policyKeep, policy.Plan}
}

// policyKeep is CoorDL's rule. Only the replay implements it.
const policyKeep string = "keep"

func caches(z cachesSize) lab.Experiment {
	return lab.Experiment{
		Name:  "caches",
		Title: "CoorDL, Lobster, NoPFS and Belady: hit ratios of cache policies",
		Claim: "With room for 65 % of the data, CoorDL's never-evict cache misses 35 %, and LRU 53 % or more. k jobs on one epoch read the store as much as one. If each chunk is used once an epoch, no policy has a higher hit ratio than its share of the data. Evicting the farthest next use always reaches that ratio.",
		Setting: []string{
			fmt.Sprintf("replay: %d equal chunks of %d samples, %d epochs; hit ratio of all epochs except the first, whose loads are all cold", z.items, z.each, z.epochs),
			fmt.Sprintf("window W = %d (the cache holds this window and the next), slot M = %d (it holds the lanes and 16 chunks in flight). Uniform is a window of one chunk: a new permutation of the chunks each epoch", z.window, z.window),
			fmt.Sprintf("through the data path: %d chunks of %d samples of 4 KB, batches of %d, W = M = %d", z.chunks, z.chunkSamples, batchSize, z.pathWindow),
			distantText + " (the replay only counts and has no store)",
		},
		Arms: []lab.Arm{
			{Name: "lru", What: "evicts the least recently used chunk"},
			{Name: "keep", What: "CoorDL: the first chunks stay"},
			{Name: "plan", What: "evicts the chunk with the farthest next use, including the next epoch's order"},
		},
		Pass: []lab.Mark{
			{Name: "table", Want: "uniform: keep and plan hit C/N, lru hits as in a simulation of 20,000 items (0.005, 0.070, 0.154, 0.283, 0.480), each within 0.02", Fails: "evict the most recently used chunk"},
			{Name: "coordl", Want: "uniform, cache 0.65: keep and plan miss 35 % (within 1), lru at least 53 %", Fails: "count a chunk from read-ahead as a hit of keep"},
			{Name: "window", Want: "window: plan hits C/N within 0.02; keep at least (C - 2W)/N, within 0.02", Fails: "evict by age instead of by the plan's next use"},
			{Name: "plan", Want: "plan hits at least as much as lru and keep, in every order with every cache", Fails: "evict by age instead of by the plan's next use"},
			{Name: "jobs", Want: "k jobs on one epoch, together or apart: at most the store reads of one job (N, or N + M - 1)", Fails: "fetch chunks that another job is already fetching"},
		},
		Run: func(ctx context.Context, r *lab.Report) error { return z.run(ctx, r) },
	}
}

func (z cachesSize) run(ctx context.Context, r *lab.Report) error {
	if err := z.matrix(r); err != nil {
		return err
	}
	d, err := newData(ctx, z.chunks, z.chunkSamples, z.shape)
	if err != nil {
		return err
	}
	defer d.close() // opened only for reading
	if err := z.path(ctx, r, d); err != nil {
		return err
	}
	return z.share(ctx, r, d)
}

func (z cachesSize) orders() []shuffle.Params {
	return []shuffle.Params{
		{Shuffle: shuffle.Window, Window: 1}, {Shuffle: shuffle.Window, Window: uint64(z.window)}, {Shuffle: shuffle.Slot, Window: uint64(z.window)},
	}
}

// matrix replays all orders with all policies and all cache sizes.
func (z cachesSize) matrix(r *lab.Report) error {
	head := []string{"order", "policy"}
	for _, share := range z.caches {
		head = append(head, fmt.Sprintf("cache %.2g", share))
	}
	t := r.Table("Hit ratio, replayed.", head...)
	hits := map[string]map[string][]float64{}
	for _, p := range z.orders() {
		name := orderName(p)
		uses, err := z.uses(p)
		if err != nil {
			return err
		}
		hits[name] = map[string][]float64{}
		f := &lab.Figure{Name: p.Shuffle + fmt.Sprint(p.Window), Title: "Hit ratio, " + name, X: "cache / data", Y: "hit ratio"}
		for _, rule := range policies() {
			row := []any{name, rule}
			for _, share := range z.caches {
				h := z.replay(p, uses, rule, int(share*float64(z.items)))
				hits[name][rule] = append(hits[name][rule], h)
				row = append(row, h)
			}
			t.Row(row...)
			f.Lines = append(f.Lines, lab.Line{Name: rule, X: z.caches, Y: hits[name][rule]})
			r.Logf("%s, %s", name, rule)
		}
		f.Lines = append(f.Lines, lab.Line{Name: "bound C/N", X: z.caches, Y: z.caches, Dashed: true})
		r.Figure(f)
	}
	z.judge(r, hits)
	return nil
}

func orderName(p shuffle.Params) string {
	if p.Shuffle == shuffle.Window && p.Window == 1 {
		return "uniform"
	}
	return fmt.Sprintf("%s %d", p.Shuffle, p.Window)
}

// use is one span of a chunk, as positions in the concatenated orders of all epochs.
type use struct {
	chunk    int
	from, to uint64
}

// uses lists the spans of all epochs in the order of their need.
func (z cachesSize) uses(p shuffle.Params) ([]use, error) {
	first := make([]uint64, z.items+1)
	for i := range first {
		first[i] = uint64(i * z.each)
	}
	plan, err := shuffle.NewPlan(p, first)
	if err != nil {
		return nil, err
	}
	var all []use
	for e := range uint64(z.epochs) {
		base := e * plan.Samples()
		for s := range plan.Epoch(e).Spans(0) {
			all = append(all, use{int(s.Chunk), base + s.From, base + s.To})
		}
	}
	return all, nil
}

// replay returns the hit ratio of all epochs except the first. It pins the chunks in use and the
// chunks needed next: those of the next window, or 16 for slot. The rule chooses among the
// others.
func (z cachesSize) replay(p shuffle.Params, uses []use, rule string, capacity int) float64 {
	soon := 16
	switch {
	case p.Shuffle == shuffle.Window && p.Window == 1:
		soon = 0
	case p.Shuffle == shuffle.Window:
		soon = int(p.Window)
	}
	coming := nextUses(uses, z.items)
	at := 0 // current position in uses
	next := func(chunk int) int64 {
		list := coming[chunk]
		if i := sort.SearchInts(list, at+1); i < len(list) {
			return int64(uses[list[i]].from)
		}
		return chunkcache.Never
	}
	shelf := map[string]replay.Policy[int]{
		policy.LRU:  replay.LRU[int],
		policyKeep:  replay.Keep[int],
		policy.Plan: replay.Plan(next),
	}[rule](int64(capacity))
	var open []int // positions of uses whose chunks are pinned
	hits, counted := 0, 0
	total := uint64(z.items * z.each)
	for at = range uses {
		now := uses[max(at-soon, 0)].from // the reader is this far behind the prefetch position
		kept := open[:0]
		for _, i := range open {
			if uses[i].to > now {
				kept = append(kept, i)
				continue
			}
			shelf.Release(uses[i].chunk)
		}
		open = append(kept, at)
		u := uses[at]
		if u.from >= total {
			counted++
		}
		if shelf.Lease(u.chunk) {
			if u.from >= total {
				hits++
			}
			continue
		}
		shelf.Bring(u.chunk, 1, 1)
	}
	return float64(hits) / float64(counted)
}

// nextUses lists, for each chunk, the positions of its uses.
func nextUses(uses []use, items int) [][]int {
	all := make([][]int, items)
	for i, u := range uses {
		all[u.chunk] = append(all[u.chunk], i)
	}
	return all
}

func (z cachesSize) judge(r *lab.Report, hits map[string]map[string][]float64) {
	const near = 0.02
	within := func(a, b, by float64) bool { return a-b <= by && b-a <= by }
	table, coordl, window, best := true, false, true, true
	found, off, short, lead := "", 0.0, 0.0, 1.0
	windowName := orderName(z.orders()[1])
	for i, share := range z.caches {
		u := hits["uniform"]
		for _, p := range []string{policyKeep, policy.Plan} {
			table = table && within(u[p][i], share, near)
			off = max(off, math.Abs(u[p][i]-share))
		}
		if want, ok := lruUniform()[share]; ok {
			table = table && within(u[policy.LRU][i], want, near)
			off = max(off, math.Abs(u[policy.LRU][i]-want))
		}
		if share == 0.65 {
			miss := func(p string) float64 { return 1 - u[p][i] }
			coordl = within(miss(policyKeep), 0.35, 0.01) && within(miss(policy.Plan), 0.35, 0.01) && miss(policy.LRU) >= 0.53
			found = fmt.Sprintf("keep %.3g, plan %.3g, lru %.3g", miss(policyKeep), miss(policy.Plan), miss(policy.LRU))
		}
		w := hits[windowName]
		window = window && within(w[policy.Plan][i], share, near) &&
			w[policyKeep][i] >= share-2*float64(z.window)/float64(z.items)-near
		short = max(short, share-w[policy.Plan][i])
		for _, h := range hits {
			lead = min(lead, h[policy.Plan][i]-max(h[policy.LRU][i], h[policyKeep][i]))
			best = best && h[policy.Plan][i] >= h[policy.LRU][i]-1e-9 && h[policy.Plan][i] >= h[policyKeep][i]-1e-9
		}
	}
	r.Judge("table", table, fmt.Sprintf("maximum error %.2g", off))
	r.Judge("coordl", coordl, found)
	r.Judge("window", window, fmt.Sprintf("plan at most %.2g below C/N", short))
	r.Judge("plan", best, fmt.Sprintf("by at least %.2g", lead))
}

// path reads epochs with the data path under each policy.
func (z cachesSize) path(ctx context.Context, r *lab.Report, d *data) error {
	const share, epochs = 0.5, 3
	t := r.Table(fmt.Sprintf("Through the data path, memory for half the data, %d epochs: chunks loaded, relative to the number of chunks. The bound is 0.5, plus the share of memory that bodies and tables take.", epochs),
		"order", "policy", "epoch 0", "epoch 1", "epoch 2")
	for _, order := range []string{shuffle.Window, shuffle.Slot} {
		for _, rule := range []string{policy.LRU, policy.Plan} {
			g, err := d.open(ctx, datapath.Config{Policy: rule}, int64(share*float64(d.chunks)*float64(chunkcache.Cost(d.chunkBytes()))))
			if err != nil {
				return err
			}
			p := shuffle.Params{Shuffle: order, Window: z.pathWindow}
			row := []any{orderName(p), rule}
			before := uint64(0)
			for e := range uint64(epochs) {
				if _, err := g.read(ctx, job{params: p, epoch: e}); err != nil {
					return err
				}
				loads := g.path.Stats().Loads
				row = append(row, float64(loads-before)/float64(d.chunks))
				before = loads
			}
			if err := g.stop(); err != nil {
				return err
			}
			t.Row(row...)
			r.Logf("data path, %s, %s", order, rule)
		}
	}
	return nil
}

// share lets several jobs read the same epoch.
func (z cachesSize) share(ctx context.Context, r *lab.Report, d *data) error {
	t := r.Table(fmt.Sprintf("k jobs read the same epoch, each computing for %s after a batch: bytes from the store, relative to the size of the data.", z.think),
		"order", "jobs", "together", fmt.Sprintf("%s apart", z.apart))
	holds, worst := true, 0.0
	for _, order := range []string{shuffle.Window, shuffle.Slot} {
		p := shuffle.Params{Shuffle: order, Window: z.pathWindow}
		most := float64(d.bytes())
		if order == shuffle.Slot {
			most += float64(z.pathWindow-1) * float64(d.chunkBytes())
		}
		for _, k := range z.jobs {
			row := []any{orderName(p), k}
			for _, apart := range []time.Duration{0, z.apart} {
				read, err := z.together(ctx, d, p, k, apart)
				if err != nil {
					return err
				}
				holds = holds && read >= d.bytes() && float64(read) <= most
				worst = max(worst, float64(read)/most)
				row = append(row, float64(read)/float64(d.bytes()))
			}
			t.Row(row...)
			r.Logf("%s, %d jobs", order, k)
		}
	}
	r.Judge("jobs", holds, fmt.Sprintf("maximum %.3g x", worst))
	return nil
}

// together returns the number of bytes that the store sent to k jobs on one epoch, with memory for
// half of the data.
func (z cachesSize) together(ctx context.Context, d *data, p shuffle.Params, k int, apart time.Duration) (int64, error) {
	before := d.store.Stats().BytesRead
	g, err := d.open(ctx, datapath.Config{}, int64(.5*float64(d.chunks)*float64(chunkcache.Cost(d.chunkBytes())))+8<<20)
	if err != nil {
		return 0, err
	}
	jobs, jobsCtx := errgroup.WithContext(ctx)
	for i := range k {
		jobs.Go(func() error {
			time.Sleep(time.Duration(i) * apart)
			got, err := g.read(jobsCtx, job{params: p, think: z.think})
			if err == nil && (got.twice > 0 || got.never > 0) {
				err = fmt.Errorf("job %d: %d samples twice, %d missing", i, got.twice, got.never)
			}
			return err
		})
	}
	err = jobs.Wait()
	if stopped := g.stop(); err == nil {
		err = stopped
	}
	return d.store.Stats().BytesRead - before, err
}
