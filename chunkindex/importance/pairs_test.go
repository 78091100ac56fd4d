package importance

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// TestLog_SeparatesReporters lets three principals report different losses for the same positions.
// No principal may block another or learn another's name, and each freezes only its own reports.
func TestLog_SeparatesReporters(t *testing.T) {
	l := newLog(t, memstore.New())
	digests := map[string]string{}
	for i, who := range []string{"", "token:trainer", "jwt:corp#a&b=c/d"} {
		for _, r := range epochReports(epochLosses(43, uint64(i))) {
			r.Reporter = who
			added, err := l.Add(t.Context(), r)
			if err != nil || !added {
				t.Fatalf("report of %q: got %v, %v, want it taken", who, added, err)
			}
		}
	}
	for i, who := range []string{"", "token:trainer", "jwt:corp#a&b=c/d"} {
		q := request()
		q.Reporter = who
		got, err := l.Freeze(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		alone := newLog(t, memstore.New())
		for _, r := range epochReports(epochLosses(43, uint64(i))) {
			r.Reporter = who
			add(t, alone, r)
		}
		want, err := alone.Freeze(t.Context(), q)
		if err != nil || got.Digest != want.Digest || got.Conflicts != 0 {
			t.Errorf("snapshot of %q: got %+v, want %+v as if there were no others, %v", who, got, want, err)
		}
		digests[got.Digest] = who
		s, err := l.Open(t.Context(), got.Digest, testGeneration(), testFirst())
		if err != nil {
			t.Fatal(err)
		}
		if s.Plan() != testPlan {
			t.Errorf("plan of the snapshot of %q: got %q, want %q", who, s.Plan(), testPlan)
		}
		s.Close()
	}
	if len(digests) != 3 {
		t.Errorf("got %d snapshots, want 3", len(digests))
	}
	q := request()
	q.Reporter = "token:other"
	if _, err := l.Freeze(t.Context(), q); !errors.Is(err, ErrNoReports) {
		t.Errorf("freeze without reports: got %v, want %v", err, ErrNoReports)
	}
}

// TestOpenEpochsAreBounded checks that the bucket's contents determine the number of epochs of a
// plan that a reporter may begin, through any gateway. Freezing an epoch, or removing the objects
// listed for it, allows another epoch.
func TestOpenEpochsAreBounded(t *testing.T) {
	store := memstore.New()
	l, other := newLog(t, store), newLog(t, store)
	losses := epochLosses(43, 1)
	begin := func(l *Log, who string, epoch uint64, lo int) error {
		r := report(losses, lo, lo+4)
		r.Reporter, r.Epoch = who, epoch
		_, err := l.Add(t.Context(), r)
		return err
	}
	for i := range uint64(maxOpen) {
		if err := begin(l, "mallory", 1<<63+i, 0); err != nil {
			t.Fatalf("epoch %d: %v", i, err)
		}
	}
	refused := func(l *Log, epoch uint64) {
		t.Helper()
		before := len(store.Keys())
		if err := begin(l, "mallory", epoch, 0); !errors.Is(err, ErrTooMany) || !strings.Contains(err.Error(), "gc") {
			t.Errorf("epoch %d: got %v, want %v and a cure", epoch, err, ErrTooMany)
		}
		if got := len(store.Keys()); got != before {
			t.Errorf("got %d objects more, want none", got-before)
		}
	}
	refused(l, 3)
	refused(other, 3)
	for who, epoch := range map[string]uint64{"mallory": 1 << 63, "alice": 3, "": 3} {
		if err := begin(other, who, epoch, 8); err != nil {
			t.Errorf("epoch %d of %q: %v", epoch, who, err)
		}
	}
	elsewhere := report(losses, 0, 4)
	elsewhere.Reporter, elsewhere.Plan = "mallory", testPlan+"&window=9"
	if added, err := l.Add(t.Context(), elsewhere); err != nil || !added {
		t.Errorf("another plan: got %v, %v, want it taken", added, err)
	}
	q := request()
	q.Reporter, q.Epoch = "mallory", 1<<63
	if _, err := l.Freeze(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if err := begin(other, "mallory", 3, 0); err != nil {
		t.Errorf("after an epoch was frozen: %v", err)
	}
	refused(newLog(t, store), 4)
	_, reports, err := l.Stored(t.Context())
	if err != nil || len(reports) != maxOpen+4 {
		t.Fatalf("got %d epochs and %v, want %d", len(reports), err, maxOpen+4)
	}
	for _, r := range reports {
		if r.Epoch != 1<<63+5 {
			continue
		}
		if !strings.Contains(r.Plan, "mallory") || r.Batches != 1 {
			t.Errorf("got plan %q with %d batches, want one of mallory's with one", r.Plan, r.Batches)
		}
		for _, o := range slices.Concat(r.Objects, r.Notes) {
			if err := store.Delete(t.Context(), o.Key); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := begin(newLog(t, store), "mallory", 4, 0); err != nil {
		t.Errorf("after an epoch was removed: %v", err)
	}
}
