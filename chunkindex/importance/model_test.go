package importance

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// losses is the reference model of a log: a loss for each position, by epoch and reporter.
type losses map[string]map[uint64]float64

func lossesOf(r *Report) string { return fmt.Sprint(r.Reporter, r.Epoch) }

// add adds a report to the model, unless one of its positions already has a different loss.
func (l losses) add(r *Report) (added, conflict bool) {
	of := lossesOf(r)
	for i, p := range r.Positions {
		loss, known := l[of][p]
		added, conflict = added || !known, conflict || known && loss != r.Losses[i]
	}
	if conflict {
		return false, true
	}
	if l[of] == nil {
		l[of] = map[uint64]float64{}
	}
	for i, p := range r.Positions {
		l[of][p] = r.Losses[i]
	}
	return added, false
}

// drawReport draws a report for a few positions of a batch, in any order.
func drawReport(t *rapid.T) Report {
	r := report(epochLosses(43, 1), 0, 8)
	if rapid.Bool().Draw(t, "last batch") {
		r = report(epochLosses(43, 1), 40, 43)
	}
	r.Reporter, r.Epoch = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "reporter"), rapid.Uint64Range(0, 1).Draw(t, "epoch")
	r.Positions = rapid.Permutation(r.Positions).Draw(t, "positions")[:rapid.IntRange(1, len(r.Positions)).Draw(t, "count")]
	r.Losses = rapid.SliceOfN(rapid.SampledFrom([]float64{1, 1, 1, 1, 1, 2}), len(r.Positions), len(r.Positions)).Draw(t, "losses")
	return r
}

// TestLog_IsThatOfTheModel reports through two gateways to a bucket that sometimes denies writes.
// Each response, each flush and the snapshots of all epochs must match the model.
func TestLog_IsThatOfTheModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		store, dir := memstore.New(), t.TempDir()
		first := newLog(t, store, func(c *Config) { c.Dir = dir })
		logs := []*Log{first, newLog(t, store, func(c *Config) { c.Beside = first })}
		stored, readOnly := losses{}, false
		var kept []Report
		flushed := func() FlushReport {
			var f FlushReport
			for _, r := range kept {
				if _, conflict := stored.add(&r); conflict {
					f.Conflicts++
				} else {
					f.Sent++
				}
			}
			kept = nil
			return f
		}
		for range rapid.IntRange(1, 16).Draw(rt, "steps") {
			l := logs[rapid.IntRange(0, 1).Draw(rt, "gateway")]
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0:
				readOnly = !readOnly
				denied(store, readOnly)
			case 1:
				if readOnly {
					continue
				}
				if got, err := l.Flush(rt.Context()); err != nil || got != flushed() {
					rt.Fatalf("flush: got %+v, %v", got, err)
				}
			default:
				r := drawReport(rt)
				before := losses{lossesOf(&r): maps.Clone(stored[lossesOf(&r)])}
				added, conflict := before.add(&r)
				got, err := l.Add(rt.Context(), r)
				var c *ConflictError
				var ro *ReadOnlyError
				switch {
				case conflict:
					if !errors.As(err, &c) || c.Stored == c.Reported || c.Stored != stored[lossesOf(&r)][c.Position] || c.Reported != r.Losses[slices.Index(r.Positions, c.Position)] {
						rt.Fatalf("%+v: got %v, want the conflict", r, err)
					}
				case added && readOnly:
					if !errors.As(err, &ro) || !ro.Kept {
						rt.Fatalf("%+v: got %v, want it kept", r, err)
					}
					same := func(o Report) bool { return bytes.Equal(o.canonical().encode(), r.canonical().encode()) }
					if !slices.ContainsFunc(kept, same) {
						kept = append(kept, r)
					}
				case got != added || err != nil:
					rt.Fatalf("%+v: got %v, %v, want %v", r, got, err, added)
				default:
					stored.add(&r)
				}
			}
		}
		denied(store, false)
		want := flushed()
		for _, who := range []string{"", "a", "b"} {
			for epoch := range uint64(2) {
				q := request()
				q.Reporter, q.Epoch = who, epoch
				seen := stored[lossesOf(&Report{Reporter: who, Epoch: epoch})]
				f, err := logs[1].Freeze(rt.Context(), q)
				if len(seen) == 0 {
					if !errors.Is(err, ErrNoReports) {
						rt.Fatalf("freeze of nothing: got %v", err)
					}
					want = FlushReport{}
					continue
				}
				if err != nil || f.Flushed != want || f.Positions != uint64(len(seen)) || f.Conflicts != 0 {
					rt.Fatalf("freeze of %d positions: got %+v, %v, want flushed %+v", len(seen), f, err, want)
				}
				want = FlushReport{}
				weights, hot := slowFreeze(q, seen, nil)
				wantSnapshot(t, open(t, logs[0], f.Digest), q, weights, hot)
				if t.Failed() {
					rt.FailNow()
				}
			}
		}
	})
}
