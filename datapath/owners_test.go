package datapath

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/shuffle"
)

// Owners are cached for one view, outside the budget. After a change of the view, the owners of the
// new view are returned.
func TestOwners_FollowView(t *testing.T) {
	d := newDataset(t, 96, same(480, 900), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, d, nil, 3, Config{NoPrefetch: true}, 2<<20)
		m := f.members[0]
		moved := 0
		compare := func(when string) {
			t.Helper()
			for chunk := range d.index.Chunks() {
				if got, want := m.source.owner(chunk), m.Owner(m.source.peerChunk(chunk)); got != want {
					t.Fatalf("%s, chunk %d: got owner %q, want %q", when, chunk, got, want)
				} else if got == name(2) {
					moved++
				}
			}
		}
		compare("at first")
		m.lose(2)
		if moved == 0 {
			t.Fatal("got a member that owns nothing, want one that is missed")
		}
		compare("with one gone")
		m.find(2)
		compare("with all back")
		if used := m.path.Stats().BudgetInUse; used != 0 {
			t.Errorf("got %d bytes in use, want none", used)
		}
	})
}

// TestOwners_FirstQuestionInAViewMakesOnePage checks that the first lookup in a new view allocates
// only a small part of the memory for a million owners, since it may run under locks. Each chunk
// has a separate cell.
func TestOwners_FirstQuestionInAViewMakesOnePage(t *testing.T) {
	const chunks = 1_000_001
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o := newOwners(1, chunks, 0)
	last := o.of(chunks - 1)
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(64<<10); got > most {
		t.Errorf("got %d bytes allocated for the owner of one chunk of %d, want %d at most", got, chunks, most)
	}
	places := map[*atomic.Pointer[string]]bool{last: true}
	for chunk := range 3000 {
		places[o.of(chunk)] = true
	}
	if got := len(places); got != 3001 || o.of(chunks-1) != last {
		t.Errorf("got %d places for 3001 chunks, want as many, and the same ones each time", got)
	}
}

// The shares of a run's batches are computed once, and stay cached until the rank has read the run.
func TestReadAhead_CachesDealsOfRun(t *testing.T) {
	if lookahead.RunBatches+1 > shuffle.KeptDeals {
		t.Errorf("got runs of %d batches after the current one, want at most the %d that an epoch caches", lookahead.RunBatches, shuffle.KeptDeals)
	}
}

// Batches that wait for peers hold at most half of the memory. No batch waits forever for its turn.
func TestAskLimit_HalfOfMemory(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := newAskLimit(200)
		took := func(n int64) (time.Duration, func()) {
			begun := time.Now()
			leave := a.enter(t.Context(), n)
			return time.Since(begun), leave
		}
		first, leave := took(60)
		second, leaveToo := took(40)
		time.AfterFunc(time.Second, leave)
		third, leaveAsWell := took(1000) // waits for all other batches, which leave too late
		if first != 0 || second != 0 || third != budget.DefaultWait {
			t.Errorf("got turns after %v, %v and %v; want 0, 0 and %v", first, second, third, budget.DefaultWait)
		}
		leaveAsWell()
		fourth, leaveIt := took(60)
		time.AfterFunc(time.Second, leaveToo)
		fifth, leaveLast := took(40) // begins when 40 bytes are free
		if fourth != 0 || fifth != time.Second {
			t.Errorf("got turns after %v and %v, want 0 and a second", fourth, fifth)
		}
		leaveIt()
		leaveLast()
		if last, leave := took(100); last != 0 {
			t.Errorf("got a turn after %v, want it at once: all have left", last)
		} else {
			leave()
		}
	})
}

// BenchmarkView measures a change of the view with many chunks, some of them in memory, and one
// reader.
func BenchmarkView(b *testing.B) {
	for _, c := range []struct {
		samples int
		total   int64
	}{{8 << 10, 16 << 20}, {64 << 10, 16 << 20}, {64 << 10, 1 << 30}} {
		b.Run(fmt.Sprintf("%d in %d MiB", c.samples, c.total>>20), func(b *testing.B) {
			d := newDataset(b, 97, same(c.samples, 900), c.samples, 1<<10)
			f := newFleet(b, d, d.plan(b, shuffle.Window, 64), 4, Config{NoPrefetch: true}, c.total)
			m := f.members[0]
			must(b, f.readRank(b.Context(), b, m, 0, uint64(c.samples/64), 0, 1))
			b.ReportAllocs()
			for b.Loop() {
				m.view.Add(1)
				m.path.reown()
			}
			b.ReportMetric(float64(m.path.Stats().CachedChunks), "chunks")
		})
	}
}
