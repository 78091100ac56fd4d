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
	openers     = 8                // datasets that are looked at side by side: most of the time is the store's
	lookLimit   = 3 * time.Second  // for one look at the pointer of a dataset that is followed: the other datasets wait for it
	changeLimit = 5 * time.Minute  // for one change: a store that hangs must not keep the next change from coming
	openAgain   = 30 * time.Second // after a file was read and a dataset of it could not be opened, it is tried again
)

// reloadScope says which open datasets a reload checks for a new index. Datasets that are not open
// yet are always opened.
type reloadScope struct {
	at    func(name string) bool
	only  string // the dataset that is asked for, which must be one; "": none
	apart bool   // a dataset with an error stays as it is; else an error changes nothing
}

func atNone(string) bool { return false }
func atAll(string) bool  { return true }

// reloader is the state of reloads: what is served now, and what the file of datasets held when it
// was last read.
type reloader struct {
	patience time.Duration // lookLimit, but in tests

	turn chan struct{} // one change at a time; guards what follows

	set   datasets.Set  // that is served
	seen  watch.Content // of the file, as it was last read
	again time.Time     // when the file is to be tried again though it has not changed; zero: not at all
	told  string        // the fault of following that was logged last

	reloads, failures atomic.Int64
	loaded            atomic.Int64 // nanoseconds since 1970: when the file came into use as it is
	refused           atomic.Bool  // the file has faults, or names what cannot be opened
}

func newReloader() reloader { return reloader{patience: lookLimit, turn: make(chan struct{}, 1)} }

// file is the file of datasets.
func (k *keeper) file() watch.File {
	return watch.File{What: "file of datasets", Name: k.node.cfg.Datasets, MaxBytes: datasets.MaxFile}
}

// wanted is what flags and file name. It notes what the file holds.
func (k *keeper) wanted(content watch.Content) (datasets.Set, error) {
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

// prepare opens what a set names and is not open yet, all of it or nothing, and returns a generation of each dataset. Where each
// dataset is looked at for itself, an error may come beside them.
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
	_ = all.Wait() // the errors are in faults
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

// next returns what is open of a dataset if that is to stay, else a generation that is not admitted yet.
func (k *keeper) next(ctx context.Context, d datasets.Dataset, what reloadScope) (*generation, error) {
	if is := k.meant(d.Name); is != nil && is.at.Loc.Address() == d.Address() {
		if !what.at(d.Name) {
			return is, nil
		}
		same, err := k.isCurrent(ctx, is, what)
		if err != nil { // the line that names the dataset is as good as it was when the dataset was opened
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

// isCurrent reports whether the pointer still names a generation. Where each dataset is looked at for itself, one whose store does not
// answer stays as it is: the others do not wait until the store is given up.
func (k *keeper) isCurrent(ctx context.Context, is *generation, what reloadScope) (bool, error) {
	if what.apart {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, k.patience, fmt.Errorf("its store has not answered within %v", k.patience))
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

// named puts the place where a dataset is named, and its name, before an error. Flags need no place.
func named(d datasets.Dataset, err error) error {
	if err == nil || d.At == "" {
		return err
	}
	return datasets.At(d.At, fmt.Errorf("dataset %s: %w", d.Name, err))
}

// meant returns the generation that a name means, nil if there is none.
func (k *keeper) meant(name string) *generation {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current[name]
}

// change serves a set. An error leaves all as it was, but for the datasets without one where each is looked at for itself.
// The caller has the turn.
func (k *keeper) change(ctx context.Context, set datasets.Set, what reloadScope) ([]gateway.Change, error) {
	ctx, cancel := context.WithTimeout(ctx, changeLimit)
	defer cancel()
	next, fault := k.prepare(ctx, set, what)
	if next == nil || fault != nil && !what.apart {
		return nil, fault
	}
	if err := k.node.gateway.Serve(served(next), mixtures(set)); err != nil {
		for i, g := range next {
			if g != k.meant(set.Datasets[i].Name) {
				g.close()
			}
		}
		return nil, errors.Join(fault, err)
	}
	return k.use(set, next), fault
}

// use notes that a set is served now, and returns what has changed.
func (k *keeper) use(set datasets.Set, next []*generation) (changes []gateway.Change) {
	k.holdOnDisk(set)
	k.mu.Lock()
	before := k.current
	k.current = map[string]*generation{}
	for _, g := range next {
		name, digest, change := g.at.Loc.Name, g.index.Generation(), "none"
		switch was := before[name]; {
		case was == nil:
			change = "new"
		case was.index.Generation() != digest:
			change = "generation"
		}
		delete(before, name)
		k.current[name] = k.stands(g)
		changes = append(changes, gateway.Change{Name: name, Generation: digest, Change: change})
	}
	k.mu.Unlock()
	for _, d := range k.set.Datasets { // in the order of before
		if was := before[d.Name]; was != nil {
			changes = append(changes, gateway.Change{Name: d.Name, Generation: was.index.Generation(), Change: "removed"})
		}
	}
	k.set = set
	return changes
}

// stands returns the generation that stands for another one: the gateway closes what it is given if it has the same open. The
// caller holds mu.
func (k *keeper) stands(g *generation) *generation {
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

// holdOnDisk says in the disk tiers whose chunks they hold.
func (k *keeper) holdOnDisk(set datasets.Set) {
	for _, v := range k.node.divisions {
		if v.disk == nil {
			continue
		}
		if err := v.disk.Hold(set.Places(k.node.heldBy(v))); err != nil {
			k.node.log.Warn().Err(err).Msg("the disk cache cannot note the names of its datasets: after a restart it may be refused as another dataset's")
		}
	}
}

// take waits for the turn.
func (k *keeper) take(ctx context.Context) error {
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("another change of what is served is under way: %w", context.Cause(ctx))
	}
}

// Reload reads the file of datasets again, and the pointer of the index of the dataset only, of all datasets where it is "". It
// serves what they name now: all of it, or what was served before.
func (s *Node) Reload(ctx context.Context, only string) ([]gateway.Change, error) {
	what := reloadScope{at: atAll}
	if only != "" {
		what = reloadScope{at: func(name string) bool { return name == only }, only: only}
	}
	return s.keeper.reload(ctx, what)
}

func (k *keeper) reload(ctx context.Context, what reloadScope) ([]gateway.Change, error) {
	if err := k.take(ctx); err != nil {
		return nil, err
	}
	defer func() { <-k.turn }()
	var content watch.Content
	if k.node.cfg.Datasets != "" {
		content = k.file().Settled(ctx, k.seen)
	}
	return k.refresh(ctx, content, what)
}

// refresh serves what flags and file name now. The caller has the turn.
func (k *keeper) refresh(ctx context.Context, content watch.Content, what reloadScope) ([]gateway.Change, error) {
	set, err := k.wanted(content)
	var changes []gateway.Change
	if err == nil && what.only != "" && !slices.ContainsFunc(set.Datasets, func(d datasets.Dataset) bool { return d.Name == what.only }) {
		err = fmt.Errorf("neither a flag nor the file names a dataset %q", what.only)
	}
	if err == nil {
		if changes, err = k.change(ctx, set, what); err != nil {
			k.again = time.Now().Add(openAgain)
		}
	}
	k.refused.Store(err != nil)
	if err != nil {
		k.failures.Add(1)
		k.warn(err, "what is to be served cannot be read or opened; the previous datasets are still served")
		return nil, err
	}
	k.reloads.Add(1)
	k.loaded.Store(time.Now().UnixNano())
	k.tell(changes)
	return changes, nil
}

// tell logs what has changed.
func (k *keeper) tell(changes []gateway.Change) {
	for _, c := range changes {
		if c.Change != "none" {
			k.node.log.Info().Str("dataset", c.Name).Str("generation", c.Generation).Str("change", c.Change).Msg("what is served has changed")
		}
	}
}

// warn logs in one line why what is served stays as it was.
func (k *keeper) warn(err error, words string) {
	k.node.log.Warn().Str("error", strings.ReplaceAll(err.Error(), "\n", "; ")).Msg(words)
}

// lookAtFile serves what the file names if its content has changed, or if a dataset of it could not be opened a while ago.
func (k *keeper) lookAtFile(ctx context.Context) {
	if k.take(ctx) != nil {
		return
	}
	defer func() { <-k.turn }()
	content, changed := k.file().Changed(ctx, k.seen)
	if due := !k.again.IsZero() && time.Now().After(k.again); !changed && !due || ctx.Err() != nil {
		return
	}
	_, _ = k.refresh(ctx, content, reloadScope{at: atNone}) // which logs an error
}

// follow serves what the pointers of all indexes name now.
func (k *keeper) follow(ctx context.Context) {
	if k.take(ctx) != nil {
		return
	}
	defer func() { <-k.turn }()
	changes, err := k.change(ctx, k.set, reloadScope{at: atAll, apart: true})
	if ctx.Err() != nil {
		return
	}
	k.tell(changes)
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

// hangUp reloads as a signal asks for it.
func (k *keeper) hangUp(ctx context.Context) {
	if changes, err := k.reload(ctx, reloadScope{at: atAll}); err == nil { // an error is logged
		k.node.log.Info().Int("datasets", len(changes)).Msg("reloaded")
	}
}

// run follows the file, the pointers and the signal until ctx ends. What begin was given goes on until rest ends.
func (k *keeper) run(ctx, rest context.Context) error {
	var working sync.WaitGroup
	defer working.Wait()
	k.starting(func(work func(context.Context)) { working.Go(func() { work(rest) }) })
	defer k.starting(nil)
	file, pointers := never(), never()
	if k.node.cfg.Datasets != "" {
		file = time.NewTicker(watch.LookEvery)
	}
	if k.node.cfg.Follow > 0 {
		pointers = time.NewTicker(k.node.cfg.Follow)
	}
	defer file.Stop()
	defer pointers.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-file.C:
			k.lookAtFile(ctx)
		case <-pointers.C:
			k.follow(ctx)
		case <-k.node.cfg.HangUp:
			k.hangUp(ctx)
		}
	}
}

// never is a ticker that does not tick.
func never() *time.Ticker {
	t := time.NewTicker(time.Hour)
	t.Stop()
	return t
}

// starting says how work is begun from now on, that which waits too; nil: none is any more.
func (k *keeper) starting(start func(work func(context.Context))) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.start = start
	if start == nil {
		return
	}
	for _, work := range k.waiting {
		start(work)
	}
	k.waiting = nil
}

// stats tells of what is open, and of the file.
func (k *keeper) stats() []gateway.Stat {
	out := []gateway.Stat{
		{Name: "datasets_open", Help: "Open generations of datasets, including those that jobs still read.", Value: float64(len(k.all()))},
		{Name: "datasets_reloads_total", Help: "Successful reloads of the datasets.", Value: float64(k.reloads.Load())},
		{Name: "datasets_reload_failures_total", Help: "Failed reloads; the gateway kept serving the previous datasets.", Value: float64(k.failures.Load())},
	}
	if k.node.cfg.Datasets == "" {
		return out
	}
	return append(out,
		gateway.Stat{Name: "datasets_file_age_seconds", Help: "Time since the current version of the file of datasets came into use.", Value: time.Since(time.Unix(0, k.loaded.Load())).Seconds()},
		gateway.Stat{Name: "datasets_file_refused", Help: "1 while the file of datasets has an error and its previous version stays in use; the log has the error.", Value: flag(k.refused.Load())},
	)
}
