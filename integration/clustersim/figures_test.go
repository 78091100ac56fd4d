//go:build !race

package clustersim

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/shuffle"
)

func evenData(t *testing.T, chunks, samples int) *Data {
	t.Helper()
	d, err := Even(t.Context(), t.TempDir(), chunks, samples)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// right plays a history that must have no violation.
func right(t *testing.T, h *History) *Report {
	t.Helper()
	r := play(t, h)
	for _, w := range r.Wrong {
		t.Error(w)
	}
	return r
}

// felt fails unless a fault delayed some batch: a comparison with a healthy cluster proves nothing
// if the fault had no effect.
func felt(t *testing.T, what string, ill, well *Report) {
	t.Helper()
	if got, most := ill.Times().Most, well.Times().Most; got <= most {
		t.Errorf("%s: got %v for the slowest batch, %v without: nothing has happened", what, got, most)
	}
}

// slowest is the longest permitted step of all ranks after the loss of one gateway of eight. Its
// reader waits for one timeout of 1 s, and then requests the batch from another gateway.
const slowest = 1100 * time.Millisecond

// TestOneOfEight kills, stops or disconnects one gateway of eight. No batch is lost, and the
// slowest of a thousand is hardly later.
func TestOneOfEight(t *testing.T) {
	d := evenData(t, 128, 64)
	for _, params := range []shuffle.Params{{Shuffle: shuffle.Slot, Window: 32, Seed: 3}, {Shuffle: shuffle.Window, Window: 16, Seed: 3}} {
		h := Job(d, params, 8, 1)
		well := right(t, h)
		t.Logf("figure: %s, eight gateways, all well: %v; %.0f chunks read", params.Shuffle, well.Times(), well.Chunks)
		for _, what := range []Trouble{Kill, Stop, Partition} {
			ill := right(t, h.After(time.Second, what))
			felt(t, params.Shuffle+", "+string(what), ill, well)
			ratio := float64(ill.Times().P999) / float64(well.Times().P999)
			t.Logf("figure: %s, one of eight, %s: %v; p99.9 %.2f x of healthy; %.0f chunks read; %v", params.Shuffle, what, ill.Times(), ratio, ill.Chunks, ill.Ended)
			if ratio > 1.3 {
				t.Errorf("%s, %s: p99.9 %.2f x of healthy, want at most 1.3", params.Shuffle, what, ratio)
			}
			if got := ill.Times().Step; got > slowest {
				t.Errorf("%s, %s: the slowest step took %v, want at most %v", params.Shuffle, what, got, slowest)
			}
			if got, want := ill.Ended["bytes"], well.Ended["bytes"]; got != want {
				t.Errorf("%s, %s: got %d batches, want %d", params.Shuffle, what, got, want)
			}
			for kind, n := range ill.Ended { // the only client of the faulty gateway switches to another one
				if !strings.HasPrefix(kind, "bytes") && n > 1 {
					t.Errorf("%s, %s: %d requests ended with %q: %v", params.Shuffle, what, n, kind, ill.Ended)
				}
			}
		}
	}
}

// TestTwoJobs runs two jobs with one cluster each and a common store. A fault of one job does not
// affect the other.
func TestTwoJobs(t *testing.T) {
	d := evenData(t, 64, 32)
	params := shuffle.Params{Shuffle: shuffle.Slot, Window: 16, Seed: 3}
	a, b := Job(d, params, 4, 2), Job(d, params, 4, 2)
	b.Cluster = "job-b"
	play := func(a *History) (ofA, ofB *Report) {
		bubble.Test(t, func(t *testing.T) {
			first, second := RunBoth(t.Context(), a, b)
			for _, w := range append(first.Wrong, second.Wrong...) {
				t.Error(w)
			}
			ofA, ofB = first, second
		})
		return ofA, ofB
	}
	wellA, well := play(a)
	illA, ill := play(a.After(time.Second, Kill))
	felt(t, "job A", illA, wellA)
	if well.Stats.StoreReads == 0 || well.Stats.PeerReads == 0 || well.Times().P99 == 0 {
		t.Errorf("job B: got %d store requests, %d questions to peers, p99 %v; want some", well.Stats.StoreReads, well.Stats.PeerReads, well.Times().P99)
	}
	if well.Stats.StoreReads != ill.Stats.StoreReads {
		t.Errorf("job B beside a loss of job A: got %d store requests, want %d as without", ill.Stats.StoreReads, well.Stats.StoreReads)
	}
	// The scheduler orders the actions of two gateways at the same instant, so a request may carry
	// one sample more or less.
	if ratio := float64(ill.Stats.PeerReads) / float64(well.Stats.PeerReads); ratio > 1.01 || ratio < .99 {
		t.Errorf("job B beside a loss of job A: got %d questions to peers, want %d as without", ill.Stats.PeerReads, well.Stats.PeerReads)
	}
	if ratio := float64(ill.Times().P99) / float64(well.Times().P99); ratio > 1.05 || ratio < .95 {
		t.Errorf("job B beside a loss of job A: p99 %.2f x of what it was, want it within 5 %%", ratio)
	}
	t.Logf("figure: job B beside a job A that is well: %v; store requests %d, questions to peers %d", well.Times(), well.Stats.StoreReads, well.Stats.PeerReads)
	t.Logf("figure: job B beside a job A that loses a gateway: %v; store requests %d, questions to peers %d", ill.Times(), ill.Stats.StoreReads, ill.Stats.PeerReads)
}

// TestRefill checks that each lost chunk of a gateway is read once more as a whole, however many
// samples it has.
func TestRefill(t *testing.T) {
	for _, c := range []struct{ gateways, chunks, samples int }{{4, 128, 16}, {8, 128, 16}, {8, 128, 64}, {8, 256, 16}} {
		h := Job(evenData(t, c.chunks, c.samples), shuffle.Params{Shuffle: shuffle.Window, Window: 16, Seed: 3}, c.gateways, 2)
		h.Batch = uint64(c.samples * c.gateways)
		h.Each, h.Mark = time.Minute, 59*time.Second
		r := right(t, h.After(h.Mark, Kill))
		t.Logf("figure: %d gateways, %d chunks of %d samples: the lost one held %d (%.3f of all); %.1f were read again, all within %v",
			c.gateways, c.chunks, c.samples, r.Lost, float64(r.Lost)/float64(c.chunks), r.Late, r.Refill)
		if r.Lost == 0 || r.Late < float64(r.Lost) || r.Late > 1.1*float64(r.Lost) || r.Strays > 0 {
			t.Errorf("%d gateways, %d chunks: got %.2f chunks read again, %.2f of them not lost; want the %d that were lost",
				c.gateways, c.chunks, r.Late, r.Strays, r.Lost)
		}
	}
}
