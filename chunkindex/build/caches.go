package build

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/arrowipc"
	"github.com/millrace-data/millrace/chunkindex/format/offsets"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/internal/objstore"
)

// cacheName matches the tables that map, filter and similar calls of Hugging Face's datasets store
// next to their input. The name contains a fingerprint. With num_proc, it also contains the number
// of the process.
var cacheName = regexp.MustCompile(`^(cache-[0-9a-f]+)(?:_\d{5}(_of_(\d{5})))?\.arrow$`)

// call describes the tables that one call stored.
type call struct {
	pattern string // selects the tables
	tables  []string
	want    int  // number of tables that the call stores
	indices bool // the table selects rows of another one, as that of filter and shuffle does
}

// cached divides the Arrow tables that datasets stored into those of each call in a cache, others,
// such as the input of the calls, and those of calls in a directory of save_to_disk.
func (l *listing) cached() (calls []*call, others, beside []string) {
	for _, o := range l.seen {
		name := cacheName.FindStringSubmatch(path.Base(o.Key))
		_, saved := offsets.Find(l.seen, path.Join(path.Dir(o.Key), "state.json"))
		switch {
		case name == nil && format.Ext(o.Key) == ".arrow":
			others = append(others, o.Key)
		case name == nil:
		case saved:
			beside = append(beside, o.Key)
		default:
			c := &call{pattern: name[1] + ".arrow", want: 1}
			if name[2] != "" {
				c.pattern = name[1] + "_*" + name[2] + ".arrow"
				c.want, _ = strconv.Atoi(name[3])
			}
			if i := slices.IndexFunc(calls, func(other *call) bool { return other.pattern == c.pattern }); i >= 0 {
				c = calls[i]
			} else {
				calls = append(calls, c)
			}
			c.tables = append(c.tables, o.Key)
		}
	}
	return calls, others, beside
}

// withoutInput removes tables of Hugging Face's datasets from which another table was derived, and
// describes the removal. Otherwise rows would be repeated. In a directory of save_to_disk, its
// state.json lists the tables, so withoutInput removes the derived ones. In a cache, it removes the
// input if a single call of map derived a table. It accepts a pattern that the user chose.
func (b *builder) withoutInput(ctx context.Context, l *listing) (*listing, string, error) {
	if b.opt.Format != "" && b.opt.Format != framing.Arrow || b.chosenByPattern() {
		return l, "", nil
	}
	calls, others, left := l.cached()
	said := "omitted the tables that map or filter stored next to those of save_to_disk: --match 'cache-*.arrow' selects them"
	if len(calls) > 0 {
		if err := l.readCalls(ctx, calls); err != nil {
			return nil, "", err
		}
		switch {
		case len(calls) == 1 && len(others) == 0 && !calls[0].indices:
			return l, "", nil
		case !mapped(calls, others) || len(left) > 0:
			return nil, "", refuseCalls(calls, others)
		}
		left = others
		said = fmt.Sprintf("used the table that map derived, %s, and omitted its input, such as %s: --match '!cache-*.arrow' selects the input", calls[0].pattern, others[0])
	}
	if len(left) == 0 {
		return l, "", nil
	}
	return newListing(l.store, l.prefix, slices.DeleteFunc(slices.Clone(l.objects), func(o objstore.Object) bool {
		_, found := slices.BinarySearch(left, o.Key[len(l.prefix):])
		return found
	})), said, nil
}

// readCalls finds out which of the calls stored only indices.
func (l *listing) readCalls(ctx context.Context, calls []*call) error {
	for _, c := range calls {
		o, _ := offsets.Find(l.seen, c.tables[0])
		columns, err := arrowipc.Columns(ctx, l, o)
		if err != nil {
			return fmt.Errorf("object %s: %w", o.Key, err)
		}
		c.indices = len(columns) == 1 && columns[0].Name == "indices"
	}
	return nil
}

// mapped reports whether a cache contains a single dataset and the complete tables of one call of
// map. Files do not record the input of a call, so two calls may be independent or a sequence.
func mapped(calls []*call, others []string) bool {
	c := calls[0]
	return len(calls) == 1 && !c.indices && len(c.tables) == c.want && !slices.ContainsFunc(others, func(key string) bool {
		return path.Dir(key) != path.Dir(c.tables[0]) || splitOf(key) != splitOf(others[0])
	})
}

// refuseCalls returns an error that lists the tables of each call.
func refuseCalls(calls []*call, others []string) error {
	e := &format.ChoiceError{Cause: fmt.Sprintf("object %s was derived from other tables, as by map and filter of Hugging Face's datasets, and its input is not recorded", calls[0].tables[0])}
	if len(others) > 0 {
		e.Ways = append(e.Ways, format.Way{Flag: "match", Value: "!cache-*.arrow", Effect: fmt.Sprintf("selects the %d other tables", len(others))})
	}
	for _, c := range calls {
		if !c.indices {
			e.Ways = append(e.Ways, format.Way{Flag: "match", Value: c.pattern, Effect: fmt.Sprintf("selects %d of %d tables of one call", len(c.tables), c.want)})
		}
	}
	e.Ways = append(e.Ways, format.Way{Command: "dataset.save_to_disk(DIRECTORY)", Effect: "in Python writes the rows that the calls selected"})
	return e
}
