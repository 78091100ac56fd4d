package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/integration/experiments/lab"
	"github.com/millrace-data/millrace/internal/testing/shaped"
	"github.com/millrace-data/millrace/shuffle"
)

// nodesSize is the size of the experiment.
type nodesSize struct {
	chunks, each, lanes int
	gateways            []int
	store, rank, link   float64 // bytes per second: of the store in total, of a training rank, of a gateway's link
	fast                float64 // of a training rank if memory is short
}

func fullNodes() nodesSize {
	return nodesSize{chunks: 256, each: 32, lanes: 16, gateways: []int{1, 2, 4, 8}, store: 12e6, rank: 8e6, link: 3e6, fast: 64e6}
}

func (z nodesSize) plan() shuffle.Params {
	return shuffle.Params{Shuffle: shuffle.Slot, Window: uint64(z.lanes)}
}

func nodes(z nodesSize) lab.Experiment {
	data := float64(z.chunks*z.each*sampleBytes) / 1e6
	return lab.Experiment{
		Name:  "nodes",
		Title: "Locality-aware loading (Yang and Cong, HiPC 2019): epoch time by number of gateways",
		Claim: "From storage an epoch takes max(D/(pV), D/R), which stops falling at p = R/V. A cache spread over the nodes moves the limit to their links, D (p-1)/(p Rc). If each rank reads only its own node's samples, the time falls as 1/p.",
		Setting: []string{
			fmt.Sprintf("D = %.3g MB in %d chunks of %d samples of 4 KB, slot order of %d lanes, global batches of %d, one rank at each of p gateways", data, z.chunks, z.each, z.lanes, batchSize),
			fmt.Sprintf("store in memory, shaped: 5 ms to the first byte, R = %.3g MB/s in total. Each rank trains at V = %.3g MB/s; each gateway sends %.3g MB/s to the others, so Rc is p times that", z.store/1e6, z.rank/1e6, z.link/1e6),
			"real data paths, membership and protocol between gateways over loopback, in one process; a rank prefetches up to two batches",
			fmt.Sprintf("short memory: the same with memory for half of the data in each gateway. Ranks consume %.3g MB/s, so that only store and links are the limit", z.fast/1e6),
		},
		Arms: []lab.Arm{
			{Name: "storage", What: "a cold epoch of independent gateways, share=locality"},
			{Name: "locality", What: "the next epoch"},
			{Name: "spread", What: "a second epoch of one cluster, contiguous shares: the cache is spread over the gateways, and ranks read samples of other gateways"},
			{Name: "half", What: "a second epoch with memory for half of the data in each gateway, contiguous shares"},
		},
		Pass: []lab.Mark{
			{Name: "once", Want: "every sample exactly once over all ranks, in all epochs", Fails: "skip the first sample of a share"},
			{Name: "store", Want: "all gateways together read at most N + m - 1 times from the store in the first epoch, and never later", Fails: "every gateway fetches all chunks of a batch", Measured: true},
			{Name: "bytes", Want: "bytes between gateways within 5 % of the formulas: D (p-1)/p with spread, none with locality", Fails: "request whole chunks from a peer", Measured: true},
			{Name: "flat", Want: "storage: within 10 % of max(D/(pV), D/R) plus the wait for the first batch, for every p", Fails: "disable read-ahead", Measured: true},
			{Name: "falls", Want: "locality: within 10 % of D/(pV) for every p", Fails: "ignore homes when dealing shares", Measured: true},
			{Name: "links", Want: "spread: within 15 % of max(D/(pV), D (p-1)/(p Rc)) for every p", Fails: "send each sample through a third gateway", Measured: true},
			{Name: "pooled", Want: "half: two gateways read nothing from the store, while one reads half of the data (0.4 to 0.6)", Fails: "keep peers' chunks at each gateway", Measured: true},
			{Name: "model", Want: "half: both epochs within 10 % of the model", Fails: "omit the link between gateways from the model", Measured: true},
		},
		Run: func(ctx context.Context, r *lab.Report) error { return z.run(ctx, r) },
	}
}

// nodeArm is one epoch of one arm, with the model's prediction.
type nodeArm struct {
	epochRead
	model float64 // seconds
	peers float64 // bytes between gateways
}

func (z nodesSize) run(ctx context.Context, r *lab.Report) error {
	d, err := newData(ctx, z.chunks, z.each, shaped.Shape{FirstByte: 5 * time.Millisecond, Stream: z.store, Total: z.store})
	if err != nil {
		return err
	}
	defer d.close() // opened only for reading
	t := r.Table("Epochs of all ranks together.", "gateways", "arm", "seconds", "model", "store reads", "store MB", "between gateways MB", "model MB")
	figure := &lab.Figure{Name: "time", Title: "Epoch time and the number of gateways", X: "gateways", Y: "seconds", LogX: true, LogY: true}
	lines := map[string]*lab.Line{}
	names := []string{"storage", "locality", "spread"}
	for _, n := range names {
		lines[n], lines[n+", model"] = &lab.Line{Name: n}, &lab.Line{Name: n + ", model", Dashed: true}
	}
	once, store, worstBytes := true, true, 0.0
	off := map[string]float64{}
	for _, p := range z.gateways {
		arms, err := z.epochs(ctx, d, p)
		if err != nil {
			return fmt.Errorf("%d gateways: %w", p, err)
		}
		for i, a := range arms {
			name := names[i]
			r.Logf("%d gateways, %s: %.2f s, model %.2f", p, name, a.took.Seconds(), a.model)
			t.Row(p, name, a.took.Seconds(), a.model, a.storeReads, float64(a.storeBytes)/1e6, float64(a.peerBytes)/1e6, a.peers/1e6)
			once = once && a.twice+a.never == 0
			if i == 0 {
				store = store && a.storeReads <= int64(z.chunks+z.lanes-1) && a.storeBytes == d.bytes()
			} else {
				store = store && a.storeReads == 0
				worstBytes = max(worstBytes, math.Abs(float64(a.peerBytes)-a.peers)/float64(d.bytes()))
			}
			off[name] = max(off[name], math.Abs(a.took.Seconds()/a.model-1))
			for suffix, y := range map[string]float64{"": a.took.Seconds(), ", model": a.model} {
				l := lines[name+suffix]
				l.X, l.Y = append(l.X, float64(p)), append(l.Y, y)
			}
		}
	}
	for _, n := range names {
		figure.Lines = append(figure.Lines, *lines[n], *lines[n+", model"])
	}
	r.Figure(figure)
	r.Judge("once", once, "all of them")
	r.Judge("store", store, "as required")
	r.Judge("bytes", worstBytes <= 0.05, fmt.Sprintf("maximum error %.2g %% of D", 100*worstBytes))
	r.Judge("flat", off["storage"] <= 0.1, fmt.Sprintf("maximum error %.2g %%", 100*off["storage"]))
	r.Judge("falls", off["locality"] <= 0.1, fmt.Sprintf("maximum error %.2g %%", 100*off["locality"]))
	r.Judge("links", off["spread"] <= 0.15, fmt.Sprintf("maximum error %.2g %%", 100*off["spread"]))
	return z.half(ctx, r, d)
}

// epochs reads three epochs. The first two come from p independent gateways with shares by
// locality: one from the store, and one from memory. The third comes from a cluster that holds
// everything.
func (z nodesSize) epochs(ctx context.Context, d *data, p int) (arms [3]nodeArm, err error) {
	room := d.room(2 * z.chunks)
	apart, err := d.newFleet(ctx, fleetConfig{name: "apart", gateways: p, room: room, apart: true})
	if err != nil {
		return arms, err
	}
	all, n := float64(d.bytes()), float64(p)
	job := task{params: z.plan(), ranks: p, sharing: shuffle.Locality, rate: z.rank}
	lanesFirst := float64(z.lanes) * float64(d.chunkBytes()) / z.store // the first batch needs one chunk of each lane
	for i, model := range []float64{max(all/(n*z.rank)+lanesFirst, all/z.store), all / (n * z.rank)} {
		arms[i].model, job.epoch = model, uint64(i)
		if arms[i].epochRead, err = apart.read(ctx, job); err != nil {
			return arms, fmt.Errorf("epoch %d: %w", i, err)
		}
	}
	if err := apart.stop(); err != nil {
		return arms, err
	}
	f, err := d.newFleet(ctx, fleetConfig{name: "nodes", gateways: p, room: room, link: z.link})
	if err != nil {
		return arms, err
	}
	most := float64(slices.Max(f.owned())) / float64(z.chunks) // fraction of the data that the busiest link sends
	for i := range 2 {
		a := &arms[2]
		a.peers = all * (n - 1) / n
		a.model = max(all/(n*z.rank), most*all*(n-1)/n/z.link)
		if a.epochRead, err = f.read(ctx, task{params: z.plan(), epoch: uint64(i), ranks: p, sharing: shuffle.Contiguous, rate: z.rank}); err != nil {
			return arms, fmt.Errorf("cluster, epoch %d: %w", i, err)
		}
	}
	return arms, f.stop()
}

// beside is the memory that a gateway needs in addition to chunks: for batches being sent, and for
// peer requests.
const beside = 2 * batchSize * sampleBytes

// half reads a second epoch while each gateway has memory for half of the data.
func (z nodesSize) half(ctx context.Context, r *lab.Report, d *data) error {
	t := r.Table("A second epoch with memory for half of the data in each gateway.", "gateways", "seconds", "model", "store MB", "between gateways MB")
	var arms []epochRead
	worst := 0.0
	for _, p := range []int{1, 2} {
		f, err := d.newFleet(ctx, fleetConfig{name: "half", gateways: p, room: int64(z.chunks/2)*chunkcache.Cost(d.chunkBytes()) + beside, link: z.link})
		if err != nil {
			return err
		}
		var a epochRead
		for e := range uint64(2) {
			if a, err = f.read(ctx, task{params: z.plan(), epoch: e, ranks: p, sharing: shuffle.Contiguous, rate: z.fast}); err != nil {
				return fmt.Errorf("half, %d gateways: %w", p, err)
			}
		}
		if err := f.stop(); err != nil {
			return err
		}
		n := float64(p)
		model := max(float64(d.bytes())/(n*z.fast), float64(a.storeBytes)/z.store, float64(d.bytes())*(n-1)/n/(n*z.link))
		worst = max(worst, math.Abs(a.took.Seconds()/model-1))
		t.Row(p, a.took.Seconds(), model, float64(a.storeBytes)/1e6, float64(a.peerBytes)/1e6)
		arms = append(arms, a)
	}
	one, two := arms[0], arms[1]
	share := float64(one.storeBytes) / float64(d.bytes())
	r.Judge("pooled", two.storeReads == 0 && share >= 0.4 && share <= 0.6, fmt.Sprintf("two read %d times, one reads %.3g of the data", two.storeReads, share))
	r.Judge("model", worst <= 0.1, fmt.Sprintf("maximum error %.2g %%", 100*worst))
	return nil
}
