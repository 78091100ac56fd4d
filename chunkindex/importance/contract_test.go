package importance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// datedStore lists its objects with the given modification times, in seconds.
type datedStore struct {
	*memstore.Store
	at map[string]int64
}

func (d datedStore) List(ctx context.Context, prefix string, visit func(objstore.Object) error) error {
	return d.Store.List(ctx, prefix, func(o objstore.Object) error {
		o.Modified = time.Unix(d.at[o.Key], 0)
		return visit(o)
	})
}

// storedEpochs adds reports for three plans and several epochs. Two batches have two reports each.
// It returns the number of batches per epoch.
func storedEpochs(t *testing.T, l *Log) map[string]uint64 {
	t.Helper()
	losses, batches := epochLosses(43, 1), map[string]uint64{}
	for _, plan := range []string{testPlan, testPlan + "&window=9", strings.Replace(testPlan, "generation=11", "generation="+testGeneration(), 1)} {
		for epoch := range uint64(3) {
			for _, r := range []Report{report(losses, 0, 8), report(losses, 8, 12), report(losses, 12, 16), report(losses, 40, 43)}[epoch:] {
				r.Plan, r.Epoch = plan, epoch
				add(t, l, r)
			}
			batches[fmt.Sprint(plan, " ", epoch)] = []uint64{3, 2, 2}[epoch]
		}
	}
	return batches
}

// TestStored_DescribesEveryEpochOfEveryPlan checks that Stored lists all objects of the log in the
// bucket and ignores foreign objects.
func TestStored_DescribesEveryEpochOfEveryPlan(t *testing.T) {
	store := memstore.New()
	dated := datedStore{store, map[string]int64{}}
	l := newLog(t, store, func(c *Config) { c.Reader = dated })
	batches := storedEpochs(t, l)
	q := request()
	q.Epoch = 0
	frozenDigest := freeze(t, l, q).Digest
	keys := store.Keys()
	for i, key := range keys {
		dated.at[key] = int64(1000 + 17*i%len(keys)) // the newest object is neither the first nor the last
	}
	room, plan := "data/set/"+roomDir, planHash(testPlan)
	for _, key := range []string{
		"x", "log/", "log/" + plan + "/", "log/x/" + fmt.Sprintf("%020d/", 0), "log/" + plan + "/0/" + strings.Repeat("0", 18) + "/x",
		strings.Repeat("AB", 32), "epochs/x/" + plan + "-0.begun", "epochs/" + plan + "/" + plan + "-0.other", "epochs/" + plan + "/x-0.begun",
	} {
		store.Set(room+key, []byte("x"))
	}
	snapshots, reports, err := l.Stored(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, r := range reports {
		what := fmt.Sprint(r.Plan, " ", r.Epoch)
		if r.Fault != nil || r.Dir != l.epochPrefix(r.Plan, r.Epoch) || r.Batches != batches[what] || (r.Generation == testGeneration()) != strings.Contains(r.Plan, testGeneration()) {
			t.Errorf("got %+v, want %d batches of %s", r, batches[what], what)
		}
		delete(batches, what)
		var size, newest int64
		for _, o := range r.Objects {
			b, _ := store.Bytes(o.Key)
			if listed = append(listed, o.Key); !strings.HasPrefix(o.Key, r.Dir) || o.Size != int64(len(b)) {
				t.Errorf("got %+v among the reports of %s", o, r.Dir)
			}
			size, newest = size+o.Size, max(newest, dated.at[o.Key])
		}
		if r.Bytes != size || r.Newest.Unix() != newest {
			t.Errorf("%s: got %d bytes, the newest of %d, want %d of %d", what, r.Bytes, r.Newest.Unix(), size, newest)
		}
		want := []string{l.pairKey(r.Plan, r.Epoch) + begun}
		if r.Plan == testPlan && r.Epoch == 0 {
			want = append(want, l.pairKey(r.Plan, r.Epoch)+frozen)
		}
		var notes []string
		for _, o := range r.Notes {
			notes = append(notes, o.Key)
		}
		if diff := cmp.Diff(want, notes); diff != "" {
			t.Errorf("notes of %s (-want +got):\n%s", what, diff)
		}
	}
	slices.Sort(listed)
	if want := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return !strings.Contains(k, "/log/") }); len(batches) > 0 || !slices.Equal(listed, want) {
		t.Errorf("got %q, want %q, and the epochs %v", listed, want, batches)
	}
	if len(snapshots) != 1 {
		t.Fatalf("got %d snapshots, want 1", len(snapshots))
	}
	if s := snapshots[0]; s.Fault != nil || s.Digest != frozenDigest || s.Plan != testPlan || s.Epoch != 0 || s.Samples != 43 || s.Positions != 19 || s.Generation != testGeneration() || s.Size == 0 {
		t.Errorf("got %+v, want the snapshot %s", s, frozenDigest)
	}
}

// TestErrors_NameCulpritAndCure compares complete error messages and their error classes.
func TestErrors_NameCulpritAndCure(t *testing.T) {
	store := memstore.New()
	l, reader := newLog(t, store), newLog(t, store, func(c *Config) { c.Writer = nil })
	losses := epochLosses(43, 1)
	add(t, l, report(losses, 8, 16))
	other := report(losses, 8, 16)
	stored := other.Losses[2]
	other.Losses[2] += 1.5
	addTo := func(l *Log, r Report) error { _, err := l.Add(t.Context(), r); return err }
	frozenOf := func(l *Log, change func(q *FreezeRequest)) error {
		q := request()
		change(&q)
		f, err := l.Freeze(t.Context(), q)
		if f != (Frozen{}) {
			t.Errorf("got %+v with %v", f, err)
		}
		return err
	}
	opened := func(digest string, first []uint64) error {
		_, err := l.Open(t.Context(), digest, testGeneration(), first)
		return err
	}
	made := func(cfg Config) error { _, err := New(cfg); return err }
	isIn := errors.New("any class")
	for _, c := range []struct {
		err, kind error
		want      string
	}{
		{addTo(l, other), ErrConflict, fmt.Sprintf("report of batch 1 of epoch 3: position 10: the stored loss is %v, the reported loss %v: a different loss was already reported for this position", stored, stored+1.5)},
		{addTo(reader, report(losses, 0, 8)), ErrReadOnly, "the bucket is read-only: the report is lost unless you send it again: the store was opened for reading only"},
		{&ReadOnlyError{Kept: true}, ErrReadOnly, "the bucket is read-only: the report is stored in the local log"},
		{&ReadOnlyError{Kept: true, Err: errFull}, errFull, "the bucket is read-only: the report is stored in the local log: the local log is full"},
		{frozenOf(reader, func(*FreezeRequest) {}), ErrReadOnly, "freeze the weights of epoch 3: the bucket is read-only: the store was opened for reading only"},
		{frozenOf(l, func(q *FreezeRequest) { q.Epoch = 9 }), ErrNoReports, "freeze the weights of epoch 9: no losses were reported"},
		{frozenOf(l, func(q *FreezeRequest) { q.HotShare = math.NaN() }), ErrInvalid, "freeze the weights of epoch 3: invalid: hot share NaN: must be from 0 to 1"},
		{opened("short", testFirst()), ErrNoSnapshot, "importance short: no such snapshot"},
		{opened(testGeneration(), []uint64{0}), ErrInvalid, "importance 111111111111: invalid: no samples"},
		{made(Config{}), isIn, "importance log: no store"},
		{made(Config{Reader: store, Prefix: "data"}), isIn, `importance log: prefix "data" does not end in a slash`},
		{ErrTooMany, ErrTooMany, "64 epochs of this plan have reports that were never frozen: freeze the epochs that you need, and remove the reports of the others with millrace gc --reports-older"},
	} {
		if c.err == nil || c.kind != isIn && !errors.Is(c.err, c.kind) || c.err.Error() != c.want {
			t.Errorf("got %v, want %s", c.err, c.want)
		}
	}
	if err := opened(testGeneration(), testFirst()); !errors.Is(err, ErrNoSnapshot) || !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("got %v, want %v and the error of the store", err, ErrNoSnapshot)
	}
	var c *ConflictError
	if err := addTo(l, other); !errors.As(err, &c) || *c != (ConflictError{Position: 10, Stored: stored, Reported: stored + 1.5}) {
		t.Errorf("got %+v of %v", c, err)
	}
}

// TestOpen_NamesTheObjectToRemove opens a snapshot that is invalid, or whose digest differs from
// its name. The error must name the object to remove.
func TestOpen_NamesTheObjectToRemove(t *testing.T) {
	store, digest, b := frozenStore(t)
	l := newLog(t, store)
	key := l.snapshotKey(digest)
	flipped := bytes.Clone(b)
	flipped[len(flipped)-1] ^= 1
	for name, bad := range map[string][]byte{"short": b[:snapshotHeader-1], "header": b[:snapshotHeader], "other bytes": flipped} {
		store.Set(key, bad)
		err := tryOpen(t, l, digest)
		if !errors.Is(err, ErrCorrupt) || !strings.HasPrefix(err.Error(), "importance "+digest[:12]+": "+key+": ") || !strings.HasSuffix(err.Error(), "(remove the object, and freeze again)") {
			t.Errorf("%s: got %v, want %v that names %s", name, err, ErrCorrupt, key)
		}
	}
	store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Err: objstore.ErrThrottled} })
	if err := tryOpen(t, l, digest); !errors.Is(err, objstore.ErrThrottled) || errors.Is(err, ErrNoSnapshot) || strings.Contains(err.Error(), "remove") {
		t.Errorf("got %v, want only that the store throttles", err)
	}
}

// files lists a directory.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestLog_LeavesNoTemporaryFiles checks that Freeze and Open leave no temporary files if any
// request fails, with and without a directory for copies.
func TestLog_LeavesNoTemporaryFiles(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for _, named := range []bool{false, true} {
		store, dir := memstore.New(), temp
		l := newLog(t, store, func(c *Config) {
			if named {
				dir = filepath.Join(t.TempDir(), "a", "b")
				c.CacheDir = dir
			}
		})
		add(t, l, epochReports(epochLosses(43, 1))...)
		digest := freeze(t, l, request()).Digest
		for n := range 4 { // fail Stat, the header, the content, and nothing
			calls := 0
			store.SetFault(func(memstore.Call) (f memstore.Fault) {
				if calls++; calls == n+1 && n < 3 {
					f.Err = objstore.ErrUnavailable
				}
				return f
			})
			if err := tryOpen(t, l, digest); (err == nil) != (n == 3) || n < 3 && !errors.Is(err, objstore.ErrUnavailable) {
				t.Errorf("request %d fails: got %v", n, err)
			}
			var want []string
			if named && n == 3 {
				want = []string{digest + copySuffix}
			}
			if got := files(t, dir); !slices.Equal(got, want) {
				t.Errorf("request %d fails: got the files %q, want %q", n, got, want)
			}
		}
		denied(store, true)
		if _, err := l.Freeze(t.Context(), request()); !errors.Is(err, ErrReadOnly) {
			t.Errorf("got %v, want %v", err, ErrReadOnly)
		}
		if got := files(t, dir); slices.ContainsFunc(got, func(n string) bool { return strings.HasPrefix(n, tempPrefix) }) {
			t.Errorf("got the files %q, want no temporary ones", got)
		}
	}
}

// TestFreeze_FailsWithItsBase closes the base snapshot before Freeze reads its weights.
func TestFreeze_FailsWithItsBase(t *testing.T) {
	store := memstore.New()
	l := newLog(t, store)
	add(t, l, epochReports(epochLosses(43, 1))...)
	q := request()
	q.Base = open(t, l, freeze(t, l, q).Digest)
	if err := q.Base.Close(); err != nil {
		t.Fatal(err)
	}
	before := store.Keys()
	if _, err := l.Freeze(t.Context(), q); !errors.Is(err, os.ErrClosed) || !strings.Contains(err.Error(), "base snapshot "+q.Base.Digest()[:12]) {
		t.Errorf("got %v, want %v that names the base", err, os.ErrClosed)
	}
	if got := store.Keys(); !slices.Equal(got, before) {
		t.Errorf("got %q in the bucket, want %q", got, before)
	}
}

// TestSnapshot_SaysWhatItWasMadeOf checks that all properties of a snapshot match the request.
func TestSnapshot_SaysWhatItWasMadeOf(t *testing.T) {
	l := newLog(t, memstore.New())
	for _, r := range epochReports(epochLosses(43, 1))[:2] {
		r.Reporter = "alice"
		add(t, l, r)
	}
	q := request()
	q.Reporter, q.HotShare, q.Repeat = "alice", .5, 7
	f := freeze(t, l, q)
	q.Base, q.HotShare, q.Repeat = open(t, l, f.Digest), 0, 0
	g := freeze(t, l, q)
	type told struct {
		Digest, Generation, Plan, Base string
		Epoch, Samples, Positions, Hot uint64
		Share                          float64
		Repeat                         uint32
	}
	for _, want := range []told{
		{f.Digest, testGeneration(), testPlan, "", 3, 43, 16, 21, .5, 7},
		{g.Digest, testGeneration(), testPlan, f.Digest, 3, 43, 16, 4, DefaultHotShare, DefaultRepeat},
	} {
		s := open(t, l, want.Digest)
		got := told{s.Digest(), s.Generation(), s.Plan(), s.Base(), s.Epoch(), s.Samples(), s.Positions(), s.HotSamples(), s.HotShare(), s.Repeat()}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("snapshot (-want +got):\n%s", diff)
		}
	}
	if want := (Frozen{Digest: f.Digest, New: true, Samples: 43, HotSamples: 21, Reports: 2, Positions: 16}); f != want {
		t.Errorf("got %+v, want %+v", f, want)
	}
	q.Base, q.HotShare, q.Repeat = nil, .5, 7
	if again := freeze(t, l, q); again.New || again.Digest != f.Digest || again.Positions != 16 {
		t.Errorf("again: got %+v, want the same snapshot, which is not new", again)
	}
}

func TestCheckFirst_Limits(t *testing.T) {
	for _, c := range []struct {
		first []uint64
		want  string
	}{
		{nil, "no samples"},
		{[]uint64{0}, "no samples"},
		{[]uint64{1, 2}, "no samples"},
		{[]uint64{0, 0, 0}, "no samples"},
		{[]uint64{0, 1}, ""},
		{[]uint64{0, maxChunkSamples, maxChunkSamples}, ""},
		{[]uint64{0, 1, maxChunkSamples + 2}, "chunk 1 has an impossible number of samples"},
		{[]uint64{0, 2, 1, 2}, "chunk 1 has an impossible number of samples"},
		{[]uint64{0, maxSamples + 1}, "17179869185 samples in 1 chunks exceed the limits"},
		{[]uint64{0, maxSamples}, "chunk 0 has an impossible number of samples"},
	} {
		if got := checkFirst(c.first); (got == nil) != (c.want == "") || got != nil && got.Error() != c.want {
			t.Errorf("%v: got %v, want %q", c.first, got, c.want)
		}
	}
}

// TestBlockCache_KeepsTheFirstBlock adds the block of a chunk twice, like two concurrent readers.
// It then adds blocks of the maximum size and larger blocks.
func TestBlockCache_KeepsTheFirstBlock(t *testing.T) {
	c := &blockCache{chunks: map[int]*block{}}
	first := &block{weights: make([]uint32, 9)}
	c.put(1, first)
	before := c.bytes
	c.put(1, &block{weights: make([]uint32, 9)})
	c.put(2, &block{weights: make([]uint32, (cacheBytes-256)/4+1)})
	if got := c.get(1); got != first || c.get(2) != nil || c.bytes != before || len(c.chunks) != 1 {
		t.Errorf("got %p of chunk 1, %p of chunk 2, %d bytes, want %p, nothing, %d", got, c.get(2), c.bytes, first, before)
	}
	c.put(3, &block{weights: make([]uint32, (cacheBytes-256)/4)})
	if c.get(1) != nil || c.get(3) == nil || c.bytes != cacheBytes || len(c.chunks) != 1 {
		t.Errorf("a block as large as the cache: got %d bytes of %d chunks", c.bytes, len(c.chunks))
	}
}

// TestFlush_FailsWithThePartThatFails sends a local log in two parts. The first part fails once,
// and the reports of both parts must remain in the log.
func TestFlush_FailsWithThePartThatFails(t *testing.T) {
	store := memstore.New()
	l := newLog(t, store, func(c *Config) { c.Dir = t.TempDir() })
	const n = flushBytes / 12
	large, small := Report{Plan: testPlan, Epoch: 3, Count: n, Losses: make([]float64, n)}, report(epochLosses(43, 1), 8, 16)
	for p := range uint64(n) {
		large.Positions = append(large.Positions, p)
	}
	small.Plan += "&window=9"
	denied(store, true)
	keepAll(t, l, large, small)
	calls := 0
	store.SetFault(func(memstore.Call) (f memstore.Fault) {
		if calls++; calls == 1 {
			f.Err = objstore.ErrUnavailable
		}
		return f
	})
	if done, err := l.Flush(t.Context()); !errors.Is(err, objstore.ErrUnavailable) || done.Sent != 0 {
		t.Errorf("got %+v, %v, want %v", done, err, objstore.ErrUnavailable)
	}
	wantKept(t, l, 2)
	if done, err := l.Flush(t.Context()); err != nil || done != (FlushReport{Sent: 2}) {
		t.Errorf("again: got %+v, %v, want both sent", done, err)
	}
}
