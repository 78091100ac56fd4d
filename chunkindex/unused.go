package chunkindex

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// removers is how many objects are removed side by side: a store takes tens of milliseconds for each, and a dataset may have
// a hundred thousand reports.
const removers = 16

// Unused is what lies beside a dataset that its pointer does not name: indexes, bindings, scans and probes.
type Unused struct {
	Current string               // generation that the pointer names
	Since   time.Time            // when the pointer was written
	Indexes map[string]time.Time // generations whose index lies there, Current included, and when it was written
	Objects []objstore.Object    // those older than the limit
	Younger int                  // how many objects are not

	store  objstore.Store
	prefix string
	at     pointer
	limit  time.Time
}

// FindUnused lists what is unused and older than grace. It removes nothing.
func FindUnused(ctx context.Context, store objstore.Store, prefix string, grace time.Duration) (*Unused, error) {
	p, obj, err := readPointer(ctx, store, prefix)
	if err != nil {
		return nil, fmt.Errorf("gc %q: %w", prefix, advise(prefix, err))
	}
	u := &Unused{
		Current: p.Generation, Since: obj.Modified, Indexes: map[string]time.Time{},
		store: store, prefix: prefix, at: p, limit: time.Now().Add(-grace),
	}
	keep := map[string]bool{indexObject(prefix, p.Generation): true, bindingObject(prefix, p.Generation, p.Binding): true}
	for _, dir := range []string{bindingDir, indexDir, probeDir, scanDir} {
		err = store.List(ctx, prefix+dir, func(o objstore.Object) error {
			if dir == indexDir {
				u.Indexes[strings.TrimPrefix(o.Key, prefix+dir)] = o.Modified
			}
			switch {
			case keep[o.Key]:
			case o.Modified.Before(u.limit):
				u.Objects = append(u.Objects, o)
			default:
				u.Younger++
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("gc %q: %w", prefix, err)
		}
	}
	return u, nil
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
