package lookahead_test

import (
	"testing"
	"time"

	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/shuffle"
)

// stored is a dataset of chunks of one byte, none of which is in memory.
type stored struct{ chunks int }

func (d *stored) Chunks() int       { return d.chunks }
func (d *stored) Cost(int) int64    { return 1 }
func (d *stored) Resident(int) bool { return false }

// TestDistance checks NextRead in stored order, where chunk c has the positions from 10c to 10c+10.
// The reader has no think time yet, so it is assumed to take a nanosecond per sample.
func TestDistance(t *testing.T) {
	const chunks, size = 4, 10
	now := time.Unix(1000, 0)
	plan, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.None}, []uint64{0, 10, 20, 30, 40})
	if err != nil {
		t.Fatal(err)
	}
	d := &stored{chunks}
	r := lookahead.New(lookahead.Config{Budget: 1})
	if got := r.NextRead(d, 0, false); got != lookahead.Never {
		t.Errorf("without readers: got %v, want never", got)
	}
	cursor := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(5), First: 20, End: 30, BatchSize: size}
	v := r.Asked(d, cursor, now)
	v.Answered(now)
	v.Ended(now)
	want := func(when string, chunk int, again bool, samples time.Duration) {
		t.Helper()
		if got := r.NextRead(d, chunk, again); (got+5)/10*10 != samples { // rounded to whole chunks, since the rate is inexact
			t.Errorf("%s, chunk %d, again %v: got %d samples, want %d", when, chunk, again, got, samples)
		}
	}
	// In later epochs each chunk counts at its fixed position: .618, .236, .854 and .472 of the
	// 40 samples before the end of the epoch.
	for _, w := range []struct {
		chunk        int
		first, again time.Duration
	}{{0, 40, 80}, {1, 50, 90}, {2, 0, 30}, {3, 10, 40}} {
		want("at chunk 2", w.chunk, false, w.first)
		want("at chunk 2", w.chunk, true, w.again)
	}
	if got := r.NextRead(&stored{chunks}, 0, false); got != lookahead.Never {
		t.Errorf("another dataset: got %v, want never", got)
	}
}
