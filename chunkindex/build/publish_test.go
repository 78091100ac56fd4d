package build

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shards"
)

// answers is a store whose writes follow a script: a write succeeds if put returns nil.
type answers struct {
	objstore.Store
	put func(n int, key string, cond objstore.Condition) error // n is the number of the write, from 0
	n   int
}

func (a *answers) Put(ctx context.Context, key string, body io.ReaderAt, size int64, cond objstore.Condition) (objstore.Object, error) {
	n := a.n
	a.n++
	if err := a.put(n, key, cond); err != nil {
		return objstore.Object{}, err
	}
	return a.Store.Put(context.WithoutCancel(ctx), key, body, size, objstore.Condition{}) // completes the write even if its context has ended
}

// TestProbe_JudgesEachWriteByItself checks that the first write of the probe must succeed and that
// the other writes must fail because of their conditions. The probe must leave no object.
func TestProbe_JudgesEachWriteByItself(t *testing.T) {
	refused := objstore.ErrChanged
	for name, c := range map[string]struct {
		of   [3]error
		want error  // error class; nil: success, or a store that ignores conditions
		text string // empty: success
	}{
		"conditions hold":       {[3]error{nil, refused, refused}, nil, ""},
		"ignores IfAbsent":      {[3]error{nil, nil, refused}, nil, "ignores conditions"},
		"ignores IfMatch":       {[3]error{nil, refused, nil}, nil, "ignores conditions"},
		"first write fails":     {[3]error{objstore.ErrUnavailable, refused, refused}, objstore.ErrUnavailable, "not required with --single-writer"},
		"first write refused":   {[3]error{refused, refused, refused}, refused, "not required with --single-writer"},
		"IfAbsent fails":        {[3]error{nil, objstore.ErrUnavailable, refused}, objstore.ErrUnavailable, "not required with --single-writer"},
		"IfMatch fails":         {[3]error{nil, refused, objstore.ErrUnavailable}, objstore.ErrUnavailable, "not required with --single-writer"},
		"takes no writes":       {[3]error{objstore.ErrDenied, refused, refused}, ErrReadOnly, "is read-only"},
		"takes no later writes": {[3]error{nil, refused, objstore.ErrDenied}, ErrReadOnly, "is read-only"},
	} {
		for _, ended := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			store := memstore.New()
			var conds []objstore.Condition
			err := probe(ctx, Place{indexStore{&answers{Store: store, put: func(n int, key string, cond objstore.Condition) error {
				if conds = append(conds, cond); n == 2 && ended {
					cancel()
				}
				if !strings.HasPrefix(key, "p/"+layout.ProbeDir) {
					t.Errorf("%s: got a write of %s", name, key)
				}
				return c.of[n]
			}}}, "p/"})
			cancel()
			if c.want != nil && !errors.Is(err, c.want) || (err == nil) != (c.text == "") || err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s: got %v, want %q", name, err, c.text)
			}
			if errors.Is(err, ErrReadOnly) && strings.Contains(err.Error(), "--single-writer") {
				t.Errorf("%s: got %v, whose cure does not help", name, err)
			}
			if keys := store.Keys(); len(keys) != 0 {
				t.Errorf("%s: got %q left", name, keys)
			}
			if c.of[0] == nil && (len(conds) != 3 || !conds[0].IfAbsent || !conds[1].IfAbsent || conds[2].IfMatch == "") {
				t.Errorf("%s: got conditions %+v", name, conds)
			}
		}
	}
}

// TestPoint_NamesTheConditionOfItsPointer checks that point uses the write condition for the
// existing pointer, and that it explains a failed condition.
func TestPoint_NamesTheConditionOfItsPointer(t *testing.T) {
	next := layout.Pointer{Version: 2, Generation: strings.Repeat("ab", 32), Binding: strings.Repeat("cd", 32)}
	other := layout.Pointer{Version: 2, Generation: strings.Repeat("ef", 32), Binding: strings.Repeat("cd", 32)}
	for name, c := range map[string]struct {
		single bool
		etag   string
		want   objstore.Condition
	}{
		"first":                  {false, "", objstore.Condition{IfAbsent: true}},
		"next":                   {false, "7", objstore.Condition{IfMatch: "7"}},
		"first, the only writer": {true, "", objstore.Condition{}},
		"next, the only writer":  {true, "7", objstore.Condition{}},
	} {
		for what, answer := range map[string]struct {
			there *layout.Pointer // the pointer that another run has published
			put   error
			want  error
			text  string
		}{
			"written":          {nil, nil, nil, ""},
			"fails":            {nil, objstore.ErrUnavailable, objstore.ErrUnavailable, "unavailable"},
			"same":             {&next, objstore.ErrChanged, nil, ""},
			"another":          {&other, objstore.ErrChanged, objstore.ErrChanged, "generation " + other.Generation + " while this run made " + next.Generation + ": run again"},
			"another, is gone": {nil, objstore.ErrChanged, objstore.ErrChanged, "another index run published a generation during this run"},
		} {
			store := memstore.New()
			if answer.there != nil {
				p := publisher{store: store, prefix: "p/", name: "n", single: true}
				if err := p.point(t.Context(), *answer.there); err != nil {
					t.Fatal(err)
				}
			}
			p := publisher{prefix: "p/", name: "n", single: c.single, oldObj: objstore.Object{ETag: c.etag}}
			p.store = &answers{Store: store, put: func(_ int, key string, cond objstore.Condition) error {
				if key != "p/"+layout.PointerKey+"-n" || cond != c.want {
					t.Errorf("%s: got %+v of %s, want %+v", name, cond, key, c.want)
				}
				return answer.put
			}}
			err := p.point(t.Context(), next)
			if !errors.Is(err, answer.want) || (err == nil) != (answer.text == "") || err != nil && !strings.Contains(err.Error(), answer.text) {
				t.Errorf("%s, %s: got %v, want %v with %q", name, what, err, answer.want, answer.text)
			}
			if got, _, err := layout.ReadPointer(t.Context(), store, "p/", "n"); answer.put == nil && (err != nil || got != next) {
				t.Errorf("%s, %s: got the pointer %+v, %v", name, what, got, err)
			}
		}
	}
}

// TestPublish_WritesThePointerLast checks that publish writes the owner object, the segment, the
// index, the binding and the pointer, in this order. If any write fails, the old pointer must remain.
func TestPublish_WritesThePointerLast(t *testing.T) {
	for _, name := range []string{"", "n"} {
		want := []string{layout.SegmentDir, layout.IndexDir, layout.BindingDir, layout.PointerKey}
		if name != "" {
			want = slices.Insert(want, 0, layout.OwnerDir)
		}
		for fails := 0; fails <= len(want); fails++ {
			store, _ := indexedTars(t)
			store.Set("c.tar", shards.Bytes(t, store, "a.tar"))
			opt := Options{Name: name, SingleWriter: true}
			before, _ := store.Bytes(layout.PointerObject("", name))
			var got []string
			opt.Index.Store = &answers{Store: store, put: func(n int, key string, _ objstore.Condition) error {
				got = append(got, want[slices.IndexFunc(want, func(dir string) bool { return strings.HasPrefix(key, dir) })])
				if n == fails {
					return objstore.ErrUnavailable
				}
				return nil
			}}
			_, err := Run(t.Context(), store, "", opt)
			if fails == len(want) {
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("%q: got %q written, %v, want %q", name, got, err, want)
				}
				continue
			}
			after, _ := store.Bytes(layout.PointerObject("", name))
			if !errors.Is(err, objstore.ErrUnavailable) || !slices.Equal(got, want[:fails+1]) || string(after) != string(before) {
				t.Errorf("%q, fails at %s: got %q written, %v", name, want[fails], got, err)
			}
		}
	}
}
