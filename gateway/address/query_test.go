package address

import (
	"math"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// FuzzParams compares the parser with a model made of a regular expression and big integers.
func FuzzParams(f *testing.F) {
	for _, s := range []string{
		"", "seed=1", "seed=18446744073709551615", "seed=18446744073709551616", "seed=-1", "seed=+1", "seed=01", "seed=0&seed=0",
		"seed=%31", "batch_size=0", "batch_size=2147483648", "seed", "seed=", "&", "=", "seed=1&", "x=1", "seed=1&batch_size=3", "seed=1;batch_size=2", "Seed=1",
	} {
		f.Add(s)
	}
	decimal := regexp.MustCompile(`^(0|[1-9][0-9]*)$`)
	f.Fuzz(func(t *testing.T, raw string) {
		q := ParseQuery(raw, "seed", "batch_size")
		seed, size := q.Number("seed", 5, 0, math.MaxUint64), q.Number("batch_size", 6, 1, maxBatchSize)
		want := map[string]string{"seed": "5", "batch_size": "6"}
		given := map[string]bool{}
		good := true
		for part := range strings.SplitSeq(raw, "&") {
			if raw == "" {
				break
			}
			name, value, _ := strings.Cut(part, "=")
			n, isNumber := new(big.Int).SetString(value, 10)
			low, high := "0", "18446744073709551615"
			if name == "batch_size" {
				low, high = "1", "2147483648"
			}
			lo, _ := new(big.Int).SetString(low, 10)
			hi, _ := new(big.Int).SetString(high, 10)
			_, known := want[name]
			good = good && known && !given[name] && decimal.MatchString(value) && isNumber && n.Cmp(lo) >= 0 && n.Cmp(hi) <= 0
			given[name] = true
			want[name] = value
		}
		if got := q.Err() == nil; got != good {
			t.Fatalf("%q: got accepted %v, want %v: %v", raw, got, good, q.Faults())
		}
		got := []string{new(big.Int).SetUint64(seed).String(), new(big.Int).SetUint64(size).String()}
		if good && !slices.Equal(got, []string{want["seed"], want["batch_size"]}) {
			t.Fatalf("%q: got %v, want %v", raw, got, want)
		}
	})
}
