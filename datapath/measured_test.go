package datapath

import (
	"testing"
	"time"

	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// A read is measured only if it reported when its bytes arrived, was not delayed, did not restart,
// and was long enough. All its bytes are counted once in any case.
func TestMeasured_NotesOnlyUndisturbedReads(t *testing.T) {
	const n = 10 * policy.RatedBytes
	const tenth = 10 * time.Millisecond
	for name, c := range map[string]struct {
		reports []int64 // progress reports, each a hundredth of a second after the previous one
		paced   bool
		noted   bool
		first   time.Duration
	}{
		"steady":                     {[]int64{n / 10, n / 2, n}, false, true, tenth - 2*tenth/9},
		"one report of nearly all":   {[]int64{n - policy.RatedBytes, n}, false, true, 0},
		"one report of too much":     {[]int64{n - policy.RatedBytes + 1, n}, false, false, 0},
		"reports nothing":            {nil, false, false, 0},
		"held back":                  {[]int64{n / 10, n}, true, false, 0},
		"all at once":                {[]int64{n}, false, false, 0},
		"restarted without a byte":   {[]int64{n / 10, n / 10, n}, false, false, 0},
		"the count restarts":         {[]int64{n / 2, n / 10, n}, false, true, tenth - 2*tenth},
		"a report that tells of all": {[]int64{n / 10, n, n}, false, false, 0},
	} {
		bubble.Test(t, func(t *testing.T) {
			var r rates
			m := r.begin(&datasetReads{})
			for _, came := range c.reports {
				time.Sleep(tenth)
				m.filled(came)
			}
			m.ended(n, c.paced)
			if got := r.all.Reads == 1; got != c.noted {
				t.Errorf("%s: got it noted: %v, want %v", name, got, c.noted)
			}
			if got := time.Duration(r.all.First * float64(time.Second)); c.noted && (got-max(c.first, 0)).Abs() > time.Microsecond {
				t.Errorf("%s: got %v to the first byte, want %v", name, got, max(c.first, 0))
			}
			want := int64(n)
			if name == "the count restarts" {
				want += n/2 - n/10 // these bytes arrived twice
			}
			if got := r.came.Load(); got != want {
				t.Errorf("%s: got %d bytes that came, want %d", name, got, want)
			}
		})
	}
}

// TestRates_CostIsAMeanInBounds checks that the cost is a mean within bounds. The first reads have
// equal weights, and each later read has a weight of one thirty-second.
func TestRates_CostIsAMeanInBounds(t *testing.T) {
	var r rates
	for range policy.RatedReads - 1 {
		r.note(time.Second, 1<<20, time.Second)
	}
	if got := r.cost(); got != policy.ReadCost {
		t.Errorf("got %d before enough reads were seen, want %d", got, policy.ReadCost)
	}
	r.note(17*time.Second, 1<<20, time.Second)
	if got, want := r.cost(), int64(2<<20); got != want {
		t.Errorf("got a cost of %d, want %d: the mean of 1 and, once in %d, 17 seconds", got, want, policy.RatedReads)
	}
	for range 1000 {
		r.note(time.Second, 1<<20, time.Second)
	}
	r.note(33*time.Second, 1<<20, time.Second)
	if got, want := r.cost(), int64(2<<20); got < want*99/100 || got > want*101/100 {
		t.Errorf("got a cost of %d after a slow read, want %d: a thirty-second of it", got, want)
	}
	for range 1000 {
		r.note(time.Hour, 1<<20, time.Second)
	}
	if got := r.cost(); got != policy.MostReadCost {
		t.Errorf("got %d of a store that answers in an hour, want %d", got, policy.MostReadCost)
	}
	for range 1000 {
		r.note(0, 1<<20, time.Second)
	}
	if got := r.cost(); got != policy.LeastReadCost {
		t.Errorf("got %d of a store that answers at once, want %d", got, policy.LeastReadCost)
	}
	before := r.all.Reads
	r.note(time.Hour, policy.RatedBytes-1, time.Second)
	r.note(time.Hour, 1<<20, 0)
	if r.all.Reads != before {
		t.Error("got a short read noted, or one that took no time")
	}
}
