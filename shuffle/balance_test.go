package shuffle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"
)

// divideModel divides samples as section 10 of docs/spec/order.md says, step by step.
func divideModel(costs []uint32, ranks int) [][]uint32 {
	cost := func(place uint32) int64 { return int64(max(costs[place], 1)) }
	order := make([]uint32, len(costs))
	for i := range order {
		order[i] = uint32(i)
	}
	sort.SliceStable(order, func(a, b int) bool { return cost(order[a]) > cost(order[b]) })
	shares, sums := make([][]uint32, ranks), make([]int64, ranks)
	for _, place := range order {
		to := 0
		for r := range shares {
			if sums[r] < sums[to] || sums[r] == sums[to] && len(shares[r]) < len(shares[to]) {
				to = r
			}
		}
		shares[to], sums[to] = append(shares[to], place), sums[to]+cost(place)
	}
	for range min(ranks, 1024) {
		h, l := 0, 0
		for r := range sums {
			if sums[r] > sums[h] {
				h = r
			}
			if sums[r] < sums[l] {
				l = r
			}
		}
		d, best, pair := sums[h]-sums[l], [3]int64{math.MaxInt64}, [2]int{-1, -1}
		for i, x := range shares[h] {
			for j, y := range shares[l] {
				e := cost(x) - cost(y)
				found := [3]int64{max(d-2*e, 2*e-d), int64(x), int64(y)}
				if 0 < e && e < d && slices.Compare(found[:], best[:]) < 0 {
					best, pair = found, [2]int{i, j}
				}
			}
		}
		if pair[0] < 0 {
			break
		}
		x, y := &shares[h][pair[0]], &shares[l][pair[1]]
		sums[h] += cost(*y) - cost(*x)
		sums[l] += cost(*x) - cost(*y)
		*x, *y = *y, *x
	}
	for _, s := range shares {
		slices.Sort(s)
	}
	return shares
}

func TestDivideFollowsTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)) // rapid prefers small and equal numbers, which hardly need exchanges
		costs, most := make([]uint32, rapid.IntRange(0, 130).Draw(t, "samples")), rapid.SampledFrom([]uint32{3, 100, 1000, math.MaxUint32}).Draw(t, "most")
		for i := range costs {
			costs[i] = r.Uint32N(most)
		}
		ranks := rapid.IntRange(1, 20).Draw(t, "ranks")
		d, model := Divide(costs, uint64(ranks)), divideModel(costs, ranks)
		for r := range ranks {
			got := d.Share(uint64(r))
			if !slices.Equal(got, model[r]) {
				t.Fatalf("rank %d: got %v, want %v", r, got, model[r])
			}
			for _, place := range got {
				if of := d.RankOf(place); of != uint64(r) {
					t.Fatalf("place %d: got rank %d, want %d", place, of, r)
				}
			}
		}
		if all := slices.Sorted(slices.Values(d.Places)); len(all) != len(costs) || len(all) > 0 && all[len(all)-1] != uint32(len(all)-1) || len(slices.Compact(all)) != len(costs) {
			t.Fatalf("got places %v, want each of %d once", all, len(costs))
		}
		if got := d.Share(uint64(ranks)); got != nil {
			t.Fatalf("rank %d of %d: got %v, want no share", ranks, ranks, got)
		}
	})
}

// lognormal returns costs with the given spread of their logarithms.
func lognormal(r *rand.Rand, n int, sigma float64) []uint32 {
	costs := make([]uint32, n)
	for i := range costs {
		costs[i] = uint32(1000*math.Exp(sigma*r.NormFloat64())) + 1
	}
	return costs
}

// spreadOf returns the greatest sum of a division over the mean, and the bound that no division can
// go below: 1, or the largest cost over the mean.
func spreadOf(costs []uint32, ranks int) (spread, bound float64) {
	var sum, most, largest float64
	d := Divide(costs, uint64(ranks))
	for r := range ranks {
		var own float64
		for _, place := range d.Share(uint64(r)) {
			own += float64(costs[place])
			largest = max(largest, float64(costs[place]))
		}
		sum, most = sum+own, max(most, own)
	}
	mean := sum / float64(ranks)
	return most / mean, max(1, largest/mean)
}

// TestSharesAreEqual divides batches of log-normal costs, and batches of similar costs from them.
func TestSharesAreEqual(t *testing.T) {
	const blocks, limit = 32, 1.02
	for _, sigma := range []float64{.3, .6, .9} {
		for _, shape := range [][2]int{{8, 16}, {64, 16}, {1024, 16}, {8, 64}, {63, 17}} {
			ranks, n := shape[0], shape[0]*shape[1]
			r := rand.New(rand.NewPCG(1, uint64(n)))
			costs := lognormal(r, n*blocks, sigma)
			for _, sorted := range []bool{false, true} {
				if sorted {
					slices.Sort(costs)
				}
				worst := 0.0
				for batch := range slices.Chunk(costs, n) {
					spread, bound := spreadOf(batch, ranks)
					worst = max(worst, spread/bound)
				}
				if worst > limit {
					t.Errorf("sigma %v, %d ranks of %d samples, sorted %v: the greatest share is %.4f of its bound, want at most %v", sigma, ranks, shape[1], sorted, worst, limit)
				}
			}
		}
	}
}

func BenchmarkDivide(b *testing.B) {
	for _, ranks := range []uint64{8, 1024} {
		for _, sorted := range []bool{false, true} {
			costs := lognormal(rand.New(rand.NewPCG(1, 2)), 65536, .9)
			if sorted { // a batch of the largest costs of 32
				costs = lognormal(rand.New(rand.NewPCG(1, 2)), 32*65536, .9)
				slices.Sort(costs)
				costs = costs[31*65536:]
			}
			b.Run(fmt.Sprintf("%d ranks, similar costs %v", ranks, sorted), func(b *testing.B) {
				for b.Loop() {
					Divide(costs, ranks)
				}
			})
		}
	}
}
