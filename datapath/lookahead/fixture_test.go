package lookahead

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// data is a dataset of equal chunks.
type data struct {
	chunks   int
	samples  uint64 // number of samples in a chunk
	cost     int64
	resident map[int]bool
}

func (d *data) Chunks() int         { return d.chunks }
func (d *data) Cost(int) int64      { return d.cost }
func (d *data) Resident(c int) bool { return d.resident[c] }
func newData(chunks, samples int) *data {
	return &data{chunks, uint64(samples), 1, map[int]bool{}}
}

func (d *data) plan(t testing.TB, name string, window, seed uint64) *shuffle.Plan {
	t.Helper()
	first := make([]uint64, d.chunks+1)
	for i := range first {
		first[i] = uint64(i) * d.samples
	}
	p, err := shuffle.NewPlan(shuffle.Params{Shuffle: name, Window: window, Seed: seed}, first)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// newReaders returns a table without readers. At the end of the test, its sums must equal those of
// the remaining readers and ranks, no request may be open, and dropping each dataset must leave
// nothing.
func newReaders(tb testing.TB, cfg Config) *Readers {
	tb.Helper()
	r := New(cfg)
	tb.Cleanup(func() {
		r.unopened(tb)
		for _, x := range slices.Clone(r.all) {
			r.Drop(x.dataset)
		}
		if len(r.all)+len(r.plans)+len(r.lacking)+len(*r.known.Load()) > 0 || r.held != 0 {
			tb.Errorf("all data sets are dropped: got %d readers of %d plans, %d of them known and %d that lack an epoch, and %d bytes held; want none",
				len(r.all), len(r.plans), len(*r.known.Load()), len(r.lacking), r.held)
		}
	})
	return r
}

// unopened fails the test unless all requests have ended and the table's sums match its readers.
func (r *Readers) unopened(tb testing.TB) {
	tb.Helper()
	at := map[*reader]int{}
	for _, key := range r.ranks.Keys() {
		k, _ := r.ranks.Peek(key)
		if k.open != 0 || k.clock.open != 0 || k.clock.missing != 0 {
			tb.Errorf("rank %d: got %d open requests, %d of them on its clock, %d that wait for bytes; want none", key.rank, k.open, k.clock.open, k.clock.missing)
		}
		at[k.reader]++
	}
	known := 0
	for _, readers := range *r.known.Load() {
		known += len(readers)
	}
	if known != len(r.all) {
		tb.Errorf("got %d readers published of %d", known, len(r.all))
	}
	for _, x := range r.all {
		if x.reading != 0 || x.ranks < at[x] || len(x.missed) > lateBatches {
			tb.Errorf("reader of %v: got %d open requests, %d ranks of %d that belong to it, %d missed batches; want none, all and %d at most",
				x.at.Plan.Params(), x.reading, x.ranks, at[x], len(x.missed), lateBatches)
		}
	}
}

// at returns a cursor of the only rank.
func at(p *shuffle.Plan, epoch, first, size uint64) shuffle.Cursor {
	return shuffle.Cursor{Plan: p, Epoch: p.Epoch(epoch), First: first, End: min(first+size, p.Samples()), BatchSize: size}
}

// read records one request that is answered immediately.
func (r *Readers) read(d Dataset, c shuffle.Cursor, now time.Time) *Visit {
	v := r.Asked(d, c, now)
	v.Answered(now)
	v.Ended(now)
	return v
}

func begin() time.Time { return time.Unix(1e9, 0) }

// missing returns all missing chunks.
func (r *Readers) missing() []Need { return slices.Collect(r.Missing()) }

func chunks(needs []Need) []int {
	out := make([]int, len(needs))
	for i, n := range needs {
		out[i] = n.Chunk
	}
	return out
}
