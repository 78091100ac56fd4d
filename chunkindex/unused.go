package chunkindex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/chunkindex/internal/parallel"
	"github.com/millrace-data/millrace/internal/objstore"
)

// removers is how many objects are removed side by side: a store takes tens of milliseconds for each, and a dataset may have
// a hundred thousand reports.
const removers = 16

// Unused is what lies beside a dataset: its generations, which their owner may keep or remove, and what no generation needs.
type Unused struct {
	Current     map[string][]string // the names of the indexes that are a generation now, by generation; an empty name is the default index
	Since       time.Time           // when the last pointer was written
	Generations []Generation        // whose indexes lie there: the current ones, then the others, the last that was current first
	Objects     []objstore.Object   // needed by no generation and older than the limit: bindings, scans and probes
	Younger     int                 // how many objects that no generation needs are not older

	store  objstore.Store
	prefix string
	at     []publishedPointer
	limit  time.Time
}

// Generation is a generation whose index lies beside the dataset.
type Generation struct {
	Generation string
	Until      time.Time         // when the next generation was written, which was current from then on; zero: this one is current
	Written    time.Time         // the newest of Objects
	Objects    []objstore.Object // the index, and the binding that the generation is opened with
}

// FindUnused lists the generations, and what is unused and older than grace. It removes nothing.
func FindUnused(ctx context.Context, store objstore.Store, prefix string, grace time.Duration) (*Unused, error) {
	at, err := readPointers(ctx, store, prefix)
	if err != nil {
		return nil, fmt.Errorf("gc %q: %w", prefix, layout.Advise(prefix, "", err))
	}
	u := &Unused{Current: map[string][]string{}, store: store, prefix: prefix, at: at, limit: time.Now().Add(-grace)}
	for _, p := range at {
		u.Current[p.Generation] = append(u.Current[p.Generation], p.name)
		if p.obj.Modified.After(u.Since) {
			u.Since = p.obj.Modified
		}
	}
	var indexes, bindings, notes []objstore.Object
	for _, dir := range []string{layout.IndexDir, layout.BindingDir, layout.OwnerDir, layout.ProbeDir, layout.ScanDir} {
		err = store.List(ctx, prefix+dir, func(o objstore.Object) error {
			switch dir {
			case layout.IndexDir:
				indexes = append(indexes, o)
			case layout.BindingDir:
				bindings = append(bindings, o)
			case layout.OwnerDir:
				notes = append(notes, o)
			default:
				u.unneeded(o)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("gc %q: %w", prefix, err)
		}
	}
	u.generations(indexes, bindings, notes)
	return u, nil
}

// unneeded notes an object that no generation needs.
func (u *Unused) unneeded(o objstore.Object) {
	if o.Modified.Before(u.limit) {
		u.Objects = append(u.Objects, o)
	} else {
		u.Younger++
	}
}

// generations puts indexes together with the bindings that they are opened with and the notes of their owners, and orders them by when
// they were current. An index run writes the index anew before it moves the pointer, also to a generation that was current before.
func (u *Unused) generations(indexes, bindings, notes []objstore.Object) {
	ends := until(u.tenures(indexes, notes))
	needed := map[string][]objstore.Object{} // by generation
	u.neededBindings(bindings, needed)
	for _, o := range notes {
		if generation, _, ok := layout.ParseOwner(u.prefix, o.Key); ok {
			needed[generation] = append(needed[generation], o)
		}
	}
	isCurrent := func(o objstore.Object) int {
		if u.Current[strings.TrimPrefix(o.Key, u.prefix+layout.IndexDir)] != nil {
			return 1
		}
		return 0
	}
	slices.SortFunc(indexes, func(a, b objstore.Object) int {
		return cmp.Or(a.Modified.Compare(b.Modified), cmp.Compare(isCurrent(a), isCurrent(b)), cmp.Compare(a.Key, b.Key))
	})
	var current []Generation
	for _, o := range indexes {
		g := Generation{Generation: strings.TrimPrefix(o.Key, u.prefix+layout.IndexDir), Written: o.Modified, Objects: []objstore.Object{o}}
		for _, b := range needed[g.Generation] {
			g.Objects = append(g.Objects, b)
			if b.Modified.After(g.Written) {
				g.Written = b.Modified
			}
		}
		delete(needed, g.Generation)
		if u.Current[g.Generation] != nil {
			current = append(current, g)
			continue
		}
		g.Until = ends[g.Generation]
		u.Generations = append(u.Generations, g)
	}
	slices.Reverse(current)
	slices.Reverse(u.Generations)
	u.Generations = append(current, u.Generations...)
	for generation, objects := range needed { // whose index is gone
		if u.Current[generation] == nil {
			for _, o := range objects {
				u.unneeded(o)
			}
		}
	}
}

// neededBindings adds the binding that each generation is opened with: those that pointers name, else the newest one.
func (u *Unused) neededBindings(bindings []objstore.Object, needed map[string][]objstore.Object) {
	named := map[string]bool{}
	for _, p := range u.at {
		named[layout.BindingObject(u.prefix, p.Generation, p.Binding)] = true
	}
	newest := map[string]objstore.Object{}
	for _, o := range bindings {
		generation, _, _ := strings.Cut(strings.TrimPrefix(o.Key, u.prefix+layout.BindingDir), "-")
		best, found := newest[generation]
		switch {
		case named[o.Key]:
			needed[generation] = append(needed[generation], o)
			continue
		case u.Current[generation] != nil, found && !o.Modified.After(best.Modified):
			u.unneeded(o)
			continue
		case found:
			u.unneeded(best)
		}
		newest[generation] = o
	}
	for generation, o := range newest {
		needed[generation] = append(needed[generation], o)
	}
}

// Remove removes objects that were listed, u's own or others that lie beside the dataset, and calls removed for each, one call at a time. It
// removes none if a pointer has moved, since one of them may be in use now, and passes over an object that was written
// anew meanwhile: an index run that goes back to an old generation does that before it moves the pointer.
func (u *Unused) Remove(ctx context.Context, objects []objstore.Object, removed func(objstore.Object)) error {
	same := func(a, b publishedPointer) bool { return a.name == b.name && a.Pointer == b.Pointer }
	now, err := readPointers(ctx, u.store, u.prefix)
	if err != nil {
		return fmt.Errorf("gc %q: %w", u.prefix, err)
	}
	if !slices.EqualFunc(now, u.at, same) {
		return fmt.Errorf("gc %q: the current generation changed meanwhile: %w", u.prefix, objstore.ErrChanged)
	}
	var mu sync.Mutex // guards calls of removed
	return parallel.Each(ctx, removers, len(objects), func(ctx context.Context, _, i int) error {
		o := objects[i]
		now, err := u.store.Stat(ctx, o.Key)
		if errors.Is(err, objstore.ErrNotFound) || (err == nil && !now.Modified.Before(u.limit)) {
			return nil
		}
		if err == nil {
			err = u.store.Delete(ctx, o.Key)
		}
		if err != nil {
			return fmt.Errorf("gc %q: %w", u.prefix, err)
		}
		mu.Lock()
		defer mu.Unlock()
		removed(o)
		return nil
	})
}
