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
	resident int64 // of the index, and the table of its chunks in memory
	decoding int64 // to decode any of its chunks in
	chunk    int64 // the largest
	body     int64 // of a batch of average samples, or the largest sample
	window   int64 // what the default order wants in memory at one time
}

// serving is what the dataset takes while it is read: a chunk that arrives while another is in use, and a body; and
// the chunks that are being written to disk.
func (n memoryNeed) serving(chunks int64) int64 { return chunks*n.chunk + n.body }

func needs(x *chunkindex.Index) memoryNeed {
	table, decoding := datapath.Takes(x)
	n := memoryNeed{resident: x.Resident() + table, decoding: decoding, chunk: x.MaxChunk(), body: x.MaxSample()}
	d := x.Defaults()
	if s := x.Samples(); s > 0 {
		mean := float64(x.Bytes()) / float64(s)
		n.body = max(n.body, int64(mean*float64(min(d.BatchSize, s))))
	}
	if d.Shuffle != shuffle.Full { // which wants everything, and does without
		lengths := make([]uint64, x.Chunks())
		for i := range lengths {
			lengths[i] = uint64(x.Chunk(i).Length)
		}
		n.window = int64(shuffle.Memory(shuffle.Params{Shuffle: d.Shuffle, Window: d.Window}, lengths))
	}
	return n
}

// fits refuses a budget that could never serve what is open in a division and what is to be opened beside it, and warns of what will
// be read more than once an epoch. It reserves what the new ones hold for as long as they are open. Plans, of whichever dataset,
// are in the main budget. The caller holds fitting.
func (k *keeper) fits(ctx context.Context, v *division, fresh []*generation) error {
	if len(fresh) == 0 {
		return nil
	}
	var resident, decoding int64
	var hungry memoryNeed // the one that takes most while it is read
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
		decoding = max(decoding, n.decoding) // which all of them share
		if n.serving(chunks) > hungry.serving(chunks) {
			hungry, name = n, g.at.Loc.Name
		}
	}
	list := v.diskList(indexes)
	resident += list
	planned := k.planned(v, fresh)
	if least := leastBudget(resident+decoding+hungry.serving(chunks), planned); least > v.budget.Total() {
		return &SettingError{v.setting(), fmt.Errorf("%s is too small: must be at least %d MiB: the largest chunk of %s takes %s%s",
			humanize.IBytes(uint64(v.budget.Total())), (least+mebibyte-1)/mebibyte, name, humanize.IBytes(uint64(hungry.chunk)), k.olderOpen(v))}
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
			k.node.log.Warn().Str("dataset", fresh[i].at.Loc.Name).Int64("cache_size", v.budget.Total()).Int64("wanted", want).Int64("window_memory", n.window).
				Msg("the cache is smaller than the dataset's order wants: chunks are read more than once an epoch, or sample by sample; enlarge it, ask for a smaller window, or, with --disk-cache, run 'millrace warm' first")
		}
	}
	return v.fitDisk(fresh)
}

// olderOpen says how many older generations take memory of a division, and when they no longer do; "": there is none.
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
	return fmt.Sprintf("; older generations that are open: %d, and each closes a minute after its last use", n)
}

// reserve takes the memory of new generations, and what the list of the files on disk may take more than before. Whoever reads
// meanwhile has memory too, so it waits for some.
func (v *division) reserve(ctx context.Context, list int64, fresh []*generation, asked []memoryNeed) (err error) {
	if list > v.listed {
		if _, err := v.budget.Reserve(ctx, list-v.listed); err != nil { // for as long as the budget lives
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

// planned lists the indexes whose plans are in a division's budget: all of them in the main one, none in another.
func (k *keeper) planned(v *division, fresh []*generation) (all []*chunkindex.Index) {
	if v != k.node.main() {
		return nil
	}
	for _, g := range append(k.all(), fresh...) {
		all = append(all, g.index)
	}
	return all
}

// leastBudget adds the memory of the plans, which grows with the budget that they are part of.
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
