package chunkindex

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/leaks"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// touch rewrites a shard with the same bytes and indexes again, so that the generation gets a new
// binding.
func touch(t *testing.T, store *memstore.Store, shard string) {
	t.Helper()
	b, _ := store.Bytes(shard)
	store.Set(shard, b)
	if rep, err := IndexShards(t.Context(), store, "", IndexOptions{}); err != nil || !rep.Rebound {
		t.Fatalf("got %+v, %v, want a new binding", rep, err)
	}
}

// history returns a store in which the first generation has three bindings and is no longer
// current.
func history(t *testing.T) (store *memstore.Store, first string) {
	t.Helper()
	store, rep := smallStore(t)
	touch(t, store, "a.tar")
	touch(t, store, "b.tar")
	b, _ := store.Bytes("b.tar")
	store.Set("c.tar", b)
	if _, err := IndexShards(t.Context(), store, "", IndexOptions{}); err != nil {
		t.Fatal(err)
	}
	return store, rep.Generation
}

// summary returns a digest of all data in an index.
func summary(ctx context.Context, x *Index) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, x.Generation(), x.Binding(), x.shards)
	for i := range x.Chunks() {
		table, err := x.Table(ctx, i)
		if err != nil {
			return "", err
		}
		names, err := x.Names(ctx, i)
		if err != nil {
			return "", err
		}
		parts, err := x.Parts(ctx, i)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, *table, *names, *parts)
	}
	for sample := uint64(0); sample < x.Samples(); sample += 1 + x.Samples()/50 {
		key, err := x.Key(ctx, sample)
		if err != nil {
			return "", err
		}
		at, ok, err := x.Lookup(ctx, key, x.ShardKey(sample))
		if err != nil || !ok || at != sample {
			return "", cmpOr(err, fmt.Errorf("sample %d is found as %d, %t", sample, at, ok))
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

func cmpOr(errs ...error) error {
	return errs[slices.IndexFunc(errs, func(e error) bool { return e != nil })]
}

// opened opens an index with these options and returns its summary.
func opened(ctx context.Context, store objstore.Store, opt OpenOptions) (string, error) {
	x, err := Open(ctx, store, "", opt)
	if err != nil {
		return "", err
	}
	defer x.Close()
	return summary(ctx, x)
}

// TestIndex_ReportsEachFailedRequest fails each request of each operation in turn: before its first
// byte, after some bytes, or with a wrong byte in data that has a digest. The operation must return
// that error or succeed without the request. It must leave no open file and no partial copy.
func TestIndex_ReportsEachFailedRequest(t *testing.T) {
	dead := errors.New("dead")
	small := func(t *testing.T) *memstore.Store { store, _ := smallStore(t); return store }
	old := func(t *testing.T) *memstore.Store { store, _ := history(t); return store }
	lines := func(t *testing.T) *memstore.Store { store, _ := linesStore(t, 3000); return store }
	for name, c := range map[string]struct {
		store  func(*testing.T) *memstore.Store
		writes bool // the operation modifies its store, so each run gets a new store
		do     func(ctx context.Context, t *testing.T, store *memstore.Store) (string, error)
	}{
		"open": {small, false, func(ctx context.Context, _ *testing.T, store *memstore.Store) (string, error) {
			return opened(ctx, store, OpenOptions{})
		}},
		"open, to a directory": {small, false, func(ctx context.Context, t *testing.T, store *memstore.Store) (string, error) {
			dir := filepath.Join(t.TempDir(), "copies")
			said, err := opened(ctx, store, OpenOptions{CacheDir: dir})
			if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) > 1 || err == nil && len(files) == 0 || len(files) == 1 && !strings.HasSuffix(files[0], copySuffix) {
				t.Errorf("got %v, files %q, want a copy or nothing", err, files)
			}
			return said, err
		}},
		"open an old generation": {old, false, func(ctx context.Context, t *testing.T, store *memstore.Store) (string, error) {
			return opened(ctx, store, OpenOptions{Generation: firstGeneration(t, store)})
		}},
		"read a large one": {lines, false, func(ctx context.Context, t *testing.T, store *memstore.Store) (string, error) {
			p, err := requirePointer(ctx, store, "", "")
			if err != nil {
				return "", err
			}
			s := indexSource{store: store, generation: p.Generation}
			x, err := s.download(ctx, t.TempDir())
			if err != nil {
				return "", err
			}
			defer x.Close()
			if err := x.Fetch(ctx, []uint64{0, x.Samples() / 2, x.Samples() - 1}); err != nil {
				return "", err
			}
			n := uint64(0)
			if err := x.Keys(ctx, x.Chunks()-1, func(sample uint64, _ []byte) { n = sample }); err != nil || n != x.Samples()-1 {
				return "", cmpOr(err, fmt.Errorf("the last key is that of sample %d", n))
			}
			return summary(ctx, x)
		}},
		"watch": {old, false, func(ctx context.Context, _ *testing.T, store *memstore.Store) (string, error) {
			names, err := IndexNames(ctx, store, "")
			if err != nil {
				return "", err
			}
			current, err := Current(ctx, store, "")
			if err != nil {
				return "", err
			}
			x, err := Open(ctx, store, "", OpenOptions{})
			if err != nil {
				return "", err
			}
			defer x.Close()
			is, err := x.IsCurrent(ctx, store, "")
			if err != nil {
				return "", err
			}
			at, err := x.Published(ctx, store, "")
			return fmt.Sprint(names, current, is, at), err
		}},
		"remove what is unused": {old, true, func(ctx context.Context, _ *testing.T, store *memstore.Store) (string, error) {
			u, err := FindUnused(ctx, store, "", time.Hour)
			if err != nil {
				return "", err
			}
			all := u.Objects
			for _, g := range u.Generations {
				if u.Current[g.Generation] == nil {
					all = append(all, g.Objects...)
				}
			}
			var removed []string
			err = u.Remove(ctx, all, func(o objstore.Object) { removed = append(removed, o.Key) })
			slices.Sort(removed)
			return fmt.Sprint(removed, store.Keys()), err
		}},
		"index again": {old, true, func(ctx context.Context, _ *testing.T, store *memstore.Store) (string, error) {
			b, _ := store.Bytes("a.tar")
			store.Set("d.tar", b)
			rep, err := IndexShards(ctx, store, "", IndexOptions{})
			if err != nil {
				return "", err
			}
			store.SetFault(nil)
			said, err := opened(ctx, store, OpenOptions{})
			return fmt.Sprint(rep.Generation, rep.Samples, rep.Unchanged, said), err
		}},
		"bind again": {small, true, func(ctx context.Context, _ *testing.T, store *memstore.Store) (string, error) {
			b, _ := store.Bytes("a.tar")
			store.Set("a.tar", b)
			rep, err := IndexShards(ctx, store, "", IndexOptions{})
			if err != nil {
				return "", err
			}
			store.SetFault(nil)
			said, err := opened(ctx, store, OpenOptions{})
			return fmt.Sprint(rep.Generation, said), err
		}},
		"take over kept scans": {parted, true, func(ctx context.Context, _ *testing.T, store *memstore.Store) (string, error) {
			rep, err := IndexShards(ctx, store, "", IndexOptions{Parallel: 1, Rest: true})
			if err != nil {
				return "", err
			}
			var left []string
			for _, key := range store.Keys() {
				if strings.HasPrefix(key, layout.ScanDir) || strings.HasPrefix(key, layout.ProbeDir) {
					left = append(left, key)
				}
			}
			store.SetFault(nil)
			said, err := opened(ctx, store, OpenOptions{})
			return fmt.Sprint(rep.Generation, said, len(left) > 1), err // a probe object may remain
		}},
		"verify": {small, false, func(ctx context.Context, _ *testing.T, store *memstore.Store) (string, error) {
			x, err := Open(ctx, store, "", OpenOptions{})
			if err != nil {
				return "", err
			}
			defer x.Close()
			var bad []BadRange
			err = Verify(ctx, x, store, "", 1, nil, func(b BadRange) { bad = append(bad, b) })
			if len(bad) > 0 { // the correct result if the fault is a wrong byte
				return "", ErrCorrupt
			}
			return "", err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			leaks.Check(t)
			store := c.store(t)
			store.Reset()
			want, err := c.do(t.Context(), t, store)
			if err != nil {
				t.Fatal(err)
			}
			for n := range store.Stats().Total {
				for kind, fault := range map[string]memstore.Fault{
					"fails":     {Err: fmt.Errorf("%w: %w", objstore.ErrUnavailable, dead)},
					"breaks":    {Err: fmt.Errorf("%w: %w", objstore.ErrUnavailable, dead), After: 7},
					"is denied": {Err: fmt.Errorf("%w: %w", objstore.ErrDenied, dead)},
					"lies":      {Corrupt: func(b []byte) { b[len(b)/2] ^= 1 }},
				} {
					t.Run(fmt.Sprint(n, kind), func(t *testing.T) {
						leaks.Check(t)
						s := store
						if c.writes {
							s = c.store(t)
						}
						s.Reset()
						struck := memstore.Call{}
						s.SetFault(func(call memstore.Call) memstore.Fault {
							if call.N != n || kind == "lies" && (call.Op != memstore.Read && call.Op != memstore.Open || call.Key == layout.PointerKey) {
								return memstore.Fault{}
							}
							struck = call
							return fault
						})
						got, err := c.do(t.Context(), t, s)
						s.SetFault(nil)
						switch {
						case err == nil && got != want:
							t.Errorf("%+v: got %s, want %s", struck, got, want)
						case err != nil && kind != "lies" && !errors.Is(err, dead):
							t.Errorf("%+v: got %v, want %v", struck, err, fault.Err)
						}
						if s.InFlight() != 0 {
							t.Errorf("%+v: %d requests have not ended", struck, s.InFlight())
						}
					})
				}
			}
		})
	}
}

// parted returns a store in which a run for one part has stored its scans.
func parted(t *testing.T) *memstore.Store {
	t.Helper()
	store, _ := smallStore(t)
	for _, key := range store.Keys() {
		if strings.HasPrefix(key, layout.StateDir) {
			if err := store.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := IndexShards(t.Context(), store, "", IndexOptions{Parallel: 1, Parts: 1}); err != nil {
		t.Fatal(err)
	}
	if len(store.Keys()) < 4 {
		t.Fatalf("got keys %q, want scans and a note", store.Keys())
	}
	return store
}

// firstGeneration returns the generation in history's store that no pointer names.
func firstGeneration(t *testing.T, store *memstore.Store) string {
	t.Helper()
	text, _ := store.Bytes(layout.PointerKey)
	var p layout.Pointer
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	for _, key := range store.Keys() {
		if g, ok := strings.CutPrefix(key, layout.IndexDir); ok && g != p.Generation {
			return g
		}
	}
	t.Fatal("no old generation")
	return ""
}

// TestOpen_TakesTheNewestBindingOfAnOldGeneration checks that shards that were rewritten are read
// under their latest ETags.
func TestOpen_TakesTheNewestBindingOfAnOldGeneration(t *testing.T) {
	store, rep := smallStore(t)
	for i := range 6 { // binding keys are sorted by digest, not by time
		touch(t, store, []string{"a.tar", "b.tar"}[i%2])
		var want []string
		for _, shard := range []string{"a.tar", "b.tar"} {
			o, err := store.Stat(t.Context(), shard)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, o.ETag)
		}
		later := copiedWithTimes(t, store)
		b, _ := later.Bytes("b.tar")
		later.Set("c.tar", b)
		if _, err := IndexShards(t.Context(), later, "", IndexOptions{}); err != nil {
			t.Fatal(err)
		}
		x, err := Open(t.Context(), later, "", OpenOptions{Generation: rep.Generation})
		if err != nil {
			t.Fatal(err)
		}
		if got := []string{x.Shard(0).ETag, x.Shard(1).ETag}; !slices.Equal(got, want) {
			t.Errorf("after %d: got ETags %q, want %q", i+1, got, want)
		}
		x.Close()
	}
}

// copiedWithTimes returns a store with the same objects, written in the same order as in the
// original store.
func copiedWithTimes(t *testing.T, store *memstore.Store) *memstore.Store {
	t.Helper()
	keys := store.Keys()
	written := func(key string) time.Time {
		o, err := store.Stat(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return o.Modified
	}
	slices.SortFunc(keys, func(a, b string) int { return written(a).Compare(written(b)) })
	other := memstore.New()
	for _, key := range keys {
		b, _ := store.Bytes(key)
		other.Set(key, b)
	}
	return other
}

// Open rejects generations that are malformed, missing, or from another index.
func TestOpen_RefusesGenerations(t *testing.T) {
	store, first := history(t)
	other := strings.Repeat("ab", 32)
	for name, c := range map[string]struct {
		opt  OpenOptions
		want string
	}{
		"no digest":     {OpenOptions{Generation: "abc"}, `generation "abc": not found`},
		"unknown":       {OpenOptions{Generation: other}, "generation abababababab: not found"},
		"another index": {OpenOptions{Generation: first, Name: "other"}, "generation " + first[:12] + " was never current in this index: not found"},
	} {
		if _, err := Open(t.Context(), store, "", c.opt); !errors.Is(err, objstore.ErrNotFound) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Key == layout.PointerKey {
			return memstore.Fault{Err: objstore.ErrDenied}
		}
		return memstore.Fault{}
	})
	if _, err := Open(t.Context(), store, "", OpenOptions{Generation: first}); !errors.Is(err, objstore.ErrDenied) {
		t.Errorf("a pointer that may not be read: got %v, want %v", err, objstore.ErrDenied)
	}
}

// Open replaces a local copy that is damaged, too short or too long. It reads a valid copy even if
// it may not write to it.
func TestOpen_ReplacesDamagedCopies(t *testing.T) {
	leaks.Check(t)
	store, rep := smallStore(t)
	dir := t.TempDir()
	open := func(most int64) (int, error) {
		store.Reset()
		x, err := Open(t.Context(), store, "", OpenOptions{CacheDir: dir, MaxBytes: most})
		if err == nil {
			x.Close()
		}
		return max(0, store.Stats().Requests[memstore.Read]-2) / 2, err // without the pointer and the binding; the root and one segment
	}
	if n, err := open(0); n != 1 || err != nil {
		t.Fatalf("got %d fetched, %v", n, err)
	}
	local := copyOf(dir, rep.Generation)
	whole, err := os.ReadFile(local)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data    []byte
		fetched int
	}{"whole": {whole, 0}, "short": {whole[:len(whole)-1], 1}, "longer": {append(bytes.Clone(whole), 0), 1}, "empty": {nil, 1}, "damaged": {append([]byte{whole[0] ^ 1}, whole[1:]...), 1}} {
		if err := os.WriteFile(local, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := open(0); n != c.fetched || err != nil {
			t.Errorf("%s: got %d fetched, %v, want %d", name, n, err, c.fetched)
		}
		if now, err := os.ReadFile(local); err != nil || !bytes.Equal(now, whole) {
			t.Errorf("%s: the copy is not the index, %v", name, err)
		}
	}
	size := int64(len(whole))
	if n, err := open(size); n != 0 || err != nil {
		t.Errorf("as large as the limit: got %d fetched, %v", n, err)
	}
	want := fmt.Sprintf("index of %d bytes is larger than the limit of %d", size, size-1)
	if n, err := open(size - 1); n != 0 || err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("larger than the limit: got %d fetched, %v, want %s", n, err, want)
	}
	if _, err := Open(t.Context(), store, "", OpenOptions{MaxBytes: size - 1}); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("without a copy: got %v, want %s", err, want)
	}
}

// Body calls each function once, in order.
func TestBody_ClosesOnce(t *testing.T) {
	var calls []string
	call := func(name string) func() { return func() { calls = append(calls, name) } }
	b := batch.NewBody(nil, nil, call("release")).OnSettle(call("settle"))
	b.OnClose(call("then"))
	b.OnClose(call("last"))
	b.Settle()
	b.Close()
	b.Close()
	b.Settle()
	if got := strings.Join(calls, " "); got != "settle release then last" {
		t.Errorf("got %s", got)
	}
	calls = nil
	empty := batch.NewBody(nil, nil, nil)
	empty.Settle()
	empty.Close()
	empty.OnClose(call("then"))
	empty.Close()
	if got := strings.Join(calls, " "); got != "then" {
		t.Errorf("of an empty one: got %s", got)
	}
}
