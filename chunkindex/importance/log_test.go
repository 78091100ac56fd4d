package importance

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

func TestReportIsTakenOnce(t *testing.T) {
	stores(t, func(t *testing.T, store objstore.Store) {
		losses := epochLosses(43, 1)
		for i, l := range []*Log{newLog(t, store), newLog(t, store)} { // two gateways
			added, err := l.Add(t.Context(), report(losses, 8, 16))
			if err != nil || added != (i == 0) {
				t.Errorf("gateway %d: got %v, %v, want %v", i, added, err, i == 0)
			}
		}
	})
}

func TestOtherLossIsAConflict(t *testing.T) {
	stores(t, func(t *testing.T, store objstore.Store) {
		losses := epochLosses(43, 1)
		l := newLog(t, store)
		add(t, l, report(losses, 8, 12), report(losses, 12, 16))
		for name, bad := range map[string]struct {
			lo, hi int
			at     uint64
		}{
			"same positions": {8, 12, 10}, "whole batch": {8, 16, 13}, "part": {12, 14, 12}, "across": {10, 14, 11},
		} {
			r := report(losses, bad.lo, bad.hi)
			stored := r.Losses[bad.at-uint64(bad.lo)]
			r.Losses[bad.at-uint64(bad.lo)] += .5
			_, err := l.Add(t.Context(), r)
			var c *ConflictError
			if !errors.Is(err, ErrConflict) || !errors.As(err, &c) {
				t.Errorf("%s: got %v, want %v", name, err, ErrConflict)
				continue
			}
			if want := (ConflictError{Position: bad.at, Stored: stored, Reported: stored + .5}); *c != want {
				t.Errorf("%s: got %+v, want %+v", name, *c, want)
			}
		}
		n := 0
		err := store.List(t.Context(), "data/", func(objstore.Object) error { n++; return nil })
		if err != nil || n != 3 {
			t.Errorf("objects: got %d, %v, want 3, two reports and a note of their epoch: a conflict must store nothing", n, err)
		}
	})
}

// TestOtherWorldSizeMayReportAgain adds the same losses again, divided into reports differently.
func TestOtherWorldSizeMayReportAgain(t *testing.T) {
	store := memstore.New()
	losses := epochLosses(43, 1)
	l := newLog(t, store)
	for _, c := range []struct {
		lo, hi int
		added  bool
	}{{8, 12, true}, {12, 14, true}, {9, 13, false}, {8, 16, true}, {13, 16, false}} {
		added, err := l.Add(t.Context(), report(losses, c.lo, c.hi))
		if err != nil || added != c.added {
			t.Errorf("positions %d to %d: got %v, %v, want %v", c.lo, c.hi-1, added, err, c.added)
		}
	}
	if got, want := len(logged(store)), 3; got != want {
		t.Errorf("objects: got %d, want %d", got, want)
	}
}

// TestAdd_NamesReportsByAllPositions checks that reports of one batch have different names even if
// their first and last positions are equal, because the hash covers all positions.
func TestAdd_NamesReportsByAllPositions(t *testing.T) {
	losses := epochLosses(43, 1)
	whole := report(losses, 8, 12)
	ends := whole
	ends.Positions, ends.Losses = []uint64{8, 11}, []float64{losses[8], losses[11]}
	store := memstore.New()
	l := newLog(t, store)
	add(t, l, ends, whole)
	var text []byte
	for _, p := range whole.Positions {
		text = binary.LittleEndian.AppendUint64(text, p)
	}
	if keys := logged(store); len(keys) != 2 || !slices.ContainsFunc(keys, func(k string) bool {
		return strings.HasSuffix(k, fmt.Sprintf("-0000000-0000003-%x", sha256.Sum256(text)))
	}) {
		t.Errorf("got %q, want two reports, the second under the hash of its four positions", keys)
	}
}

func TestPlansDoNotMix(t *testing.T) {
	store := memstore.New()
	l := newLog(t, store)
	a, b := report(epochLosses(43, 1), 8, 16), report(epochLosses(43, 2), 8, 16)
	b.Plan += "&window=7"
	add(t, l, a, b)
	c := b
	c.Epoch++
	c.Losses = a.Losses
	add(t, l, c)
	if got, want := len(logged(store)), 3; got != want {
		t.Errorf("objects: got %d, want %d", got, want)
	}
	// A report that was moved to another plan's key must be detected.
	keys := logged(store)
	var ofA, ofB string
	for _, k := range keys {
		switch {
		case strings.HasPrefix(k, l.batchPrefix(&a)):
			ofA = k
		case strings.HasPrefix(k, l.batchPrefix(&b)):
			ofB = k
		}
	}
	body, _ := store.Bytes(ofB)
	store.Set(ofA, body)
	if _, err := l.Add(t.Context(), a); !errors.Is(err, ErrCorrupt) {
		t.Errorf("report of another plan: got %v, want %v", err, ErrCorrupt)
	}
}

func TestBatchIsTheSameForAll(t *testing.T) {
	l := newLog(t, memstore.New())
	losses := epochLosses(43, 1)
	add(t, l, report(losses, 8, 12))
	short := report(losses, 11, 15)
	short.Count--
	if _, err := l.Add(t.Context(), short); !errors.Is(err, ErrInvalid) {
		t.Errorf("shorter batch: got %v, want %v", err, ErrInvalid)
	}
}

// TestSharesAreNotReadAgain lets many readers report their own shares of one batch.
func TestSharesAreNotReadAgain(t *testing.T) {
	store := memstore.New()
	l := newLog(t, store)
	losses := epochLosses(43, 1)
	for p := 8; p < 16; p++ {
		add(t, l, report(losses, p, p+1))
	}
	if got := store.Stats().Requests[memstore.Read]; got != 0 {
		t.Errorf("reports read: got %d, want none", got)
	}
	add(t, l, report(losses, 10, 13))
	if got := store.Stats().Requests[memstore.Read]; got != 3 {
		t.Errorf("reports read: got %d, want the 3 that overlap", got)
	}
}

func TestLostAnswerIsNoConflict(t *testing.T) {
	store := memstore.New()
	l := newLog(t, store)
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Op == memstore.Put {
			return memstore.Fault{Applied: true, Err: objstore.ErrChanged} // like a store that retries its own write
		}
		return memstore.Fault{}
	})
	if _, err := l.Add(t.Context(), report(epochLosses(43, 1), 8, 16)); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

func TestLog_ValidatesStoredReports(t *testing.T) {
	store := memstore.New()
	l := newLog(t, store)
	r := report(epochLosses(43, 1), 8, 16)
	add(t, l, r)
	key := logged(store)[0]
	body, _ := store.Bytes(key)
	other := report(epochLosses(43, 1), 8, 12)
	for name, c := range map[string]struct{ key, body string }{
		"damaged":         {key, string(body[:len(body)-1]) + "x"},
		"cut":             {key, string(body[:20])},
		"other positions": {key, string(other.canonical().encode())},
		"stray name":      {l.batchPrefix(&r) + "backup", string(body)},
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			store.Set(c.key, []byte(c.body))
			l := newLog(t, store)
			_, err := l.Add(t.Context(), r)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.key) {
				t.Errorf("add: got %v, want %v that names %s", err, ErrCorrupt, c.key)
			}
			if _, err := l.Freeze(t.Context(), request()); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.key) {
				t.Errorf("freeze: got %v, want %v that names %s", err, ErrCorrupt, c.key)
			}
		})
	}
}

// TestDirectoriesInTheBucketAreNoReports checks that empty directory objects, which some copy tools
// create, are ignored.
func TestDirectoriesInTheBucketAreNoReports(t *testing.T) {
	store := memstore.New()
	l := newLog(t, store)
	add(t, l, epochReports(epochLosses(43, 1))...)
	want := freeze(t, l, request())
	prefix := l.epochPrefix(testPlan, 3)
	store.Set(prefix, nil)
	store.Set(prefix+"000000000000000000/", nil)
	got, err := l.Freeze(t.Context(), request())
	if err != nil || got.Digest != want.Digest || got.Reports != want.Reports {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// TestHugeReportsAreNotRead checks that huge objects under the names of reports are not read.
func TestHugeReportsAreNotRead(t *testing.T) {
	store := memstore.New()
	l := newLog(t, store)
	r := report(epochLosses(43, 1), 8, 16)
	store.Set(l.key(&r), make([]byte, maxReport+1))
	if _, err := l.Add(t.Context(), r); !errors.Is(err, ErrCorrupt) {
		t.Errorf("one: got %v, want %v", err, ErrCorrupt)
	}
	l = newLog(t, store, func(c *Config) { c.Reader = manyLarge{store} })
	if _, err := l.Freeze(t.Context(), request()); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "batch 1: ") {
		t.Errorf("many of one batch: got %v, want %v that names the batch", err, ErrCorrupt)
	}
	if got := store.Stats().BytesRead; got != 0 {
		t.Errorf("bytes read: got %d, want none", got)
	}
}

// manyLarge is a store that lists many reports of the maximum size in one batch.
type manyLarge struct{ *memstore.Store }

func (manyLarge) List(_ context.Context, prefix string, visit func(objstore.Object) error) error {
	for i := range uint64(100) {
		n := name{batch: 1, first: i, last: i, hash: testGeneration()}
		if err := visit(objstore.Object{Key: prefix + n.String(), Size: maxReport}); err != nil {
			return err
		}
	}
	return nil
}

func TestStoreErrorsKeepTheirKind(t *testing.T) {
	for _, op := range []memstore.Op{memstore.List, memstore.Put} {
		store := memstore.New()
		l := newLog(t, store)
		store.SetFault(func(c memstore.Call) memstore.Fault {
			if c.Op == op {
				return memstore.Fault{Err: objstore.ErrThrottled}
			}
			return memstore.Fault{}
		})
		if _, err := l.Add(t.Context(), report(epochLosses(43, 1), 8, 16)); !errors.Is(err, objstore.ErrThrottled) {
			t.Errorf("%s: got %v, want %v", op, err, objstore.ErrThrottled)
		}
	}
}

// TestGatewaysRace lets two gateways receive conflicting reports of overlapping positions at the
// same time. In every outcome, both must freeze the same snapshot.
func TestGatewaysRace(t *testing.T) {
	stores(t, func(t *testing.T, store objstore.Store) {
		logs := []*Log{newLog(t, store), newLog(t, store)}
		right, wrong := epochLosses(43, 1), epochLosses(43, 2)
		var wg sync.WaitGroup
		for g, l := range logs {
			for lo := 0; lo+testBatchSize <= 40; lo += testBatchSize {
				wg.Go(func() {
					r := report(right, lo, lo+5)
					if g == 1 {
						r = report(wrong, lo+2, lo+testBatchSize)
					}
					if _, err := l.Add(t.Context(), r); err != nil && !errors.Is(err, ErrConflict) {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		a, b := freeze(t, logs[0], request()), freeze(t, logs[1], request())
		if a.Digest != b.Digest || !a.New || b.New {
			t.Errorf("snapshots: got %+v and %+v, want the same, made once", a, b)
		}
	})
}

// TestRaceIsResolvedInOneWay lets two conflicting reports pass the first check, as if two gateways
// received them at the same time.
func TestRaceIsResolvedInOneWay(t *testing.T) {
	losses := epochLosses(43, 1)
	low, high := report(losses, 8, 13), report(losses, 11, 16)
	high.Losses[0], high.Losses[1] = losses[11]+1, losses[12]+1
	var digests []string
	for _, order := range [][]Report{{low, high}, {high, low}} {
		store := memstore.New()
		for _, r := range order {
			elsewhere := memstore.New() // the listing does not contain the other gateway's report yet
			add(t, newLog(t, elsewhere), r)
			body, _ := elsewhere.Bytes(logged(elsewhere)[0])
			store.Set(logged(elsewhere)[0], body)
		}
		f := freeze(t, newLog(t, store), request())
		if f.Conflicts != 2 || f.Positions != 8 || f.Reports != 2 {
			t.Errorf("got %+v, want 2 conflicts at 8 positions of 2 reports", f)
		}
		digests = append(digests, f.Digest)
	}
	if digests[0] != digests[1] {
		t.Errorf("digests: got %s and %s, want the same", digests[0], digests[1])
	}
	s := memstore.New()
	l := newLog(t, s)
	add(t, l, report(losses, 8, 16)) // a log that has the lower losses from the start
	want, _ := weightsOf(t, open(t, l, freeze(t, l, request()).Digest))
	s = memstore.New()
	l = newLog(t, s)
	for _, r := range []Report{low, high} {
		s.Set(l.key(&r), r.canonical().encode())
	}
	got, _ := weightsOf(t, open(t, l, freeze(t, l, request()).Digest))
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("sample %d: got weight %d, want %d: the lower loss counts", i, got[i], want[i])
		}
	}
}
