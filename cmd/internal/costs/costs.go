// Package costs computes the costs of a dataset's samples, for cost tables.
package costs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/internal/words"
)

// readAtOnce is the number of chunks to read concurrently.
const readAtOnce = 8

// Costs has the cost of every sample in stored order.
type Costs struct {
	All     []uint32
	Missing uint64 // number of samples with the cost of --missing
}

// Compute returns the costs that a spec defines. It reads each chunk once, or none if the index has
// all that the spec needs. A sample without a cost gets missing; if missing is nil, that is an error.
func Compute(ctx context.Context, d location.Dataset, s Spec, missing *uint64, progress func(chunkindex.Progress)) (Costs, error) {
	c := computer{index: d.Index, spec: s, missing: missing, costs: make([]uint32, d.Index.Samples())}
	if err := c.describe(); err != nil {
		return Costs{}, err
	}
	err := c.read(ctx, d, progress)
	if first := c.example.Load(); err == nil && first != nil && c.absent.Load() == d.Index.Samples() {
		err = fmt.Errorf("no sample has a cost: %s", first.text)
	}
	return Costs{c.costs, c.absent.Load()}, err
}

type computer struct {
	index   *chunkindex.Index
	spec    Spec
	like    sample // properties that all samples share
	missing *uint64
	costs   []uint32
	absent  atomic.Uint64               // samples without a cost
	example atomic.Pointer[absentError] // the reason of one
}

func (c *computer) read(ctx context.Context, d location.Dataset, progress func(chunkindex.Progress)) error {
	if c.spec.reads(c.like.fields) {
		ctx, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		bad := func(r chunkindex.BadRange) {
			if r.Cause != chunkindex.Rewritten {
				stop(fmt.Errorf("%w: %s", chunkindex.ErrCorrupt, chunkindex.Explain(words.Printable(r.Shard), r.Cause, d.Loc.Address())))
			}
		}
		return chunkindex.Scan(ctx, d.Index, d.Store, d.Loc.Prefix, readAtOnce, progress, bad, c.chunk)
	}
	for chunk := range d.Index.Chunks() {
		if err := c.chunk(ctx, chunk, nil); err != nil {
			return err
		}
	}
	return nil
}

// describe sets the properties that the samples share. If the format declares all fields, a term of
// another field is an error.
func (c *computer) describe() error {
	c.like.fields = map[string]format.Field{}
	open := c.index.OtherParts() || c.index.Fields() == nil
	var names []string
	for _, f := range c.index.Fields() {
		c.like.fields[f.Name] = f
		names = append(names, f.Name)
		open = open || f.Encoding == format.JSON
	}
	if of, ok := c.index.Framing().(framing.CSVConstants); ok {
		c.like.comma = rune(of.Delimiter[0])
		c.like.header, _ = c.like.record([]byte(of.Header)) // io.EOF: no header
		for i := range of.Width {                           // without a header, a column's name is its number
			c.like.header = append(c.like.header, strconv.Itoa(i))
		}
	}
	for _, t := range c.spec {
		if _, known := c.like.fields[t.field]; !open && !known && (t.use == stored || !slices.Contains(c.like.header, t.field)) {
			return fmt.Errorf("no field %q: the fields are %s", t.field, words.Printable(strings.Join(append(names, c.like.header...), ", ")))
		}
	}
	return nil
}

// chunk computes the costs of a chunk with these bytes.
func (c *computer) chunk(ctx context.Context, chunk int, b []byte) error {
	parts, err := c.index.Parts(ctx, chunk)
	if err != nil {
		return err
	}
	places, err := c.index.Table(ctx, chunk)
	if err != nil {
		return err
	}
	first, x := c.index.First()[chunk], c.like
	for i := range places.Len() {
		if x.parts = parts.Append(x.parts[:0], i); b != nil {
			x.bytes = b[places.Offset(i):][:places.Length(i)]
		}
		cost, err := c.spec.of(&x)
		if absent := absentIn(err); absent != nil && c.missing != nil {
			c.absent.Add(1)
			c.example.Store(absent)
			cost, err = *c.missing, nil
		}
		if err != nil {
			return failed(ctx, c.index, first+uint64(i), err)
		}
		c.costs[first+uint64(i)] = uint32(cost)
	}
	return nil
}

// failed names the sample of an error.
func failed(ctx context.Context, x *chunkindex.Index, sample uint64, err error) error {
	key, other := x.Key(ctx, sample)
	if other != nil {
		return other
	}
	return fmt.Errorf("sample %s: %w", words.Printable(key), err)
}

// Read returns the costs of named samples, whose reasons are numbers. A sample that is not named gets
// missing; if missing is nil, that is an error.
func Read(ctx context.Context, x *chunkindex.Index, named []selection.NamedSample, missing *uint64) (Costs, error) {
	given := map[string]uint32{} // by key, or by key, tab and shard
	for _, n := range named {
		key := strings.TrimSuffix(n.Key+"\t"+n.Shard, "\t")
		cost, err := parseWhole(strings.TrimSpace(n.Reason))
		if _, has := given[key]; has && err == nil {
			err = errors.New("it has two costs")
		}
		switch {
		case n.Reason == "":
			return Costs{}, fmt.Errorf("line %s: must have a key, a tab and a number", words.Printable(n.Key))
		case err == nil:
			given[key] = uint32(cost)
		case absentIn(err) == nil || missing == nil:
			return Costs{}, fmt.Errorf("sample %s: %w", words.Printable(key), err)
		}
	}
	if len(given) == 0 {
		return Costs{}, errors.New("no line has a cost")
	}
	found, err := selection.FindSamples(ctx, x, slices.Collect(maps.Keys(given)))
	if err != nil {
		return Costs{}, err
	}
	c := Costs{make([]uint32, x.Samples()), x.Samples() - uint64(len(found))}
	known := make([]bool, x.Samples())
	for key, n := range found {
		if known[n] {
			return Costs{}, fmt.Errorf("sample %s: it has two costs", words.Printable(key))
		}
		c.All[n], known[n] = given[key], true
	}
	for n, known := range known {
		switch {
		case known:
		case missing == nil:
			return Costs{}, failed(ctx, x, uint64(n), absent("no line has its key"))
		default:
			c.All[n] = uint32(*missing)
		}
	}
	return c, nil
}

// Summary describes costs. Median and P99 are costs of samples.
type Summary struct {
	Samples int     `json:"samples"`
	Missing uint64  `json:"missing"` // samples with the cost of --missing
	Minimum uint32  `json:"minimum"`
	Mean    float64 `json:"mean"`
	Median  uint32  `json:"median"`
	P99     uint32  `json:"p99"`
	Maximum uint32  `json:"maximum"`
}

// Summary sorts the costs.
func (c Costs) Summary() Summary {
	n, sum := len(c.All), 0.0
	if n == 0 {
		return Summary{}
	}
	slices.Sort(c.All)
	for _, cost := range c.All {
		sum += float64(cost)
	}
	return Summary{n, c.Missing, c.All[0], sum / float64(n), c.All[(n-1)/2], c.All[(99*n-1)/100], c.All[n-1]}
}
