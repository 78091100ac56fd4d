package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

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

// dataset is a served dataset with the source of its bytes.
type dataset struct {
	*plans.Dataset
	gateway   *Gateway
	source    Source
	parts     []*dataset // sources of a mixture
	origin    string     // Dataset.Origin
	address   string     // Dataset.Address
	indexETag string
	close     func()           // nil: nothing to close
	places    admission.Places // planning slots, if the index is read from its store while planning
}

// Key returns the dataset's name and generation.
func (d *dataset) Key() (name, generation string) { return d.Name(), d.Index.Generation() }

// Needs returns the sources of a mixture.
func (d *dataset) Needs() []*dataset { return d.parts }

// ErrConfiguration is returned for a combination of datasets, mixtures and limits that is not
// possible.
var ErrConfiguration = errors.New("gateway configuration")

// served is what Serve was given, as far as the catalog does not have it.
type served struct {
	standard string           // name of the default dataset
	faults   map[string]error // reasons by name, of the datasets and mixtures that are not open
}

// Serve replaces the served datasets, the default one first, and the mixtures of them.
//
// Requests in progress finish with the generation they started with. A dataset that is no longer
// listed stays available to its readers. It is closed after a minute without requests, and at the
// latest after ten minutes.
//
// If a given dataset has the generation and origin of an open one, Serve keeps the open one and
// closes the given one immediately. If only the origin differs, the given one replaces the open
// one. After an error the served datasets are unchanged, and the caller must close the new ones.
func (g *Gateway) Serve(datasets []Dataset, mixtures []Mixture) error {
	g.serving.Lock()
	defer g.serving.Unlock()
	faults := map[string]error{}
	all, err := g.make(datasets, faults)
	if err == nil {
		err = g.mixAll(&all, mixtures, faults)
	}
	if err == nil {
		err = g.reservePlans(all)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfiguration, err)
	}
	g.served.Store(&served{datasets[0].Name, faults})
	g.datasets.Set(all)
	for _, given := range datasets {
		if given.Fault != nil {
			continue
		}
		if kept, ok := g.datasets.Find(given.Name, given.Index.Generation()); ok && kept.source != given.Source && given.Close != nil {
			given.Close()
		}
	}
	return nil
}

// make returns the datasets to serve, and adds the reasons of those that are not open to closed. It
// reuses open datasets with the same generation and origin.
func (g *Gateway) make(datasets []Dataset, closed map[string]error) (all []*dataset, err error) {
	var faults []error
	for _, d := range datasets {
		switch {
		case !chunkindex.ValidName(d.Name):
			faults = append(faults, fmt.Errorf("dataset name %q: use only letters, digits, dot, dash and underscore", d.Name))
		case named(all, d.Name) != nil:
			faults = append(faults, fmt.Errorf("duplicate dataset name %q", d.Name))
		case d.Fault != nil:
			closed[d.Name] = d.Fault
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
	if len(all) == 0 {
		faults = append(faults, errors.New("no dataset"))
	}
	return all, errors.Join(faults...)
}

func (g *Gateway) newDataset(d Dataset) *dataset {
	p := plans.NewDataset(d.Name, d.Index, body.Forms(d.Index))
	p.Importance, p.Selection = d.Importance, d.Selection
	return &dataset{Dataset: p, gateway: g, source: d.Source, origin: d.Origin, address: d.Address, indexETag: indexETag(d.Index), close: d.Close, places: admission.NewPlaces(admission.PlanningPlaces())}
}

// Close closes a dataset that no request uses any more.
func (d *dataset) Close() {
	d.gateway.mixtures.forget(d)
	if err := d.gateway.plans.Forget(d.Dataset); err != nil {
		d.gateway.cfg.Log.Warn().Err(err).Str("dataset", d.Name()).Msg("closing plans failed")
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

// opener returns the function that opens generations that are not current, or nil if that is not
// supported.
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

// StoreFails reports whether err is a store error that may be temporary.
func StoreFails(err error) bool {
	for _, passing := range []error{objstore.ErrDenied, objstore.ErrThrottled, objstore.ErrUnavailable, objstore.ErrTimeout} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// mixAll appends the dataset of each mixture of the datasets in all. A mixture with a closed source is
// closed too.
func (g *Gateway) mixAll(all *[]*dataset, mixtures []Mixture, closed map[string]error) error {
	for _, m := range mixtures {
		if i := slices.IndexFunc(m.Sources, func(s address.Source) bool { return closed[s.Dataset] != nil }); i >= 0 {
			closed[m.Name] = closed[m.Sources[i].Dataset]
			continue
		}
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

// mix builds the dataset of a mixture.
func (g *Gateway) mix(m Mixture, all []*dataset) (*dataset, error) {
	switch {
	case !chunkindex.ValidName(m.Name):
		return nil, errors.New("use only letters, digits, dot, dash and underscore")
	case named(all, m.Name) != nil:
		return nil, errors.New("a dataset already has this name")
	case g.cfg.Mix == nil:
		return nil, errors.New("mixtures are not supported: Config.Mix is nil")
	}
	var sources []plans.Source
	var parts []*dataset
	for _, s := range m.Sources {
		d := named(all, s.Dataset)
		if d == nil {
			return nil, fmt.Errorf("source %q is not served", s.Dataset)
		}
		sources = append(sources, plans.NewSource(d.Dataset, s, m.PerBatch))
		parts = append(parts, d)
	}
	d, err := plans.NewMixture(m.Name, m.Samples, sources, m.Segments, body.Forms)
	if err != nil {
		return nil, err
	}
	return g.newMixture(d, parts), nil
}

// standard returns the name of the default dataset.
func (g *Gateway) standard() string { return g.served.Load().standard }

// acquire acquires the dataset of a request in a generation, by default the current one. The
// request holds the dataset until it ends.
func (g *Gateway) acquire(x *exchange, name, generation string) error {
	if address.IsMixture(name) {
		return g.acquireMixture(x, name, generation)
	}
	if !address.IsGeneration(generation) { // the query decoder reports the fault
		generation = ""
	}
	d, leave, err := g.datasets.Acquire(x.r.Context(), name, generation)
	if err != nil {
		return g.absent(name, generation, err)
	}
	x.dataset, x.held = d, append(x.held, leave)
	return nil
}

// absent returns the error for a generation of a dataset that is not available.
func (g *Gateway) absent(name, generation string, err error) error {
	switch {
	case errors.Is(err, catalog.ErrUnknown):
		if d, ok := g.datasets.Current(name); ok {
			_, current := d.Key()
			return address.Refuse(address.NotFound, "generation %s of dataset %s is not served; the current one is %s", generation, name, current)
		}
		if fault := g.served.Load().faults[name]; fault != nil {
			return &problem{
				Code: codeStoreUnavailable, RetryAfter: 10 * time.Second, Cause: fault,
				Detail: fmt.Sprintf("dataset %s is not open yet: %s; the gateway tries again", name, problemOf(fault).Detail),
			}
		}
		return notServed(name)
	case errors.Is(err, objstore.ErrNotFound):
		detail := fmt.Sprintf("generation %.12s is no longer available: start a new job without generation=, or restore its index and shards", generation)
		if d, ok := g.datasets.Current(name); ok && address.ShortGeneration(generation) == address.ShortGeneration(d.Index.Generation()) {
			detail = fmt.Sprintf("the schedule of mixture %s has changed: resume from a state, which has the first 32 digits of the generation", name)
		}
		return &problem{Code: codeGenerationGone, Cause: err, Detail: detail}
	}
	return err
}

// generation returns the generation in a URL's query, or in a plan in its path, or "" if there is
// no valid one.
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

// generationIn returns the generation in a query, or "" if there is no valid one. The query decoder
// reports faults, and rejects escapes in the parameters of a batch.
func generationIn(query string) (generation string) {
	for part := range strings.SplitSeq(query, "&") {
		value, ok := strings.CutPrefix(part, "generation=")
		value = address.PlainCommas(value)
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

// isGeneration reports whether a text has the form of a generation or its first digits, or of the
// list of generations of a mixture's sources.
func isGeneration(text string) bool {
	if address.IsGeneration(text) {
		return true
	}
	for one := range strings.SplitSeq(text, ",") {
		if !address.IsDigest(one) {
			return false
		}
	}
	return true
}

// generationOf returns the generation in the URL of a batch or epoch, or "" if there is no valid
// one.
func generationOf(text string) string {
	_, query, _ := strings.Cut(text, "?")
	return generationIn(query)
}

// acquireOf switches a request to the generation in a URL from its body. A job reports losses of
// the generation that it reads, which may not be the current one.
func (g *Gateway) acquireOf(x *exchange, text string) error {
	generation := generationOf(text)
	if generation == "" || x.dataset.Address.Names(generation) {
		return nil
	}
	if err := g.acquire(x, x.dataset.Name(), generation); err != nil {
		return err
	}
	return x.dataset.CheckImportance()
}

// postReload reloads the configuration, for all datasets or one. After an error the gateway keeps
// serving the previous datasets.
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
		return &problem{Code: codeNotFound, Detail: "this gateway does not support reload"}
	}
	changes, err := g.cfg.Reload(x.r.Context(), only)
	if err != nil {
		return &problem{
			Code: codeReloadRefused, Cause: err, // a caller with the right to reload may see names of files and datasets
			Detail: auth.Conceal(strings.ReplaceAll(err.Error(), "\n", "; ")) + "; the previous datasets are still served",
		}
	}
	return sendJSON(x, map[string]any{"datasets": changes})
}
