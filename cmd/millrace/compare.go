package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/location"
	"github.com/millrace-data/millrace/shuffle"
	"github.com/millrace-data/millrace/simulate"
)

// compareFlags are what only the comparison of a dataset's orders asks for.
type compareFlags struct {
	worldSizes []int
	homes      []int
	cache      int64
	price      float64 // of a million requests
}

func (c *compareFlags) define(f *cli.Flags) {
	f.Numbers(&c.worldSizes, "world-size", nil, "of `N` ranks (default 1); of a dataset NUMBERS with commas between them, to say what locality moves")
	f.Numbers(&c.homes, "homes", nil, "`N` homes of --split locality, such as gateways (default the world size); of a dataset NUMBERS with commas between them")
	f.Size(&c.cache, "cache-size", 0, "also count the store's requests in later epochs with a cache of `SIZE`")
	f.Price(&c.price, "request-price", "`PRICE` of a million requests of the store, to print what an epoch's cost (default none)")
}

// checkGateway refuses what only a dataset's comparison answers, and hands on the ranks and their homes.
func (c *compareFlags) checkGateway(f *cli.Flags, p *planFlags) {
	for _, name := range []string{"cache-size", "request-price"} {
		if f.Given(name) {
			f.Fault("--%s: want a dataset in place of a gateway's address: the index alone answers it", name)
		}
	}
	one := func(name string, list []int) uint64 {
		switch len(list) {
		case 0:
			return 0
		case 1:
			return uint64(list[0])
		}
		f.Fault("--%s: want one number for a gateway, or a dataset in place of the gateway's address", name)
		return 0
	}
	p.opt.WorldSize, p.opt.Homes = one("world-size", c.worldSizes), one("homes", c.homes)
}

// checkDataset refuses what only a gateway answers.
func (c *compareFlags) checkDataset(f *cli.Flags, dataset string) {
	for _, name := range []string{"dataset", "epoch", "rank", "balance", "split", "seed", "tail", "importance", "subset", "quarantine", "generation"} {
		if f.Given(name) {
			f.Fault("--%s is a gateway's to answer; the orders of %s do not depend on it", name, dataset)
		}
	}
	if len(c.homes) > 0 && len(c.worldSizes) == 0 {
		f.Fault("--homes: want --world-size too, the number of ranks that share them")
	}
}

// comparison is one row of the table of orders.
type comparison struct {
	Shuffle string `json:"shuffle"`
	Window  uint64 `json:"window,omitempty"`
	Strata  uint64 `json:"strata,omitempty"`
	Memory  uint64 `json:"memory_bytes"`
	variances
	Reads      uint64   `json:"reads_per_epoch"`
	LaterReads *uint64  `json:"reads_per_later_epoch,omitempty"`
	Cost       *float64 `json:"cost_per_epoch,omitempty"`
	LaterCost  *float64 `json:"cost_per_later_epoch,omitempty"`
	Default    bool     `json:"default"`
}

// variances are how unevenly batches mix sorted classes, null where there is nothing to compare.
type variances struct {
	Variance    *float64 `json:"batch_variance"`
	Variance10  *float64 `json:"batch_variance_10"`
	Variance100 *float64 `json:"batch_variance_100"`
}

func newVariances(v shuffle.BatchVariance, known bool) variances {
	if !known {
		return variances{}
	}
	digits := func(x float64) *float64 {
		x = math.Round(x*1e4) / 1e4
		return &x
	}
	return variances{digits(v.Chunk), digits(v.Ten), digits(v.Hundred)}
}

// localityRow is one row of the table of what locality moves.
type localityRow struct {
	WorldSize uint64  `json:"world_size"`
	Homes     uint64  `json:"homes"`
	Moved     float64 `json:"moved"` // share of the samples
	variances         // of a rank's own share
	Fault     string  `json:"fault,omitempty"` // why shares cannot follow these homes
	worst     float64
}

func (a *app) compare(ctx context.Context, s *location.Stores, l location.Location, p *planFlags, c *compareFlags) error {
	d, err := s.OpenIndex(ctx, l, chunkindex.OpenOptions{})
	if err != nil {
		return err
	}
	defer d.Close()
	def := d.Index.Defaults()
	batch := def.BatchSize
	if p.opt.BatchSize != 0 {
		batch = p.opt.BatchSize
	}
	own, chosen := chosenOrder(def, p)
	rows, err := comparisons(d.Index, own, chosen, batch, p.opt, c)
	if err != nil {
		return err
	}
	plan, err := shuffle.NewPlan(chosen, d.Index.First())
	if err != nil {
		return err
	}
	shared := localityRows(plan, batch, c)
	a.advise(unevenBatches(plan, batch, chunkLengths(d.Index)))
	a.advise(unevenRanks(shared))
	out := map[string]any{
		"generation": d.Index.Generation(), "samples": d.Index.Samples(), "chunks": d.Index.Chunks(),
		"bytes": d.Index.Bytes(), "batch_size": batch, "orders": rows,
	}
	if len(shared) > 0 {
		out["locality"] = map[string]any{"shuffle": chosen.Shuffle, "window": chosen.Window, "strata": chosen.Strata, "splits": shared}
	}
	return a.Print(out, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %s in %s, %s; batches of %d\n\n", l, cli.Count(d.Index.Samples(), "sample", "samples"),
			cli.Count(d.Index.Chunks(), "chunk", "chunks"), humanize.IBytes(uint64(d.Index.Bytes())), batch)
		printComparisons(w, rows, c)
		if len(shared) > 0 {
			fmt.Fprintf(w, "\nsplit by locality, shuffle %s:\n\n", describeOrder(chosen))
			printLocality(w, shared)
		}
	})
}

// chosenOrder returns the dataset's own order, and the one that the flags make of it.
func chosenOrder(def chunkindex.Defaults, p *planFlags) (own, chosen shuffle.Params) {
	own = shuffle.Params{Shuffle: def.Shuffle, Window: def.Window, Seed: def.Seed}
	chosen = own
	if p.opt.Shuffle != "" {
		chosen.Shuffle = p.opt.Shuffle
	}
	if p.opt.Window != 0 {
		chosen.Window = p.opt.Window
	}
	chosen.Strata = p.opt.Strata
	for _, params := range []*shuffle.Params{&own, &chosen} {
		if !address.UsesWindow(params.Shuffle) {
			params.Window = 0
		}
	}
	return own, chosen
}

func chunkLengths(x *chunkindex.Index) []uint64 {
	lengths := make([]uint64, x.Chunks())
	for i := range lengths {
		lengths[i] = uint64(x.Chunk(i).Length)
	}
	return lengths
}

// comparisons returns the rows of the table: of all shuffles or the one named, for the usual windows and the one given.
func comparisons(x *chunkindex.Index, own, chosen shuffle.Params, batch uint64, opt client.Options, flags *compareFlags) ([]comparison, error) {
	lengths, data := chunkLengths(x), indexed(x)
	var rows []comparison
	for _, c := range usualOrders(own, chosen, opt.Window) {
		if opt.Shuffle != "" && c.Shuffle != opt.Shuffle {
			continue
		}
		plan, err := shuffle.NewPlan(c, x.First())
		if err != nil {
			return nil, fmt.Errorf("plan %s: %w", c.Shuffle, err)
		}
		requests := simulate.CountRequests(plan, data, batch, flags.cache, datapath.DefaultPartSize)
		row := comparison{
			Shuffle: c.Shuffle, Window: c.Window, Strata: c.Strata, Memory: shuffle.Memory(c, lengths),
			variances: newVariances(plan.BatchVariance(batch)), Reads: requests.Cold, Default: c == own,
		}
		if flags.cache > 0 && requests.Known {
			row.LaterReads = &requests.Later
		}
		if flags.price > 0 {
			row.Cost, row.LaterCost = flags.cost(&row.Reads), flags.cost(row.LaterReads)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// usualOrders lists the orders to compare, with a given window among the usual ones, each with the seed of the dataset's own.
func usualOrders(own, chosen shuffle.Params, given uint64) []shuffle.Params {
	windows := []uint64{16, 32, 64, 128, 256}
	if given != 0 && !slices.Contains(windows, given) {
		windows = append(windows, given)
		slices.Sort(windows)
	}
	all := []shuffle.Params{{Shuffle: shuffle.None, Seed: own.Seed}}
	for _, name := range []string{shuffle.Window, shuffle.Slot} {
		for _, w := range windows {
			all = append(all, shuffle.Params{Shuffle: name, Window: w, Seed: own.Seed})
		}
	}
	all = append(all, shuffle.Params{Shuffle: shuffle.Full, Seed: own.Seed})
	for _, more := range []shuffle.Params{own, chosen} {
		if !slices.Contains(all, more) {
			all = append(all, more)
		}
	}
	return all
}

// cost returns what requests cost.
func (c *compareFlags) cost(requests *uint64) *float64 {
	if requests == nil {
		return nil
	}
	x := float64(*requests) * c.price / 1e6
	return &x
}

// localityRows returns what locality does for every number of ranks and of homes asked for.
func localityRows(plan *shuffle.Plan, batch uint64, c *compareFlags) []localityRow {
	var rows []localityRow
	for _, ranks := range c.worldSizes {
		homes := c.homes
		if len(homes) == 0 {
			homes = []int{ranks}
		}
		for _, h := range homes {
			row := localityRow{WorldSize: uint64(ranks), Homes: uint64(h)}
			if err := plan.CheckSplit(row.WorldSize, row.Homes); err != nil {
				row.Fault = err.Error()
			} else {
				batching := shuffle.Batching{Samples: plan.Samples(), BatchSize: batch, Tail: shuffle.Short}
				v, known := plan.RankVariance(batching, row.WorldSize, row.Homes)
				row.Moved, row.variances, row.worst = plan.Moved(batching, row.WorldSize, row.Homes), newVariances(v, known), v.Worst()
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func printComparisons(w io.Writer, rows []comparison, c *compareFlags) {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprint(t, "shuffle\twindow\tmemory\tvariance by chunk\tof 10 classes\tof 100\trequests an epoch\t")
	if c.cache > 0 {
		fmt.Fprintf(t, "later, cache of %s\t", humanize.IBytes(uint64(c.cache)))
	}
	if c.price > 0 {
		fmt.Fprint(t, "cost\t")
		if c.cache > 0 {
			fmt.Fprint(t, "later\t")
		}
	}
	fmt.Fprintln(t)
	for _, r := range rows {
		window := blank(r.Window)
		if r.Strata > 0 {
			window += fmt.Sprintf(" in %d strata", r.Strata)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t", r.Shuffle, window, humanize.IBytes(r.Memory),
			variance(r.Variance), variance(r.Variance10), variance(r.Variance100), humanize.Comma(int64(r.Reads)))
		if c.cache > 0 {
			later := "-"
			if r.LaterReads != nil {
				later = humanize.Comma(int64(*r.LaterReads))
			}
			fmt.Fprintf(t, "%s\t", later)
		}
		if c.price > 0 {
			fmt.Fprintf(t, "%s\t", money(r.Cost))
			if c.cache > 0 {
				fmt.Fprintf(t, "%s\t", money(r.LaterCost))
			}
		}
		fmt.Fprintln(t, mark(r.Default))
	}
	t.Flush()
}

func printLocality(w io.Writer, rows []localityRow) {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "ranks\thomes\tmoved\ta rank's variance by chunk\tof 10 classes\tof 100\t")
	for _, r := range rows {
		moved := "nothing"
		switch {
		case r.Fault != "":
			fmt.Fprintf(t, "%d\t%d\t-\t-\t-\t-\t%s\n", r.WorldSize, r.Homes, r.Fault)
			continue
		case r.Moved > 0:
			moved = fmt.Sprintf("%.2g %%", 100*r.Moved)
		}
		fmt.Fprintf(t, "%d\t%d\t%s\t%s\t%s\t%s\n", r.WorldSize, r.Homes, moved, variance(r.Variance), variance(r.Variance10), variance(r.Variance100))
	}
	t.Flush()
}

func blank(n uint64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func variance(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *v)
}

// money writes an amount to three digits, in the unit that the price is in.
func money(x *float64) string {
	if x == nil {
		return "-"
	}
	decimals := 2
	for least := 1.0; *x > 0 && *x < least && decimals < 12; least /= 10 {
		decimals++
	}
	return strconv.FormatFloat(*x, 'f', decimals, 64)
}

func mark(def bool) string {
	if def {
		return "default"
	}
	return ""
}
