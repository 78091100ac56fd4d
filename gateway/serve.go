package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/admission"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/gateway/body"
	"github.com/millrace-data/millrace/gateway/catalog"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/internal/objstore"
)

// dataset is a dataset that is served, and where its bytes come from.
type dataset struct {
	*plans.Dataset
	gateway   *Gateway
	source    Source
	parts     []*dataset // the sources of a mixture
	origin    string     // of Dataset
	address   string     // of Dataset
	indexETag string
	close     func()           // nil: there is nothing to close
	places    admission.Places // to plan in, where the index is read from its store meanwhile
}

// Key names a generation of a dataset.
func (d *dataset) Key() (name, generation string) { return d.Name(), d.Index.Generation() }

// Needs are the sources of a mixture.
func (d *dataset) Needs() []*dataset { return d.parts }

// ErrConfiguration says that datasets, mixtures and limits do not fit together.
var ErrConfiguration = errors.New("gateway configuration")

// Serve says what is served from now on: datasets, the default one first, and mixtures of them. What is not among them any more goes
// on for its readers for a while, and is closed when none has asked for a minute, after ten minutes at most. Requests that are
// under way end as they have begun. A dataset whose generation is open already, of the same origin, is closed at once; of another
// origin it takes the place of the one that is open. An error changes nothing, but for datasets that were new: these are the
// caller's to close.
func (g *Gateway) Serve(datasets []Dataset, mixtures []Mixture) error {
	g.serving.Lock()
	defer g.serving.Unlock()
	all, err := g.make(datasets)
	if err == nil {
		err = g.mixAll(&all, mixtures)
	}
	if err == nil {
		err = g.reservePlans(all)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfiguration, err)
	}
	g.datasets.Set(all)
	for _, given := range datasets {
		if kept, ok := g.datasets.Find(given.Name, given.Index.Generation()); ok && kept.source != given.Source && given.Close != nil {
			given.Close()
		}
	}
	return nil
}

// make makes what is served of datasets. What is open stands for what is given.
func (g *Gateway) make(datasets []Dataset) (all []*dataset, err error) {
	var faults []error
	if len(datasets) == 0 {
		faults = append(faults, errors.New("no dataset"))
	}
	for _, d := range datasets {
		switch {
		case !chunkindex.ValidName(d.Name):
			faults = append(faults, fmt.Errorf("dataset name %q: letters, digits, dot, dash and underscore only", d.Name))
		case named(all, d.Name) != nil:
			faults = append(faults, fmt.Errorf("dataset name %q is given twice", d.Name))
		case d.Index == nil || d.Source == nil:
			faults = append(faults, fmt.Errorf("dataset %q has no index or no source", d.Name))
		default:
			served, open := g.datasets.Find(d.Name, d.Index.Generation())
			if !open || served.origin != d.Origin {
				served = g.newDataset(d)
			}
			all = append(all, served)
		}
	}
	return all, errors.Join(faults...)
}

func (g *Gateway) newDataset(d Dataset) *dataset {
	p := plans.NewDataset(d.Name, d.Index, body.Forms(d.Index))
	p.Importance, p.Selection = d.Importance, d.Selection
	return &dataset{Dataset: p, gateway: g, source: d.Source, origin: d.Origin, address: d.Address, indexETag: indexETag(d.Index), close: d.Close, places: admission.NewPlaces(admission.PlanningPlaces())}
}

// Close ends a dataset that no request uses any more.
func (d *dataset) Close() {
	d.gateway.mixtures.forget(d)
	if err := d.gateway.plans.Forget(d.Dataset); err != nil {
		d.gateway.cfg.Log.Warn().Err(err).Str("dataset", d.Name()).Msg("close what plans were made with")
	}
	if d.close != nil {
		d.close()
	}
}

func named(all []*dataset, name string) *dataset {
	if i := slices.IndexFunc(all, func(d *dataset) bool { return d.Name() == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// opener opens generations that are not current; nil: none are opened.
func (g *Gateway) opener() catalog.Opener[*dataset] {
	if g.cfg.Open == nil {
		return nil
	}
	return func(ctx context.Context, name, generation string) (*dataset, error) {
		d, err := g.cfg.Open(ctx, name, generation)
		if err != nil {
			return nil, err
		}
		served := g.newDataset(d)
		g.serving.Lock()
		defer g.serving.Unlock()
		if err := g.reservePlans([]*dataset{served}); err != nil {
			served.Close()
			return nil, err
		}
		return served, nil
	}
}

// storeFails reports whether an error is one of a store that may be well again in a moment.
func storeFails(err error) bool {
	for _, passing := range []error{objstore.ErrDenied, objstore.ErrThrottled, objstore.ErrUnavailable, objstore.ErrTimeout} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// mixAll adds a dataset for each mixture of those in all.
func (g *Gateway) mixAll(all *[]*dataset, mixtures []Mixture) error {
	for _, m := range mixtures {
		d, err := g.mix(m, *all)
		if err != nil {
			return fmt.Errorf("mixture %q: %w", m.Name, err)
		}
		if open, ok := g.datasets.Find(d.Key()); ok && slices.Equal(open.parts, d.parts) {
			d = open
		}
		*all = append(*all, d)
	}
	return nil
}

// mix makes the dataset of a mixture.
func (g *Gateway) mix(m Mixture, all []*dataset) (*dataset, error) {
	switch {
	case !chunkindex.ValidName(m.Name):
		return nil, errors.New("a name has letters, digits, dot, dash and underscore only")
	case named(all, m.Name) != nil:
		return nil, errors.New("there is a dataset of this name")
	case g.cfg.Mix == nil:
		return nil, errors.New("nobody reads mixtures: Config.Mix is nil")
	}
	var sources []plans.Source
	var parts []*dataset
	for _, s := range m.Sources {
		d := named(all, s.Dataset)
		if d == nil {
			return nil, fmt.Errorf("source %q is no dataset that is served", s.Dataset)
		}
		sources = append(sources, sourceOf(d, s, m.PerBatch))
		parts = append(parts, d)
	}
	d, err := plans.NewMixture(m.Name, m.Samples, sources, body.Forms)
	if err != nil {
		return nil, err
	}
	return g.newMixture(d, parts), nil
}

// standard is the default dataset.
func (g *Gateway) standard() *dataset { return g.datasets.All()[0] }

// acquire finds the dataset of a request in a generation, the current one where none is named. The request has it until its end.
func (g *Gateway) acquire(x *exchange, name, generation string) error {
	if address.IsMixture(name) {
		return g.acquireMixture(x, name, generation)
	}
	if !address.IsDigest(generation) { // the decoder of the query reports it
		generation = ""
	}
	d, leave, err := g.datasets.Acquire(x.r.Context(), name, generation)
	if err != nil {
		return g.absent(name, generation, err)
	}
	x.holds(d, leave)
	return nil
}

// holds gives a request a dataset until its end, in the place of the one that it had.
func (x *exchange) holds(d *dataset, leave func()) {
	if x.leave != nil {
		x.leave()
	}
	x.dataset, x.leave = d, leave
}

// absent says why a generation of a dataset is not to be had.
func (g *Gateway) absent(name, generation string, err error) error {
	switch {
	case errors.Is(err, catalog.ErrUnknown):
		if d, ok := g.datasets.Current(name); ok {
			_, current := d.Key()
			return address.Refuse(address.NotFound, "generation %s of dataset %s is not served: the one that is, is %s", generation, name, current)
		}
		return notServed(name)
	case errors.Is(err, objstore.ErrNotFound):
		return &problem{
			Code: codeGenerationGone, Cause: err,
			Detail: fmt.Sprintf("generation %.12s of the dataset is not kept any more: begin a new job without generation=, or restore its index and shards", generation),
		}
	}
	return err
}

// generation is the one that a URL names, in the query or in a plan that is part of the path; "": none, or nothing that
// could be one.
func (x *exchange) generation() string {
	if generation := generationIn(x.r.URL.RawQuery); generation != "" {
		return generation
	}
	plan := chi.URLParam(x.r, "plan")
	if plain, err := url.PathUnescape(plan); err == nil && x.r.URL.RawPath != "" {
		plan = plain
	}
	return generationIn(plan)
}

// generationIn is the generation that a query names; "": none, or nothing that could be one. The decoder of the whole query
// reports its faults, and takes no parameter of a batch that is escaped.
func generationIn(query string) (generation string) {
	for part := range strings.SplitSeq(query, "&") {
		value, ok := strings.CutPrefix(part, "generation=")
		value = address.PlainGeneration(value)
		switch {
		case !ok:
		case generation != "" || !isGeneration(value):
			return ""
		default:
			generation = value
		}
	}
	return generation
}

// isGeneration reports whether a text could be the generation of a dataset, or those of a mixture's sources.
func isGeneration(text string) bool {
	for one := range strings.SplitSeq(text, ",") {
		if !address.IsDigest(one) {
			return false
		}
	}
	return true
}

// generationOf is the generation that the URL of a batch or an epoch names; "": none, or nothing that could be one.
func generationOf(text string) string {
	_, query, _ := strings.Cut(text, "?")
	return generationIn(query)
}

// acquireOf has a request that carries the URL of a batch or an epoch in its body go on in the generation that this URL names: a job
// reports the losses of the generation that it reads, whichever is current.
func (g *Gateway) acquireOf(x *exchange, text string) error {
	generation := generationOf(text)
	if generation == "" || generation == x.dataset.Index.Generation() {
		return nil
	}
	if err := g.acquire(x, x.dataset.Name(), generation); err != nil {
		return err
	}
	return x.dataset.CheckImportance()
}

// postReload reads again what is to be served, all of it or one dataset. Where something is wrong with it, what was served before still is.
func (g *Gateway) postReload(x *exchange) error {
	q := address.ParseQuery(x.r.URL.RawQuery, "dataset")
	only := ""
	if q.Given("dataset") {
		only = q.Text("dataset")
	}
	if err := q.Err(); err != nil {
		return err
	}
	if g.cfg.Reload == nil {
		return &problem{Code: codeNotFound, Detail: "this gateway has nothing to read again"}
	}
	changes, err := g.cfg.Reload(x.r.Context(), only)
	if err != nil {
		return &problem{
			Code: codeReloadRefused, Cause: err, // who may reload may read which file and which dataset it is
			Detail: auth.Conceal(strings.ReplaceAll(err.Error(), "\n", "; ")) + "; what was served before still is",
		}
	}
	return sendJSON(x, map[string]any{"datasets": changes})
}
