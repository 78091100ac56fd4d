package importance

import (
	"bufio"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"os"
	"testing"
)

// TestWeightsAreThoseOfTheTable compares weights with values that were computed independently to 50
// decimal digits. They never change.
func TestWeightsAreThoseOfTheTable(t *testing.T) {
	f, err := os.Open("testdata/weights.golden")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := 0
	for in := bufio.NewScanner(f); in.Scan(); lines++ {
		var rank uint64
		var want uint32
		if _, err := fmt.Sscan(in.Text(), &rank, &want); err != nil {
			t.Fatal(err)
		}
		if got := Weight(rank); got != want {
			t.Errorf("rank %d: got %d, want %d", rank, got, want)
		}
	}
	if lines < 256 {
		t.Errorf("table: got %d lines, want at least 256", lines)
	}
}

// TestEveryWeightIsRoundedRight checks all ranks. If the float64 result is too close to a half, a
// computation with 128 bits decides.
func TestEveryWeightIsRoundedRight(t *testing.T) {
	close := 0
	for rank := range uint64(MaxBatch) {
		exact := 65536 * math.Log(float64(rank+10))
		want := math.Round(exact)
		if math.Abs(exact-math.Floor(exact)-.5) < 1e-6 {
			close++
			want = bigWeight(rank)
		}
		if got := float64(Weight(rank)); got != want {
			t.Fatalf("rank %d: got %v, want %v", rank, got, want)
		}
	}
	if close == 0 {
		t.Error("ranks too close to tell: got none, want some, or the bound is too small")
	}
	if got, want := Weight(math.MaxUint64), Weight(MaxBatch-1); got != want {
		t.Errorf("rank beyond all batches: got %d, want %d", got, want)
	}
}

// bigWeight computes a weight with 128-bit numbers: ln x = k ln 2 + ln y, and ln y = 2
// artanh((y-1)/(y+1)).
func bigWeight(rank uint64) float64 {
	k, y := 0, new(big.Rat).SetUint64(rank+10)
	for y.Cmp(big.NewRat(3, 2)) > 0 {
		k, y = k+1, y.Quo(y, big.NewRat(2, 1))
	}
	sum := new(big.Float).SetPrec(128).Mul(big.NewFloat(float64(k)).SetPrec(128), bigLog(big.NewRat(2, 1)))
	sum.Add(sum, bigLog(y)).Mul(sum, big.NewFloat(65536)).Add(sum, big.NewFloat(.5))
	n, _ := sum.Int(nil)
	return float64(n.Int64())
}

func bigLog(y *big.Rat) *big.Float {
	one := big.NewRat(1, 1)
	ratio := new(big.Rat).Quo(new(big.Rat).Sub(y, one), new(big.Rat).Add(y, one))
	z := new(big.Float).SetPrec(160).SetRat(ratio)
	square, power, sum := new(big.Float).SetPrec(160).Mul(z, z), new(big.Float).SetPrec(160).Set(z), new(big.Float).SetPrec(160)
	for k := int64(1); k < 300; k += 2 {
		sum.Add(sum, new(big.Float).SetPrec(160).Quo(power, new(big.Float).SetInt64(k)))
		power.Mul(power, square)
	}
	return sum.Mul(sum, big.NewFloat(2))
}

func TestNoSumOfWeightsOverflows(t *testing.T) {
	if hi, lo := bits.Mul64(maxSamples, uint64(Weight(MaxBatch))*maxRepeat); hi > 0 {
		t.Errorf("sum of the weights of the largest dataset: got 2^64 * %d + %d, want less than 2^64", hi, lo)
	}
}
