package shuffle

import (
	"math"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"
)

// dealModel orders the samples by length, longest first, and deals them one by one.
func dealModel(lengths []uint32, worldSize int) [][]int {
	places := make([]int, len(lengths))
	for i := range places {
		places[i] = i
	}
	sort.SliceStable(places, func(a, b int) bool { return lengths[places[a]] > lengths[places[b]] })
	shares := make([][]int, worldSize)
	rank, step := 0, 1
	for _, place := range places {
		shares[rank] = append(shares[rank], place)
		if rank += step; rank < 0 || rank == worldSize {
			step = -step
			rank += step // the last rank of a row is the first rank of the next row
		}
	}
	for _, s := range shares {
		slices.Sort(s)
	}
	return shares
}

func bytesOf(lengths []uint32, places []int) (sum uint64) {
	for _, place := range places {
		sum += uint64(lengths[place])
	}
	return sum
}

func TestDealTilesTheBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.OneOf(rapid.Uint32(), rapid.Uint32Range(0, 3))
		lengths := rapid.OneOf(rapid.SliceOfN(length, 0, 12), rapid.SliceOfN(length, 90, 130)).Draw(t, "lengths")
		world := rapid.IntRange(1, 20).Draw(t, "world size")
		model := dealModel(lengths, world)
		var all []int
		least, most := uint64(math.MaxUint64), uint64(0)
		for rank := range world {
			share := Deal(lengths, uint64(rank), uint64(world))
			if !slices.Equal(share, model[rank]) {
				t.Fatalf("rank %d: got %v, want %v", rank, share, model[rank])
			}
			if n := len(lengths) / world; len(share) != n && len(share) != n+1 {
				t.Fatalf("rank %d: got %d of %d samples, want %d or one more", rank, len(share), len(lengths), n)
			}
			all = append(all, share...)
			sum := bytesOf(lengths, share)
			least, most = min(least, sum), max(most, sum)
		}
		slices.Sort(all)
		for i, place := range all {
			if place != i {
				t.Fatalf("got places %v, want each of %d once", all, len(lengths))
			}
		}
		if len(all) != len(lengths) {
			t.Fatalf("got %d places, want %d", len(all), len(lengths))
		}
		if longest := slices.Max(append(lengths, 0)); most-least > uint64(longest) {
			t.Fatalf("got shares of %d to %d bytes, want them within one sample of %d", least, most, longest)
		}
	})
	if got := Deal([]uint32{1, 2}, 3, 3); got != nil {
		t.Errorf("rank 3 of 3: got %v, want no share", got)
	}
	if got := Deal([]uint32{1, 2}, 0, 0); got != nil {
		t.Errorf("no ranks: got %v, want no share", got)
	}
}

// TestDealBalancesBytes compares the heaviest share with the mean share, over batches of log-normal
// lengths. It does so for dealt shares and for contiguous shares.
func TestDealBalancesBytes(t *testing.T) {
	k := newKey("lengths")
	for _, world := range []uint64{2, 4, 8, 16} {
		var dealt, cut float64
		for batch := range uint64(50) {
			lengths := make([]uint32, 512)
			var sum uint64
			for i := range lengths {
				// A sum of uniform words is approximately normal.
				var normal float64
				for j := range uint64(12) {
					normal += float64(k.word(batch<<32|uint64(i)<<8|j))/(1<<64) - .5
				}
				lengths[i] = uint32(100_000 * math.Exp(.6*normal))
				sum += uint64(lengths[i])
			}
			b := Batching{Samples: 512, BatchSize: 512, Tail: Short}
			var heaviest, heaviestCut uint64
			for rank := range world {
				heaviest = max(heaviest, bytesOf(lengths, Deal(lengths, rank, world)))
				s := b.Share(0, rank, world)
				var cutBytes uint64
				for _, l := range lengths[s.First : s.First+s.Count] {
					cutBytes += uint64(l)
				}
				heaviestCut = max(heaviestCut, cutBytes)
			}
			mean := float64(sum) / float64(world)
			dealt += float64(heaviest)/mean - 1
			cut += float64(heaviestCut)/mean - 1
		}
		if dealt > cut/3 {
			t.Errorf("%d ranks: the heaviest share is %.2f %% above the mean, %.2f %% without balance; want a third at most",
				world, 100*dealt/50, 100*cut/50)
		}
		t.Logf("%d ranks: %.2f %% above the mean, %.2f %% without balance", world, 100*dealt/50, 100*cut/50)
	}
}
