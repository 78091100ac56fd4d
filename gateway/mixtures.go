package gateway

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/admission"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/gateway/body"
	"github.com/millrace-data/millrace/gateway/catalog"
	"github.com/millrace-data/millrace/gateway/plans"
)

// maxCachedMixtures is the maximum number of cached mixtures defined by URLs. A job reads one or
// two of them batch after batch. Building one takes time and memory per chunk of its sources.
const maxCachedMixtures = 8

// mixtureCache caches the mixtures of URLs while their sources are open. It only saves time: a
// mixture can be rebuilt from its name.
type mixtureCache struct {
	mu      sync.Mutex      // guards entries
	entries []cachedMixture // most recently used first
}

// cachedMixture is a mixture with its reserved memory.
type cachedMixture struct {
	*dataset
	memory plans.Reservation
}

// drop releases the memory of a mixture, and of its divided batches and blocks.
func (m cachedMixture) drop() {
	m.memory.Release()
	_ = m.gateway.plans.Forget(m.Dataset) // there is nothing to close
}

// mixtureBytes returns the memory of a mixture in addition to its sources: the start of the samples
// of each chunk, and the longest schedule.
func mixtureBytes(parts []*dataset) (n int64) {
	const perMixture, perSource, perChunk = 16 << 10, 4 << 10, 8
	for _, d := range parts {
		n += perSource + perChunk*int64(d.Index.Chunks())
	}
	return perMixture + n
}

// find returns the cached mixture with this name and these sources, or nil.
func (w *mixtureCache) find(name string, parts []*dataset) *dataset {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, d := range w.entries {
		if d.Name() == name && slices.Equal(d.parts, parts) {
			w.entries = slices.Insert(slices.Delete(w.entries, i, i+1), 0, d)
			return d.dataset
		}
	}
	return nil
}

// keep adds a mixture and evicts the least recently used one beyond maxCachedMixtures.
func (w *mixtureCache) keep(d cachedMixture) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entries = slices.Insert(w.entries, 0, d)
	if len(w.entries) > maxCachedMixtures {
		w.entries[maxCachedMixtures].drop()
		w.entries = slices.Delete(w.entries, maxCachedMixtures, len(w.entries))
	}
}

// forget evicts the mixtures that contain a dataset.
func (w *mixtureCache) forget(d *dataset) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entries = slices.DeleteFunc(w.entries, func(m cachedMixture) bool {
		of := slices.Contains(m.parts, d)
		if of {
			m.drop()
		}
		return of
	})
}

// plainName removes URL escapes from the definition of a mixture. Other names are returned
// unchanged, since dataset names need no escapes.
func plainName(text string) string {
	if plain, err := url.PathUnescape(text); err == nil && address.IsMixture(plain) {
		return plain
	}
	return text
}

// mayMixture reports whether a principal has a right, and read access, on every source of a mixture
// in a URL.
func (g *Gateway) mayMixture(p auth.Principal, right auth.Right, name string) bool {
	m, err := address.ParseMixture(name)
	return err == nil && !slices.ContainsFunc(m.Sources, func(s address.Source) bool {
		return !g.may(p, auth.Read, s.Dataset) || !g.may(p, right, s.Dataset)
	})
}

// isServed reports whether a dataset is served, or for a mixture, whether all its sources are.
func (g *Gateway) isServed(name string) bool {
	if !address.IsMixture(name) {
		_, ok := g.datasets.Current(name)
		return ok
	}
	m, err := address.ParseMixture(name)
	return err == nil && !slices.ContainsFunc(m.Sources, func(s address.Source) bool { return !g.isServed(s.Dataset) })
}

// acquireMixture finds or builds the mixture that a URL defines, with the source generations in the
// URL or the current ones. The request holds all sources until it ends.
func (g *Gateway) acquireMixture(x *exchange, name, generation string) (err error) {
	m, err := address.ParseMixture(name)
	if err != nil {
		return err
	}
	generations := make([]string, len(m.Sources))
	switch {
	case generation == "":
	case len(m.Sources) > 1 && address.ShortGeneration(generation) == generation:
		if generations, err = g.findGenerations(m, generation); err != nil {
			return err
		}
	default:
		if generations = strings.Split(generation, ","); len(generations) != len(m.Sources) {
			return address.RefuseParameter("generation", "must list the generations of the mixture's %d sources in order, separated by commas", len(m.Sources))
		}
	}
	var held plans.Holds
	defer held.Drop()
	var parts []*dataset
	for i, s := range m.Sources {
		d, end, err := g.datasets.Acquire(x.r.Context(), s.Dataset, generations[i])
		if err != nil {
			return g.absent(s.Dataset, generations[i], err)
		}
		held, parts = append(held, end), append(parts, d)
		if d.parts != nil {
			return address.RefuseParameter("dataset", "source %s is a mixture itself: list its sources instead", s.Dataset)
		}
	}
	d := g.mixtures.find(m.Name(), parts)
	if d == nil {
		room, err := memory{g.cfg.Budget}.Hold(x.r.Context(), mixtureBytes(parts))
		if err != nil {
			return err
		}
		if d, err = g.buildMixture(x, m, parts); err != nil {
			room.Release()
			return err
		}
		g.mixtures.keep(cachedMixture{d, room})
	}
	x.dataset, x.held = d, append(x.held, held.Keep())
	return nil
}

// maxGenerationLists bounds the lists of generations that are compared with the digest of one.
const maxGenerationLists = 4096

// findGenerations returns the generations of a mixture's sources whose list has the given digest. It
// considers only open generations, current ones first.
func (g *Gateway) findGenerations(m address.Mixture, digest string) ([]string, error) {
	open, at, list := make([][]*dataset, len(m.Sources)), make([]int, len(m.Sources)), make([]string, len(m.Sources))
	for i, s := range m.Sources {
		if open[i] = g.datasets.Generations(s.Dataset); len(open[i]) == 0 {
			return nil, g.absent(s.Dataset, "", catalog.ErrUnknown)
		}
	}
	for range maxGenerationLists {
		for i, n := range at {
			list[i] = open[i][n].Index.Generation()
		}
		if address.ShortGeneration(strings.Join(list, ",")) == digest {
			return list, nil
		}
		i := 0
		for ; i < len(at) && at[i]+1 == len(open[i]); i++ { // the next list, as a counter counts
			at[i] = 0
		}
		if i == len(at) {
			break
		}
		at[i]++
	}
	return nil, &problem{
		Code:   codeGenerationGone,
		Detail: fmt.Sprintf("no open generations of the mixture's sources have the digest %s: list the generations instead, separated by commas", digest),
	}
}

// buildMixture builds the dataset of a mixture in a URL.
func (g *Gateway) buildMixture(x *exchange, m address.Mixture, parts []*dataset) (*dataset, error) {
	if g.cfg.Mix == nil {
		return nil, address.Refuse(address.NotFound, "this gateway does not support mixtures")
	}
	own := make([]*plans.Dataset, len(parts))
	for i, d := range parts {
		own[i] = d.Dataset
	}
	d, err := g.plans.Mix(x.r.Context(), m, own, body.Forms)
	if err != nil {
		return nil, err
	}
	return g.newMixture(d, parts), nil
}

// newMixture returns the served dataset of a mixture.
func (g *Gateway) newMixture(d *plans.Dataset, parts []*dataset) *dataset {
	read := make([]Dataset, len(parts))
	for i, p := range parts {
		read[i] = Dataset{Name: p.Name(), Index: p.Index, Source: p.source, Importance: p.Importance, Selection: p.Selection}
	}
	return &dataset{Dataset: d, gateway: g, source: g.cfg.Mix(read), indexETag: indexETag(d.Index), parts: parts, places: admission.NewPlaces(admission.PlanningPlaces())}
}
