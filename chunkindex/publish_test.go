package chunkindex

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// answers is a store whose writes are answered by a script: one that returns nil writes.
type answers struct {
	objstore.Store
	put func(n int, key string, cond objstore.Condition) error // n counts from 0
	n   int
}

func (a *answers) Put(ctx context.Context, key string, body io.ReaderAt, size int64, cond objstore.Condition) (objstore.Object, error) {
	n := a.n
	a.n++
	if err := a.put(n, key, cond); err != nil {
		return objstore.Object{}, err
	}
	return a.Store.Put(context.WithoutCancel(ctx), key, body, size, objstore.Condition{}) // an answer that was on its way
}

// TestProbe_JudgesEachWriteByItself: the first has to succeed, the others have to be refused as conditions are. It leaves no object.
func TestProbe_JudgesEachWriteByItself(t *testing.T) {
	refused := objstore.ErrChanged
	for name, c := range map[string]struct {
		of   [3]error
		want error  // the class; nil: success, or ignored conditions
		text string // empty: success
	}{
		"conditions hold":       {[3]error{nil, refused, refused}, nil, ""},
		"ignores IfAbsent":      {[3]error{nil, nil, refused}, nil, "ignores conditions"},
		"ignores IfMatch":       {[3]error{nil, refused, nil}, nil, "ignores conditions"},
		"first write fails":     {[3]error{objstore.ErrUnavailable, refused, refused}, objstore.ErrUnavailable, "--single-writer does without them"},
		"first write refused":   {[3]error{refused, refused, refused}, refused, "--single-writer does without them"},
		"IfAbsent fails":        {[3]error{nil, objstore.ErrUnavailable, refused}, objstore.ErrUnavailable, "--single-writer does without them"},
		"IfMatch fails":         {[3]error{nil, refused, objstore.ErrUnavailable}, objstore.ErrUnavailable, "--single-writer does without them"},
		"takes no writes":       {[3]error{objstore.ErrDenied, refused, refused}, ErrReadOnly, "takes no writes"},
		"takes no later writes": {[3]error{nil, refused, objstore.ErrDenied}, ErrReadOnly, "takes no writes"},
	} {
		for _, ended := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			store := memstore.New()
			var conds []objstore.Condition
			err := probe(ctx, Place{indexStore{&answers{Store: store, put: func(n int, key string, cond objstore.Condition) error {
				if conds = append(conds, cond); n == 2 && ended {
					cancel()
				}
				if !strings.HasPrefix(key, "p/"+probeDir) {
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

// TestPoint_NamesTheConditionOfItsPointer, and says what came of a refusal.
func TestPoint_NamesTheConditionOfItsPointer(t *testing.T) {
	next := pointer{Version: 2, Generation: strings.Repeat("ab", 32), Binding: strings.Repeat("cd", 32)}
	other := pointer{Version: 2, Generation: strings.Repeat("ef", 32), Binding: strings.Repeat("cd", 32)}
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
			there *pointer // what another run has published
			put   error
			want  error
			text  string
		}{
			"written":          {nil, nil, nil, ""},
			"fails":            {nil, objstore.ErrUnavailable, objstore.ErrUnavailable, "unavailable"},
			"same":             {&next, objstore.ErrChanged, nil, ""},
			"another":          {&other, objstore.ErrChanged, objstore.ErrChanged, "generation " + other.Generation + " meanwhile, ours is " + next.Generation + ": run again"},
			"another, is gone": {nil, objstore.ErrChanged, objstore.ErrChanged, "another index run published meanwhile"},
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
				if key != "p/"+pointerKey+"-n" || cond != c.want {
					t.Errorf("%s: got %+v of %s, want %+v", name, cond, key, c.want)
				}
				return answer.put
			}}
			err := p.point(t.Context(), next)
			if !errors.Is(err, answer.want) || (err == nil) != (answer.text == "") || err != nil && !strings.Contains(err.Error(), answer.text) {
				t.Errorf("%s, %s: got %v, want %v with %q", name, what, err, answer.want, answer.text)
			}
			if got, _, err := readPointer(t.Context(), store, "p/", "n"); answer.put == nil && (err != nil || got != next) {
				t.Errorf("%s, %s: got the pointer %+v, %v", name, what, got, err)
			}
		}
	}
}

// TestPublish_WritesThePointerLast: note, index, binding, pointer. A run that fails at any of them leaves the old pointer.
func TestPublish_WritesThePointerLast(t *testing.T) {
	for _, name := range []string{"", "n"} {
		want := []string{indexDir, bindingDir, pointerKey}
		if name != "" {
			want = slices.Insert(want, 0, ownerDir)
		}
		for fails := 0; fails <= len(want); fails++ {
			store, _ := smallStore(t)
			store.Set("c.tar", mustBytes(t, store, "a.tar"))
			opt := BuildOptions{Name: name, SingleWriter: true}
			before, _ := store.Bytes(pointerObject("", name))
			var got []string
			opt.Index.Store = &answers{Store: store, put: func(n int, key string, _ objstore.Condition) error {
				got = append(got, want[slices.IndexFunc(want, func(dir string) bool { return strings.HasPrefix(key, dir) })])
				if n == fails {
					return objstore.ErrUnavailable
				}
				return nil
			}}
			_, err := Build(t.Context(), store, "", opt)
			if fails == len(want) {
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("%q: got %q written, %v, want %q", name, got, err, want)
				}
				continue
			}
			after, _ := store.Bytes(pointerObject("", name))
			if !errors.Is(err, objstore.ErrUnavailable) || !slices.Equal(got, want[:fails+1]) || string(after) != string(before) {
				t.Errorf("%q, fails at %s: got %q written, %v", name, want[fails], got, err)
			}
		}
	}
}

func mustBytes(t *testing.T, store *memstore.Store, key string) []byte {
	t.Helper()
	b, ok := store.Bytes(key)
	if !ok {
		t.Fatalf("no object %s", key)
	}
	return b
}

// TestDecodePointer_RefusesWhatIsNone, and reads the version of a newer one before anything else.
func TestDecodePointer_RefusesWhatIsNone(t *testing.T) {
	g, b := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	text := func(version int, generation, binding string) string {
		return fmt.Sprintf(`{"version":%d,"generation":%q,"binding":%q}`, version, generation, binding)
	}
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"oldest":               {text(1, g, b), nil},
		"present":              {text(pointerVersion, g, b), nil},
		"newer":                {text(pointerVersion+1, g, b), ErrVersion},
		"newer, of other form": {`{"version":99,"generation":{"sha512":""}}`, ErrVersion},
		"no version":           {text(0, g, b), ErrCorrupt},
		"negative version":     {text(-1, g, b), ErrCorrupt},
		"no generation":        {text(2, "", b), ErrCorrupt},
		"no binding":           {text(2, g, ""), ErrCorrupt},
		"a path":               {text(2, "../../"+g[:58], b), ErrCorrupt},
		"short generation":     {text(2, g[2:], b), ErrCorrupt},
		"long binding":         {text(2, g, b+"ab"), ErrCorrupt},
		"capital letters":      {text(2, strings.ToUpper(g), b), ErrCorrupt},
		"of other types":       {`{"version":2,"generation":1,"binding":2}`, ErrCorrupt},
		"no JSON":              {"version 2", ErrCorrupt},
		"cut":                  {text(2, g, b)[:100], ErrCorrupt},
	} {
		p, err := decodePointer([]byte(c.text))
		if !errors.Is(err, c.want) || c.want == ErrVersion && errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if c.want == nil && (p.Generation != g || p.Binding != b) || c.want != nil && p != (pointer{}) {
			t.Errorf("%s: got %+v", name, p)
		}
	}
}

// TestIndexNames_ListsOnlyPointers of names that an index can have.
func TestIndexNames_ListsOnlyPointers(t *testing.T) {
	store := memstore.New()
	long := strings.Repeat("n", 64)
	for _, key := range []string{"", "-b", "-a.b_c-1", "-" + long, "-" + long + "n", "-", "-B", "-a/b", "s", "ly-a", "-ä"} {
		store.Set("p/"+pointerKey+key, []byte("x"))
	}
	got, err := IndexNames(t.Context(), store, "p/")
	if want := []string{"", "a.b_c-1", "b", long}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, c := range []struct {
		name string
		has  []string
		want string
	}{
		{"", nil, "no index here yet"},
		{"a", nil, "no index here yet"},
		{"", []string{"a", "b"}, "no default index here, but #a, #b: name one behind the address"},
		{"c", []string{"", "b"}, "no index #c here, but the default one, #b"},
	} {
		e := &NoIndexError{Name: c.name, Has: c.has}
		if e.Error() != c.want || !errors.Is(e, objstore.ErrNotFound) {
			t.Errorf("%q of %q: got %v, want %s", c.name, c.has, e, c.want)
		}
	}
	// A pointer that is damaged is named by its key.
	if _, err := readPointers(t.Context(), store, "p/"); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "p/"+pointerKey+": ") {
		t.Errorf("got %v, want the damaged pointer", err)
	}
	if _, err := readPointers(t.Context(), store, "q/"); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("without a pointer: got %v, want %v", err, objstore.ErrNotFound)
	}
}
