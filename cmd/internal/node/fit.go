package node

import (
	"context"
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/shuffle"
)

const mebibyte = 1 << 20

// memoryNeed is the memory that a dataset needs.
type memoryNeed struct {
	resident int64 // for the index and its chunk table
	decoding int64 // buffer to decode any chunk
	chunk    int64 // largest chunk
	body     int64 // for a body: a batch of average samples, or the largest sample if that is larger
	window   int64 // memory for the window of the default order
}

// serving returns the memory for reads of the dataset: some chunks that are in use, being
// transferred or being written to disk, and one body.
func (n memoryNeed) serving(chunks int64) int64 { return chunks*n.chunk + n.body }

func needs(x *chunkindex.Index) memoryNeed {
	table, decoding := datapath.Takes(x)
	n := memoryNeed{resident: x.Resident() + table, decoding: decoding, chunk: x.MaxChunk(), body: x.MaxSample()}
	d := x.Defaults()
	if s := x.Samples(); s > 0 {
		mean := float64(x.Bytes()) / float64(s)
		n.body = max(n.body, int64(mean*float64(min(d.BatchSize, s))))
	}
	if d.Shuffle != shuffle.Full { // a full shuffle has no window
		lengths := make([]uint64, x.Chunks())
		for i := range lengths {
			lengths[i] = uint64(x.Chunk(i).Length)
		}
		n.window = int64(shuffle.Memory(shuffle.Params{Shuffle: d.Shuffle, Window: d.Window}, lengths))
	}
	return n
}

// fits returns an error if the budget of a division is too small for its open generations and the
// fresh ones. It logs a warning for datasets whose chunks will be read more than once per epoch. It
// reserves the memory that fresh generations hold while they are open. The plans of all datasets
// are in the main budget. The caller holds fitting.
func (k *keeper) fits(ctx context.Context, v *division, fresh []*generation) error {
	if len(fresh) == 0 {
		return nil
	}
	var resident, decoding int64
	var hungry memoryNeed // the dataset with the largest serving
	name := "none"
	chunks := int64(2)
	if v.dir != "" {
		chunks += diskWriters
	}
	all := append(of(v, k.all()), fresh...)
	indexes, asked := make([]*chunkindex.Index, len(all)), make([]memoryNeed, len(all))
	for i, g := range all {
		n := needs(g.index)
		indexes[i], asked[i] = g.index, n
		resident += n.resident
		decoding = max(decoding, n.decoding) // all datasets share one buffer
		if n.serving(chunks) > hungry.serving(chunks) {
			hungry, name = n, g.at.Loc.Name
		}
	}
	list := v.diskList(indexes)
	resident += list
	planned := k.planned(v, fresh)
	if least := leastBudget(resident+decoding+hungry.serving(chunks), planned); least > v.budget.Total() {
		return settingError(v.setting(), fmt.Errorf("%s is too small: must be at least %d MiB: the largest chunk of %s takes %s%s",
			humanize.IBytes(uint64(v.budget.Total())), (least+mebibyte-1)/mebibyte, name, humanize.IBytes(uint64(hungry.chunk)), k.olderOpen(v)))
	}
	asked = asked[len(all)-len(fresh):]
	if err := v.reserve(ctx, list, fresh, asked); err != nil {
		return err
	}
	reserved := resident + decoding
	if len(planned) > 0 {
		reserved += gateway.PlanMemory(v.budget.Total(), planned)
	}
	for i, n := range asked {
		if want := max(datapath.BudgetFor(reserved+n.window), reserved+n.window+n.body); want > v.budget.Total() {
			k.node.log.Warn().Str("dataset", fresh[i].at.Loc.Name).Str("setting", v.setting()).Int64("size", v.budget.Total()).Int64("wanted", want).Int64("window_memory", n.window).
				Msg("memory is smaller than the dataset's order requires: chunks are read more than once per epoch, or sample by sample; increase --" + v.setting() + ", use a smaller window, or, with --disk-cache, run 'millrace warm' first")
		}
	}
	return v.fitDisk(fresh)
}

// olderOpen returns a note about the older generations that use memory of a division, "" if there are none.
func (k *keeper) olderOpen(v *division) string {
	n := 0
	for _, g := range of(v, k.all()) {
		if k.meant(g.at.Loc.Name) != g {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; older generations open: %d, each closes a minute after its last use", n)
}

// reserve reserves the memory of new generations, and the growth of the list of chunks on disk. It waits for memory that
// concurrent requests hold.
func (v *division) reserve(ctx context.Context, list int64, fresh []*generation, asked []memoryNeed) (err error) {
	if list > v.listed {
		if _, err := v.budget.Reserve(ctx, list-v.listed); err != nil { // never released
			return fmt.Errorf("memory for the list of chunks on disk: %w", err)
		}
		v.listed = list
	}
	for i, g := range fresh {
		if g.memory, err = v.budget.Reserve(ctx, asked[i].resident); err != nil {
			return fmt.Errorf("memory for the index of %s: %w", g.at.Loc.Name, err)
		}
	}
	return nil
}

// planned returns the indexes whose plans are in a division's budget: all indexes for the main
// division, none for any other.
func (k *keeper) planned(v *division, fresh []*generation) (all []*chunkindex.Index) {
	if v != k.node.main() {
		return nil
	}
	for _, g := range append(k.all(), fresh...) {
		all = append(all, g.index)
	}
	return all
}

// leastBudget returns rest plus the memory of the plans, which grows with the budget that contains
// them.
func leastBudget(rest int64, indexes []*chunkindex.Index) int64 {
	if len(indexes) == 0 {
		return rest
	}
	for total := rest; ; {
		more := rest + gateway.PlanMemory(total, indexes)
		if more == total {
			return total
		}
		total = more
	}
}
