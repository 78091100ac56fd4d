package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/integration/experiments/lab"
	"github.com/millrace-data/millrace/internal/testing/shaped"
	"github.com/millrace-data/millrace/shuffle"
)

// tasksSize is the size of the experiment.
type tasksSize struct {
	chunks, each, lanes int
	gateways            int   // gateways of job A
	others              int   // gateways of job B
	shapes              []int // numbers of chunks, for datasets of equal size
	carried             []int // numbers of additional batches in one request
}

func fullTasks() tasksSize {
	return tasksSize{chunks: 256, each: 32, lanes: 32, gateways: 8, others: 4, shapes: []int{64, 128, 256, 512}, carried: []int{0, 1, 3, 7}}
}

func (z tasksSize) plan(chunks int) shuffle.Params {
	return shuffle.Params{Shuffle: shuffle.Slot, Window: uint64(min(z.lanes, chunks))}
}

func tasks(z tasksSize) lab.Experiment {
	return lab.Experiment{
		Name:  "tasks",
		Title: "DIESEL, HVAC and Brand across nodes: a cache for one job",
		Claim: "A cache spans only the nodes of one task, so a node failure affects only that task, and recovery reads chunks instead of files (DIESEL). A lost node costs 1/p of the data, read once (HVAC). A remote node adds samples that will be needed soon to its answers (Brand).",
		Setting: []string{
			fmt.Sprintf("%d chunks of %d samples of 4 KB, slot order of %d lanes, global batches of %d, contiguous shares, one rank at each gateway", z.chunks, z.each, z.lanes, batchSize),
			"store in memory, shaped: 5 ms to the first byte, 200 MB/s in total. Every gateway has memory for all data. Data paths, membership and protocol are real, over loopback, in one process",
			fmt.Sprintf("job A has %d gateways, job B %d; both have read one epoch, and B's gateways also know A's addresses. Then the server, the membership and the memory of one of A's gateways stop at the same time, and its rank continues at the next one", z.gateways, z.others),
			fmt.Sprintf("refill: the same bytes in %v chunks, one of %d gateways lost", z.shapes, z.gateways),
			fmt.Sprintf("added samples: two gateways, one rank, 192 batches; requests may return the samples of one batch and of %v more", z.carried),
		},
		Arms: []lab.Arm{
			{Name: "A", What: "the job that loses a gateway"},
			{Name: "B", What: "the other job"},
			{Name: "k", What: "batches added to one"},
		},
		Pass: []lab.Mark{
			{Name: "exact", Want: "every sample exactly once, in every epoch of both jobs, no error", Fails: "lose the batch in flight when a gateway leaves"},
			{Name: "share", Want: "A reads the chunks of the lost gateway again, half to twice 1/p of all, each once", Fails: "read all chunks again when a gateway leaves", Measured: true},
			{Name: "apart", Want: "B reads nothing from the store, and its gateways exchange the same bytes as with a healthy A, within 1 %", Fails: "use one membership for both jobs", Measured: true},
			{Name: "chunks", Want: "refill: each lost chunk is read once, in no more store reads, regardless of its number of samples", Fails: "read a chunk again for each of its samples", Measured: true},
			{Name: "lookups", Want: "look-ups by name in an index that was opened from the store send no request to the store or other gateways", Fails: "read the table of names from the store"},
			{Name: "along", Want: "requests per sample fall to at most 1.25 / (1 + k) of those without, and samples of the other gateway come from it", Fails: "never add samples of a later batch", Measured: true},
		},
		Run: func(ctx context.Context, r *lab.Report) error { return z.run(ctx, r) },
	}
}

// fastStore returns the shape of this experiment's store. The store is so fast that the number of
// reads matters, but not their time.
func fastStore() shaped.Shape {
	return shaped.Shape{FirstByte: 5 * time.Millisecond, Stream: 200e6, Total: 200e6}
}

func (z tasksSize) run(ctx context.Context, r *lab.Report) error {
	exact := true
	if err := z.loss(ctx, r, &exact); err != nil {
		return err
	}
	if err := z.refill(ctx, r, &exact); err != nil {
		return err
	}
	if err := z.along(ctx, r, &exact); err != nil {
		return err
	}
	r.Judge("exact", exact, "all of them")
	return nil
}

// loss runs two jobs on one store. The first job loses a gateway.
func (z tasksSize) loss(ctx context.Context, r *lab.Report, exact *bool) error {
	d, err := newData(ctx, z.chunks, z.each, fastStore())
	if err != nil {
		return err
	}
	defer d.close() // opened only for reading
	a, err := d.newFleet(ctx, fleetConfig{name: "a", gateways: z.gateways, room: d.room(2 * z.chunks)})
	if err != nil {
		return err
	}
	b, err := d.newFleet(ctx, fleetConfig{name: "b", gateways: z.others, room: d.room(2 * z.chunks), met: a})
	if err != nil {
		return errors.Join(err, a.stop())
	}
	t := r.Table("Two jobs on one store, epoch by epoch.", "epoch", "job", "store reads", "requests between gateways", "between gateways MB")
	job := func(f *fleet, name string, epoch uint64) (epochRead, error) {
		got, err := f.read(ctx, task{params: z.plan(z.chunks), epoch: epoch, ranks: len(f.members), sharing: shuffle.Contiguous})
		*exact = *exact && got.twice+got.never == 0
		t.Row(fmt.Sprint(epoch), name, got.storeReads, got.peerReads, float64(got.peerBytes)/1e6)
		return got, err
	}
	lost := z.gateways - 2
	owned := a.owned()[lost]
	var lastA, healthyB, lastB epochRead
	for epoch := range uint64(3) {
		if epoch == 2 {
			if err := a.members[lost].leave(); err != nil {
				return err
			}
		}
		if lastA, err = job(a, "A", epoch); err != nil {
			return err
		}
		healthyB = lastB
		if lastB, err = job(b, "B", epoch); err != nil {
			return err
		}
	}
	even := owned*int64(2*z.gateways) >= int64(d.chunks) && owned*int64(z.gateways) <= int64(2*d.chunks)
	r.Judge("share", even && lastA.storeReads <= owned && lastA.storeBytes == owned*d.chunkBytes(),
		fmt.Sprintf("%d reads of %.4g chunks for the %d chunks of 1/%d", lastA.storeReads, float64(lastA.storeBytes)/float64(d.chunkBytes()), owned, z.gateways))
	change := float64(lastB.peerBytes)/float64(healthyB.peerBytes) - 1
	r.Judge("apart", lastB.storeReads == 0 && change < 0.01 && change > -.01,
		fmt.Sprintf("%d store reads, bytes between gateways %+.2g %%", lastB.storeReads, 100*change))
	if err := z.names(ctx, r, a); err != nil {
		return err
	}
	return errors.Join(a.stop(), b.stop())
}

// names looks up samples by name at every running gateway.
func (z tasksSize) names(ctx context.Context, r *lab.Report, f *fleet) error {
	random := rand.New(rand.NewPCG(1, 2))
	var n, opening, asked int64
	for _, m := range f.members {
		if m.gone {
			continue
		}
		stored := f.data.store.Stats().Requests
		index, err := chunkindex.Open(ctx, f.data.store, prefix, chunkindex.OpenOptions{})
		if err != nil {
			return err
		}
		defer index.Close() // opened only for reading
		before, opened := f.traffic(), f.data.store.Stats().Requests
		for range 1000 {
			want := random.IntN(f.data.samples())
			got, ok, err := index.Lookup(ctx, sampleKey(want), "")
			if err != nil || !ok || got != uint64(want) {
				return fmt.Errorf("look up %s: got sample %d (%v), want %d: %w", sampleKey(want), got, ok, want, err)
			}
			n++
		}
		opening += opened - stored
		asked += f.traffic().minus(before).peerReads + f.data.store.Stats().Requests - opened
	}
	r.Judge("lookups", opening > 0 && asked == 0, fmt.Sprintf("%d requests to open it, %d for %d look-ups", opening, asked, n))
	return nil
}

// refill stops one gateway of a fleet whose data has a few large chunks, or many small ones.
func (z tasksSize) refill(ctx context.Context, r *lab.Report, exact *bool) error {
	t := r.Table("One gateway lost, the same bytes in chunks of several sizes.", "chunks", "samples in each", "chunks lost", "samples lost", "store reads", "seconds")
	holds := true
	for _, chunks := range z.shapes {
		d, err := newData(ctx, chunks, z.chunks*z.each/chunks, fastStore())
		if err != nil {
			return err
		}
		f, err := d.newFleet(ctx, fleetConfig{name: "a", gateways: z.gateways, room: d.room(2 * chunks)})
		if err != nil {
			return err
		}
		var got epochRead
		lost := z.gateways - 2
		owned := f.owned()[lost]
		for epoch := range uint64(2) {
			if epoch == 1 {
				if err := f.members[lost].leave(); err != nil {
					return err
				}
			}
			if got, err = f.read(ctx, task{params: z.plan(chunks), epoch: epoch, ranks: z.gateways, sharing: shuffle.Contiguous}); err != nil {
				return err
			}
			*exact = *exact && got.twice+got.never == 0
		}
		holds = holds && owned > 0 && got.storeReads <= owned && got.storeBytes == owned*d.chunkBytes()
		t.Row(chunks, d.each, owned, owned*int64(d.each), got.storeReads, got.took.Seconds())
		if err := errors.Join(f.stop(), d.close()); err != nil {
			return err
		}
	}
	r.Judge("chunks", holds, "in every row")
	return nil
}

// along reads an epoch with requests that carry an increasing number of additional batches.
func (z tasksSize) along(ctx context.Context, r *lab.Report, exact *bool) error {
	const samples = 192 * batchSize // many batches: the first few, which a rank requests alone, hardly matter
	d, err := newData(ctx, z.chunks, samples/z.chunks, fastStore())
	if err != nil {
		return err
	}
	defer d.close() // opened only for reading
	t := r.Table("Requests between two gateways, one rank.", "k", "requests", "per batch", "per sample, relative to those without", "added samples used")
	var none float64
	holds, found := true, ""
	for _, k := range z.carried {
		carry := int64(-1)
		if k > 0 {
			// The other gateway owns half of a batch, and a sample has 128 bytes of
			// overhead.
			carry = int64(k+1) * batchSize / 2 * (sampleBytes + 128) * 9 / 8
		}
		f, err := d.newFleet(ctx, fleetConfig{name: "along", gateways: 2, room: d.room(3 * z.chunks), carry: carry})
		if err != nil {
			return err
		}
		var got epochRead
		for epoch := range uint64(2) {
			if got, err = f.read(ctx, task{params: z.plan(z.chunks), epoch: epoch, ranks: 1, sharing: shuffle.Contiguous}); err != nil {
				return err
			}
			*exact = *exact && got.twice+got.never == 0
		}
		if err := f.stop(); err != nil {
			return err
		}
		if k == 0 {
			none = float64(got.peerReads)
		}
		share := float64(got.peerReads) / none
		batches := float64((d.samples() + batchSize - 1) / batchSize)
		t.Row(k, got.peerReads, float64(got.peerReads)/batches, share, got.carried)
		holds = holds && share <= 1.25/float64(1+k) && got.storeReads == 0 && got.peerBytes >= d.bytes()/4 // the gateway still sends peer requests
		found += fmt.Sprintf("k=%d %.2g; ", k, share)
	}
	r.Judge("along", holds, found+"of those without")
	return nil
}
