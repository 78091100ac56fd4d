package objstoretest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
)

func keys(t *testing.T, s objstore.Store, prefix string) []string {
	t.Helper()
	var got []string
	err := s.List(t.Context(), prefix, func(o objstore.Object) error {
		if o.ETag == "" || o.Size < 0 {
			t.Errorf("listed %+v, want an ETag and a size", o)
		}
		got = append(got, o.Key)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func testList(t *testing.T, s objstore.Store) {
	all := []string{
		"list/.millrace/index/a", "list/a-", "list/a.b", "list/a/b", "list/a/b.c", "list/a/c/d", "list/a0", "list/b",
		"list/A", "list/é", "list/z/.hidden",
	}
	etag := map[string]string{}
	for _, k := range all {
		etag[k] = put(t, s, k, []byte(k)).ETag
	}
	slices.Sort(all)
	for _, prefix := range []string{"list/", "list/a", "list/a/", "list/a/b", "list/.millrace/", "list/a.b", "list/a/b.c", "list/z/.", "list/none", "list/a//", "list/b/"} {
		var want []string
		for _, k := range all {
			if strings.HasPrefix(k, prefix) {
				want = append(want, k)
			}
		}
		if got := keys(t, s, prefix); !slices.Equal(got, want) {
			t.Errorf("list %q: got %q, want %q", prefix, got, want)
		}
	}
	err := s.List(t.Context(), "list/", func(o objstore.Object) error {
		if o.ETag != etag[o.Key] || o.Size != int64(len(o.Key)) {
			return fmt.Errorf("got %+v, want ETag %s", o, etag[o.Key])
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if got := keys(t, s, ""); !slices.IsSorted(got) || len(got) < len(all) {
		t.Errorf("list of everything: got %q", got)
	}
}

func testListStops(t *testing.T, s objstore.Store) {
	for i := range 5 {
		put(t, s, fmt.Sprint("stops/", i), nil)
	}
	stop := errors.New("enough")
	n := 0
	err := s.List(t.Context(), "stops/", func(objstore.Object) error {
		if n++; n == 3 {
			return stop
		}
		return nil
	})
	if err != stop || n != 3 { //nolint:errorlint // it must be returned unchanged
		t.Errorf("got %v after %d, want %v unchanged after 3", err, n, stop)
	}
}

// testListMany lists more objects than fit in a page of an S3 list, which usually holds 1,000.
func testListMany(t *testing.T, s objstore.Store) {
	const n = 1005
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				if _, err := s.Put(t.Context(), fmt.Sprintf("many/%04d", i), bytes.NewReader(nil), 0, objstore.Condition{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got := keys(t, s, "many/")
	if len(got) != n || !slices.IsSorted(got) || len(slices.Compact(got)) != n {
		t.Errorf("got %d keys, sorted %v, want %d, each once, in order", len(got), slices.IsSorted(got), n)
	}
}

func testConditions(t *testing.T, s objstore.Store) {
	key, ctx := "cond/a", t.Context()
	try := func(data string, cond objstore.Condition) (objstore.Object, error) {
		return s.Put(ctx, key, strings.NewReader(data), int64(len(data)), cond)
	}
	_, err := try("x", objstore.Condition{IfMatch: "0123456789abcdef0123456789abcdef"})
	wantErr(t, "IfMatch on nothing", err, objstore.ErrChanged)
	one, err := try("one", objstore.Condition{IfAbsent: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = try("two", objstore.Condition{IfAbsent: true})
	wantErr(t, "IfAbsent on an object", err, objstore.ErrChanged)
	two, err := try("two", objstore.Condition{IfMatch: one.ETag})
	if err != nil {
		t.Fatal(err)
	}
	_, err = try("three", objstore.Condition{IfMatch: one.ETag})
	wantErr(t, "IfMatch on another version", err, objstore.ErrChanged)
	if got := read(t, s, two.Ref()); string(got) != "two" {
		t.Errorf("got %q, want %q", got, "two")
	}
}

// race starts n concurrent writers and returns the data of those that succeed.
func race(t *testing.T, s objstore.Store, key string, cond objstore.Condition) []string {
	t.Helper()
	const n = 16
	var wg sync.WaitGroup
	var mu sync.Mutex
	var winners []string
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			// The content contains the round too. Otherwise it could have the same ETag
			// as in another round, where an ETag is a digest.
			data := fmt.Sprint("writer ", i, " after ", cond.IfMatch)
			<-start
			_, err := s.Put(t.Context(), key, strings.NewReader(data), int64(len(data)), cond)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				winners = append(winners, data)
				return
			}
			wantErr(t, "a loser", err, objstore.ErrChanged)
		})
	}
	close(start)
	wg.Wait()
	return winners
}

func testRaceAbsent(t *testing.T, s objstore.Store) {
	for round := range 5 {
		key := fmt.Sprint("race/absent", round)
		winners := race(t, s, key, objstore.Condition{IfAbsent: true})
		if len(winners) != 1 {
			t.Fatalf("%d writers won: %q", len(winners), winners)
		}
		if got := read(t, s, objstore.Ref{Key: key}); string(got) != winners[0] {
			t.Errorf("got %q, want the winner's %q", got, winners[0])
		}
	}
}

func testRaceMatch(t *testing.T, s objstore.Store) {
	o := put(t, s, "race/match", []byte("first"))
	for range 5 {
		winners := race(t, s, o.Key, objstore.Condition{IfMatch: o.ETag})
		if len(winners) != 1 {
			t.Fatalf("%d writers won: %q", len(winners), winners)
		}
		now, err := s.Stat(t.Context(), o.Key)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, s, now.Ref()); string(got) != winners[0] {
			t.Errorf("got %q, want the winner's %q", got, winners[0])
		}
		o = now
	}
}

func testLarge(t *testing.T, s objstore.Store) {
	data := content(8, 20<<20+13)
	o, err := s.Put(t.Context(), "large/a", bytes.NewReader(data), int64(len(data)), objstore.Condition{IfAbsent: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, s, o.Ref()); !bytes.Equal(got, data) {
		t.Error("wrong bytes")
	}
	_, err = s.Put(t.Context(), "large/a", bytes.NewReader(data), int64(len(data)), objstore.Condition{IfAbsent: true})
	wantErr(t, "a second large object", err, objstore.ErrChanged)
	a, b := make([]byte, 5<<20), make([]byte, 12<<20)
	if err := s.ReadRange(t.Context(), o.Ref(), 12345, a, b); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, data[12345:12345+len(a)]) || !bytes.Equal(b, data[12345+len(a):12345+len(a)+len(b)]) {
		t.Error("wrong bytes in a large range")
	}
}

// testShortBody passes a size that is larger than the body. Nothing may be stored.
func testShortBody(t *testing.T, s objstore.Store) {
	old := put(t, s, "short/a", []byte("old"))
	_, err := s.Put(t.Context(), "short/a", strings.NewReader("new"), 4, objstore.Condition{})
	wantErr(t, "a body too short", err, objstore.ErrShort)
	broken := errors.New("broken body")
	_, err = s.Put(t.Context(), "short/a", brokenBody{broken}, 100, objstore.Condition{})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if _, err = s.Put(t.Context(), "short/a", strings.NewReader("new"), -1, objstore.Condition{}); err == nil {
		t.Error("size -1 gave no error")
	}
	if got := read(t, s, old.Ref()); string(got) != "old" {
		t.Errorf("got %q, want %q", got, "old")
	}
	if got, want := keys(t, s, "short/"), []string{"short/a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

type brokenBody struct{ err error }

func (b brokenBody) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, bytes.Repeat([]byte{1}, max(0, 50-int(off))))
	return n, b.err
}

func testDelete(t *testing.T, s objstore.Store) {
	put(t, s, "delete/a/b", []byte("x"))
	put(t, s, "delete/a/c", []byte("x"))
	for range 2 {
		if err := s.Delete(t.Context(), "delete/a/b"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Delete(t.Context(), "delete/none"); err != nil {
		t.Errorf("of a missing key: %v", err)
	}
	_, err := s.Stat(t.Context(), "delete/a/b")
	wantErr(t, "stat of what was deleted", err, objstore.ErrNotFound)
	if got, want := keys(t, s, "delete/"), []string{"delete/a/c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := s.Delete(t.Context(), "delete/a/c"); err != nil {
		t.Fatal(err)
	}
	// The name of a former directory may be a key now.
	put(t, s, "delete/a", []byte("y"))
}

func testOddKeys(t *testing.T, s objstore.Store) {
	odd := []string{
		"odd/with space", "odd/plus+plus", "odd/per%20cent", "odd/ümläut/日本語", "odd/a&b=c;d", "odd/quote'\"", "odd/#hash?query",
		"odd/tilde~", "odd/brackets[1](2){3}", "odd/colon:at@comma,", "odd/.dot", "odd/dots..dots", "odd/" + strings.Repeat("long/", 40) + "x",
		"odd/" + strings.Repeat("n", 200), "odd/star*", "odd/back\\slash", "odd/pipe|<>", "odd/🚀",
	}
	for i, k := range odd {
		data := content(uint64(i), 50)
		o := put(t, s, k, data)
		got := make([]byte, 10)
		if err := s.ReadRange(t.Context(), o.Ref(), 20, got); err != nil || !bytes.Equal(got, data[20:30]) {
			t.Errorf("%q: got %x, %v", k, got, err)
		}
	}
	slices.Sort(odd)
	if got := keys(t, s, "odd/"); !slices.Equal(got, odd) {
		t.Errorf("got %q, want %q", got, odd)
	}
	for _, k := range odd {
		if err := s.Delete(t.Context(), k); err != nil {
			t.Errorf("delete %q: %v", k, err)
		}
	}
	if got := keys(t, s, "odd/"); len(got) != 0 {
		t.Errorf("got %q, want none", got)
	}
}

func testBadKeys(t *testing.T, s objstore.Store) {
	for _, k := range []string{"", "/", "/abs", "a/", "a//b", ".", "..", "../x", "a/../b", "a/./b", "a\x00b", "a\xff", strings.Repeat("a", 1025)} {
		if _, err := s.Put(t.Context(), k, strings.NewReader("x"), 1, objstore.Condition{}); err == nil {
			t.Errorf("put %q gave no error", k)
		}
		if _, err := s.Stat(t.Context(), k); err == nil {
			t.Errorf("stat %q gave no error", k)
		}
		if err := s.ReadRange(t.Context(), objstore.Ref{Key: k}, 0, make([]byte, 1)); err == nil {
			t.Errorf("read %q gave no error", k)
		}
	}
}

// testParallel overwrites an object while others read it. Each read returns one version completely,
// or ErrChanged.
func testParallel(t *testing.T, s objstore.Store) {
	const size, writes = 50_000, 20
	versions := make([][]byte, writes)
	for i := range versions {
		versions[i] = bytes.Repeat([]byte{byte(i + 1)}, size)
	}
	o := put(t, s, "parallel/a", versions[0])
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		defer close(done)
		for _, v := range versions[1:] {
			if _, err := s.Put(t.Context(), o.Key, bytes.NewReader(v), size, objstore.Condition{}); err != nil {
				t.Error(err)
			}
		}
	})
	for range 4 {
		wg.Go(func() {
			a, b := make([]byte, size/3), make([]byte, size-size/3)
			for {
				now, err := s.Stat(t.Context(), o.Key)
				if err != nil {
					t.Error(err)
					return
				}
				err = s.ReadRange(t.Context(), now.Ref(), 0, a, b)
				if err != nil {
					wantErr(t, "a read of an object under change", err, objstore.ErrChanged)
				} else if bytes.Count(a, a[:1]) != len(a) || bytes.Count(b, a[:1]) != len(b) {
					t.Error("a read mixed two versions")
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	wg.Wait()
	if got := read(t, s, objstore.Ref{Key: o.Key}); !bytes.Equal(got, versions[writes-1]) {
		t.Error("the last version has wrong bytes")
	}
}
