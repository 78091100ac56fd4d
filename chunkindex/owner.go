package chunkindex

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
)

// tenure is the period in which a generation was current in one index. It ends when the next tenure
// begins.
type tenure struct {
	generation string
	since      time.Time
}

// tenures maps the name of each index to its tenures in chronological order.
func (u *Unused) tenures(indexes, notes []objstore.Object) map[string][]tenure {
	all, noted := map[string][]tenure{}, map[string]bool{}
	for _, o := range notes {
		if generation, name, ok := layout.ParseOwner(u.prefix, o.Key); ok {
			noted[generation] = true
			all[name] = append(all[name], tenure{generation, o.Modified})
		}
	}
	for _, o := range indexes {
		if generation := strings.TrimPrefix(o.Key, u.prefix+layout.IndexDir); !noted[generation] {
			all[""] = append(all[""], tenure{generation, o.Modified})
		}
	}
	for name, of := range all {
		last := func(t tenure) int { // of tenures that began at the same time, the current generation sorts last
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

// endTimes returns the time at which each generation was replaced by the next one of its index: the
// latest such time among all its indexes. The last generation of an index may not be current, if an
// operator restored a pointer by hand. It then counts as replaced when it began.
func endTimes(all map[string][]tenure) map[string]time.Time {
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
