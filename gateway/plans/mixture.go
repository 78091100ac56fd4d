package plans

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// Source is one source of a mixture: a dataset, and its share by weight, or in samples of each batch.
type Source struct {
	Dataset  *Dataset
	Weight   uint64
	PerBatch uint64 // of all sources of a mixture, or 0 of all
}

// mixture is what a dataset that is a mixture has beside its index.
type mixture struct {
	samples uint64
	sources []ingredient
}

// ingredient is a source with its numbers for the order.
type ingredient struct {
	*Dataset
	shuffle.Ingredient
}

// NewMixture returns the dataset of a mixture. samples is the number of positions of an epoch; 0 means as many as the
// sources have samples. forms returns the forms of an index.
func NewMixture(name string, samples uint64, sources []Source, forms func(Index) []address.Form) (*Dataset, error) {
	m := &mixture{samples: samples}
	for _, s := range sources {
		if s.Dataset.mixture != nil {
			return nil, fmt.Errorf("source %q is a mixture itself", s.Dataset.Name())
		}
		i := shuffle.Ingredient{Samples: s.Dataset.Index.Samples(), Weight: s.Weight, PerBatch: s.PerBatch}
		m.sources = append(m.sources, ingredient{s.Dataset, i})
	}
	order, err := m.order(0)
	if err != nil {
		return nil, err
	}
	x, err := newMixedIndex(m, order)
	if err != nil {
		return nil, err
	}
	d := NewDataset(name, x, forms(x))
	d.mixture = m
	return d, nil
}

// order is the mixture's, for a seed.
func (m *mixture) order(seed uint64) (*shuffle.Mixture, error) {
	from := make([]shuffle.Ingredient, len(m.sources))
	for i, s := range m.sources {
		from[i] = s.Ingredient
	}
	return shuffle.NewMixture(seed, m.samples, from)
}

// generation names the sources of a mixture and their shares: equal generations, equal batches.
func (m *mixture) generation() string {
	h := sha256.New()
	fmt.Fprintf(h, "millrace mixture\n%d\n", m.samples)
	for _, s := range m.sources {
		fmt.Fprintf(h, "%s %d %d\n", s.Index.Generation(), s.Weight, s.PerBatch)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// complete is Plans.Complete for a mixture.
func (m *mixture) complete(a *address.Plan) error {
	order, err := m.order(a.Params.Seed)
	if err != nil {
		return err
	}
	a.Samples = order.Samples()
	q := &address.Query{}
	if b := order.BatchSize(); b > 0 && a.BatchSize != b {
		q.Fail("batch_size", "must be %d: the mixture fixes how many samples of each source a batch has", b)
	}
	if a.Split != shuffle.Contiguous {
		q.Fail("split", "locality has no meaning for a mixture: its chunks have no homes in common")
	}
	for _, of := range [][2]string{{"importance", a.Params.Importance}, {"subset", a.Params.Subset}, {"quarantine", a.Quarantine}} {
		if of[1] != "" {
			q.Fail(of[0], "has no meaning for a mixture: it is of one dataset")
		}
	}
	return q.Err()
}

// checkEpoch refuses an epoch whose positions cannot be counted.
func checkEpoch(m *shuffle.Mixture, epoch uint64) error {
	if epoch < m.Epochs() {
		return nil
	}
	return address.RefuseParameter("epoch", "must be below %d: a mixture counts positions up to 2^63", m.Epochs())
}

// sourceParams are the parameters of a source's own order.
func sourceParams(m *shuffle.Mixture, params shuffle.Params, i int) shuffle.Params {
	params.Seed = m.SourceSeed(i)
	return params
}

// SourceInfo describes a source of a mixture.
type SourceInfo struct {
	Dataset    string `json:"dataset"`
	Generation string `json:"generation"`
	Samples    uint64 `json:"samples"`
	Weight     uint64 `json:"weight,omitempty"`
	PerBatch   uint64 `json:"per_batch,omitempty"`
}

// Sources describes the sources of a mixture; nil for a dataset that is no mixture.
func (d *Dataset) Sources() []SourceInfo {
	if d.mixture == nil {
		return nil
	}
	out := make([]SourceInfo, len(d.mixture.sources))
	for i, s := range d.mixture.sources {
		out[i] = SourceInfo{Dataset: s.Name(), Generation: s.Index.Generation(), Samples: s.Samples, PerBatch: s.PerBatch}
		if s.PerBatch == 0 {
			out[i].Weight = s.Weight
		}
	}
	return out
}

// SourceOf returns the name of the source that a chunk of a mixture belongs to; "" for a dataset that is no mixture.
func (d *Dataset) SourceOf(chunk int) string {
	if d.mixture == nil {
		return ""
	}
	i, _ := d.Index.(*mixedIndex).at(chunk)
	return d.mixture.sources[i].Name()
}

// describeMixed describes the order of an epoch of a mixture.
func (p *Plans) describeMixed(ctx context.Context, d *Dataset, a address.Plan, info *EpochInfo) error {
	m, err := d.mixture.order(a.Params.Seed)
	if err != nil {
		return err
	}
	if err := checkEpoch(m, info.Epoch); err != nil {
		return err
	}
	digests := make([]string, 0, m.Sources())
	for i, s := range d.mixture.sources {
		params := sourceParams(m, a.Params, i)
		plan, leave, err := p.cache.plan(ctx, s.Dataset, params, choice{})
		if err != nil {
			return err
		}
		digests = append(digests, plan.OrderDigest())
		info.Reads += plan.Reads()
		leave()
		info.Memory += shuffle.Memory(params, s.chunkLengths())
	}
	info.OrderDigest, info.Sources = m.OrderDigest(digests), d.Sources()
	return nil
}
