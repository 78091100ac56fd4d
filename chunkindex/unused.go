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

	"github.com/millrace-data/millrace/internal/objstore"
)

// removers is how many objects are removed side by side: a store takes tens of milliseconds for each, and a dataset may have
// a hundred thousand reports.
const removers = 16

// Unused is what lies beside a dataset: its generations, which their owner may keep or remove, and what no generation needs.
type Unused struct {
	Current     string            // generation that the pointer names
	Since       time.Time         // when the pointer was written
	Generations []Generation      // whose indexes lie there: the current one, then the others, the last that was current first
	Objects     []objstore.Object // needed by no generation and older than the limit: bindings, scans and probes
	Younger     int               // how many objects that no generation needs are not older

	store  objstore.Store
	prefix string
	at     pointer
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
	p, obj, err := readPointer(ctx, store, prefix)
	if err != nil {
		return nil, fmt.Errorf("gc %q: %w", prefix, advise(prefix, err))
	}
	u := &Unused{Current: p.Generation, Since: obj.Modified, store: store, prefix: prefix, at: p, limit: time.Now().Add(-grace)}
	var indexes, bindings []objstore.Object
	for _, dir := range []string{indexDir, bindingDir, probeDir, scanDir} {
		err = store.List(ctx, prefix+dir, func(o objstore.Object) error {
			switch dir {
			case indexDir:
				indexes = append(indexes, o)
			case bindingDir:
				bindings = append(bindings, o)
			default:
				u.unneeded(o)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("gc %q: %w", prefix, err)
		}
	}
	u.generations(indexes, bindings)
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

// generations puts indexes together with the bindings that they are opened with, and orders them by when they were current. An index
// run writes the index anew before it moves the pointer, also to a generation that was current before.
func (u *Unused) generations(indexes, bindings []objstore.Object) {
	needed := map[string]objstore.Object{} // binding by generation
	for _, o := range bindings {
		generation, hash, _ := strings.Cut(strings.TrimPrefix(o.Key, u.prefix+bindingDir), "-")
		best, found := needed[generation]
		switch {
		case generation == u.Current && hash != u.at.Binding, found && !o.Modified.After(best.Modified):
			u.unneeded(o)
			continue
		case found:
			u.unneeded(best)
		}
		needed[generation] = o
	}
	isCurrent := func(o objstore.Object) int {
		if o.Key == indexObject(u.prefix, u.Current) {
			return 1
		}
		return 0
	}
	slices.SortFunc(indexes, func(a, b objstore.Object) int {
		return cmp.Or(a.Modified.Compare(b.Modified), cmp.Compare(isCurrent(a), isCurrent(b)), cmp.Compare(a.Key, b.Key))
	})
	var current []Generation
	for i, o := range indexes {
		g := Generation{Generation: strings.TrimPrefix(o.Key, u.prefix+indexDir), Written: o.Modified, Objects: []objstore.Object{o}}
		if b, ok := needed[g.Generation]; ok {
			g.Objects = append(g.Objects, b)
			if b.Modified.After(g.Written) {
				g.Written = b.Modified
			}
			delete(needed, g.Generation)
		}
		if g.Generation == u.Current {
			current = append(current, g)
			continue
		}
		g.Until = o.Modified // no pointer names it, or a pointer was put back by hand
		if i+1 < len(indexes) {
			g.Until = indexes[i+1].Modified
		}
		u.Generations = append(u.Generations, g)
	}
	slices.Reverse(u.Generations)
	u.Generations = append(current, u.Generations...)
	for generation, o := range needed { // whose index is gone
		if generation != u.Current {
			u.unneeded(o)
		}
	}
}

// Remove removes objects that were listed, u's own or others that lie beside the dataset, and calls removed for each, one call at a time. It
// removes none if the pointer has moved, since one of them may be in use now, and passes over an object that was written
// anew meanwhile: an index run that goes back to an old generation does that before it moves the pointer.
func (u *Unused) Remove(ctx context.Context, objects []objstore.Object, removed func(objstore.Object)) error {
	if now, _, err := readPointer(ctx, u.store, u.prefix); err != nil || now != u.at {
		return fmt.Errorf("gc %q: the current generation changed meanwhile: %w", u.prefix, objstore.ErrChanged)
	}
	var mu sync.Mutex // guards calls of removed
	return sideBySide(ctx, removers, len(objects), func(ctx context.Context, _, i int) error {
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
