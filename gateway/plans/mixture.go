package plans

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// Source is a source of a mixture: a dataset with its share, given as a weight or as samples per
// batch.
type Source struct {
	Dataset  *Dataset
	Weight   uint64
	PerBatch uint64 // set for all sources of a mixture, or for none

	// Subset is the part of the dataset to mix. Mixtures of whole datasets leave it empty.
	Subset     string // canonical form
	Samples    uint64 // samples of the subset
	Quarantine string // canonical form
}

// mixture has the data of a mixture in addition to its index.
type mixture struct {
	samples uint64
	sources []ingredient
	later   []shuffle.Segment // segments of the schedule after the first
	written bool              // defined by a URL instead of the configuration
}

// ingredient is a source with its numbers for the order.
type ingredient struct {
	*Dataset
	shuffle.Ingredient
	subset, quarantine string
}

// NewMixture returns the dataset of a mixture. samples is the number of positions of an epoch; 0
// means the total samples of the sources. later has the segments of its schedule after the first.
// forms returns the forms available for an index.
func NewMixture(name string, samples uint64, sources []Source, later []shuffle.Segment, forms func(Index) []address.Form) (*Dataset, error) {
	m := &mixture{samples: samples, later: later, written: address.IsMixture(name)}
	for _, s := range sources {
		if s.Dataset.mixture != nil {
			return nil, fmt.Errorf("source %q is a mixture", s.Dataset.Name())
		}
		i := shuffle.Ingredient{Samples: s.Dataset.Index.Samples(), Weight: s.Weight, PerBatch: s.PerBatch}
		if s.Subset != "" {
			i.Samples = s.Samples
		}
		m.sources = append(m.sources, ingredient{s.Dataset, i, s.Subset, s.Quarantine})
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

// order returns the order of the mixture for a seed.
func (m *mixture) order(seed uint64) (*shuffle.Mixture, error) {
	from := make([]shuffle.Ingredient, len(m.sources))
	for i, s := range m.sources {
		from[i] = s.Ingredient
	}
	return shuffle.NewMixture(seed, m.samples, from, m.later...)
}

// generation identifies the sources of a mixture and their shares: equal generations have equal
// batches. For a mixture in a URL it is the list of the sources' generations, because the dataset
// name contains the shares.
func (m *mixture) generation() string {
	if m.written {
		all := make([]string, len(m.sources))
		for i, s := range m.sources {
			all[i] = s.Index.Generation()
		}
		return strings.Join(all, ",")
	}
	h := sha256.New()
	fmt.Fprintf(h, "millrace mixture\n%d\n", m.samples)
	for _, s := range m.sources {
		fmt.Fprintf(h, "%s %d %d\n", s.Index.Generation(), s.Weight, s.PerBatch)
	}
	generation := hex.EncodeToString(h.Sum(nil))
	if len(m.later) > 0 { // a state has the first half, so that the schedule can change
		fmt.Fprintf(h, "%v\n", m.later)
		generation = generation[:32] + hex.EncodeToString(h.Sum(nil)[:16])
	}
	return generation
}

// complete completes the plan of a mixture, for Plans.Complete.
func (m *mixture) complete(a *address.Plan) error {
	order, err := m.order(a.Params.Seed)
	if err != nil {
		return err
	}
	a.Samples = order.Samples()
	q := &address.Query{}
	if b := order.BatchSize(); b > 0 && a.BatchSize != b {
		q.Fail("batch_size", "must be %d: the mixture sets the number of samples of each source in a batch; omit batch_size, or use shares with this sum", b)
	}
	if order.BatchSize() > 0 && a.Skip > 0 {
		q.Fail("skip", "must be 0: a batch of this mixture has fixed counts of its sources")
	}
	name, size := "batch_size", a.BatchSize
	if a.Bucket > 1 {
		name, size = "bucket", a.Bucket*a.BatchSize
	}
	for i, g := range m.later {
		if at := g.First % a.Samples; at%size != 0 {
			q.Fail(name, "segment %d of the schedule begins at position %d of epoch %d: all must begin at multiples of bucket * batch_size, %d", i+1, at, g.First/a.Samples, size)
			break
		}
	}
	if a.Sharing != shuffle.Contiguous {
		q.Fail("share", "locality is not possible for a mixture, because its sources have different homes")
	}
	for _, of := range [][2]string{{"importance", a.Params.Importance}, {"subset", a.Params.Subset}, {"quarantine", a.Quarantine}} {
		if of[1] != "" {
			q.Fail(of[0], "is not possible for a mixture, because it belongs to one dataset")
		}
	}
	return q.Err()
}

// checkEpoch rejects epochs whose positions exceed 2^63.
func checkEpoch(m *shuffle.Mixture, epoch uint64) error {
	if epoch < m.Epochs() {
		return nil
	}
	return address.RefuseParameter("epoch", "must be below %d: positions of a mixture are limited to 2^63", m.Epochs())
}

// sourcePlan returns the plan of a source's own order.
func (m *mixture) sourcePlan(order *shuffle.Mixture, params shuffle.Params, i int) address.Plan {
	params.Seed, params.Subset = order.SourceSeed(i), m.sources[i].subset
	return address.Plan{Params: params, Quarantine: m.sources[i].quarantine}
}

// SourceInfo describes a source of a mixture.
type SourceInfo struct {
	Dataset    string `json:"dataset"`
	Generation string `json:"generation"`
	Samples    uint64 `json:"samples"`
	Weight     uint64 `json:"weight,omitempty"`
	PerBatch   uint64 `json:"per_batch,omitempty"`
	Subset     string `json:"subset,omitempty"`
	Quarantine string `json:"quarantine,omitempty"`
}

// Sources describes the sources of a mixture, or returns nil for other datasets.
func (d *Dataset) Sources() []SourceInfo {
	if d.mixture == nil {
		return nil
	}
	out := make([]SourceInfo, len(d.mixture.sources))
	for i, s := range d.mixture.sources {
		out[i] = SourceInfo{Dataset: s.Name(), Generation: s.Index.Generation(), Samples: s.Samples, PerBatch: s.PerBatch, Subset: s.subset, Quarantine: s.quarantine}
		if s.PerBatch == 0 {
			out[i].Weight = s.Weight
		}
	}
	return out
}

// SourceOf returns the name of a chunk's source in a mixture, or "" for other datasets.
func (d *Dataset) SourceOf(chunk int) string {
	if d.mixture == nil {
		return ""
	}
	i, _ := d.Index.(*mixtureIndex).at(chunk)
	return d.mixture.sources[i].Name()
}

// describeMixed describes the order of an epoch of a mixture.
func (p *Plans) describeMixed(ctx context.Context, held *Holds, d *Dataset, a address.Plan, info *EpochInfo) error {
	m, err := d.mixture.order(a.Params.Seed)
	if err != nil {
		return err
	}
	if err := checkEpoch(m, info.Epoch); err != nil {
		return err
	}
	var orders, digests []string // of the sources: with and without their quarantines
	for i, s := range d.mixture.sources {
		own := d.mixture.sourcePlan(m, a.Params, i)
		plan, c, err := p.plan(ctx, held, s.Dataset, own)
		if err != nil {
			return err
		}
		orders, digests = append(orders, c.orderDigest(plan)), append(digests, plan.OrderDigest())
		info.Reads += plan.Reads()
		info.Memory += shuffle.Memory(own.Params, s.chunkLengths())
	}
	info.OrderDigest, info.Sources, info.Memory = bucketDigest(m.OrderDigest(orders), a), d.Sources(), withBlock(info.Memory, d, a)
	for _, g := range d.mixture.later {
		info.Schedule = append(info.Schedule, append([]uint64{g.First}, g.Weights...))
	}
	for _, at := range m.OrderDigests(digests) {
		info.PlanDigests = append(info.PlanDigests, PlanDigest{at.Position, bucketDigest(at.Digest, a)})
	}
	return nil
}
