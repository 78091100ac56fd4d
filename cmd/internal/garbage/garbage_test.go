package garbage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/chunkindex/testing/indextest"
	"github.com/millrace-data/millrace/cmd/internal/garbage"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

const (
	prefix = "data/set/"
	day    = 24 * time.Hour
)

// timed is a store that gives objects the time of the test's clock.
type timed struct {
	*memstore.Store
	mu      sync.Mutex
	written map[string]time.Time
}

func (s *timed) stamp(o objstore.Object) objstore.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.Modified = s.written[o.Key]
	return o
}

func (s *timed) Put(ctx context.Context, key string, body io.ReaderAt, size int64, cond objstore.Condition) (objstore.Object, error) {
	o, err := s.Store.Put(ctx, key, body, size, cond)
	if err != nil {
		return o, err
	}
	s.mu.Lock()
	s.written[key] = time.Now()
	s.mu.Unlock()
	return s.stamp(o), nil
}

func (s *timed) Stat(ctx context.Context, key string) (objstore.Object, error) {
	o, err := s.Store.Stat(ctx, key)
	return s.stamp(o), err
}

func (s *timed) List(ctx context.Context, prefix string, visit func(objstore.Object) error) error {
	return s.Store.List(ctx, prefix, func(o objstore.Object) error { return visit(s.stamp(o)) })
}

// place is a dataset and all objects that Millrace stores with it, under a fake clock.
type place struct {
	*testing.T
	store *timed
}

func newPlace(t *testing.T) place {
	p := place{t, &timed{Store: memstore.New(), written: map[string]time.Time{}}}
	indextest.Write(t, p.store, indextest.Spec{Prefix: prefix, Sizes: indextest.Sizes(40, 500), Shards: 2})
	return p
}

// index writes an index, whose generation depends on the chunk size.
func (p place) index(chunk int64) *chunkindex.Index {
	p.Helper()
	return p.named("", chunk)
}

// named writes an index with a name.
func (p place) named(name string, chunk int64) *chunkindex.Index {
	p.Helper()
	if _, err := build.Run(p.Context(), p.store, prefix, build.Options{Name: name, ChunkSize: chunk}); err != nil {
		p.Fatal(err)
	}
	x, err := chunkindex.Open(p.Context(), p.store, prefix, chunkindex.OpenOptions{Name: name})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { x.Close() })
	return x
}

// choose splits a generation into subsets, puts one of its samples into quarantine, and names a table
// of costs.
func (p place) choose(x *chunkindex.Index) {
	p.Helper()
	s, err := selection.New(selection.Config{Reader: p.store, Writer: p.store, Prefix: prefix, Dir: p.TempDir()})
	if err != nil {
		p.Fatal(err)
	}
	rule, err := selection.ParseRule("train=9,val=1", "")
	if err != nil {
		p.Fatal(err)
	}
	if _, err := s.Split(p.Context(), x, rule); err != nil {
		p.Fatal(err)
	}
	q := selection.Quarantine{Generation: x.Generation(), Samples: x.Samples(), Bad: []selection.Bad{{Number: 3, Key: "k"}}}
	if _, _, err := s.Quarantine(p.Context(), q); err != nil {
		p.Fatal(err)
	}
	digest, _, err := s.WriteCosts(p.Context(), x.Generation(), x.Samples(), func(yield func([]uint32, error) bool) { yield(make([]uint32, x.Samples()), nil) })
	if err == nil {
		err = s.NameCosts(p.Context(), x.Generation(), "tokens", digest)
	}
	if err != nil {
		p.Fatal(err)
	}
}

func (p place) log() *importance.Log {
	p.Helper()
	l, err := importance.New(importance.Config{Reader: p.store, Writer: p.store, Prefix: prefix, CacheDir: p.TempDir()})
	if err != nil {
		p.Fatal(err)
	}
	return l
}

func planOf(x *chunkindex.Index) string {
	return "batch_size=8&generation=" + x.Generation() + "&seed=0&shuffle=full&tail=short"
}

// report reports the losses of some batches of an epoch.
func (p place) report(x *chunkindex.Index, epoch uint64, batches ...uint64) {
	p.Helper()
	for _, b := range batches {
		r := importance.Report{Plan: planOf(x), Epoch: epoch, Batch: b, First: 8 * b, Count: 8, Positions: []uint64{8 * b}, Losses: []float64{1}}
		if _, err := p.log().Add(p.Context(), r); err != nil {
			p.Fatal(err)
		}
	}
}

func (p place) freeze(x *chunkindex.Index, epoch uint64) {
	p.Helper()
	_, err := p.log().Freeze(p.Context(), importance.FreezeRequest{
		Plan: planOf(x), Epoch: epoch, Generation: x.Generation(), BatchSize: 8, First: x.First(),
		Resolve: func(_ context.Context, at []uint64) ([]uint64, error) { return at, nil },
	})
	if err != nil {
		p.Fatal(err)
	}
}

// find returns the removed and the kept items as text: number of objects, kind and reason of each.
func (p place) find(opt garbage.Options) (f *garbage.Result, goes, stays string) {
	p.Helper()
	f, err := garbage.Find(p.Context(), p.store, prefix, opt)
	if err != nil {
		p.Fatal(err)
	}
	return f, words(f.Remove), words(f.Keep)
}

func words(items []garbage.Item) string {
	var lines []string
	for _, i := range garbage.Summary(items) {
		lines = append(lines, fmt.Sprintf("%d %s: %s", i.Objects, i.Kind, i.Why))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (p place) want(what, got string, parts ...string) {
	p.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			p.Errorf("%s: got\n%s\nwant %q in it", what, got, part)
		}
	}
	if lines := strings.Count(got+"\n", "\n"); len(parts) > 0 && lines != len(parts) || len(parts) == 0 && got != "" {
		p.Errorf("%s: got\n%s\nwant these and no more: %q", what, got, parts)
	}
}

// table returns a line for each generation: whether it is removed, and why. Names replace the
// digests.
func table(f *garbage.Result, names map[string]*chunkindex.Index) string {
	var lines []string
	for _, g := range f.Generations {
		verdict := "stays"
		if g.Remove {
			verdict = "goes"
		}
		name := "unknown"
		for n, x := range names {
			if x.Generation() == g.Generation {
				name = n
			}
		}
		lines = append(lines, fmt.Sprintf("%s %s (%d): %s", name, verdict, g.Objects, g.Why))
	}
	return strings.Join(lines, "\n")
}

// TestFind_RemovesGenerationWithItsObjects: a generation is removed together with its objects, once
// the next one has been current for the grace time. Objects of the current generation are kept.
func TestFind_RemovesGenerationWithItsObjects(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPlace(t)
		old := p.index(2 << 10)
		p.choose(old)
		p.report(old, 1, 0, 1, 2)
		p.freeze(old, 1)
		time.Sleep(30 * day)
		current := p.index(4 << 10)
		p.choose(current)
		p.report(current, 1, 0)

		_, goes, stays := p.find(garbage.Options{Grace: day})
		p.want("just superseded", goes, "3 reports: a snapshot of epoch 1 contains them")
		p.want("just superseded", stays,
			"1 quarantine: a URL may name", "2 cost: a URL may name", "1 snapshot: a URL may name", "2 subset: a URL may name",
			"1 quarantine: of the current", "2 cost: of the current", "2 subset: of the current", "1 reports: epoch 1 is not frozen yet")

		time.Sleep(2 * day)
		before := p.store.Keys()
		f, goes, stays := p.find(garbage.Options{Grace: day})
		own := fmt.Sprintf("its generation %.12s is deleted", old.Generation())
		p.want("superseded", goes, "2 index: generation "+old.Generation()[:12]+" was current until", "1 index: only deleted generations have it", "3 reports: "+own, "1 quarantine: "+own, "2 cost: "+own, "1 snapshot: "+own, "2 subset: "+own)
		p.want("superseded", stays, "1 quarantine: of the current", "2 cost: of the current", "2 subset: of the current", "1 reports: epoch 1 is not frozen yet")
		if !slices.Equal(p.store.Keys(), before) {
			t.Error("finding removes objects, want none")
		}
		p.want("generations", table(f, map[string]*chunkindex.Index{"old": old, "current": current}),
			"current stays (9): the pointer names it", "old goes (12): was current until 2000-01-31")
		if err := f.Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(before) - len(p.store.Keys()); got != 14 { // two of them are notes of the epoch that was frozen
			t.Errorf("got %d objects removed, want 14: %q", got, p.store.Keys())
		}
		if !slices.ContainsFunc(p.store.Keys(), func(key string) bool { return strings.HasSuffix(key, ".tar") }) {
			t.Errorf("got %q, want the shards left alone", p.store.Keys())
		}
		_, goes, again := p.find(garbage.Options{Grace: day})
		p.want("again", goes)
		if again != stays {
			t.Errorf("after the removal: got\n%s\nwant\n%s", again, stays)
		}
	})
}

// TestFind_KeepsSharedSegments: a segment is removed with the last generation that has it. If an index
// object is damaged, all segments are kept.
func TestFind_KeepsSharedSegments(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := place{t, &timed{Store: memstore.New(), written: map[string]time.Time{}}}
		indextest.Write(t, p.store, indextest.Spec{Prefix: prefix, Sizes: indextest.Sizes(400, 10), Shards: 400})
		old := p.index(0)
		time.Sleep(30 * day)
		b, _ := p.store.Bytes(prefix + "shard-00399.tar")
		if _, err := p.store.Put(t.Context(), prefix+"shard-00400.tar", bytes.NewReader(b), int64(len(b)), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
		current := p.index(0)
		time.Sleep(2 * day)
		n := len(old.Segments())
		if n < 3 || n != len(current.Segments()) {
			t.Fatalf("got %d and %d segments", n, len(current.Segments()))
		}
		key := prefix + ".millrace/index/" + old.Generation()
		sound, _ := p.store.Bytes(key)
		p.store.Set(key, []byte("damaged"))
		_, goes, _ := p.find(garbage.Options{Grace: day})
		p.want("damaged", goes, "2 index: generation "+old.Generation()[:12])
		p.store.Set(key, sound)
		f, goes, _ := p.find(garbage.Options{Grace: day})
		p.want("shared", goes, "2 index: generation "+old.Generation()[:12], "1 index: only deleted generations have it")
		if err := f.Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		x, err := chunkindex.Open(t.Context(), p.store, prefix, chunkindex.OpenOptions{})
		if err != nil || x.Samples() != 401 {
			t.Fatalf("current generation: got %v", err)
		}
		x.Close()
	})
}

// TestFind_RemovesRestOfGenerationWithoutIndex: if the index of a generation is already gone, its
// other objects are removed once the next generation has been current for the grace time.
func TestFind_RemovesRestOfGenerationWithoutIndex(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPlace(t)
		old := p.index(2 << 10)
		p.choose(old)
		time.Sleep(30 * day)
		p.index(4 << 10)
		if err := p.store.Delete(t.Context(), prefix+".millrace/index/"+old.Generation()); err != nil {
			t.Fatal(err)
		}
		_, goes, stays := p.find(garbage.Options{Grace: day})
		p.want("just superseded", goes, "2 index: no generation refers to it")
		p.want("just superseded", stays, "1 quarantine: the current generation is younger than 24h", "2 cost: the current generation is younger than 24h", "2 subset: the current generation is younger than 24h")
		time.Sleep(2 * day)
		_, goes, stays = p.find(garbage.Options{Grace: day})
		gone := fmt.Sprintf("the index of generation %.12s does not exist any more", old.Generation())
		p.want("superseded", goes, "2 index: no generation refers to it", "1 quarantine: "+gone, "2 cost: "+gone, "2 subset: "+gone)
		p.want("superseded", stays)
	})
}

// TestFind_KeepsObjectsOfKeptGeneration: the objects of a generation whose index is kept are kept
// too, since a URL may name the generation.
func TestFind_KeepsObjectsOfKeptGeneration(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPlace(t)
		old := p.index(2 << 10)
		p.choose(old)
		p.index(4 << 10)
		time.Sleep(3 * day)
		_, goes, stays := p.find(garbage.Options{Grace: 4 * day})
		p.want("index within the grace time", goes)
		p.want("index within the grace time", stays, "1 quarantine: a URL may name", "2 cost: a URL may name", "2 subset: a URL may name")
	})
}

// TestFind_KeepOptions checks the options with a dataset that grows every ten days: which
// generations are removed, and why the others are kept.
func TestFind_KeepOptions(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPlace(t)
		x := map[string]*chunkindex.Index{}
		for i, name := range []string{"a", "b", "c", "d"} {
			x[name] = p.index(1 << (10 + i))
			time.Sleep(10 * day)
		}
		p.choose(x["a"]) // this happens on day 40
		time.Sleep(day)
		for _, c := range []struct {
			what string
			opt  garbage.Options
			want []string
		}{
			{"neither", garbage.Options{Grace: time.Hour}, []string{"d stays (3): the pointer", "c goes (3): was current until 2000-01-31 00:00 UTC", "b goes (3): was current until 2000-01-21", "a goes (8): was current until 2000-01-11"}},
			{"a time", garbage.Options{Grace: time.Hour, Keep: 14 * day}, []string{"d stays", "c stays (3): was current within 14d", "b goes", "a stays (8): a subset of it was written within 14d"}},
			{"a longer time", garbage.Options{Grace: time.Hour, Keep: 22 * day}, []string{"d stays", "c stays", "b stays (3): was current within 22d", "a stays (8): a subset"}},
			{"the last", garbage.Options{Grace: time.Hour, KeepLast: 3}, []string{"d stays", "c stays (3): one of the last 3", "b stays (3): one of the last 3", "a goes"}},
			{"both", garbage.Options{Grace: time.Hour, Keep: 14 * day, KeepLast: 3}, []string{"d stays", "c stays (3): one of the last 3", "b stays (3): one of the last 3", "a stays (8): a subset"}},
			{"what is used", garbage.Options{Grace: time.Hour, KeepUsed: true}, []string{"d stays", "c goes", "b goes", "a stays (8): 5 objects belong to it"}},
			{"grace", garbage.Options{Grace: 14 * day}, []string{"d stays", "c stays (3): was current within 14d", "b goes", "a stays (8): a subset"}},
		} {
			f, _, _ := p.find(c.opt)
			p.want(c.what, table(f, x), c.want...)
		}
		// If a run returns to an earlier generation, that one is the latest to have been
		// current.
		p.index(2 << 10)
		f, _, _ := p.find(garbage.Options{Grace: time.Hour, KeepLast: 2})
		p.want("back to b", table(f, x), "b stays (3): the pointer", "d stays (3): one of the last 2", "c goes", "a goes")
		if err := f.Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, opens := range map[string]bool{"a": false, "b": true, "c": false, "d": true} {
			again, err := chunkindex.Open(t.Context(), p.store, prefix, chunkindex.OpenOptions{Generation: x[name].Generation()})
			if (err == nil) != opens {
				t.Errorf("generation %s: got %v, want it to open: %v", name, err, opens)
			}
			if err == nil {
				again.Close()
			}
		}
	})
}

// TestFind_KeepsNewestBinding: of a kept generation, only the newest binding is kept.
func TestFind_KeepsNewestBinding(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPlace(t)
		old := p.index(2 << 10)
		time.Sleep(day)
		for _, key := range p.store.Keys() { // write the same bytes again
			if body, ok := p.store.Bytes(key); ok && strings.HasSuffix(key, ".tar") {
				if _, err := p.store.Put(t.Context(), key, strings.NewReader(string(body)), int64(len(body)), objstore.Condition{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if again := p.index(2 << 10); again.Generation() != old.Generation() {
			t.Fatalf("got generation %.12s of the same bytes, want %.12s", again.Generation(), old.Generation())
		}
		time.Sleep(day)
		p.index(4 << 10)
		time.Sleep(day)
		f, goes, _ := p.find(garbage.Options{Grace: time.Hour, KeepLast: 2})
		p.want("bindings", goes, "1 index: no generation refers to it")
		if err := f.Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		x, err := chunkindex.Open(t.Context(), p.store, prefix, chunkindex.OpenOptions{Generation: old.Generation()})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		if _, err := p.store.Stat(t.Context(), prefix+x.Shard(0).Key); err != nil {
			t.Fatal(err)
		}
		if o, _ := p.store.Stat(t.Context(), prefix+x.Shard(0).Key); o.ETag != x.Shard(0).ETag {
			t.Errorf("got a binding to %s, want the newer one, to %s", x.Shard(0).ETag, o.ETag)
		}
	})
}

func TestFind_RemovesReportsInSnapshot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPlace(t)
		x := p.index(2 << 10)
		for epoch := range uint64(4) {
			p.report(x, epoch, 0, 1)
		}
		p.freeze(x, 0)
		time.Sleep(time.Minute)
		p.freeze(x, 1)
		time.Sleep(time.Minute)
		p.report(x, 1, 2) // reports of an epoch that was already frozen
		time.Sleep(2 * day)
		p.freeze(x, 2)
		_, goes, stays := p.find(garbage.Options{Grace: day})
		p.want("frozen", goes, "2 reports: a snapshot of epoch 0 contains them")
		p.want("frozen", stays, "3 reports: some were reported after epoch 1 was frozen", "2 reports: younger than 24h", "2 reports: epoch 3 is not frozen yet",
			"3 snapshot: of the current generation")
		_, goes, _ = p.find(garbage.Options{Grace: day, ReportsOlder: 3 * day})
		p.want("none that old", goes, "2 reports: a snapshot of epoch 0 contains them")
		f, goes, _ := p.find(garbage.Options{Grace: day, ReportsOlder: day})
		p.want("asked for", goes, "9 reports: older than 24h")
		if err := f.Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := slices.DeleteFunc(p.store.Keys(), func(k string) bool { return !strings.Contains(k, "/importance/log/") }); len(left) > 0 {
			t.Errorf("got %q left, want none", left)
		}
	})
}

// TestFind_KeepsUnreadableObjects: unreadable objects are kept, since their origin is unknown.
func TestFind_KeepsUnreadableObjects(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPlace(t)
		x := p.index(2 << 10)
		p.report(x, 1, 0)
		log := p.store.Keys()[slices.IndexFunc(p.store.Keys(), func(k string) bool { return strings.Contains(k, "/importance/log/") })]
		p.store.Set(log, []byte(strings.Repeat("damaged ", 20)))
		for _, dir := range []string{"importance/", "subset/", "quarantine/"} {
			p.store.Set(prefix+".millrace/"+dir+strings.Repeat("ab", 32), []byte(strings.Repeat("damaged ", 30)))
			p.store.Set(prefix+".millrace/"+dir+"notes.txt", []byte("not ours"))
		}
		time.Sleep(100 * day)
		_, goes, stays := p.find(garbage.Options{Grace: day, ReportsOlder: day})
		p.want("damaged", goes)
		p.want("damaged", stays, "1 snapshot: not readable", "1 subset: not readable", "1 quarantine: not readable", "1 reports: not readable")
	})
}

// TestFind_KeepsGenerationOfEveryPointer: the current generation of every index of the prefix is
// kept. A generation counts as replaced only when its own index is made again.
func TestFind_KeepsGenerationOfEveryPointer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPlace(t)
		whole := p.index(1 << 10)
		train := p.named("train", 2<<10)
		val := p.named("val", 3<<10)
		time.Sleep(60 * day)
		again := p.named("train", 4<<10)
		time.Sleep(5 * day)
		names := map[string]*chunkindex.Index{"whole": whole, "train": train, "val": val, "again": again}
		f, goes, _ := p.find(garbage.Options{Grace: day, Keep: 14 * day})
		p.want("replaced 5 days ago", goes)
		p.want("replaced 5 days ago", table(f, names),
			"again stays (4): current as #train", "val stays (4): current as #val", "whole stays (3): the pointer names it", "train stays (4): was current within 14d")
		time.Sleep(10 * day)
		f, goes, _ = p.find(garbage.Options{Grace: day, Keep: 14 * day})
		p.want("replaced 15 days ago", goes, fmt.Sprintf("3 index: generation %.12s was current until", train.Generation()), "1 index: only deleted generations have it")
		if err := f.Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, x := range map[string]*chunkindex.Index{"": whole, "val": val, "train": again} {
			y, err := chunkindex.Open(t.Context(), p.store, prefix, chunkindex.OpenOptions{Name: name})
			if err != nil || y.Generation() != x.Generation() {
				t.Fatalf("index %q: got %v", name, err)
			}
			y.Close()
		}
		if _, err := chunkindex.Open(t.Context(), p.store, prefix, chunkindex.OpenOptions{Name: "train", Generation: train.Generation()}); err == nil {
			t.Error("got the generation that was to go")
		}
	})
}

// TestApply_StopsIfPointerChanges: a change of any index's pointer stops the removal.
func TestApply_StopsIfPointerChanges(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPlace(t)
		p.index(1 << 10)
		p.named("train", 2<<10)
		time.Sleep(day)
		p.named("train", 3<<10)
		time.Sleep(30 * day)
		f, goes, _ := p.find(garbage.Options{Grace: day})
		if goes == "" {
			t.Fatal("nothing would go")
		}
		p.named("val", 2<<10) // makes the generation current that is about to be removed
		if err := f.Apply(t.Context()); !errors.Is(err, objstore.ErrChanged) {
			t.Errorf("got %v, want the removal ended", err)
		}
		p.named("val", 2<<10)
	})
}
