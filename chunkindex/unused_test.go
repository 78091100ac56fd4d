package chunkindex

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// drawing is a random set of objects of a dataset, with random times and pointers.
type drawing struct {
	indexes, bindings, notes []objstore.Object
	at                       []publishedPointer
	limit                    time.Time
}

// drawLayout draws objects of four generations and pointers of up to three indexes. It uses only a
// few different times, so that many are equal.
func drawLayout(t *rapid.T) drawing {
	epoch := time.Unix(1e9, 0)
	when := rapid.Map(rapid.IntRange(1, 6), func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Hour) })
	var l drawing
	l.limit = when.Draw(t, "limit")
	hash := func(i int) string { return strings.Repeat(fmt.Sprint(i), 64) }
	for g := range 4 {
		if rapid.IntRange(0, 3).Draw(t, "index") > 0 {
			l.indexes = append(l.indexes, objstore.Object{Key: layout.IndexObject("p/", hash(g)), Modified: when.Draw(t, "written")})
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "bindings") {
			l.bindings = append(l.bindings, objstore.Object{Key: layout.BindingObject("p/", hash(g), hash(i)), Modified: when.Draw(t, "bound")})
		}
		for _, name := range []string{"", "a", "b"} {
			if rapid.Bool().Draw(t, "noted") {
				l.notes = append(l.notes, objstore.Object{Key: layout.OwnerObject("p/", hash(g), name), Modified: when.Draw(t, "noted at")})
			}
		}
	}
	for _, name := range []string{"", "a", "b"} {
		if rapid.Bool().Draw(t, "pointer") {
			p := layout.Pointer{Generation: hash(rapid.IntRange(0, 3).Draw(t, "names")), Binding: hash(rapid.IntRange(0, 3).Draw(t, "binds"))}
			l.at = append(l.at, publishedPointer{Pointer: p, name: name})
		}
	}
	return l
}

// unusedOf computes the Unused of a drawn layout.
func unusedOf(l drawing) *Unused {
	u := &Unused{Current: map[string][]string{}, prefix: "p/", at: l.at, limit: l.limit}
	for _, p := range l.at {
		u.Current[p.Generation] = append(u.Current[p.Generation], p.name)
	}
	u.generations(l.indexes, l.bindings, l.notes)
	return u
}

// of returns the objects whose keys contain a generation.
func of(all []objstore.Object, generation string) (some []objstore.Object) {
	for _, o := range all {
		if strings.Contains(o.Key, "/"+generation) {
			some = append(some, o)
		}
	}
	return some
}

// neededBy returns the bindings and notes that a generation needs. These are the bindings that
// pointers name. A generation without a pointer needs its newest binding, the first one of equal
// age.
func (l drawing) neededBy(generation string) (needed []objstore.Object) {
	current := false
	var newest objstore.Object
	for _, p := range l.at {
		current = current || p.Generation == generation
	}
	for _, o := range of(l.bindings, generation) {
		named := slices.ContainsFunc(l.at, func(p publishedPointer) bool { return layout.BindingObject("p/", p.Generation, p.Binding) == o.Key })
		if named {
			needed = append(needed, o)
		} else if !current && o.Modified.After(newest.Modified) {
			newest = o
		}
	}
	if newest.Key != "" {
		needed = append(needed, newest)
	}
	return append(needed, of(l.notes, generation)...)
}

func keysOf(all []objstore.Object) (keys []string) {
	for _, o := range all {
		keys = append(keys, o.Key)
	}
	slices.Sort(keys)
	return keys
}

// TestUnused_AgreesWithAModel checks that each object is needed by a generation that has an index
// or is current, or is listed as unneeded. The age of an unneeded object is determined by its own
// time.
func TestUnused_AgreesWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLayout(t)
		u := unusedOf(drawing{slices.Clone(l.indexes), l.bindings, l.notes, l.at, l.limit})
		kept := map[string]bool{}
		for _, g := range u.Generations {
			index := of(l.indexes, g.Generation)[0]
			want := append([]objstore.Object{index}, l.neededBy(g.Generation)...)
			if !slices.Equal(keysOf(g.Objects), keysOf(want)) {
				t.Fatalf("%.4s: got %q, want %q", g.Generation, keysOf(g.Objects), keysOf(want))
			}
			last := index.Modified
			for _, o := range want {
				kept[o.Key] = true
				if o.Modified.After(last) {
					last = o.Modified
				}
			}
			if !g.Written.Equal(last) || g.Until.IsZero() != (u.Current[g.Generation] != nil) {
				t.Fatalf("%.4s: got written %v, until %v, want %v", g.Generation, g.Written, g.Until, last)
			}
		}
		if len(u.Generations) != len(l.indexes) {
			t.Fatalf("got %d generations of %d indexes", len(u.Generations), len(l.indexes))
		}
		for generation := range u.Current { // the index object may be missing: gc retains objects that a pointer needs
			for _, o := range l.neededBy(generation) {
				kept[o.Key] = true
			}
		}
		var old []objstore.Object
		young := 0
		for _, o := range append(slices.Clone(l.bindings), l.notes...) {
			switch {
			case kept[o.Key]:
			case o.Modified.Before(l.limit):
				old = append(old, o)
			default:
				young++
			}
		}
		if !slices.Equal(keysOf(u.Objects), keysOf(old)) || u.Younger != young {
			t.Fatalf("got unneeded %q and %d younger ones, want %q and %d", keysOf(u.Objects), u.Younger, keysOf(old), young)
		}
	})
}

// FindUnused lists current generations first, then the most recently written generations.
func TestUnused_OrdersGenerations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLayout(t)
		u := unusedOf(drawing{slices.Clone(l.indexes), l.bindings, l.notes, l.at, l.limit})
		for i := range u.Generations[min(1, len(u.Generations)):] {
			a, b := u.Generations[i], u.Generations[i+1]
			if isA, isB := u.Current[a.Generation] != nil, u.Current[b.Generation] != nil; isA != isB {
				if isB {
					t.Fatalf("%.4s is before the current %.4s", a.Generation, b.Generation)
				}
				continue
			}
			atA, atB := of(l.indexes, a.Generation)[0].Modified, of(l.indexes, b.Generation)[0].Modified
			if atA.Before(atB) || atA.Equal(atB) && a.Generation < b.Generation {
				t.Fatalf("%.4s of %v is before %.4s of %v", a.Generation, atA, b.Generation, atB)
			}
		}
	})
}

// TestUnused_EndsTenuresWithTheNext checks that a generation was current until the next generation
// of its index began. If the generation was in several indexes, the latest time counts.
func TestUnused_EndsTenuresWithTheNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLayout(t)
		u := unusedOf(drawing{slices.Clone(l.indexes), l.bindings, l.notes, l.at, l.limit})
		of := map[string][]tenure{}
		for _, o := range l.notes {
			generation, name, _ := strings.Cut(strings.TrimPrefix(o.Key, "p/"+layout.OwnerDir), "-")
			of[name] = append(of[name], tenure{generation, o.Modified})
		}
		for _, o := range l.indexes {
			generation := strings.TrimPrefix(o.Key, "p/"+layout.IndexDir)
			if !slices.ContainsFunc(l.notes, func(n objstore.Object) bool { return strings.Contains(n.Key, generation) }) {
				of[""] = append(of[""], tenure{generation, o.Modified})
			}
		}
		for _, g := range u.Generations {
			if !g.Until.IsZero() && !g.Until.Equal(endOf(g.Generation, of, u.Current)) {
				t.Fatalf("%.4s: got until %v, want %v", g.Generation, g.Until, endOf(g.Generation, of, u.Current))
			}
		}
	})
}

// endOf returns the time at which a generation was replaced. For each of the generation's own
// tenures, that is the start of the next tenure; the latest one counts.
func endOf(generation string, all map[string][]tenure, current map[string][]string) (end time.Time) {
	for name, tenures := range all {
		later := func(a, b tenure) bool { // a began after b
			if !a.since.Equal(b.since) {
				return a.since.After(b.since)
			}
			if isA, isB := slices.Contains(current[a.generation], name), slices.Contains(current[b.generation], name); isA != isB {
				return isA
			}
			return a.generation > b.generation
		}
		for _, mine := range tenures {
			if mine.generation != generation {
				continue
			}
			next := mine
			for _, other := range tenures {
				if later(other, mine) && (next == mine || later(next, other)) {
					next = other
				}
			}
			if next.since.After(end) {
				end = next.since
			}
		}
	}
	return end
}

// Remove fails once a pointer has moved. It skips objects that were removed or rewritten.
func TestUnused_RemoveRefusesOnceAPointerMoved(t *testing.T) {
	find := func(store *memstore.Store) (*Unused, []objstore.Object) {
		t.Helper()
		u, err := FindUnused(t.Context(), store, "", -time.Hour)
		if err != nil || len(u.Objects) == 0 {
			t.Fatalf("got %+v, %v, want unused objects", u, err)
		}
		return u, u.Objects
	}
	remove := func(u *Unused, objects []objstore.Object) (removed []string, err error) {
		err = u.Remove(t.Context(), objects, func(o objstore.Object) { removed = append(removed, o.Key) })
		return removed, err
	}
	for name, move := range map[string]func(store *memstore.Store){
		"another binding": func(store *memstore.Store) { touch(t, store, "a.tar") },
		"another index": func(store *memstore.Store) {
			text, _ := store.Bytes(layout.PointerKey)
			store.Set(layout.PointerKey+"-other", text)
		},
		"an index less": func(store *memstore.Store) {
			if err := store.Delete(t.Context(), layout.PointerKey+"-first"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		store, _ := history(t)
		text, _ := store.Bytes(layout.PointerKey)
		store.Set(layout.PointerKey+"-first", text)
		u, objects := find(store)
		move(store)
		before := store.Keys()
		if got, err := remove(u, objects); !errors.Is(err, objstore.ErrChanged) || len(got) > 0 || !slices.Equal(store.Keys(), before) {
			t.Errorf("%s: got %q removed, %v, want %v", name, got, err, objstore.ErrChanged)
		}
	}
	store, _ := history(t)
	u, objects := find(store)
	gone, anew := objects[0], objects[1]
	store.Set(anew.Key, []byte("x"))
	o, err := store.Stat(t.Context(), anew.Key)
	if err != nil {
		t.Fatal(err)
	}
	u.limit = o.Modified // an object exactly as old as the limit does not exceed the limit
	if err := store.Delete(t.Context(), gone.Key); err != nil {
		t.Fatal(err)
	}
	got, err := remove(u, objects)
	slices.Sort(got)
	if want := keysOf(objects[2:]); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q removed, %v, want %q", got, err, want)
	}
	if _, there := store.Bytes(anew.Key); !there {
		t.Errorf("%s was rewritten, but removed", anew.Key)
	}
	again, err := remove(u, objects) // objects that no longer exist
	if err != nil || len(again) != 0 {
		t.Errorf("again: got %q removed, %v", again, err)
	}
}
