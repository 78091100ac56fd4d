package importance

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/objstore/dirstore"
	"github.com/millrace-data/millrace/internal/testing/leaks"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

const (
	testPlan      = "batch_size=8&format=tar&generation=11&seed=1&shuffle=full&tail=short"
	testBatchSize = 8
)

func testGeneration() string { return strings.Repeat("11", 32) }

// testFirst returns the prefix sums of a dataset with 43 samples in chunks of several sizes, one of
// which is empty.
func testFirst() []uint64 { return []uint64{0, 5, 5, 12, 29, 30, 43} }

// epochLosses returns a loss for each of the first n positions. Some losses are equal, to test
// ties.
func epochLosses(n int, seed uint64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 1))
	losses := make([]float64, n)
	for i := range losses {
		losses[i] = float64(rng.IntN(3*testBatchSize)) / 4
	}
	return losses
}

// report returns a report for positions lo to hi-1 of an epoch with these losses. All positions are
// in one batch.
func report(losses []float64, lo, hi int) Report {
	batch := lo / testBatchSize
	first := batch * testBatchSize
	r := Report{
		Plan: testPlan, Epoch: 3, Batch: uint64(batch), First: uint64(first),
		Count: uint64(min(testBatchSize, len(losses)-first)),
	}
	for p := lo; p < hi; p++ {
		r.Positions, r.Losses = append(r.Positions, uint64(p)), append(r.Losses, losses[p])
	}
	return r
}

// epochReports returns the reports of an epoch, one per batch.
func epochReports(losses []float64) []Report {
	var all []Report
	for lo := 0; lo < len(losses); lo += testBatchSize {
		all = append(all, report(losses, lo, min(lo+testBatchSize, len(losses))))
	}
	return all
}

func newLog(t *testing.T, store objstore.Store, change ...func(*Config)) *Log {
	t.Helper()
	leaks.Check(t)
	cfg := Config{Reader: store, Writer: store, Prefix: "data/set/", Location: "s3://bucket/data/set/"}
	for _, c := range change {
		c(&cfg)
	}
	l, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func add(t *testing.T, l *Log, reports ...Report) {
	t.Helper()
	for _, r := range reports {
		if _, err := l.Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// request returns a request that freezes the test's epoch, whose order is a fixed permutation of
// the samples.
func request() FreezeRequest {
	first := testFirst()
	n := first[len(first)-1]
	return FreezeRequest{
		Plan: testPlan, Epoch: 3, Generation: testGeneration(), BatchSize: testBatchSize, First: first, HotShare: .2,
		Resolve: func(_ context.Context, positions []uint64) ([]uint64, error) {
			samples := make([]uint64, len(positions))
			for i, p := range positions {
				samples[i] = sampleAt(p, n)
			}
			return samples, nil
		},
	}
}

// sampleAt returns the sample at a position of the test's epochs. It is a permutation because 5 and
// 43 are coprime.
func sampleAt(position, n uint64) uint64 { return position * 5 % n }

func freeze(t *testing.T, l *Log, q FreezeRequest) Frozen {
	t.Helper()
	f, err := l.Freeze(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func open(t *testing.T, l *Log, digest string) *Snapshot {
	t.Helper()
	s, err := l.Open(t.Context(), digest, testGeneration(), testFirst())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// weightsOf returns the weights of all samples, and whether each sample is hot.
func weightsOf(t *testing.T, s *Snapshot) (weights []uint32, hot []bool) {
	t.Helper()
	for i := range s.Totals() {
		w, err := s.Weights(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		h, err := s.Hot(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		weights = append(weights, w...)
		for k := range w {
			hot = append(hot, h.Has(uint64(k)))
		}
	}
	return weights, hot
}

// stores runs a test on every kind of store that is available to unit tests.
func stores(t *testing.T, test func(t *testing.T, store objstore.Store)) {
	t.Run("memory", func(t *testing.T) { test(t, memstore.New()) })
	t.Run("directory", func(t *testing.T) {
		store, err := dirstore.New(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		test(t, store)
	})
}

// denied makes a memory store deny all writes, or allow them again.
func denied(store *memstore.Store, yes bool) {
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if yes && c.Op == memstore.Put {
			return memstore.Fault{Err: objstore.ErrDenied}
		}
		return memstore.Fault{}
	})
}

// logged returns the keys of the reports in a store.
func logged(store *memstore.Store) []string {
	return slices.DeleteFunc(store.Keys(), func(k string) bool { return !strings.Contains(k, "/log/") })
}
