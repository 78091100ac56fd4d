package shuffle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawBad draws chunks and bad samples, at least one sample being healthy.
func drawBad(t *rapid.T) (first, bad []uint64) {
	first = prefix(rapid.SliceOfN(rapid.Uint64Range(0, 9), 1, 12).Draw(t, "chunks")...)
	s := first[len(first)-1]
	if s < 2 {
		return first, nil
	}
	for x := range s {
		if rapid.Bool().Draw(t, fmt.Sprintf("bad %d", x)) && uint64(len(bad)) < s-1 {
			bad = append(bad, x)
		}
	}
	return first, bad
}

// substituteModel implements the definition literally.
func substituteModel(seed uint64, first, bad []uint64, epoch, x uint64) uint64 {
	if !slices.Contains(bad, x) {
		return x
	}
	chunks := chunkTable(first)
	chunk, j := chunks.of(x), uint64(0)
	for _, b := range bad {
		if chunks.of(b) == chunk && b < x {
			j++
		}
	}
	var healthy []uint64
	for c := chunk; len(healthy) == 0; c = (c + 1) % uint32(chunks.len()) {
		for y := first[c]; y < first[c+1]; y++ {
			if !slices.Contains(bad, y) {
				healthy = append(healthy, y)
			}
		}
	}
	n := uint64(len(healthy))
	return healthy[(j+newKey("quarantine", seed, epoch, uint64(chunk)).word(0)%n)%n]
}

func TestQuarantineReplacesTheBadAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, bad := drawBad(t)
		seed, epoch := rapid.Uint64().Draw(t, "seed"), rapid.Uint64().Draw(t, "epoch")
		q, err := NewQuarantine(seed, first, bad)
		if err != nil {
			t.Fatal(err)
		}
		s := first[len(first)-1]
		all := make([]uint64, s)
		for i := range all {
			all[i] = uint64(i)
		}
		q.Replace(epoch, all)
		times := map[uint64]int{}
		for x, y := range all {
			if want := substituteModel(seed, first, bad, epoch, uint64(x)); y != want {
				t.Fatalf("sample %d: got %d, want %d", x, y, want)
			}
			times[y]++
		}
		for x := range s {
			want := 0
			if !slices.Contains(bad, x) {
				want = 1 + len(q.Replaced(epoch, x))
			}
			if q.Has(x) != slices.Contains(bad, x) || times[x] != want {
				t.Fatalf("sample %d: bad is %v, delivered %d times, want %d", x, q.Has(x), times[x], want)
			}
			if most := q.Most(x); uint64(times[x]) > most {
				t.Fatalf("sample %d: delivered %d times, more than the %d that were said", x, times[x], most)
			}
			for _, r := range q.Replaced(epoch, x) {
				if all[r] != x {
					t.Fatalf("sample %d is said to replace %d, which %d does", x, r, all[r])
				}
			}
		}
	})
}

func TestQuarantineRefuses(t *testing.T) {
	first := []uint64{0, 2, 2, 5}
	for name, c := range map[string]struct {
		bad  []uint64
		want string
	}{
		"all bad":      {[]uint64{0, 1, 2, 3, 4}, "all 5 samples are bad"},
		"no sample":    {[]uint64{5}, "sample 5 of 5"},
		"out of order": {[]uint64{2, 1}, "sample 1 after sample 2"},
		"twice":        {[]uint64{2, 2}, "sample 2 after sample 2"},
	} {
		if _, err := NewQuarantine(0, first, c.bad); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	if q, err := NewQuarantine(0, []uint64{0}, nil); err != nil || q.Len() != 0 {
		t.Errorf("no samples: got %v, %v", q, err)
	}
}

func TestQuarantineDigestNamesTheList(t *testing.T) {
	first := []uint64{0, 2, 2, 5}
	p := mustPlan(t, Params{Shuffle: None}, first)
	seen := map[string]int{p.OrderDigest(): -1}
	for i, c := range []struct {
		seed uint64
		bad  []uint64
	}{{0, nil}, {1, nil}, {0, []uint64{1}}, {0, []uint64{2}}, {0, []uint64{1, 2}}} {
		q, err := NewQuarantine(c.seed, first, c.bad)
		if err != nil {
			t.Fatal(err)
		}
		d := q.OrderDigest(p)
		if other, taken := seen[d]; taken {
			t.Errorf("cases %d and %d have the same digest", i, other)
		}
		seen[d] = i
	}
}

// FuzzQuarantine accepts any list of bad samples in any small chunks.
func FuzzQuarantine(f *testing.F) {
	f.Add(uint64(1), uint64(2), []byte{3, 0, 4}, []byte{0b11111})
	f.Fuzz(func(t *testing.T, seed, epoch uint64, sizes, bits []byte) {
		sizes = sizes[:min(len(sizes), 20)]
		counts := make([]uint64, len(sizes))
		for i, n := range sizes {
			counts[i] = uint64(n % 16)
		}
		first := prefix(counts...)
		var bad []uint64
		for x := range uint64(8 * len(bits)) {
			if bits[x/8]>>(x%8)&1 == 1 {
				bad = append(bad, x)
			}
		}
		s := first[len(first)-1]
		q, err := NewQuarantine(seed, first, bad)
		wrong := len(bad) > 0 && (bad[len(bad)-1] >= s || uint64(len(bad)) == s)
		if (err != nil) != wrong {
			t.Fatalf("%d bad of %d: %v", len(bad), s, err)
		}
		for x := range s {
			if err == nil && q.Substitute(epoch, x) != substituteModel(seed, first, bad, epoch, x) {
				t.Fatalf("sample %d: got %d, want %d", x, q.Substitute(epoch, x), substituteModel(seed, first, bad, epoch, x))
			}
		}
	})
}
