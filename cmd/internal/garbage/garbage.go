// Package garbage finds and removes unused objects of a dataset. It removes whole generations, each
// with the subsets, quarantines, cost tables, snapshots of weights and reported losses that belong
// to it.
//
// A generation is kept as long as a job may read it. URLs name generations, and a gateway opens an
// older one from its index. So a generation is removed once other generations have been current for
// as long as the options require, and nothing was written for it in that time. Its objects are
// removed with it. URLs never name reports: the reports of an epoch are removed once a snapshot
// contains them.
package garbage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/words"
)

// Kinds of objects of a dataset.
const (
	Index      = "index" // including bindings, scans and probes
	Subset     = "subset"
	Quarantine = "quarantine"
	Cost       = "cost"
	Snapshot   = "snapshot"
	Reports    = "reports"
)

// Options select the objects.
type Options struct {
	Grace        time.Duration // younger objects are kept
	Keep         time.Duration // generations that were current, or had an object written, within this time are kept; at least Grace
	KeepLast     int           // number of generations to keep: the current one, and those that were current last
	KeepUsed     bool          // generations with a subset, a quarantine, a cost table, a snapshot or a report are kept
	ReportsOlder time.Duration // older reports are removed even if no snapshot contains them; 0: never
}

// Item is an object, or all reports of an epoch, with the reason for removing or keeping it.
type Item struct {
	Kind    string `json:"kind"`
	Key     string `json:"key,omitempty"` // ends in a slash if it is the prefix of several keys
	Objects int    `json:"objects"`
	Bytes   int64  `json:"bytes"`
	Why     string `json:"why"`

	objects []objstore.Object
}

// Result lists the objects of a dataset, and those to remove.
type Result struct {
	Generations []Generation // generations with an index, the current one first
	Remove      []Item
	Keep        []Item

	unused *chunkindex.Unused
	opt    Options
	now    time.Time
}

// Find lists the objects of a dataset. It removes nothing.
func Find(ctx context.Context, store objstore.Store, prefix string, opt Options) (*Result, error) {
	unused, err := chunkindex.FindUnused(ctx, store, prefix, opt.Grace)
	if err != nil {
		return nil, err
	}
	selections, err := selection.New(selection.Config{Reader: store, Prefix: prefix})
	if err != nil {
		return nil, err
	}
	stored, err := selections.Stored(ctx)
	if err != nil {
		return nil, err
	}
	losses, err := importance.New(importance.Config{Reader: store, Prefix: prefix})
	if err != nil {
		return nil, err
	}
	snapshots, reports, err := losses.Stored(ctx)
	if err != nil {
		return nil, err
	}
	f := &Result{unused: unused, opt: opt, now: time.Now()}
	f.generations(dependentsOf(stored, snapshots, reports))
	for _, o := range unused.Objects {
		f.Remove = append(f.Remove, newItem(Index, o, "no generation refers to it"))
	}
	if unused.Younger > 0 {
		f.Keep = append(f.Keep, Item{Kind: Index, Objects: unused.Younger, Why: f.young()})
	}
	f.selections(stored)
	frozen := f.snapshots(snapshots)
	for i := range reports {
		f.reports(&reports[i], frozen)
	}
	return f, nil
}

func newItem(kind string, o objstore.Object, why string) Item {
	return Item{Kind: kind, Key: o.Key, Objects: 1, Bytes: o.Size, Why: why, objects: []objstore.Object{o}}
}

func (f *Result) young() string { return "younger than " + words.Duration(f.opt.Grace) }

func (f *Result) older(t time.Time, d time.Duration) bool { return t.Before(f.now.Add(-d)) }

// verdict reports whether the objects of a generation are removed, and why.
func (f *Result) verdict(generation string, newest time.Time, fault error) (goes bool, why string) {
	of := f.generation(generation)
	switch {
	case fault != nil:
		return false, "not readable: " + fault.Error()
	case f.unused.Current[generation] != nil:
		return false, "of the current generation"
	case of != nil && of.Remove:
		return true, fmt.Sprintf("its generation %.12s is deleted", generation)
	case of != nil || generation == "":
		return false, "a URL may name its generation, which is kept"
	case !f.older(f.unused.Since, f.opt.Grace):
		return false, fmt.Sprintf("the current generation is %s: a gateway may still serve the previous one", f.young())
	case !f.older(newest, f.opt.Grace):
		return false, f.young()
	}
	return true, fmt.Sprintf("the index of generation %.12s does not exist any more", generation)
}

func (f *Result) sort(i Item, goes bool, why string) {
	i.Why = why
	if goes {
		f.Remove = append(f.Remove, i)
	} else {
		f.Keep = append(f.Keep, i)
	}
}

// one adds a single object of a generation to the removed or kept items.
func (f *Result) one(kind, generation string, o objstore.Object, fault error) {
	goes, why := f.verdict(generation, o.Modified, fault)
	f.sort(newItem(kind, o, ""), goes, why)
}

func (f *Result) selections(s *selection.Inventory) {
	for _, x := range s.Splits {
		f.one(Subset, x.Generation, x.Object, x.Fault)
	}
	for _, x := range s.Defaults {
		f.one(Subset, x.Generation, x.Object, nil)
	}
	for _, x := range s.Quarantines {
		f.one(Quarantine, x.Generation, x.Object, x.Fault)
	}
	for _, x := range s.Costs {
		f.one(Cost, x.Generation, x.Object, x.Fault)
	}
	for _, x := range s.CostNames {
		f.one(Cost, x.Generation, x.Object, nil)
	}
}

// epoch is an epoch of a plan.
type epoch struct {
	plan   string
	number uint64
}

// snapshots adds the snapshots to the removed or kept items, and returns when the last one of each
// epoch was frozen.
func (f *Result) snapshots(all []importance.StoredSnapshot) map[epoch]time.Time {
	frozen := map[epoch]time.Time{}
	for _, x := range all {
		f.one(Snapshot, x.Generation, x.Object, x.Fault)
		at := epoch{x.Plan, x.Epoch}
		if x.Fault == nil && x.Modified.After(frozen[at]) {
			frozen[at] = x.Modified
		}
	}
	return frozen
}

// reports adds the reports of an epoch to the removed or kept items. All are removed or all are
// kept, since a snapshot is made of all.
func (f *Result) reports(r *importance.StoredReports, frozen map[epoch]time.Time) {
	item := Item{Kind: Reports, Key: r.Dir, Objects: len(r.Objects), Bytes: r.Bytes, objects: slices.Concat(r.Objects, r.Notes)}
	goes, why := f.verdict(r.Generation, r.Newest, r.Fault)
	at, isFrozen := frozen[epoch{r.Plan, r.Epoch}]
	switch old := f.older(r.Newest, f.opt.Grace); {
	case goes || r.Fault != nil:
	case f.opt.ReportsOlder > 0 && f.older(r.Newest, max(f.opt.ReportsOlder, f.opt.Grace)):
		goes, why = true, fmt.Sprintf("older than %s (--reports-older)", words.Duration(f.opt.ReportsOlder))
	case !isFrozen:
		why = fmt.Sprintf("epoch %d is not frozen yet", r.Epoch)
	case at.Before(r.Newest):
		why = fmt.Sprintf("some were reported after epoch %d was frozen", r.Epoch)
	case !old || !f.older(at, f.opt.Grace):
		why = f.young()
	default:
		goes, why = true, fmt.Sprintf("a snapshot of epoch %d contains them", r.Epoch)
	}
	f.sort(item, goes, why)
}

// Apply removes the objects of f.Remove. An object that was rewritten meanwhile is kept and no
// longer counts. After an error, f.Remove contains the objects that were already removed.
func (f *Result) Apply(ctx context.Context) error {
	var all []objstore.Object
	from := map[string]int{} // index of the item, by key
	for i, item := range f.Remove {
		for _, o := range item.objects {
			from[o.Key] = i
		}
		all = append(all, item.objects...)
	}
	done := make([]Item, len(f.Remove))
	err := f.unused.Remove(ctx, all, func(o objstore.Object) {
		i := from[o.Key]
		done[i].Objects++
		done[i].Bytes += o.Size
	})
	for i := range done {
		f.Remove[i].Objects, f.Remove[i].Bytes = done[i].Objects, done[i].Bytes
	}
	f.Remove = slices.DeleteFunc(f.Remove, func(i Item) bool { return i.Objects == 0 })
	return err
}

// Summary adds up the items with the same kind and reason, for one line each.
func Summary(items []Item) []Item {
	var out []Item
	for _, i := range items {
		at := slices.IndexFunc(out, func(o Item) bool { return o.Kind == i.Kind && o.Why == i.Why })
		if at < 0 {
			out = append(out, Item{Kind: i.Kind, Why: i.Why})
			at = len(out) - 1
		}
		out[at].Objects += i.Objects
		out[at].Bytes += i.Bytes
	}
	slices.SortStableFunc(out, func(a, b Item) int { return cmp.Compare(a.Kind, b.Kind) })
	return out
}
