package lookahead

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// data is a data set of chunks alike.
type data struct {
	chunks   int
	samples  uint64 // of a chunk
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

// at is a cursor of rank 0 of 1.
func at(p *shuffle.Plan, epoch, first, size uint64) shuffle.Cursor {
	return shuffle.Cursor{Plan: p, Epoch: p.Epoch(epoch), First: first, End: min(first+size, p.Samples()), BatchSize: size}
}

// read is one request that is answered at once.
func (r *Readers) read(d Dataset, c shuffle.Cursor, now time.Time) *Visit {
	v := r.Asked(d, c, now)
	v.Answered(now)
	v.Ended(now)
	return v
}

func begin() time.Time { return time.Unix(1e9, 0) }

// missing returns all that is missing.
func (r *Readers) missing() []Need { return slices.Collect(r.Missing()) }

func chunks(needs []Need) []int {
	out := make([]int, len(needs))
	for i, n := range needs {
		out[i] = n.Chunk
	}
	return out
}
