package plans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// completeCosts replaces the name of a cost table in balance by the digests of the tables of all
// sources, and checks the number of digests.
func (d *Dataset) completeCosts(ctx context.Context, a *address.Plan) error {
	tables, ok := a.CostTables()
	if !ok {
		return nil
	}
	sources := d.costSources()
	digests := strings.Split(tables, ",")
	if address.IsDigest(digests[0]) {
		if len(digests) != len(sources) {
			return address.RefuseParameter("balance", "got %d cost tables, want %d: one for each source, in order", len(digests), len(sources))
		}
		return nil
	}
	var missing []string
	digests = digests[:0]
	for _, s := range sources {
		digest, err := s.costsNamed(ctx, tables)
		switch {
		case errors.Is(err, selection.ErrNotFound):
			missing = append(missing, s.Name())
		case err != nil:
			return err
		}
		digests = append(digests, digest)
	}
	if len(missing) > 0 {
		return address.RefuseParameter("balance", "no cost table %s of the present generation of %s: create it with millrace cost", tables, strings.Join(slices.Compact(missing), ", "))
	}
	a.SetCostTables(digests)
	return nil
}

// costSources returns the datasets that have the costs: the sources of a mixture, or the dataset
// itself.
func (d *Dataset) costSources() []*Dataset {
	if d.mixture == nil {
		return []*Dataset{d}
	}
	out := make([]*Dataset, len(d.mixture.sources))
	for i, s := range d.mixture.sources {
		out[i] = s.Dataset
	}
	return out
}

// costsNamed returns the digest of the cost table with a name, which never changes.
func (d *Dataset) costsNamed(ctx context.Context, name string) (string, error) {
	if digest, ok := d.costNames.Load(name); ok {
		return digest.(string), nil
	}
	if d.Selection == nil {
		return "", selection.ErrNotFound
	}
	digest, err := d.Selection.CostsNamed(ctx, d.Index.Generation(), name)
	if err == nil {
		d.costNames.Store(name, digest)
	}
	return digest, err
}

// costsBytes returns the memory of an open cost table, whose costs are in a file.
func costsBytes(key) int64 { return 4 << 10 }

// openCosts opens the cost table of a key.
func openCosts(ctx context.Context, k key) (*selection.Costs, error) {
	d := k.dataset
	err := selection.ErrNotFound
	var c *selection.Costs
	if d.Selection != nil {
		c, err = d.Selection.OpenCosts(ctx, k.name, d.Index.Generation(), d.Index.First())
	}
	if errors.Is(err, selection.ErrNotFound) && !errors.Is(err, selection.ErrCorrupt) {
		return nil, address.RefuseParameter("balance", "dataset %s has no cost table %.12s: create it with millrace cost", d.Name(), k.name)
	}
	return c, d.selectionRefusal(err)
}

// bytesByCost is the memory per sample to compute a value from costs, in addition to the value.
const bytesByCost = 48

// byCosts acquires a value that compute returns for the samples at some positions and their costs.
// With original, quarantines of the sources of a mixture do not apply.
func (p *Plans) byCosts(
	ctx context.Context, held *Holds, k key, b address.Batch, at shuffle.Share, original bool, compute func(n Numbers, costs []uint32) prepared,
) (prepared, error) {
	b.At = []uint64{} // prefetches nothing
	return p.prepared.acquireBy(ctx, held, k, func(ctx context.Context, k key) (v prepared, err error) {
		var held Holds
		defer held.Drop()
		if err := held.Add(p.memory.Reserve(ctx, bytesByCost*int64(at.Count))); err != nil {
			return v, err
		}
		r, err := p.undivided(ctx, &held, k.dataset, b)
		if err != nil {
			return v, err
		}
		r.original = original
		n, err := r.numbersAt(ctx, nil, Positions(at))
		if err != nil {
			return v, err
		}
		costs, err := p.costsOf(ctx, k.dataset, b.Cost(), n.Numbers)
		if err != nil {
			return v, err
		}
		return compute(n, costs), nil
	})
}

// costsOf returns the cost of each sample, by the name of costs in a plan.
func (p *Plans) costsOf(ctx context.Context, d *Dataset, cost string, samples []uint64) ([]uint32, error) {
	tables := strings.Split(cost, ",")
	if !address.IsDigest(tables[0]) {
		return Lengths(ctx, d.Index, samples)
	}
	if d.mixture == nil {
		return p.tableCosts(ctx, d, cost, samples)
	}
	x, out := d.Index.(*mixtureIndex), make([]uint32, len(samples))
	places, own := make([][]int, len(x.parts)), make([][]uint64, len(x.parts))
	for i, n := range samples {
		part := x.partOf(n)
		places[part], own[part] = append(places[part], i), append(own[part], n-x.samples[part])
	}
	for part, source := range d.costSources() {
		costs, err := p.tableCosts(ctx, source, tables[part], own[part])
		if err != nil {
			return nil, err
		}
		for i, place := range places[part] {
			out[place] = costs[i]
		}
	}
	return out, nil
}

// tableCosts returns the costs of samples in a cost table.
func (p *Plans) tableCosts(ctx context.Context, d *Dataset, digest string, samples []uint64) ([]uint32, error) {
	if len(samples) == 0 {
		return nil, nil
	}
	var held Holds
	defer held.Drop()
	c, err := p.costs.acquire(ctx, &held, key{dataset: d, name: digest})
	if err != nil {
		return nil, err
	}
	return c.Append(ctx, make([]uint32, 0, len(samples)), samples)
}

// Lengths returns the length of each sample in bytes. It reads the table of each chunk once.
func Lengths(ctx context.Context, x Index, samples []uint64) ([]uint32, error) {
	if x.InPart() {
		if err := x.Fetch(ctx, samples); err != nil {
			return nil, fmt.Errorf("sample tables: %w", err)
		}
	}
	out, byChunk := make([]uint32, len(samples)), make([]uint64, len(samples)) // of the latter, each is a chunk and a place
	for i, n := range samples {
		byChunk[i] = uint64(x.ChunkOf(n))<<32 | uint64(i)
	}
	slices.Sort(byChunk)
	for len(byChunk) > 0 {
		chunk := byChunk[0] >> 32
		t, err := x.Table(ctx, int(chunk))
		if err != nil {
			return nil, fmt.Errorf("sample table of chunk %d: %w", chunk, err)
		}
		for ; len(byChunk) > 0 && byChunk[0]>>32 == chunk; byChunk = byChunk[1:] {
			place := uint32(byChunk[0])
			out[place] = t.Length(int(samples[place] - x.First()[chunk]))
		}
	}
	return out, nil
}
