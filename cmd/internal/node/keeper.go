package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/cmd/internal/datasets"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
)

// keeper opens the datasets of a node, and closes those that the gateway no longer uses:
//
//	flags, file of datasets, pointers ──> keeper.change ──> gateway.Serve      see reload.go
//	a URL that names another generation ──> gateway ──> keeper.openOlder
//	gateway (no longer used) ──> generation.close
//	keeper.announce ──> cluster.Serve: other gateways learn the open generations
type keeper struct {
	node *Node
	reloader

	fitting    sync.Mutex // held from the check to the reservation, so that two datasets do not count the same free bytes
	announcing sync.Mutex // held during an announcement, so that the last one contains the newest state

	mu      sync.Mutex // guards the fields below, and place.users
	open    []*generation
	places  []*place
	current map[string]*generation // by name
	closed  map[string]error       // reasons by name, of the configured datasets that are not open

	placed chan struct{} // has a token if a place may have losses to send
}

// place holds a dataset's stores, and the losses and selections stored with its index. All
// generations of the dataset share it.
type place struct {
	location.Dataset // without its index
	losses           *importance.Log
	selections       *selection.Store
	users            int
	sends            bool // sendLosses has been called
}

// generation is one open generation of a dataset.
type generation struct {
	keeper   *keeper
	at       *place
	index    *chunkindex.Index
	division *division
	source   *datapath.Source    // nil: not admitted yet
	memory   *budget.Reservation // memory of the index and its table
	fault    error               // why the dataset is not open; only at.Loc is set too
	ended    sync.Once
	ending   bool // no longer announced to peers; guarded by keeper.mu
}

// origin identifies a dataset's address and the version of its shards.
func (g *generation) origin() string { return g.at.Loc.Address() + " " + g.index.Binding() }

// served returns the generation in the form that the gateway uses.
func (g *generation) served() gateway.Dataset {
	if g.fault != nil {
		return gateway.Dataset{Name: g.at.Loc.Name, Fault: g.fault}
	}
	return gateway.Dataset{
		Name: g.at.Loc.Name, Index: g.index, Source: g.source, Importance: g.at.losses, Selection: g.at.selections,
		Address: g.at.Loc.Address(), Origin: g.origin(), Close: g.close,
	}
}

// openPlace returns the place of a dataset and adds a user. It opens the place if necessary. The caller holds the turn.
func (k *keeper) openPlace(l location.Location) (*place, error) {
	var twin *place // an open place with the same losses
	k.mu.Lock()
	for _, p := range k.places {
		if p.Loc.Name != l.Name {
			continue
		}
		if p.Loc.Address() == l.Address() {
			p.users++
			k.mu.Unlock()
			return p, nil
		}
		if p.Loc.OfIndex().Plain() == l.OfIndex().Plain() {
			twin = p
		}
	}
	if twin != nil {
		twin.users++
		defer k.leave(twin)
	}
	k.mu.Unlock()

	stores, err := k.node.cfg.Stores.OpenStores(l)
	if err != nil {
		return nil, err
	}
	p := &place{Dataset: stores, users: 1}
	if p.losses, err = k.node.openLosses(stores, twin); err != nil {
		stores.Close()
		return nil, err
	}
	if p.selections, err = stores.Selections(); err != nil {
		p.close(k.node)
		return nil, err
	}
	k.mu.Lock()
	k.places = append(k.places, p)
	k.mu.Unlock()
	select {
	case k.placed <- struct{}{}:
	default:
	}
	return p, nil
}

// pin returns the place of a named dataset and adds a user. It returns nil if no dataset has the name.
func (k *keeper) pin(name string) *place {
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.current[name]
	if g == nil { // the dataset has been removed, but requests may still read it
		i := slices.IndexFunc(k.open, func(g *generation) bool { return g.at.Loc.Name == name && !g.ending })
		if i < 0 {
			return nil
		}
		g = k.open[i]
	}
	g.at.users++
	return g.at
}

// leave removes a user of a place, and closes the place after the last one.
func (k *keeper) leave(p *place) {
	k.mu.Lock()
	p.users--
	last := p.users == 0
	if last {
		k.places = slices.DeleteFunc(k.places, func(q *place) bool { return q == p })
	}
	k.mu.Unlock()
	if last {
		p.close(k.node)
	}
}

func (p *place) close(s *Node) {
	if err := p.losses.Close(); err != nil {
		s.log.Warn().Str("dataset", p.Loc.Name).Err(err).Msg("loss log not closed cleanly")
	}
	p.Close()
}

// read opens the index of a generation; "" stands for the one that the pointer names. The
// generation is not admitted yet. It takes over the caller's use of the place.
func (k *keeper) read(ctx context.Context, p *place, name string) (*generation, error) {
	v := k.node.division(p.Loc.Name)
	x, err := p.OpenIndex(ctx, chunkindex.OpenOptions{Generation: name, CacheDir: k.node.cfg.IndexDir, Tables: v.path.Tables()})
	if err != nil {
		k.leave(p)
		return nil, err
	}
	return &generation{keeper: k, at: p, index: x, division: v}, nil
}

// admit reserves memory for generations and opens their sources, for all or none. On an error it closes them.
func (k *keeper) admit(ctx context.Context, fresh []*generation) error {
	if len(fresh) == 0 {
		return nil
	}
	k.fitting.Lock()
	defer k.fitting.Unlock()
	for _, v := range k.node.divisions {
		if err := k.fits(ctx, v, of(v, fresh)); err != nil {
			for _, g := range fresh {
				g.close()
			}
			return err
		}
	}
	for _, g := range fresh {
		l := g.at.Loc
		g.source = g.division.path.Open(g.index, g.at.Store, l.Prefix)
		g.source.KeepOnDisk(k.node.cfg.Stores.Place(l))
		g.source.Share(l.Name)
		k.node.log.Info().Str("dataset", l.Name).Stringer("from", l).Str("generation", g.index.Generation()).
			Uint64("samples", g.index.Samples()).Int("chunks", g.index.Chunks()).Int64("bytes", g.index.Bytes()).Msg("dataset opened")
	}
	k.mu.Lock()
	k.open = append(k.open, fresh...)
	k.mu.Unlock()
	k.announce()
	k.removeCopies()
	return nil
}

// copiesStay is how long the copy of a closed index is kept: a job that pauses overnight resumes
// without reading the store.
const copiesStay = 24 * time.Hour

// removeCopies removes old copies of indexes, so that a dataset that changes each minute does not fill the disk.
func (k *keeper) removeCopies() {
	dir := k.node.cfg.IndexDir
	if dir == "" || k.node.cfg.Check {
		return
	}
	open := map[string]bool{}
	for _, g := range k.all() {
		open[g.index.Generation()] = true
	}
	removed, err := chunkindex.RemoveCopies(dir, copiesStay, func(generation string) bool { return open[generation] })
	if err != nil {
		k.node.log.Warn().Err(err).Msg("index copies not removed")
	}
	if removed > 0 {
		k.node.log.Info().Int("files", removed).Msg("old index copies removed")
	}
}

// of returns the generations of a division.
func of(v *division, all []*generation) []*generation {
	return slices.DeleteFunc(slices.Clone(all), func(g *generation) bool { return g.division != v })
}

// openOlder opens the generation that a URL names. If its index is gone, the error is
// objstore.ErrNotFound.
func (k *keeper) openOlder(ctx context.Context, name, digest string) (gateway.Dataset, error) {
	p := k.pin(name)
	if p == nil {
		return gateway.Dataset{}, fmt.Errorf("generation %.12s of mixture %s: its sources have other generations now: %w", digest, name, objstore.ErrNotFound)
	}
	g, err := k.read(ctx, p, digest)
	if err != nil {
		return gateway.Dataset{}, err
	}
	if err := k.admit(ctx, []*generation{g}); err != nil {
		if _, never := errors.AsType[*SettingError](err); never { // too large only together with the open generations, which close in time
			err = fmt.Errorf("open generation %.12s of %s: %w: %w", digest, name, budget.ErrOverloaded, err)
		}
		return gateway.Dataset{}, err
	}
	return g.served(), nil
}

// close closes a generation that is no longer used. Further calls do nothing.
func (g *generation) close() {
	g.ended.Do(func() {
		k := g.keeper
		k.mu.Lock()
		g.ending = true
		k.mu.Unlock()
		if g.source != nil {
			k.announce()
			g.source.Close()
			k.node.log.Info().Str("dataset", g.at.Loc.Name).Str("generation", g.index.Generation()).Msg("dataset closed")
		}
		_ = g.index.Close() // reads only, so an error does not matter
		if g.memory != nil {
			g.memory.Release()
		}
		k.mu.Lock()
		k.open = slices.DeleteFunc(k.open, func(o *generation) bool { return o == g })
		k.mu.Unlock()
		k.leave(g.at)
	})
}

// end closes all open generations. It waits for calls of close that are in progress.
func (k *keeper) end() {
	for _, g := range k.all() {
		g.close()
	}
}

// all returns the open generations.
func (k *keeper) all() []*generation {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.open)
}

// announce sends the open generations to the other gateways.
func (k *keeper) announce() {
	if k.node.peers == nil {
		return
	}
	k.announcing.Lock()
	defer k.announcing.Unlock()
	serves := map[peer.DatasetGeneration]int{}
	k.mu.Lock()
	for _, g := range k.open {
		if !g.ending {
			serves[peer.DatasetGeneration{Dataset: g.at.Loc.Name, Generation: g.index.Generation()}] = g.index.Chunks()
		}
	}
	k.mu.Unlock()
	k.node.peers.cluster.Serve(serves)
}

// names returns the dataset names of the open sources.
func (k *keeper) names() map[any]string {
	names := map[any]string{}
	for _, g := range k.all() {
		names[g.source] = g.at.Loc.Name
	}
	return names
}

// sendLosses sends in the background the losses that an earlier process kept for the new places.
func (k *keeper) sendLosses(ctx context.Context, background *sync.WaitGroup) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.places {
		if p.sends {
			continue
		}
		p.sends = true
		p.users++
		background.Go(func() {
			defer k.leave(p)
			k.node.sendLosses(ctx, p.Loc.Name, p.losses)
		})
	}
}

// first opens the datasets and mixtures that are configured at the start.
func (k *keeper) first(ctx context.Context, set datasets.Set) ([]gateway.Dataset, []gateway.Mixture, error) {
	next, err := k.prepare(ctx, set, reloadScope{start: !k.node.cfg.Check})
	if err != nil {
		return nil, nil, err
	}
	if !slices.ContainsFunc(next, func(g *generation) bool { return g.fault == nil }) {
		for _, g := range next {
			err = errors.Join(err, g.fault)
		}
		return nil, nil, err
	}
	k.use(set, next)
	k.loaded.Store(time.Now().UnixNano())
	return served(next), mixtures(set), nil
}

func served(all []*generation) []gateway.Dataset {
	out := make([]gateway.Dataset, len(all))
	for i, g := range all {
		out[i] = g.served()
	}
	return out
}

func mixtures(set datasets.Set) []gateway.Mixture {
	out := make([]gateway.Mixture, len(set.Mixtures))
	for i, m := range set.Mixtures {
		out[i] = gateway.Mixture{Name: m.Name, Mixture: m.Mixture}
	}
	return out
}
