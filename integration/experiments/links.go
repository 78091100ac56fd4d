package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/millrace-data/millrace/integration/clustersim"
	"github.com/millrace-data/millrace/integration/experiments/lab"
)

// links runs a job with real processes on slow links, and simulates the same job. The job is
// clustersim.Limited; integration/limited runs it.
func links() lab.Experiment {
	l := clustersim.NewLimited()
	return lab.Experiment{
		Name:  "links",
		Title: "Many machines on slow links: independent gateways by rank, and a cluster, as processes",
		Claim: "If ranks read from independent gateways at their homes, n gateways are n times as fast as one, and together read the store once. A cluster sends its ranks' samples over the same links a second time, so that two gateways gain less.",
		Setting: []string{
			"MinIO, gateways (`millrace serve`) and ranks (the client in Go) as processes on separate machines (network namespaces) of one host; gateways of a cluster use mutual TLS",
			fmt.Sprintf("full form: 26 MB in chunks of %d KiB, slot order of %d lanes, batches of %d over %d ranks, which request %d ahead and advance together. Each gateway's network card has 32 Mbit/s each way, the store's has 128, with %s to the first byte",
				l.Chunk>>10, l.Lanes, l.Batch, l.Ranks, l.Ahead, l.FirstByte),
			"rounds alternate in order; a figure is the median over the rounds, a ratio the median of the rounds' ratios",
			fmt.Sprintf("losses: ranks compute for 40 ms after each batch. Gateway 1 of eight is killed or stopped %s after the start, or cannot reach the store from the start", clustersim.TroubleAt),
			"the simulation has the same job, data paths and protocol, in virtual time, on network cards that send one piece after the other",
		},
		Arms: []lab.Arm{
			{Name: "one", What: "one gateway"},
			{Name: "plain, by rank", What: "independent gateways, share=locality, as many homes as gateways, each rank at the gateway of its home"},
			{Name: "plain", What: "the same with contiguous shares, so that each gateway reads all data"},
			{Name: "peers", What: "one cluster, contiguous shares"},
		},
		Pass: []lab.Mark{
			{Name: "twice", Want: "two plain gateways by rank: the second epoch at least 1.9 x as fast as with one", Fails: "request a rank's share from any gateway", Measured: true},
			{Name: "once", Want: "four plain gateways by rank: at most 1.01 of the data from the store in the first epoch, none later", Fails: "every gateway fetches all chunks of a batch", Measured: true},
			{Name: "shared", Want: "peers: at most 1.3 of the data from the store in the first epoch, at most 0.05 later", Fails: "read the store as soon as a peer is late", Measured: true},
			{Name: "step", Want: "one of eight killed or without its store: the first epoch takes at most 1.3 x as long as without a failure, both ways", Fails: "retry a dead gateway before each batch", Measured: true},
			{Name: "simulated", Want: "the simulation within 15 % of each epoch's time", Fails: "omit the limit of links from the simulation", Measured: true},
		},
		Run: runLinks,
	}
}

// linksRun is the result of one configuration: with processes in each round, and simulated.
type linksRun struct {
	way       clustersim.Way
	rounds    []clustersim.Outcome
	simulated clustersim.Outcome
}

// runLinks requires Linux and root, for the machines' networks.
func runLinks(ctx context.Context, r *lab.Report) error {
	runs, err := readLinks(ctx)
	if err != nil {
		return err
	}
	for _, losses := range []bool{false, true} {
		title := "Epochs. Ratios are to one gateway with the same memory."
		if losses {
			title = "Losses: ranks that compute; gateway 1 of eight fails."
		}
		t := r.Table(title, "way", "gateways", "room for", "trouble", "epoch", "seconds", "simulated", "x one", "from the store", "between gateways", "step p50 ms", "p99 ms", "slowest ms")
		for _, run := range runs {
			if (run.way.Think > 0) == losses {
				run.rows(t, runs)
			}
		}
	}
	r.Judge("twice", find(runs, "plain, by rank", 2).times(runs, 1) >= 1.9, fmt.Sprintf("%.3g x", find(runs, "plain, by rank", 2).times(runs, 1)))
	four, peers := find(runs, "plain, by rank", 4), []*linksRun{find(runs, "peers", 2), find(runs, "peers", 4), find(runs, "peers", 8)}
	r.Judge("once", four.store(0) >= 1 && four.store(0) <= 1.01 && four.store(1) == 0, fmt.Sprintf("%.4g, then %.3g", four.store(0), four.store(1)))
	worst, least, later := 0.0, math.Inf(1), 0.0
	for _, p := range peers {
		worst, least, later = max(worst, p.store(0)), min(least, p.store(0)), max(later, p.store(1))
	}
	r.Judge("shared", least >= 1 && worst <= 1.3 && later <= 0.05, fmt.Sprintf("maximum %.3g, then %.3g", worst, later))
	slower := 0.0
	for _, run := range runs {
		if run.way.Trouble == clustersim.Kill || run.way.Trouble == clustersim.StoreCut {
			well := runs[slices.IndexFunc(runs, func(o *linksRun) bool {
				return o.way.Think == run.way.Think && o.way.Peers == run.way.Peers && o.way.Trouble == ""
			})]
			slower = max(slower, run.median(0, seconds)/well.median(0, seconds))
		}
	}
	r.Judge("step", slower > 0 && slower <= 1.3, fmt.Sprintf("maximum %.3g x", slower))
	fits, all := 0, 0
	for _, run := range runs {
		for e := range run.simulated.Epochs {
			all++
			if math.Abs(run.simulated.Epochs[e].Seconds/run.median(e, seconds)-1) <= 0.15 {
				fits++
			}
		}
	}
	r.Judge("simulated", all > 0 && fits == all, fmt.Sprintf("%d of %d epochs", fits, all))
	r.Figure(linksFigure(runs))
	return nil
}

// readLinks runs the job with processes and in the simulator.
func readLinks(ctx context.Context) (runs []*linksRun, err error) {
	for _, pack := range []string{simulatedClusters, limitedNetworks} {
		lines, _, err := figures(ctx, pack, "TestLimited", "MILLRACE_LIMITED=full") // runLinks judges the marks
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			var o clustersim.Outcome
			if err := json.Unmarshal([]byte(line), &o); err != nil {
				return nil, fmt.Errorf("%s: %w", pack, err)
			}
			if pack == simulatedClusters {
				runs = append(runs, &linksRun{way: o.Way, simulated: o})
				continue
			}
			i := slices.IndexFunc(runs, func(r *linksRun) bool { return r.way == o.Way })
			if i < 0 {
				return nil, fmt.Errorf("%s: way %+v is not simulated", pack, o.Way)
			}
			runs[i].rounds = append(runs[i].rounds, o)
		}
	}
	return runs, nil
}

// find returns the run of a configuration with memory for all data and without pauses.
func find(runs []*linksRun, name string, gateways int) *linksRun {
	return runs[slices.IndexFunc(runs, func(r *linksRun) bool {
		return r.way.Name == name && r.way.Gateways == gateways && r.way.Share == 0 && r.way.Think == 0
	})]
}

func seconds(e clustersim.EpochOutcome) float64   { return e.Seconds }
func p50(e clustersim.EpochOutcome) float64       { return e.P50 }
func p99(e clustersim.EpochOutcome) float64       { return e.P99 }
func most(e clustersim.EpochOutcome) float64      { return e.Most }
func stored(e clustersim.EpochOutcome) float64    { return e.Store }
func exchanged(e clustersim.EpochOutcome) float64 { return e.Exchanged }

// median returns the median of a figure over the rounds.
func (r *linksRun) median(epoch int, of func(clustersim.EpochOutcome) float64) float64 {
	var all []float64
	for _, o := range r.rounds {
		all = append(all, of(o.Epochs[epoch]))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func (r *linksRun) store(epoch int) float64 { return r.median(epoch, stored) }

// times returns the speed of an epoch relative to one gateway with the same memory: the median over
// the rounds.
func (r *linksRun) times(runs []*linksRun, epoch int) float64 {
	i := slices.IndexFunc(runs, func(o *linksRun) bool { return o.way.Name == "one" && o.way.Share == r.way.Share })
	var all []float64
	for n, o := range r.rounds {
		all = append(all, runs[i].rounds[n].Epochs[epoch].Seconds/o.Epochs[epoch].Seconds)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func (r *linksRun) rows(t *lab.Table, runs []*linksRun) {
	room, trouble := "all", string(r.way.Trouble)
	if r.way.Share > 0 {
		room = fmt.Sprint(r.way.Share)
	}
	for e := range r.simulated.Epochs {
		times := "-"
		if r.way.Think == 0 {
			times = lab.Text(r.times(runs, e))
		}
		ms := func(of func(clustersim.EpochOutcome) float64) float64 { return 1000 * r.median(e, of) }
		t.Row(r.way.Name, r.way.Gateways, room, trouble, e, r.median(e, seconds), r.simulated.Epochs[e].Seconds, times, r.store(e), r.median(e, exchanged), ms(p50), ms(p99), ms(most))
	}
}

// linksFigure plots the speed of several gateways relative to one.
func linksFigure(runs []*linksRun) *lab.Figure {
	f := &lab.Figure{Name: "times", Title: "Epochs with several gateways", X: "gateways", Y: "times as fast as one", LogX: true, LogY: true}
	for _, name := range []string{"plain, by rank", "peers", "plain"} {
		for e, which := range []string{"first epoch", "second epoch"} {
			line := lab.Line{Name: name + ", " + which, Dashed: e == 0}
			for _, gateways := range []int{2, 4, 8} {
				line.X, line.Y = append(line.X, float64(gateways)), append(line.Y, find(runs, name, gateways).times(runs, e))
			}
			f.Lines = append(f.Lines, line)
		}
	}
	return f
}
