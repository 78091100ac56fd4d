package garbage

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/words"
)

// Generation is a generation with an index, and whether it is removed.
type Generation struct {
	Generation string     `json:"generation"`
	Indexes    []string   `json:"indexes,omitempty"` // names of the indexes whose current generation this is; "" is the default index
	Until      *time.Time `json:"until,omitempty"`   // when the next one became current; omitted for the current one
	Objects    int        `json:"objects"`           // including segments that other generations have too, and what belongs to the generation
	Bytes      int64      `json:"bytes"`             // size of these objects
	Remove     bool       `json:"remove"`
	Why        string     `json:"why"`
}

// dependents counts the subsets, quarantines, cost tables, snapshots and reports of a generation.
type dependents struct {
	objects int
	bytes   int64
	newest  time.Time
	kind    string // kind of the newest object, for the reason
}

// dependentsOf counts the dependents of each generation.
func dependentsOf(s *selection.Inventory, snapshots []importance.StoredSnapshot, reports []importance.StoredReports) map[string]*dependents {
	all := map[string]*dependents{}
	add := func(generation, kind string, objects int, o objstore.Object) {
		b := all[generation]
		if b == nil {
			b = &dependents{}
			all[generation] = b
		}
		b.objects, b.bytes = b.objects+objects, b.bytes+o.Size
		if o.Modified.After(b.newest) {
			b.newest, b.kind = o.Modified, kind
		}
	}
	for _, x := range s.Splits {
		add(x.Generation, Subset, 1, x.Object)
	}
	for _, x := range s.Defaults {
		add(x.Generation, Subset, 1, x.Object)
	}
	for _, x := range s.Quarantines {
		add(x.Generation, Quarantine, 1, x.Object)
	}
	for _, x := range s.Costs {
		add(x.Generation, Cost, 1, x.Object)
	}
	for _, x := range s.CostNames {
		add(x.Generation, Cost, 1, x.Object)
	}
	for _, x := range snapshots {
		add(x.Generation, Snapshot, 1, x.Object)
	}
	for _, x := range reports {
		add(x.Generation, "report", len(x.Objects), objstore.Object{Size: x.Bytes, Modified: x.Newest})
	}
	return all
}

// generations decides which generations are removed.
func (f *Result) generations(belongs map[string]*dependents) {
	for i, g := range f.unused.Generations {
		b := belongs[g.Generation]
		if b == nil {
			b = &dependents{}
		}
		row := Generation{Generation: g.Generation, Indexes: f.unused.Current[g.Generation], Objects: len(g.Objects) + g.Segments + b.objects, Bytes: g.Bytes + b.bytes}
		if !g.Until.IsZero() {
			until := g.Until.UTC()
			row.Until = &until
		}
		keep := max(f.opt.Keep, f.opt.Grace)
		switch {
		case len(row.Indexes) > 0:
			row.Why = namedBy(row.Indexes)
		case i < f.opt.KeepLast:
			row.Why = fmt.Sprintf("one of the last %d", f.opt.KeepLast)
		case !f.older(g.Written, f.opt.Grace):
			row.Why = f.young()
		case !f.older(g.Until, keep):
			row.Why = "was current within " + words.Duration(keep)
		case b.objects > 0 && !f.older(b.newest, keep):
			row.Why = fmt.Sprintf("a %s of it was written within %s", b.kind, words.Duration(keep))
		case b.objects > 0 && f.opt.KeepUsed:
			row.Why = fmt.Sprintf("%s to it", words.Count(b.objects, "object belongs", "objects belong"))
		default:
			row.Remove, row.Why = true, "was current until "+clock(g.Until)
			for _, o := range g.Objects {
				f.Remove = append(f.Remove, newItem(Index, o, fmt.Sprintf("generation %.12s %s", g.Generation, row.Why)))
			}
		}
		f.Generations = append(f.Generations, row)
	}
	for _, o := range f.unused.Segments(f.removed) {
		f.Remove = append(f.Remove, newItem(Index, o, "only deleted generations have it"))
	}
}

// removed reports whether a generation is removed.
func (f *Result) removed(generation string) bool {
	g := f.generation(generation)
	return g != nil && g.Remove
}

// namedBy describes the pointers that name a generation.
func namedBy(indexes []string) string {
	if len(indexes) == 1 && indexes[0] == "" {
		return "the pointer names it"
	}
	var names []string
	for _, name := range indexes {
		names = append(names, chunkindex.NameText(name))
	}
	return "current as " + strings.Join(names, ", ")
}

// clock formats a time for people.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// generation returns the row of a generation, nil if it has no index.
func (f *Result) generation(name string) *Generation {
	for i := range f.Generations {
		if f.Generations[i].Generation == name {
			return &f.Generations[i]
		}
	}
	return nil
}
