package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"

	"github.com/millrace-data/millrace/shuffle"
)

// Mixture is a dataset whose batches are taken from several others.
type Mixture struct {
	Name    string
	Sources []MixtureSource
	Samples uint64 // positions of an epoch; 0: as many as the sources have samples
}

// MixtureSource is one source of a mixture: a dataset that is served, and its share by weight, or in samples of each batch.
type MixtureSource struct {
	Dataset  string
	Weight   uint64
	PerBatch uint64 // of all sources of a mixture, or 0 of all
}

// mixture is what a dataset that is a mixture has beside its index and its source.
type mixture struct {
	samples uint64
	sources []mixedSource
}

type mixedSource struct {
	*dataset
	shuffle.Ingredient
}

// addMixtures makes a dataset of each mixture. The sources are there already.
func (g *Gateway) addMixtures(all []Mixture) error {
	for _, m := range all {
		d, err := g.mix(m)
		if err != nil {
			return fmt.Errorf("gateway configuration: mixture %q: %w", m.Name, err)
		}
		g.datasets = append(g.datasets, d)
		g.byName[m.Name] = d
	}
	return nil
}

// mix makes the dataset of a mixture.
func (g *Gateway) mix(m Mixture) (*dataset, error) {
	switch {
	case !validName.MatchString(m.Name):
		return nil, fmt.Errorf("a name has letters, digits, dot, dash and underscore only")
	case g.byName[m.Name] != nil:
		return nil, fmt.Errorf("there is a dataset of this name")
	}
	mixed := &mixture{samples: m.Samples}
	var sources []Dataset
	var ingredients []shuffle.Ingredient
	for _, s := range m.Sources {
		d := g.byName[s.Dataset]
		if d == nil || d.mixture != nil {
			return nil, fmt.Errorf("source %q is no dataset that is served", s.Dataset)
		}
		i := shuffle.Ingredient{Samples: d.Index.Samples(), Weight: s.Weight, PerBatch: s.PerBatch}
		mixed.sources, ingredients = append(mixed.sources, mixedSource{d, i}), append(ingredients, i)
		sources = append(sources, d.Dataset)
	}
	if g.cfg.Mix == nil {
		return nil, fmt.Errorf("nobody reads mixtures: Config.Mix is nil")
	}
	order, err := shuffle.NewMixture(0, m.Samples, ingredients)
	if err != nil {
		return nil, err
	}
	index, err := newMixedIndex(mixed, order)
	if err != nil {
		return nil, err
	}
	d := Dataset{Name: m.Name, Index: index, Source: g.cfg.Mix(sources)}
	return &dataset{Dataset: d, mixture: mixed, forms: formsOf(d), names: newPartNames(index)}, nil
}

// order is the mixture's, for a seed.
func (m *mixture) order(seed uint64) (*shuffle.Mixture, error) {
	from := make([]shuffle.Ingredient, len(m.sources))
	for i, s := range m.sources {
		from[i] = s.Ingredient
	}
	return shuffle.NewMixture(seed, m.samples, from)
}

// generation names what a mixture is made of, and in which shares: equal generations, equal batches.
func (m *mixture) generation() string {
	h := sha256.New()
	fmt.Fprintf(h, "millrace mixture\n%d\n", m.samples)
	for _, s := range m.sources {
		fmt.Fprintf(h, "%s %d %d\n", s.Index.Generation(), s.Weight, s.PerBatch)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// completeMixture is complete for a plan of a mixture.
func (p *planRequest) completeMixture() error {
	m, err := p.dataset.mixture.order(p.params.Seed)
	if err != nil {
		return err
	}
	p.samples = m.Samples()
	q := &query{}
	if b := m.BatchSize(); b > 0 && p.batchSize != b {
		q.fail("batch_size", "must be %d: the mixture fixes how many samples of each source a batch has", b)
	}
	if p.split != shuffle.Contiguous {
		q.fail("split", "locality has no meaning for a mixture: its chunks have no homes in common")
	}
	for _, of := range [][2]string{{"importance", p.params.Importance}, {"subset", p.params.Subset}, {"quarantine", p.quarantine}} {
		if of[1] != "" {
			q.fail(of[0], "has no meaning for a mixture: it is of one dataset")
		}
	}
	return q.err()
}

// checkEpoch refuses an epoch whose positions cannot be counted.
func (b batchRequest) checkEpoch(m *shuffle.Mixture) error {
	if b.epoch < m.Epochs() {
		return nil
	}
	q := &query{}
	q.fail("epoch", "must be below %d: a mixture counts positions up to 2^63", m.Epochs())
	return q.err()
}

// refuseMixture is the 400 for what is asked of one dataset.
func (d *dataset) refuseMixture(what string) error {
	if d.mixture == nil {
		return nil
	}
	return &problem{Status: http.StatusBadRequest, Code: codeInvalid, Detail: what + " is of one dataset: ask the mixture's sources"}
}

// sourceParams are the parameters of a source's own order.
func sourceParams(m *shuffle.Mixture, params shuffle.Params, i int) shuffle.Params {
	params.Seed = m.SourceSeed(i)
	return params
}

// sourceInfo describes a source of a mixture.
type sourceInfo struct {
	Dataset    string `json:"dataset"`
	Generation string `json:"generation"`
	Samples    uint64 `json:"samples"`
	Weight     uint64 `json:"weight,omitempty"`
	PerBatch   uint64 `json:"per_batch,omitempty"`
}

// info describes the sources; nil for what is no mixture.
func (m *mixture) info() []sourceInfo {
	if m == nil {
		return nil
	}
	out := make([]sourceInfo, len(m.sources))
	for i, s := range m.sources {
		out[i] = sourceInfo{Dataset: s.Name, Generation: s.Index.Generation(), Samples: s.Samples, PerBatch: s.PerBatch}
		if s.PerBatch == 0 {
			out[i].Weight = s.Weight
		}
	}
	return out
}

// sourceOf returns the name of the source that a chunk of the mixture is of; "" for what is no mixture.
func (d *dataset) sourceOf(chunk int) string {
	if d.mixture == nil {
		return ""
	}
	i, _ := d.Index.(*mixedIndex).at(chunk)
	return d.mixture.sources[i].Name
}

// mixedInfo is what an epoch of a mixture has to say of its order.
func (g *Gateway) mixedInfo(ctx context.Context, p planRequest, info *epochInfo) error {
	m, err := p.dataset.mixture.order(p.params.Seed)
	if err != nil {
		return err
	}
	if err := (batchRequest{planRequest: p, epoch: info.Epoch}).checkEpoch(m); err != nil {
		return err
	}
	digests := make([]string, 0, m.Sources())
	for i, s := range p.dataset.mixture.sources {
		params := sourceParams(m, p.params, i)
		plan, leave, err := g.plans.plan(ctx, s.dataset, params, choice{})
		if err != nil {
			return err
		}
		digests = append(digests, plan.OrderDigest())
		info.Reads += plan.Reads()
		leave()
		lengths := make([]uint64, s.Index.Chunks())
		for k := range lengths {
			lengths[k] = uint64(s.Index.Chunk(k).Length)
		}
		info.Memory += shuffle.Memory(params, lengths)
	}
	info.OrderDigest, info.Sources = m.OrderDigest(digests), p.dataset.mixture.info()
	return nil
}
