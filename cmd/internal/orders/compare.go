package orders

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/datapath/simulate"
	"github.com/millrace-data/millrace/shuffle"
)

// Question selects the orders to compare, and describes the job. Zero values mean the dataset's own
// defaults.
type Question struct {
	BatchSize  uint64
	Shuffle    string         // compare only orders of this kind; "": all kinds
	Window     uint64         // one window in addition to the usual ones
	Order      shuffle.Params // the chosen order, described by Locality and warnings
	WorldSizes []int          // numbers of ranks for Locality
	Homes      []int          // homes for each number of ranks; none: as many homes as ranks
	Gateways   []int          // gateway counts that replace one gateway per home, for Takeovers
	Caches     []int64        // sizes of caches, for LaterReads
	PartSize   int64          // maximum bytes of one store read
}

// Comparison is the table of orders.
type Comparison struct {
	BatchSize  uint64    `json:"batch_size"`
	Bytes      int64     `json:"bytes"`
	CacheSizes []int64   `json:"cache_sizes,omitempty"`
	Chunks     int       `json:"chunks"`
	Costs      *Costs    `json:"costs,omitempty"`
	Generation string    `json:"generation"`
	Locality   *Locality `json:"locality,omitempty"`
	Orders     []Row     `json:"orders"`
	Samples    uint64    `json:"samples"`
	Work       *Work     `json:"work,omitempty"`

	warnings []string
}

// Row is one order.
type Row struct {
	shuffle.Params
	Memory uint64 `json:"memory_bytes"`
	Variances
	Reads      uint64    `json:"reads_per_epoch"`
	LaterReads []*uint64 `json:"reads_per_later_epoch,omitempty"` // for each cache size; null: depends on timing
	Default    bool      `json:"default"`
}

// Variances measure how unevenly batches mix sorted classes. They are null if there is nothing to
// compare.
type Variances struct {
	Variance    *float64 `json:"batch_variance"`
	Variance10  *float64 `json:"batch_variance_10"`
	Variance100 *float64 `json:"batch_variance_100"`
}

func newVariances(v shuffle.BatchVariance, known bool) Variances {
	if !known {
		return Variances{}
	}
	digits := func(x float64) *float64 {
		x = round(x)
		return &x
	}
	return Variances{digits(v.Chunk), digits(v.Ten), digits(v.Hundred)}
}

// Locality is the effect of sharing by locality on the chosen order.
type Locality struct {
	shuffle.Params
	Shares    []Sharing  `json:"shares"`
	Takeovers []Takeover `json:"takeovers,omitempty"`
}

// Sharing describes how a number of ranks with a number of homes shares batches by locality.
type Sharing struct {
	WorldSize uint64  `json:"world_size"`
	Homes     uint64  `json:"homes"`
	Moved     float64 `json:"moved"` // share of the samples that move
	Variances         // variances of a rank's own share
	Fault     string  `json:"fault,omitempty"` // why the ranks cannot share by these homes
	worst     float64
}

// Compare returns the table of orders of a dataset.
func Compare(x *chunkindex.Index, q Question) (Comparison, error) {
	def := x.Defaults()
	q.BatchSize = cmp.Or(q.BatchSize, def.BatchSize)
	c := Comparison{
		BatchSize: q.BatchSize, Bytes: x.Bytes(), CacheSizes: q.Caches, Chunks: x.Chunks(), Generation: x.Generation(), Samples: x.Samples(),
	}
	var err error
	if c.Orders, err = q.rows(x); err != nil {
		return Comparison{}, err
	}
	plan, err := shuffle.NewPlan(q.Order, x.First())
	if err != nil {
		return Comparison{}, fmt.Errorf("plan %s: %w", q.Order.Shuffle, err)
	}
	shares := q.shares(plan)
	if len(shares) > 0 {
		c.Locality = &Locality{Params: q.Order, Shares: shares, Takeovers: q.takeovers(plan, x, shares)}
	}
	for _, line := range []string{Uneven(plan, q.BatchSize, x), unevenRanks(shares), LastRow(q.Order, c.Samples, q.BatchSize)} {
		if line != "" {
			c.warnings = append(c.warnings, line)
		}
	}
	return c, nil
}

// Warnings returns a line for each property of the chosen order that a user may not expect.
func (c *Comparison) Warnings() []string { return c.warnings }

// rows returns the rows of the table: all shuffles or the one named, with the usual windows and the
// given one.
func (q Question) rows(x *chunkindex.Index) ([]Row, error) {
	lengths, data, def := chunkLengths(x), Model(x), x.Defaults()
	own := shuffle.Params{Shuffle: def.Shuffle, Seed: def.Seed}
	if shuffle.UsesWindow(own.Shuffle) {
		own.Window = def.Window
	}
	var rows []Row
	for _, o := range usual(own, q.Order, q.Window) {
		if q.Shuffle != "" && o.Shuffle != q.Shuffle {
			continue
		}
		plan, err := shuffle.NewPlan(o, x.First())
		if err != nil {
			return nil, fmt.Errorf("plan %s: %w", o.Shuffle, err)
		}
		row := Row{
			Params: o, Memory: shuffle.Memory(o, lengths), Variances: newVariances(plan.BatchVariance(q.BatchSize)),
			Reads: simulate.CountRequests(plan, data, q.BatchSize, slices.Max(append([]int64{0}, q.Caches...)), q.PartSize).Cold, Default: o == own,
		}
		for _, size := range q.Caches {
			var reads *uint64
			if n := simulate.CountRequests(plan, data, q.BatchSize, size, q.PartSize); n.Known {
				reads = &n.Later
			}
			row.LaterReads = append(row.LaterReads, reads)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// usual returns the orders to compare: those with the usual windows and the given window, each with
// the seed of the dataset's own order.
func usual(own, chosen shuffle.Params, given uint64) []shuffle.Params {
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

// shares returns the effect of locality for each number of ranks and homes.
func (q Question) shares(plan *shuffle.Plan) []Sharing {
	var rows []Sharing
	for _, ranks := range q.WorldSizes {
		homes := q.Homes
		if len(homes) == 0 {
			homes = []int{ranks}
		}
		for _, h := range homes {
			row := Sharing{WorldSize: uint64(ranks), Homes: uint64(h)}
			if err := plan.CheckSharing(row.WorldSize, row.Homes); err != nil {
				row.Fault = err.Error()
			} else {
				batching := shuffle.Batching{Samples: plan.Samples(), BatchSize: q.BatchSize, Tail: shuffle.Short}
				v, known := plan.RankVariance(batching, row.WorldSize, row.Homes)
				row.Moved, row.Variances, row.worst = plan.Moved(batching, row.WorldSize, row.Homes), newVariances(v, known), v.Worst()
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func chunkLengths(x *chunkindex.Index) []uint64 {
	lengths := make([]uint64, x.Chunks())
	for i := range lengths {
		lengths[i] = uint64(x.Chunk(i).Length)
	}
	return lengths
}

// Model copies the data for simulate from an index. The index may be closed afterwards.
func Model(x *chunkindex.Index) *simulate.Data {
	digests := make([][32]byte, x.Chunks())
	d := &simulate.Data{First: x.First(), Chunks: make([]simulate.Chunk, x.Chunks()), Digest: func(i int) [32]byte { return digests[i] }}
	for i := range d.Chunks {
		e, c := x.Extents(i)[0], x.Chunk(i)
		digests[i] = c.Digest
		d.Chunks[i] = simulate.Chunk{Shard: e.Shard, Offset: e.Offset, Length: c.Length}
		if c.Codec != codec.None {
			d.Chunks[i].Stored = c.Stored
		}
		if n := x.ExtentCount(i); n > 1 {
			d.Chunks[i].Extents = int64(n)
		}
	}
	return d
}
