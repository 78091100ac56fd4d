package chunkindex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/chunkindex/internal/parallel"
	"github.com/millrace-data/millrace/internal/objstore"
)

// removers limits concurrent removals. A removal takes a store tens of milliseconds, and a dataset
// may have a hundred thousand reports.
const removers = 16

// Unused lists the objects stored with a dataset: its generations, which the owner may keep or
// remove, and the objects that no generation needs.
type Unused struct {
	Current     map[string][]string // for each current generation, the names of its indexes; empty name: the default index
	Since       time.Time           // time at which the newest pointer was written
	Generations []Generation        // generations whose index object exists: current ones first, then the most recently current
	Objects     []objstore.Object   // bindings, scans and probes that no generation needs, older than the limit
	Younger     int                 // number of objects that no generation needs and that are younger than the limit

	store    objstore.Store
	prefix   string
	at       []publishedPointer
	limit    time.Time
	segments map[string]objstore.Object // segments that a generation of Generations has, by key
	of       map[string][]string        // keys of the segments of each generation
}

// Generation is a generation whose index object exists.
type Generation struct {
	Generation string
	Until      time.Time         // time at which the next generation of its index was written; zero: this generation is current
	Written    time.Time         // the newest time of Objects
	Objects    []objstore.Object // the index object, its binding and its owner notes
	Segments   int               // number of segments; other generations may have them too
	Bytes      int64             // total size of Objects and of the segments
}

// FindUnused lists the generations, and the objects older than grace that no generation needs. It
// removes nothing.
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
	listed := map[string][]objstore.Object{} // by directory
	for _, dir := range []string{layout.IndexDir, layout.SegmentDir, layout.BindingDir, layout.OwnerDir, layout.ProbeDir, layout.ScanDir} {
		err = store.List(ctx, prefix+dir, func(o objstore.Object) error {
			if dir == layout.ProbeDir || dir == layout.ScanDir {
				u.unneeded(o)
			} else {
				listed[dir] = append(listed[dir], o)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("gc %q: %w", prefix, err)
		}
	}
	if err := u.readSegments(ctx, listed[layout.IndexDir], listed[layout.SegmentDir]); err != nil {
		return nil, fmt.Errorf("gc %q: %w", prefix, err)
	}
	u.generations(listed[layout.IndexDir], listed[layout.BindingDir], listed[layout.OwnerDir])
	return u, nil
}

// readSegments reads which segments each generation has. Segments that none has are unneeded. If an
// index object is unreadable, all segments are kept, because it may have any of them.
func (u *Unused) readSegments(ctx context.Context, indexes, segments []objstore.Object) error {
	u.segments, u.of = map[string]objstore.Object{}, map[string][]string{}
	for _, o := range segments {
		u.segments[o.Key] = o
	}
	needed := map[string]bool{}
	for _, o := range indexes {
		source := indexSource{store: u.store, prefix: u.prefix, generation: strings.TrimPrefix(o.Key, u.prefix+layout.IndexDir)}
		root, _, err := source.readRoot(ctx)
		switch {
		case errors.Is(err, ErrCorrupt), errors.Is(err, ErrVersion), errors.Is(err, objstore.ErrNotFound):
			u.segments = nil
			return nil
		case errors.Is(err, ErrOldVersion): // it has no segments
			continue
		case err != nil:
			return err
		}
		for _, ref := range root.Segments {
			key := layout.SegmentObject(u.prefix, ref.Name())
			needed[key] = true
			u.of[source.generation] = append(u.of[source.generation], key)
		}
	}
	for _, o := range segments {
		if !needed[o.Key] {
			u.unneeded(o)
			delete(u.segments, o.Key)
		}
	}
	return nil
}

// Segments returns the segments that only generations of remove have.
func (u *Unused) Segments(remove func(generation string) bool) (only []objstore.Object) {
	kept := map[string]bool{}
	for generation, keys := range u.of {
		for _, key := range keys {
			kept[key] = kept[key] || !remove(generation)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(u.segments)) {
		if !kept[key] {
			only = append(only, u.segments[key])
		}
	}
	return only
}

// unneeded records an object that no generation needs.
func (u *Unused) unneeded(o objstore.Object) {
	if o.Modified.Before(u.limit) {
		u.Objects = append(u.Objects, o)
	} else {
		u.Younger++
	}
}

// generations combines indexes with their bindings and owner notes, and sorts them by the time when
// they were current. An index run rewrites the index object before it moves the pointer, even to an
// earlier generation. The write time thus shows when a generation became current.
func (u *Unused) generations(indexes, bindings, notes []objstore.Object) {
	ends := endTimes(u.tenures(indexes, notes))
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
		for _, o := range g.Objects {
			g.Bytes += o.Size
		}
		g.Segments = len(u.of[g.Generation])
		for _, key := range u.of[g.Generation] {
			g.Bytes += u.segments[key].Size
		}
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
	for generation, objects := range needed { // generations whose index object does not exist
		if u.Current[generation] == nil {
			for _, o := range objects {
				u.unneeded(o)
			}
		}
	}
}

// neededBindings adds the bindings that each generation needs: the bindings that pointers name, or
// the newest binding if no pointer names the generation.
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

// Remove deletes listed objects, from u or from elsewhere in the dataset, and calls removed for
// each, one call at a time. If a pointer has moved since the listing, Remove deletes nothing,
// because an object may be in use now. It skips objects that were rewritten since the listing: an
// index run rewrites an old generation's objects before it moves the pointer.
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
