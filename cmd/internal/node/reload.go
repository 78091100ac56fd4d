package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/cmd/internal/datasets"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/watch"
)

const (
	openers     = 8                // maximum datasets opened concurrently; most of the time is store latency
	lookLimit   = 3 * time.Second  // time limit for one read of a followed dataset's pointer, since the other datasets wait for it
	changeLimit = 5 * time.Minute  // time limit for one change, so that a hanging store does not block the next change
	openAgain   = 30 * time.Second // delay before a file with a dataset that did not open is tried again
)

// reloadScope selects the open datasets that a reload checks for a new index. Datasets that are not
// open yet are always opened.
type reloadScope struct {
	all   bool   // all of them
	only  string // only this dataset, which must exist; "": no single dataset
	apart bool   // an error affects only its dataset; otherwise any error cancels the whole change
	start bool   // datasets whose stores fail may stay closed
}

func (r reloadScope) at(name string) bool { return r.all || name == r.only }

// reloader is the state of reloads: the served set, and the content of the file of datasets when it
// was last read.
type reloader struct {
	patience time.Duration // lookLimit, except in tests

	turn chan struct{} // one change at a time; guards set, seen, again and told

	set   datasets.Set  // the set that is served now
	seen  watch.Content // the file's content when it was last read
	again time.Time     // when to retry an unchanged file; zero: never
	told  string        // last error that follow has logged

	reloads, failures atomic.Int64
	loaded            atomic.Int64 // when the current version of the file came into use, as Unix time in nanoseconds
	refused           atomic.Bool  // the file has errors, or one of its datasets does not open
}

// file returns the file of datasets.
func (k *keeper) file() watch.File {
	return watch.File{What: "file of datasets", Name: k.node.cfg.Datasets, MaxBytes: datasets.MaxFile}
}

// configured returns the datasets of the flags and the file. It records the file's content.
func (k *keeper) configured(content watch.Content) (datasets.Set, error) {
	set := datasets.Flags(k.node.cfg.Locations, k.node.cfg.Mixtures)
	if k.node.cfg.Datasets == "" {
		return set, nil
	}
	k.again, k.seen = time.Time{}, content
	if content.Err != nil {
		return set, content.Err
	}
	more, err := datasets.Parse(k.node.cfg.Datasets, content.Text)
	if err != nil {
		return set, err
	}
	return set.And(more)
}

// prepare opens the datasets of a set that are not open yet, all or none, and returns a generation
// of each dataset. With apart, it may return errors together with generations; a dataset that
// failed keeps its open generation.
func (k *keeper) prepare(ctx context.Context, set datasets.Set, what reloadScope) ([]*generation, error) {
	next, faults := make([]*generation, len(set.Datasets)), make([]error, len(set.Datasets))
	var all errgroup.Group
	all.SetLimit(openers)
	for i, d := range set.Datasets {
		all.Go(func() error {
			next[i], faults[i] = k.next(ctx, d, what)
			return nil
		})
	}
	_ = all.Wait() // the errors are stored in faults
	var fresh []*generation
	for i, g := range next {
		if g == nil || g.source != nil {
			continue
		}
		if !what.apart {
			fresh = append(fresh, g)
		} else if err := k.admit(ctx, []*generation{g}); err != nil {
			d := set.Datasets[i]
			next[i], faults[i] = k.meant(d.Name), named(d, err)
		}
	}
	k.spare(set, next, faults, what)
	err := errors.Join(faults...)
	if what.apart {
		return next, err
	}
	if err != nil {
		for _, g := range fresh {
			g.close()
		}
		return nil, err
	}
	return next, k.admit(ctx, fresh)
}

// spare makes datasets that may stay closed a generation with a fault, and removes their errors: at
// the start datasets whose stores fail, later those that have never opened.
func (k *keeper) spare(set datasets.Set, next []*generation, faults []error, what reloadScope) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, d := range set.Datasets {
		if next[i] == nil && (k.closed[d.Name] != nil || what.start && gateway.StoreFails(faults[i])) {
			next[i] = &generation{at: &place{Dataset: location.Dataset{Loc: d.Location}}, fault: faults[i]}
			faults[i] = nil
		}
	}
}

// next returns the open generation of a dataset if it is current, otherwise a new generation that
// is not admitted yet.
func (k *keeper) next(ctx context.Context, d datasets.Dataset, what reloadScope) (*generation, error) {
	if is := k.meant(d.Name); is != nil && is.at.Loc.Address() == d.Address() {
		if !what.at(d.Name) {
			return is, nil
		}
		same, err := k.isCurrent(ctx, is, what)
		if err != nil { // without the line of the file, which is not the cause of the error
			return is, fmt.Errorf("dataset %s: %w", d.Name, err)
		}
		if same {
			return is, nil
		}
	}
	p, err := k.openPlace(d.Location)
	if err != nil {
		return nil, named(d, err)
	}
	g, err := k.read(ctx, p, "")
	if err != nil && what.apart {
		g = k.meant(d.Name)
	}
	return g, named(d, err)
}

// isCurrent reports whether the pointer still names a generation. With apart, the read of the pointer has a short
// timeout, so that one hanging store does not delay the other datasets.
func (k *keeper) isCurrent(ctx context.Context, is *generation, what reloadScope) (bool, error) {
	if what.apart {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, k.patience, fmt.Errorf("its store has not responded within %v", k.patience))
		defer cancel()
	}
	same, err := is.index.IsCurrent(ctx, is.at.Home, is.at.Loc.OfIndex().Prefix)
	if err != nil {
		err = location.Explain(ctx, "look for a newer index of", is.at.Loc.OfIndex(), is.at.Home, err)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return same, err
}

// named prefixes an error with the dataset's name, and with its file and line. Datasets of flags
// have no line.
func named(d datasets.Dataset, err error) error {
	if err == nil || d.At == "" {
		return err
	}
	return datasets.At(d.At, fmt.Errorf("dataset %s: %w", d.Name, err))
}

// meant returns the current generation of the dataset with a name, nil if there is none.
func (k *keeper) meant(name string) *generation {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current[name]
}

// change makes the gateway serve a set. Without apart, an error changes nothing; with apart, it
// affects only its dataset. The caller holds the turn.
func (k *keeper) change(ctx context.Context, set datasets.Set, what reloadScope) ([]gateway.Change, error) {
	ctx, cancel := context.WithTimeout(ctx, changeLimit)
	defer cancel()
	next, fault := k.prepare(ctx, set, what)
	if next == nil || fault != nil && !what.apart {
		return nil, fault
	}
	if err := k.node.gateway.Serve(served(next), mixtures(set)); err != nil {
		for i, g := range next {
			if g.fault == nil && g != k.meant(set.Datasets[i].Name) {
				g.close()
			}
		}
		return nil, errors.Join(fault, err)
	}
	return k.use(set, next), fault
}

// use records that a set is served from now on, and returns the changes.
func (k *keeper) use(set datasets.Set, next []*generation) (changes []gateway.Change) {
	k.holdOnDisk(set)
	k.mu.Lock()
	before, closed := k.current, k.closed
	k.current, k.closed = map[string]*generation{}, map[string]error{}
	for _, g := range next {
		if name := g.at.Loc.Name; g.fault != nil {
			if k.closed[name] = g.fault; closed[name] == nil || closed[name].Error() != g.fault.Error() {
				k.warn(g.fault, "dataset "+name+" is not open: its requests get 503; the gateway tries again")
			}
			continue
		}
		name, digest, change := g.at.Loc.Name, g.index.Generation(), "none"
		switch was := before[name]; {
		case was == nil:
			change = "new"
		case was.index.Generation() != digest:
			change = "generation"
		}
		delete(before, name)
		k.current[name] = k.survivor(g)
		changes = append(changes, gateway.Change{Name: name, Generation: digest, Change: change})
	}
	k.mu.Unlock()
	for _, d := range k.set.Datasets { // in the order of the previous set
		if was := before[d.Name]; was != nil {
			changes = append(changes, gateway.Change{Name: d.Name, Generation: was.index.Generation(), Change: "removed"})
		}
	}
	k.set = set
	return changes
}

// survivor returns g, or the same generation if it is already open: then the gateway closes g. The
// caller holds mu.
func (k *keeper) survivor(g *generation) *generation {
	if !g.ending {
		return g
	}
	for _, o := range k.open {
		if !o.ending && o.at.Loc.Name == g.at.Loc.Name && o.index.Generation() == g.index.Generation() && o.origin() == g.origin() {
			return o
		}
	}
	return g
}

// holdOnDisk informs each disk cache of the datasets whose chunks it holds.
func (k *keeper) holdOnDisk(set datasets.Set) {
	for _, v := range k.node.divisions {
		if v.disk == nil {
			continue
		}
		if err := v.disk.Hold(set.Places(k.node.heldBy(v))); err != nil {
			k.node.log.Warn().Err(err).Msg("disk cache: dataset names not written; after a restart, the gateway may refuse it as another dataset's cache")
		}
	}
}

// take acquires the turn: the right to change the served set.
func (k *keeper) take(ctx context.Context) error {
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("another reload is in progress: %w", context.Cause(ctx))
	}
}

// Reload reads the file of datasets, and the index pointer of the dataset only; "" means all datasets. It then serves
// their current content. On an error the served set does not change.
func (s *Node) Reload(ctx context.Context, only string) ([]gateway.Change, error) {
	k := s.keeper
	if err := k.take(ctx); err != nil {
		return nil, err
	}
	defer func() { <-k.turn }()
	var content watch.Content
	if k.node.cfg.Datasets != "" {
		content = k.file().Settled(ctx, k.seen)
	}
	return k.refresh(ctx, content, reloadScope{all: only == "", only: only})
}

// refresh makes the gateway serve the datasets of the flags and of the file's content. The caller
// holds the turn.
func (k *keeper) refresh(ctx context.Context, content watch.Content, what reloadScope) ([]gateway.Change, error) {
	set, err := k.configured(content)
	var changes []gateway.Change
	if err == nil && what.only != "" && !slices.ContainsFunc(set.Datasets, func(d datasets.Dataset) bool { return d.Name == what.only }) {
		err = fmt.Errorf("dataset %q is neither in the flags nor in the file", what.only)
	}
	if err == nil {
		if changes, err = k.change(ctx, set, what); err != nil {
			k.again = time.Now().Add(openAgain)
		}
	}
	k.refused.Store(err != nil)
	if err != nil {
		k.failures.Add(1)
		k.warn(err, "reload failed; the previous datasets are still served")
		return nil, err
	}
	k.reloads.Add(1)
	k.loaded.Store(time.Now().UnixNano())
	k.logChanges(changes)
	return changes, nil
}

// logChanges logs each change.
func (k *keeper) logChanges(changes []gateway.Change) {
	for _, c := range changes {
		if c.Change != "none" {
			k.node.log.Info().Str("dataset", c.Name).Str("generation", c.Generation).Str("change", c.Change).Msg("dataset changed")
		}
	}
}

// warn logs an error as one line.
func (k *keeper) warn(err error, words string) {
	k.node.log.Warn().Str("error", strings.ReplaceAll(err.Error(), "\n", "; ")).Msg(words)
}

// checkFile reloads the file's datasets if its content has changed, or if a retry is due. The caller
// holds the turn, also of follow and openClosed.
func (k *keeper) checkFile(ctx context.Context) {
	content, changed := k.file().Changed(ctx, k.seen)
	if due := !k.again.IsZero() && time.Now().After(k.again); !changed && !due || ctx.Err() != nil {
		return
	}
	_, _ = k.refresh(ctx, content, reloadScope{}) // refresh logs errors
}

// follow checks the index pointer of each dataset, and serves new indexes.
func (k *keeper) follow(ctx context.Context) {
	changes, err := k.change(ctx, k.set, reloadScope{all: true, apart: true})
	if ctx.Err() != nil {
		return
	}
	k.logChanges(changes)
	if err == nil {
		k.told = ""
		return
	}
	k.failures.Add(1)
	if k.told != err.Error() {
		k.told = err.Error()
		k.warn(err, "the newest index of a dataset cannot be opened; the previous datasets are still served")
	}
}

// openClosed tries to open the datasets that are not open yet.
func (k *keeper) openClosed(ctx context.Context) {
	if len(k.closed) == 0 { // written only in turn
		return
	}
	changes, err := k.change(ctx, k.set, reloadScope{apart: true})
	k.logChanges(changes)
	if err != nil && ctx.Err() == nil {
		k.warn(err, "datasets not opened")
	}
}

// hangUp reloads all datasets after a signal.
func (k *keeper) hangUp(ctx context.Context) {
	if changes, err := k.node.Reload(ctx, ""); err == nil { // refresh logs errors
		k.node.log.Info().Int("datasets", len(changes)).Msg("reloaded")
	}
}

// run reacts to changes of the file, to pointers and to the signal until ctx ends. Losses of an
// earlier process are sent until rest ends.
func (k *keeper) run(ctx, rest context.Context) error {
	var sending sync.WaitGroup
	defer sending.Wait()
	var file, pointers <-chan time.Time // nil: never
	if k.node.cfg.Datasets != "" {
		file = time.Tick(watch.LookEvery)
	}
	if k.node.cfg.Follow > 0 {
		pointers = time.Tick(k.node.cfg.Follow)
	}
	again := time.Tick(openAgain)
	for {
		var act func(context.Context)
		select {
		case <-ctx.Done():
			return nil
		case <-k.placed:
			k.sendLosses(rest, &sending)
		case <-file:
			act = k.checkFile
		case <-again:
			act = k.openClosed
		case <-pointers:
			act = k.follow
		case <-k.node.cfg.HangUp:
			k.hangUp(ctx)
		}
		if act != nil && k.take(ctx) == nil {
			act(ctx)
			<-k.turn
		}
	}
}

// stats returns metrics of the open datasets and of the file.
func (k *keeper) stats() []gateway.Stat {
	out := []gateway.Stat{
		{Name: "datasets_open", Help: "Open generations of datasets, including those that jobs still read.", Value: float64(len(k.all()))},
		{Name: "datasets_reloads_total", Help: "Successful reloads of the datasets.", Value: float64(k.reloads.Load())},
		{Name: "datasets_reload_failures_total", Help: "Failed reloads; the gateway kept serving the previous datasets.", Value: float64(k.failures.Load())},
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	open := func(name string, is float64) gateway.Stat {
		return gateway.Stat{Name: "dataset_ready", Help: "1 while the dataset is open; 0: its requests get 503, and the log has the reason.", Value: is, Labels: map[string]string{"dataset": name}}
	}
	for name := range k.closed {
		out = append(out, open(name, 0))
	}
	for name, g := range k.current {
		out = append(out, open(name, 1))
		out = append(out, gateway.Stat{Name: "store_bandwidth_limit_bytes", Help: "Bandwidth limit in the dataset's address, per second; 0: none.", Value: float64(g.at.Loc.Service.Limit()), Labels: map[string]string{"dataset": name}})
	}
	if k.node.cfg.Datasets == "" {
		return out
	}
	return append(out,
		gateway.Stat{Name: "datasets_file_age_seconds", Help: "Time since the current version of the file of datasets came into use.", Value: time.Since(time.Unix(0, k.loaded.Load())).Seconds()},
		gateway.Stat{Name: "datasets_file_refused", Help: "1 while the file of datasets has an error and its previous version stays in use; the log has the error.", Value: flag(k.refused.Load())},
	)
}
