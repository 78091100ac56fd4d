package build_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/chunkindex/testing/indextest"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/objstore/dirstore"
	"github.com/millrace-data/millrace/internal/testing/leaks"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

const prefix = "data/"

func spec() indextest.Spec {
	return indextest.Spec{Prefix: prefix, Sizes: indextest.Random(60, 0, 3000, 3), Shards: 4, Build: build.Options{ChunkSize: 8 << 10}}
}

func indexed(t *testing.T, s objstore.Store, opt build.Options) build.Report {
	t.Helper()
	leaks.Check(t)
	rep, err := build.Run(t.Context(), s, prefix, opt)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func TestRun_SecondRunReadsNothing(t *testing.T) {
	store := memstore.New()
	d := indextest.Make(t, store, spec())
	var last chunkindex.Progress
	opt := spec().Build
	opt.Progress = func(p chunkindex.Progress) { last = p }
	again := indexed(t, store, opt)
	if last.Kept != again.Bytes || last.Done != last.Kept || last.Total != last.Kept {
		t.Errorf("progress: got %+v, want all %d bytes kept", last, again.Bytes)
	}
	if !again.Unchanged || again.ReadBytes != 0 || again.ReusedShards != 4 || again.Generation != d.Report.Generation {
		t.Errorf("got %+v after %+v", again, d.Report)
	}
	// After a shard is added, only that shard is read, and the chunks of the others are reused.
	more := indextest.Write(t, memstore.New(), indextest.Spec{Sizes: []int{9}, Seed: 1})
	body := bytes.ReplaceAll(more.Bodies[0], []byte("00000000.bin"), []byte("9more999.bin"))
	indextest.MendTar(body)
	store.Set(prefix+"z.tar", body)
	grown := indexed(t, store, spec().Build)
	if grown.ReusedShards != 4 || grown.ReadBytes != int64(len(body)) || grown.Samples != 61 || grown.Generation == d.Report.Generation {
		t.Errorf("got %+v", grown)
	}
	// Indexing the same data from scratch produces the same generation.
	fresh := memstore.New()
	for _, k := range store.Keys() {
		if strings.HasSuffix(k, ".tar") {
			b, _ := store.Bytes(k)
			fresh.Set(k, b)
		}
	}
	if got := indexed(t, fresh, spec().Build); got.Generation != grown.Generation {
		t.Errorf("got generation %s from scratch, want %s", got.Generation, grown.Generation)
	}
}

func TestRun_RebindsRewrittenShards(t *testing.T) {
	store, err := dirstore.Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	d := indextest.Make(t, store, spec())
	for i, k := range d.Shards { // rewriting the same bytes produces a new ETag
		if _, err := store.Put(t.Context(), k, bytes.NewReader(d.Bodies[i]), int64(len(d.Bodies[i])), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	rep := indexed(t, store, spec().Build)
	if !rep.Rebound || rep.Unchanged || rep.Generation != d.Report.Generation {
		t.Fatalf("got %+v after %+v", rep, d.Report)
	}
	x, err := chunkindex.Open(t.Context(), store, prefix, chunkindex.OpenOptions{Generation: rep.Generation})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	checkAgainst(t, store, prefix, x, d.Keys, d.Samples)
}

// TestRun_ResumesAfterAKillAtEachRequest checks that a run killed at any request leaves no pointer
// to a broken index, and that the next run reuses the stored scans.
func TestRun_ResumesAfterAKillAtEachRequest(t *testing.T) {
	for n := 0; ; n++ {
		store := memstore.New()
		d := indextest.Write(t, store, spec())
		store.Reset()
		opt := spec().Build
		opt.Parallel = 1
		dead := errors.New("killed")
		calls := 0
		store.SetFault(func(memstore.Call) memstore.Fault {
			if calls++; calls > n {
				return memstore.Fault{Err: fmt.Errorf("%w: %w", objstore.ErrUnavailable, dead)}
			}
			return memstore.Fault{}
		})
		first, err := build.RunKeeping(t.Context(), store, prefix, opt, 1<<40, 1)
		store.SetFault(nil)
		if err == nil {
			if n < 10 {
				t.Fatalf("the whole run took %d requests", n)
			}
			return
		}
		if !errors.Is(err, dead) {
			t.Fatalf("killed at %d: got %v", n, err)
		}
		kept := 0
		for _, k := range store.Keys() {
			if strings.Contains(k, ".millrace/scan/") {
				kept++
			}
		}
		second := indexed(t, store, opt)
		if first.Generation == "" && (second.ReusedShards != kept || (kept > 0 && second.ReadBytes >= second.Bytes)) {
			t.Fatalf("killed at %d with %d scans kept: got %+v", n, kept, second)
		}
		x, err := chunkindex.Open(t.Context(), store, prefix, chunkindex.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		checkAgainst(t, store, prefix, x, d.Keys, d.Samples)
		x.Close()
		for _, k := range store.Keys() {
			if strings.Contains(k, ".millrace/scan/") {
				t.Errorf("killed at %d: %s is left", n, k)
			}
		}
	}
}

func TestRun_LosesToAConcurrentRun(t *testing.T) {
	store := memstore.New()
	indextest.Make(t, store, spec())
	other := indextest.Write(t, memstore.New(), indextest.Spec{Prefix: prefix, Sizes: []int{1, 2, 3}, Seed: 9})
	for i, k := range other.Shards {
		store.Set(k, other.Bodies[i])
	}
	for _, k := range store.Keys() {
		if strings.HasSuffix(k, ".tar") && !slices.Contains(other.Shards, k) {
			store.Delete(t.Context(), k)
		}
	}
	// Before this run writes its pointer, another run with another chunk size writes one.
	var winner build.Report
	raced := false
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if raced || c.Op != memstore.Put || !strings.HasSuffix(c.Key, ".millrace/current") {
			return memstore.Fault{}
		}
		raced = true
		return memstore.Fault{Before: func() { winner = indexed(t, store, build.Options{ChunkSize: 1 << 20}) }}
	})
	_, err := build.Run(t.Context(), store, prefix, build.Options{ChunkSize: 1 << 10})
	if !errors.Is(err, objstore.ErrChanged) || !strings.Contains(err.Error(), winner.Generation) || winner.Generation == "" {
		t.Errorf("got %v, want one that names %s", err, winner.Generation)
	}
	x, err := chunkindex.Open(t.Context(), store, prefix, chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if x.Generation() != winner.Generation {
		t.Errorf("got generation %s, want the winner's, %s", x.Generation(), winner.Generation)
	}
}

// careless is a store that ignores conditions on writes.
type careless struct{ objstore.Store }

func (c careless) Put(ctx context.Context, key string, body io.ReaderAt, size int64, _ objstore.Condition) (objstore.Object, error) {
	return c.Store.Put(ctx, key, body, size, objstore.Condition{})
}

// refusing is a store that rejects conditional writes.
type refusing struct{ objstore.Store }

func (r refusing) Put(ctx context.Context, key string, body io.ReaderAt, size int64, cond objstore.Condition) (objstore.Object, error) {
	if cond != (objstore.Condition{}) {
		return objstore.Object{}, fmt.Errorf("put %q: %w: NotImplemented", key, objstore.ErrUnavailable)
	}
	return r.Store.Put(ctx, key, body, size, cond)
}

func TestRun_RequiresConditionalWrites(t *testing.T) {
	for _, store := range []objstore.Store{careless{memstore.New()}, refusing{memstore.New()}} {
		indextest.Write(t, store, spec())
		if _, err := build.Run(t.Context(), store, prefix, spec().Build); err == nil || !strings.Contains(err.Error(), "--single-writer") {
			t.Errorf("%T: got %v, want one that names --single-writer", store, err)
		}
		opt := spec().Build
		opt.SingleWriter = true
		indexed(t, store, opt)
	}
}

func TestRun_RejectsOptions(t *testing.T) {
	store := memstore.New()
	if _, err := build.Run(t.Context(), store, prefix, build.Options{}); !errors.Is(err, objstore.ErrNotFound) || !strings.Contains(err.Error(), prefix) {
		t.Errorf("no shards: got %v", err)
	}
	d := indextest.Write(t, store, indextest.Spec{Prefix: prefix, Sizes: []int{5}})
	store.Set(prefix+"twice.tar", d.Bodies[0][:700])
	_, err := build.Run(t.Context(), store, prefix, build.Options{})
	if err == nil || !strings.Contains(err.Error(), "truncated") || !strings.Contains(err.Error(), "twice.tar") {
		t.Errorf("truncated: got %v", err)
	}
	if _, err := chunkindex.Open(t.Context(), store, prefix, chunkindex.OpenOptions{}); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("no index: got %v", err)
	}
}

// TestReadPointer_RetriesWhenReplaced checks that a pointer that is replaced during the read is
// read again. A pointer that is replaced in every attempt must return an error.
func TestReadPointer_RetriesWhenReplaced(t *testing.T) {
	for times, opens := range map[int]bool{1: true, 3: true, 100: false} {
		store := memstore.New()
		d := indextest.Make(t, store, spec())
		key := prefix + ".millrace/current"
		text, _ := store.Bytes(key)
		left := times
		store.SetFault(func(c memstore.Call) memstore.Fault {
			if c.Op != memstore.Read || c.Key != key || left == 0 {
				return memstore.Fault{}
			}
			left--
			return memstore.Fault{Before: func() { text = append(bytes.Clone(text), ' '); store.Set(key, text) }}
		})
		x, err := chunkindex.Open(t.Context(), store, prefix, chunkindex.OpenOptions{})
		switch {
		case !opens && !errors.Is(err, objstore.ErrChanged):
			t.Errorf("replaced each time: got %v, want %v", err, objstore.ErrChanged)
		case opens && err != nil:
			t.Errorf("replaced %d times: got %v", times, err)
		case opens && x.Generation() != d.Report.Generation:
			t.Errorf("replaced %d times: got generation %s", times, x.Generation())
		}
		if err == nil {
			x.Close()
		}
	}
}

// unnamed is a store that lists objects without their ETags.
type unnamed struct{ objstore.Store }

func (u unnamed) List(ctx context.Context, prefix string, visit func(objstore.Object) error) error {
	return u.Store.List(ctx, prefix, func(o objstore.Object) error {
		o.ETag = ""
		return visit(o)
	})
}

// TestRun_RejectsShards checks that shards that no index can hold are rejected by name before
// anything is read.
func TestRun_RejectsShards(t *testing.T) {
	body := indextest.Write(t, memstore.New(), indextest.Spec{Sizes: []int{5}}).Bodies[0]
	for name, c := range map[string]struct {
		key  string
		wrap func(objstore.Store) objstore.Store
	}{
		"empty element": {key: "a//b.tar"},
		"not UTF-8":     {key: "\xff.tar"},
		"too long":      {key: strings.Repeat("n", 1021) + ".tar"},
		"no ETag":       {key: "a.tar", wrap: func(s objstore.Store) objstore.Store { return unnamed{s} }},
	} {
		mem := memstore.New()
		mem.Set(prefix+c.key, body)
		var store objstore.Store = mem
		if c.wrap != nil {
			store = c.wrap(mem)
		}
		_, err := build.Run(t.Context(), store, prefix, build.Options{})
		if err == nil || errors.Is(err, layout.ErrCorrupt) || !strings.Contains(err.Error(), "shard") {
			t.Errorf("%s: got %v, want one that names the shard", name, err)
		}
		if got := mem.Stats(); got.Requests[memstore.Open] != 0 || got.Requests[memstore.Put] != 0 {
			t.Errorf("%s: got %+v, want nothing read or written", name, got)
		}
	}
}

// aged is a store that reports the same age for all its objects.
type aged struct {
	objstore.Store
	age     time.Duration
	renewed string // substring of the keys of objects that are rewritten after the listing
}

func (a aged) List(ctx context.Context, prefix string, visit func(objstore.Object) error) error {
	return a.Store.List(ctx, prefix, func(o objstore.Object) error {
		o.Modified = time.Now().Add(-a.age)
		return visit(o)
	})
}

func (a aged) Stat(ctx context.Context, key string) (objstore.Object, error) {
	o, err := a.Store.Stat(ctx, key)
	o.Modified = time.Now().Add(-a.age)
	if a.renewed != "" && strings.Contains(key, a.renewed) {
		o.Modified = time.Now()
	}
	return o, err
}

// collect removes all generations except the current one, and all unneeded objects. It returns
// their keys.
func collect(ctx context.Context, store objstore.Store, prefix string, grace time.Duration) (keys []string, err error) {
	u, err := chunkindex.FindUnused(ctx, store, prefix, grace)
	if err != nil {
		return nil, err
	}
	objects := u.Objects
	for _, g := range u.Generations {
		if !g.Until.IsZero() {
			objects = append(objects, g.Objects...)
		}
	}
	err = u.Remove(ctx, objects, func(o objstore.Object) { keys = append(keys, o.Key) })
	return keys, err
}

func TestUnused_Remove(t *testing.T) {
	store := memstore.New()
	indextest.Write(t, store, spec())
	old := indexed(t, store, build.Options{ChunkSize: 4 << 10})
	current := indexed(t, store, build.Options{ChunkSize: 8 << 10})
	if got, err := collect(t.Context(), aged{store, time.Minute, ""}, prefix, time.Hour); err != nil || len(got) != 0 {
		t.Errorf("within the grace time: got %v, %v", got, err)
	}
	x, err := chunkindex.Open(t.Context(), store, prefix, chunkindex.OpenOptions{Generation: old.Generation})
	if err != nil {
		t.Fatal(err)
	}
	x.Close()
	if got, err := collect(t.Context(), aged{store, 2 * time.Hour, old.Generation}, prefix, time.Hour); err != nil || len(got) != 0 {
		t.Errorf("written anew meanwhile: got %v, %v", got, err)
	}
	got, err := collect(t.Context(), aged{store, 2 * time.Hour, ""}, prefix, time.Hour)
	if err != nil || len(got) != 2 || !strings.Contains(strings.Join(got, " "), old.Generation) {
		t.Errorf("got %v, %v, want index and binding of %s", got, err, old.Generation)
	}
	if x, err = chunkindex.Open(t.Context(), store, prefix, chunkindex.OpenOptions{}); err != nil || x.Generation() != current.Generation {
		t.Fatalf("got %v, want generation %s", err, current.Generation)
	}
	x.Close()
	if _, err := chunkindex.Open(t.Context(), store, prefix, chunkindex.OpenOptions{Generation: old.Generation}); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("a generation that was removed: got %v, want %v", err, objstore.ErrNotFound)
	}
}

func TestVerify(t *testing.T) {
	store := memstore.New()
	d := indextest.Make(t, store, spec())
	run := func() (bad []chunkindex.BadRange) {
		t.Helper()
		err := chunkindex.Verify(t.Context(), d.Index, store, prefix, 3, nil, func(b chunkindex.BadRange) { bad = append(bad, b) })
		if err != nil {
			t.Fatal(err)
		}
		return bad
	}
	if bad := run(); len(bad) != 0 {
		t.Errorf("got %v", bad)
	}
	const at = 1000
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Op != memstore.Read || c.Key != d.Shards[1] || c.Offset > at || c.Offset+c.Length <= at {
			return memstore.Fault{}
		}
		return memstore.Fault{Corrupt: func(b []byte) { b[at-c.Offset] ^= 1 }}
	})
	bad := run()
	if len(bad) != 1 || prefix+bad[0].Shard != d.Shards[1] || bad[0].Offset > at || bad[0].Offset+bad[0].Length <= at {
		t.Fatalf("one flipped bit: got %v, want the sample around %d", bad, at)
	}
	next := bad[0].Offset + bad[0].Length // offset after the bad sample
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Op != memstore.Read || c.Key != d.Shards[1] || c.Offset > at || c.Offset+c.Length <= next {
			return memstore.Fault{}
		}
		return memstore.Fault{Corrupt: func(b []byte) { b[at-c.Offset] ^= 1; b[next-c.Offset] ^= 1 }}
	})
	if two := run(); len(two) != 1 || two[0].Offset != bad[0].Offset || two[0].Length <= bad[0].Length {
		t.Errorf("flipped bits in adjacent samples: got %v, want one range from %d to beyond %d", two, bad[0].Offset, next)
	}
	store.SetFault(nil)
	store.Delete(t.Context(), d.Shards[0])
	store.Set(d.Shards[2], d.Bodies[2])
	shards := map[string]string{}
	for _, b := range run() {
		shards[prefix+b.Shard] = b.Cause
	}
	if shards[d.Shards[0]] != "not found" || shards[d.Shards[2]] != chunkindex.Rewritten || len(shards) != 2 {
		t.Errorf("got %v, want %s not found, and %s rewritten with the same bytes", shards, d.Shards[0], d.Shards[2])
	}
	store.Set(d.Shards[1], flipped(d.Bodies[1], at))
	store.Set(d.Shards[2], d.Bodies[2][:len(d.Bodies[2])/2])
	found := map[string]int{}
	for _, b := range run() {
		found[b.Cause]++
		if key := prefix + b.Shard; b.Cause != map[string]string{d.Shards[0]: "not found", d.Shards[1]: "changed", d.Shards[2]: "changed"}[key] {
			t.Errorf("got %+v", b)
		}
		if prefix+b.Shard == d.Shards[1] && (b.Offset > at || b.Offset+b.Length <= at) {
			t.Errorf("got %+v, want the sample around %d", b, at)
		}
	}
	if found["changed"] < 2 {
		t.Errorf("got %v, want the changes of both", found)
	}
	for _, other := range [][]byte{append(bytes.Clone(d.Bodies[1]), 0), d.Bodies[1][:len(d.Bodies[1])-1]} { // the last bytes of a tar belong to no sample
		store.Set(d.Shards[0], d.Bodies[0])
		store.Set(d.Shards[1], other)
		store.Set(d.Shards[2], d.Bodies[2])
		shards := map[string]string{}
		for _, b := range run() {
			shards[prefix+b.Shard] = b.Cause
		}
		if want := map[string]string{d.Shards[0]: chunkindex.Rewritten, d.Shards[1]: "changed", d.Shards[2]: chunkindex.Rewritten}; !maps.Equal(shards, want) {
			t.Errorf("%d bytes in place of %d: got %v, want %v", len(other), len(d.Bodies[1]), shards, want)
		}
	}
}

func flipped(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1
	return b
}

// TestVerifyProgress checks that Verify counts a shard when the shard's last chunk has been read,
// and counts shards without samples at the start.
func TestVerifyProgress(t *testing.T) {
	for _, c := range []struct{ samples, shards, parallel, first int }{
		{7, 9, 1, 3}, // two empty shards, and the first shard, which has one chunk
		{7, 9, 4, 3},
		{60, 4, 1, 0}, // each shard has several chunks
		{60, 4, 4, 0},
	} {
		store := memstore.New()
		sp := spec()
		sp.Sizes, sp.Shards = sp.Sizes[:c.samples], c.shards
		d := indextest.Make(t, store, sp)
		var seen []chunkindex.Progress
		err := chunkindex.Verify(t.Context(), d.Index, store, prefix, c.parallel, func(p chunkindex.Progress) { seen = append(seen, p) }, nil)
		if err != nil {
			t.Fatal(err)
		}
		last := seen[len(seen)-1]
		if len(seen) != d.Index.Chunks() || last.Shards != c.shards || last.Of != c.shards || last.Done != last.Total || last.Samples != uint64(c.samples) {
			t.Errorf("%+v: got %+v at the end of %d", c, last, len(seen))
		}
		if seen[0].Shards != c.first {
			t.Errorf("%+v: got %d shards after the first chunk, want %d", c, seen[0].Shards, c.first)
		}
		for i, p := range seen[1:] {
			if p.Shards < seen[i].Shards || p.Shards == c.shards && p.Done != p.Total {
				t.Errorf("%+v: got %+v after %+v", c, p, seen[i])
			}
		}
	}
}

// TestOpen_LeavesNoTemporaryFile checks that, without a cache directory, the local copy is an
// unnamed file, so that a killed process leaves no file.
func TestOpen_LeavesNoTemporaryFile(t *testing.T) {
	store := memstore.New()
	d := indextest.Make(t, store, spec())
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	x, err := chunkindex.Open(t.Context(), store, prefix, chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("while the index is open: got %v, %v, want no file", left, err)
	}
	checkAgainst(t, store, prefix, x, d.Keys, d.Samples)
}

func TestOpen_UsesItsLocalCopy(t *testing.T) {
	store := memstore.New()
	d := indextest.Make(t, store, spec())
	dir := t.TempDir()
	opens := func() int {
		store.Reset()
		x, err := chunkindex.Open(t.Context(), store, prefix, chunkindex.OpenOptions{CacheDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		checkAgainst(t, store, prefix, x, d.Keys, d.Samples)
		n := 0
		for _, r := range store.Reads() {
			if strings.HasPrefix(r.Key, prefix+".millrace/segment/") {
				n++
			}
		}
		return n
	}
	if got := opens(); got != 1 {
		t.Errorf("first: got %d transfers, want 1", got)
	}
	if got := opens(); got != 0 {
		t.Errorf("second: got %d transfers, want 0", got)
	}
	if _, err := chunkindex.Open(t.Context(), store, prefix, chunkindex.OpenOptions{MaxBytes: 100}); err == nil {
		t.Error("got an index larger than the limit")
	}
	key := prefix + ".millrace/index/" + d.Report.Generation
	b, _ := store.Bytes(key)
	b = bytes.Clone(b)
	b[len(b)/2] ^= 1
	store.Set(key, b)
	if _, err := chunkindex.Open(t.Context(), store, prefix, chunkindex.OpenOptions{}); !errors.Is(err, layout.ErrCorrupt) {
		t.Errorf("got %v, want %v", err, layout.ErrCorrupt)
	}
	// The next index run must detect the damage and repair it.
	if rep := indexed(t, store, spec().Build); rep.Unchanged || rep.Generation != d.Report.Generation {
		t.Errorf("got %+v after damage", rep)
	}
	x, err := chunkindex.Open(t.Context(), store, prefix, chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x.Close()
}
