package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/integration/experiments/lab"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/shaped"
	"github.com/millrace-data/millrace/shuffle"
)

// lobsterSize is the size of the experiment.
type lobsterSize struct {
	chunks, each int // chunks of each rank's own data, and samples in each
	shape        shaped.Shape
	ranks        int
	fetchers     int // concurrent reads of all ranks together
	window       uint64
	batch        int // mean number of samples in a rank's step
	steps, warm  int // number of timed steps, and of steps before them
	think        time.Duration
	skews        []float64
	rounds       int
}

func fullLobster() lobsterSize {
	return lobsterSize{
		chunks: 1152, each: 32, shape: shaped.Shape{FirstByte: 20 * time.Millisecond, Stream: 80e6}, ranks: 8, fetchers: 32,
		window: 32, batch: 256, steps: 60, warm: 16, think: 10 * time.Millisecond, skews: []float64{0, 0.4, .8}, rounds: 3,
	}
}

// least returns the factor by which an arm must be better at a given skew.
func least(skew float64) float64 {
	switch skew {
	case 0.4:
		return 1.2
	case 0.8:
		return 1.4
	}
	return 0
}

func lobster(z lobsterSize) lab.Experiment {
	chunk := float64(z.each * sampleBytes)
	return lab.Experiment{
		Name:  "lobster",
		Title: "Lobster: fetchers serve the rank that would stall first",
		Claim: "Ranks that train together wait for the slowest. Assigning threads by need instead of equally, and not evicting chunks that are needed soon, make a step up to 1.5 x faster.",
		Setting: []string{
			fmt.Sprintf("%d ranks that wait for each other after every step and compute for %s. A step of rank r is %d samples of 4 KB times a factor from 1 - skew to 1 + skew", z.ranks, z.think, z.batch),
			fmt.Sprintf("each rank reads its own dataset by its own plan (window of %d chunks of %d samples, so that a chunk is needed in one span). %d steps are timed after %d others; the median is over %d rounds of alternating arms", z.window, z.each, z.steps, z.warm, z.rounds),
			fmt.Sprintf("store in memory, shaped: %s to the first byte, %.0f MB/s per stream, no bound on the total. One read is one chunk of %.0f KiB, %.3g ms", z.shape.FirstByte, z.shape.Stream/1e6, chunk/1024, z.fetchTime().Seconds()*1e3),
			fmt.Sprintf("one budget of %d concurrent store reads, and memory for two windows and 16 chunks per rank", z.fetchers),
			"the model: a step takes as long as all its reads, spread over all fetchers. With an equal split, it takes as long as the largest rank's reads, spread over its own fetchers. Reads hide the compute time",
		},
		Arms: []lab.Arm{
			{Name: "equal split", What: fmt.Sprintf("%d data paths, one for each rank, each with %d fetchers and its share of the memory", z.ranks, z.fetchers/z.ranks)},
			{Name: "deadline queue", What: fmt.Sprintf("Millrace: one data path with %d fetchers and all the memory. A free fetcher takes the chunk whose reader would stall first", z.fetchers)},
		},
		Pass: []lab.Mark{
			{Name: "speed", Want: "steps per second: at least 1.2 x the equal split at skew 0.4, 1.4 x at 0.8", Fails: "serve store reads first come, first served", Measured: true},
			{Name: "refetch", Want: "chunks read more than once within the epoch: 0 with the deadline queue", Fails: "evict a chunk before its last sample is served"},
			{Name: "model", Want: "the predicted step time of the deadline queue within 10 % of the measured one", Fails: "omit the skew from the model", Measured: true},
			{Name: "deal", Want: "`balance=bytes`: the rank with the most bytes of a batch exceeds the mean by less than without it, at every spread of the lengths", Fails: "deal samples by count"},
		},
		Run: func(ctx context.Context, r *lab.Report) error { return z.run(ctx, r) },
	}
}

// fetchTime returns the duration of one read.
func (z lobsterSize) fetchTime() time.Duration {
	d := z.shape.FirstByte
	if z.shape.Stream > 0 {
		d += time.Duration(float64(z.each*sampleBytes) / z.shape.Stream * float64(time.Second))
	}
	return d
}

// samples returns the number of samples that rank r reads in a step.
func (z lobsterSize) samples(r int, skew float64) int {
	place := 2*float64(r)/float64(max(z.ranks-1, 1)) - 1
	return max(int(float64(z.batch)*(1+skew*place)+.5), 1)
}

// predict returns the modeled step time of both arms.
func (z lobsterSize) predict(skew float64) (equal, queue time.Duration) {
	var sum, most float64
	for r := range z.ranks {
		reads := float64(z.samples(r, skew)) / float64(z.each)
		sum, most = sum+reads, max(most, reads)
	}
	t := z.fetchTime().Seconds()
	in := func(reads float64, fetchers int) time.Duration {
		return max(time.Duration(reads/float64(fetchers)*t*float64(time.Second)), z.think)
	}
	return in(most, z.fetchers/z.ranks), in(sum, z.fetchers)
}

func (z lobsterSize) run(ctx context.Context, r *lab.Report) error {
	d, err := newData(ctx, z.chunks, z.each, z.shape)
	if err != nil {
		return err
	}
	defer d.close() // opened only for reading
	t := r.Table("Step times.", "skew", "equal split", "predicted", "deadline queue", "predicted", "faster, x", "read again, equal split", "read again, queue")
	f := &lab.Figure{Name: "steps", Title: "Step time by skew", X: "skew of the bytes of a step", Y: "ms"}
	lines := []lab.Line{{Name: "equal split"}, {Name: "deadline queue"}, {Name: "equal split, model", Dashed: true}, {Name: "queue, model", Dashed: true}}
	speed, again, off := true, 0, 0.0
	var found string
	for _, skew := range z.skews {
		var equal, queue []time.Duration
		var equalAgain, queueAgain int
		for round := range z.rounds {
			e, err := z.arm(ctx, d, skew, false, uint64(round))
			if err != nil {
				return err
			}
			q, err := z.arm(ctx, d, skew, true, uint64(round))
			if err != nil {
				return err
			}
			equal, queue = append(equal, e.step), append(queue, q.step)
			equalAgain, queueAgain = equalAgain+e.again, queueAgain+q.again
			r.Logf("skew %.2g, round %d: equal %s, queue %s", skew, round+1, e.step, q.step)
		}
		e, q := quantile(equal, 0.5), quantile(queue, 0.5)
		pe, pq := z.predict(skew)
		faster := float64(e) / float64(q)
		t.Row(skew, e, pe, q, pq, faster, equalAgain, queueAgain)
		for i, d := range []time.Duration{e, q, pe, pq} {
			lines[i].X, lines[i].Y = append(lines[i].X, skew), append(lines[i].Y, float64(d)/float64(time.Millisecond))
		}
		speed = speed && faster >= least(skew)
		again += queueAgain
		off = max(off, math.Abs(float64(pq)/float64(q)-1))
		found += fmt.Sprintf("%.3g x at %.2g, ", faster, skew)
	}
	f.Lines = lines
	r.Figure(f)
	r.Note("At skew 0 all ranks read the same amount, and both arms run at the rate of the fetchers. The gain grows with the skew as the model predicts. With an equal split, the rank with the most bytes has only its share of the fetchers. In the other arm it has as many as it needs.")
	r.Judge("speed", speed, strings.TrimSuffix(found, ", "))
	r.Judge("refetch", again == 0, fmt.Sprint(again))
	r.Judge("model", off <= 0.1, fmt.Sprintf("maximum error %.2g %%", off*100))
	z.deal(r)
	return nil
}

// stepping is the result of an arm.
type stepping struct {
	step  time.Duration
	again int // number of chunks that the same rank had read before
}

// arm runs all steps of the ranks. Each rank has its own data path, or all share one.
func (z lobsterSize) arm(ctx context.Context, d *data, skew float64, shared bool, seed uint64) (stepping, error) {
	room := int64(float64(2*int(z.window)+16)*float64(chunkcache.Cost(d.chunkBytes()))/.7) + int64(2*z.batch*sampleBytes)
	cfg := datapath.Config{Fetchers: z.fetchers / z.ranks, PartSize: d.chunkBytes()}
	if shared {
		room, cfg.Fetchers = room*int64(z.ranks), z.fetchers
	}
	var all []*gateway
	stores := make([]*repeats, z.ranks)
	stop := func() (err error) {
		for _, g := range all {
			if e := g.stop(); err == nil {
				err = e
			}
		}
		return err
	}
	ranks := make([]*gateway, z.ranks)
	for r := range ranks {
		if len(all) == 0 || !shared {
			g, err := d.open(ctx, cfg, room)
			if err != nil {
				return stepping{}, err
			}
			all = append(all, g)
		}
		own := *all[len(all)-1]
		stores[r] = &repeats{next: d.store, seen: map[int64]bool{}}
		own.source = own.path.Open(own.index, stores[r], prefix)
		ranks[r] = &own
	}
	took, err := z.train(ctx, d, ranks, skew, seed)
	if stopped := stop(); err == nil {
		err = stopped
	}
	s := stepping{step: took / time.Duration(z.steps)}
	for _, store := range stores {
		s.again += store.again
	}
	return s, err
}

// train returns the duration of the timed steps.
func (z lobsterSize) train(ctx context.Context, d *data, ranks []*gateway, skew float64, seed uint64) (time.Duration, error) {
	var begun time.Time
	meet := newBarrier(len(ranks))
	workers, ctx := errgroup.WithContext(ctx)
	context.AfterFunc(ctx, meet.leave)
	for r, g := range ranks {
		workers.Go(func() error {
			plan, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.Window, Window: z.window, Seed: seed*100 + uint64(r)}, g.index.First())
			if err != nil {
				return err
			}
			epoch := plan.Epoch(0)
			b := shuffle.Batching{Samples: plan.Samples(), BatchSize: uint64(z.samples(r, skew)), Tail: shuffle.Short}
			c := newCensus(d.chunks, d.each)
			for m := range uint64(z.warm + z.steps) {
				if r == 0 && m == uint64(z.warm) {
					begun = time.Now()
				}
				if err := g.batch(ctx, plan, epoch, b, m, job{of: 1}, c); err != nil {
					return fmt.Errorf("rank %d, step %d: %w", r, m, err)
				}
				time.Sleep(z.think)
				if !meet.wait() {
					return ctx.Err()
				}
			}
			return nil
		})
	}
	err := workers.Wait()
	return time.Since(begun), err
}

// barrier makes ranks wait for one another.
type barrier struct {
	mu     sync.Mutex // guards the fields below
	turned *sync.Cond
	ranks  int
	here   int
	turn   int
	left   bool
}

func newBarrier(ranks int) *barrier {
	b := &barrier{ranks: ranks}
	b.turned = sync.NewCond(&b.mu)
	return b
}

// wait returns true when all ranks have arrived, or false if some rank has left for good.
func (b *barrier) wait() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	turn := b.turn
	if b.here++; b.here == b.ranks {
		b.here = 0
		b.turn++
		b.turned.Broadcast()
	}
	for b.turn == turn && !b.left {
		b.turned.Wait()
	}
	return b.turn != turn
}

func (b *barrier) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = true
	b.turned.Broadcast()
}

// repeats counts reads of data that was read before.
type repeats struct {
	next objstore.RangeReader

	mu    sync.Mutex // guards the fields below
	seen  map[int64]bool
	again int
}

// ReadRange implements objstore.RangeReader.
func (s *repeats) ReadRange(ctx context.Context, ref objstore.Ref, offset int64, dst ...[]byte) error {
	at := offset
	for _, c := range ref.Key { // include the shard in the key
		at = at*31 + int64(c)
	}
	if err := s.next.ReadRange(ctx, ref, offset, dst...); err != nil {
		return err // maybe canceled, because the data is no longer needed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[at] {
		s.again++
	}
	s.seen[at] = true
	return nil
}

// deal compares the largest share of bytes with balance=bytes and without.
func (z lobsterSize) deal(r *lab.Report) {
	const batches, mean = 200, 4096.0
	t := r.Table(fmt.Sprintf("`balance=bytes`: most bytes of a rank, relative to the mean; the median of %d global batches of %d samples with log-normal lengths, dealt to %d ranks.", batches, batchSize, z.ranks),
		"spread of the lengths (sigma)", "unbalanced", "balance=bytes")
	better, whole, found := true, true, ""
	for _, sigma := range []float64{.3, 0.6, .9} {
		random := rand.New(rand.NewPCG(1, uint64(sigma*10)))
		var before, after []float64
		for range batches {
			lengths := make([]uint32, batchSize)
			var total float64
			for i := range lengths {
				lengths[i] = uint32(mean*math.Exp(sigma*random.NormFloat64())) + 1
				total += float64(lengths[i])
			}
			var plain, dealt, given float64
			b := shuffle.Batching{Samples: batchSize, BatchSize: batchSize, Tail: shuffle.Short}
			division := shuffle.Divide(lengths, uint64(z.ranks))
			for rank := range uint64(z.ranks) {
				share := b.Share(0, rank, uint64(z.ranks))
				var sum, sumDealt float64
				for _, l := range lengths[share.First : share.First+share.Count] {
					sum += float64(l)
				}
				for _, i := range division.Share(rank) {
					sumDealt += float64(lengths[i])
				}
				plain, dealt, given = max(plain, sum), max(dealt, sumDealt), given+sumDealt
			}
			whole = whole && given == total
			before, after = append(before, plain/total*float64(z.ranks)), append(after, dealt/total*float64(z.ranks))
		}
		t.Row(sigma, median(before), median(after))
		better = better && median(after) < median(before)
		found += fmt.Sprintf("%.3g before, %.3g after at %.1g; ", median(before), median(after), sigma)
	}
	r.Judge("deal", better && whole, strings.TrimSuffix(found, "; "))
}
