package clustersim

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/seeds"
	"github.com/millrace-data/millrace/shuffle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newShelf creates the data from which histories draw.
func newShelf(tb testing.TB) Shelf {
	tb.Helper()
	var s Shelf
	for i := range uint64(24) {
		shape, dir := DrawShape(i), tb.TempDir()
		data, err := NewData(tb.Context(), dir, "set", i, shape)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { data.Close() })
		old, err := NewData(tb.Context(), dir, "set", i+1000, shape)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { old.Close() })
		s = append(s, [2]*Data{data, old})
	}
	return s
}

// usual is the default number of histories: enough to see every kind of event.
const usual = 160

// play plays one history in a separate bubble.
func play(t *testing.T, h *History) (report *Report) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) { report = Run(t.Context(), h) })
	return report
}

// TestHistories checks that each history ends in time, with correct bytes, every sample once, and
// nothing left over.
func TestHistories(t *testing.T) {
	shelf := newShelf(t)
	from, to, few := seeds.Range(t, usual, 10_000)
	const workers = 2
	sum := &tally{ended: map[string]int{}, kinds: map[Kind]int{}, troubles: map[Trouble]int{}}
	t.Run("all", func(t *testing.T) {
		for w := range uint64(workers) {
			t.Run(strconv.FormatUint(w, 10), func(t *testing.T) {
				t.Parallel()
				for seed := from + w; seed < to; seed += workers {
					h := Draw(seed, shelf)
					if to-from == 1 {
						h.Trace = t.Logf
					}
					report := play(t, h)
					if len(report.Wrong) > 0 {
						h.Trace = nil
						t.Fatalf("%s\nreplay: MILLRACE_SEEDS=%d:%d go test ./integration/clustersim -run TestHistories -v\n%v",
							strings.Join(report.Wrong, "\n"), seed, seed+1, shrink(t, h))
					}
					sum.add(h, report)
				}
			})
		}
	})
	t.Logf("figure: histories=%d from seed %d: %v; %d requests, %d questions between gateways, %d of them without an answer, %d lies found",
		to-from, from, sum.kinds, sum.requests, sum.stats.PeerReads, sum.stats.PeerFailed, sum.stats.PeerLies)
	t.Logf("requests ended so: %v", sum.ended)
	t.Logf("troubles: %v", sum.troubles)
	t.Logf("figure: while gateways came and went, %.0f chunks were read from the store, needed were %.0f", sum.read, sum.needed)
	if few {
		return
	}
	if sum.read > 1.02*sum.needed {
		t.Errorf("while gateways came and went: got %.1f reads of chunks, want at most 1.02 x %.1f", sum.read, sum.needed)
	}
	for _, kind := range []string{
		"bytes", "bytes from memory", "bytes from peer", "bytes from store", "canceled", "deadline", "too large", "down", "reset",
	} {
		if sum.ended[kind] == 0 {
			t.Errorf("no request ended with %q: %v", kind, sum.ended)
		}
	}
	s := sum.stats
	for name, n := range map[string]uint64{"failed": s.PeerFailed, "lies": s.PeerLies, "carried": s.CarriedHits, "former": s.FormerChunks} {
		if n == 0 {
			t.Errorf("%s: got none: %+v", name, s)
		}
	}
}

// tally sums the results of histories.
type tally struct {
	mu       sync.Mutex // guards the fields below
	ended    map[string]int
	kinds    map[Kind]int
	troubles map[Trouble]int
	requests int
	stats    datapath.Stats
	read     float64 // chunks read in gentle histories
	needed   float64
}

func (s *tally) add(h *History, r *Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, n := range r.Ended {
		s.ended[k] += n
		if !strings.HasPrefix(k, "bytes from") {
			s.requests += n
		}
	}
	s.kinds[h.Kind]++
	for _, f := range h.Faults {
		s.troubles[f.What]++
	}
	s.stats.PeerReads += r.Stats.PeerReads
	s.stats.PeerFailed += r.Stats.PeerFailed
	s.stats.PeerLies += r.Stats.PeerLies
	s.stats.CarriedHits += r.Stats.CarriedHits
	s.stats.FormerChunks += r.Stats.FormerChunks
	if h.Kind == Gentle && h.Params.Shuffle != shuffle.Full && !h.Data.byReads() {
		s.read += r.Chunks
		s.needed += r.Needed
	}
}

// shrink removes parts of a failing history that are not required for its failure.
func shrink(t *testing.T, h *History) *History {
	t.Helper()
	fails := func(h *History) bool {
		for range 3 {
			if len(play(t, h).Wrong) > 0 {
				return true
			}
		}
		return false
	}
	for i := 0; i < len(h.Faults); {
		less := *h
		less.Faults = append(append([]Fault(nil), h.Faults[:i]...), h.Faults[i+1:]...)
		if fails(&less) {
			h = &less
		} else {
			i++
		}
	}
	for len(h.Ranks) > 1 {
		less := *h
		less.Ranks = h.Ranks[:len(h.Ranks)-1]
		if !fails(&less) {
			break
		}
		h = &less
	}
	return h
}
