package chunkindex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Owners. A prefix with several indexes has the generations of all of them side by side. A small object for each generation and each
// index that ever was this generation says so: URLs reach the generations of their own index alone, and gc knows when a
// generation was replaced. A generation without such an object belongs to the default index, which is how a prefix with one
// index needs none of them.

// ownerObject is the key of what says that a generation is one of an index; an empty name means the default index.
func ownerObject(prefix, generation, name string) string {
	return prefix + ownerDir + generation + "-" + name
}

// parseOwner returns what the key of such an object says.
func parseOwner(prefix, key string) (generation, name string, ok bool) {
	generation, name, found := strings.Cut(strings.TrimPrefix(key, prefix+ownerDir), "-")
	return generation, name, found && isDigest(generation) && (name == "" || ValidIndexName(name))
}

// owners returns the names of the indexes that a generation is noted for.
func owners(ctx context.Context, store objstore.Store, prefix, generation string) (names []string, err error) {
	err = store.List(ctx, ownerObject(prefix, generation, ""), func(o objstore.Object) error {
		if _, name, ok := parseOwner(prefix, o.Key); ok {
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// noteOwner notes that a generation is about to become that of the publisher's index. It is written before the index is, so
// that a generation without a note is the default index's.
func (p *publisher) noteOwner(ctx context.Context, generation string) error {
	names, err := owners(ctx, p.store, p.prefix, generation)
	if err != nil {
		return err
	}
	put := func(name string) error {
		text := NameText(name) + "\n"
		_, err := p.store.Put(ctx, ownerObject(p.prefix, generation, name), strings.NewReader(text), int64(len(text)), objstore.Condition{})
		return err
	}
	if len(names) == 0 {
		if p.name == "" {
			return nil
		}
		_, err := p.store.Stat(ctx, indexObject(p.prefix, generation))
		if err == nil {
			err = put("")
		}
		if err != nil && !errors.Is(err, objstore.ErrNotFound) {
			return err
		}
	}
	return put(p.name)
}

// checkOwner refuses a generation that never was the one of this index.
func checkOwner(ctx context.Context, store objstore.Store, prefix, name, generation string) error {
	names, err := owners(ctx, store, prefix, generation)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = []string{""}
	}
	if !slices.Contains(names, name) {
		return fmt.Errorf("generation %.12s is none of this index: %w", generation, objstore.ErrNotFound)
	}
	return nil
}

// tenure is a generation's time as the current one of an index, until the next one's began.
type tenure struct {
	generation string
	since      time.Time
}

// tenures returns the tenures of each index, by its name and in the order of time.
func (u *Unused) tenures(indexes, notes []objstore.Object) map[string][]tenure {
	all, noted := map[string][]tenure{}, map[string]bool{}
	for _, o := range notes {
		if generation, name, ok := parseOwner(u.prefix, o.Key); ok {
			noted[generation] = true
			all[name] = append(all[name], tenure{generation, o.Modified})
		}
	}
	for _, o := range indexes {
		if generation := strings.TrimPrefix(o.Key, u.prefix+indexDir); !noted[generation] {
			all[""] = append(all[""], tenure{generation, o.Modified})
		}
	}
	for name, of := range all {
		last := func(t tenure) int { // the current one is the last of those that were written at once
			if slices.Contains(u.Current[t.generation], name) {
				return 1
			}
			return 0
		}
		slices.SortFunc(of, func(a, b tenure) int {
			return cmp.Or(a.since.Compare(b.since), cmp.Compare(last(a), last(b)), cmp.Compare(a.generation, b.generation))
		})
	}
	return all
}

// until returns when each generation was replaced by the next one of its index, the last such time of several indexes. One that is
// the last of its index although no pointer names it counts as replaced when it began: a pointer was put back by hand.
func until(all map[string][]tenure) map[string]time.Time {
	ends := map[string]time.Time{}
	for _, of := range all {
		for i, t := range of {
			end := t.since
			if i+1 < len(of) {
				end = of[i+1].since
			}
			if end.After(ends[t.generation]) {
				ends[t.generation] = end
			}
		}
	}
	return ends
}
