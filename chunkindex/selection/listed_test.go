package selection

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// keyed is a dataset with one shard per chunk.
type keyed struct {
	dataset
	shards []string
}

func (d keyed) ShardKey(sample uint64) string {
	chunk := 0
	for sample >= d.First()[chunk+1] {
		chunk++
	}
	return d.shards[chunk]
}

// keep stores the samples at these positions as a subset.
func keep(t *testing.T, s *Store, d Dataset, runs ...Places) SplitResult {
	t.Helper()
	c, err := NewCut(t.Context(), d, d.First(), nil, []Step{{Places: runs}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.KeepSubset(t.Context(), d, c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestFindKeys_AnyOrder checks that a random half of the keys, in two orders and with repetitions,
// produces one object.
func TestFindKeys_AnyOrder(t *testing.T) {
	d := keyed{testDataset(700, 1, 0, 299), []string{"a", "b", "c", "d"}}
	all := slices.Concat(d.dataset...)
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	half := slices.Clone(all[:500])
	s, _ := newStore(t)
	var made []SplitResult
	for _, keys := range [][]string{half, slices.Sorted(slices.Values(half)), append(slices.Clone(half), half[:7]...)} {
		runs, repeated, err := FindKeys(t.Context(), d, keys)
		if err != nil || repeated != len(keys)-500 {
			t.Fatalf("got %d repeated, %v, want %d", repeated, err, len(keys)-500)
		}
		made = append(made, keep(t, s, d, runs...))
	}
	if !made[0].New || made[1].New || made[1].Digest != made[0].Digest || made[2].Digest != made[0].Digest {
		t.Errorf("got %+v, want one object", made)
	}
	if !slices.Equal(made[0].Counts, []uint64{500, 500}) || made[0].Default != "" {
		t.Errorf("got counts %d, default %q", made[0].Counts, made[0].Default)
	}
	var got []string
	for _, n := range numbersOf(t, s, d.dataset, made[0].Digest, Listed) {
		got = append(got, slices.Concat(d.dataset...)[n])
	}
	if want := slices.Sorted(slices.Values(half)); !slices.Equal(got, want) {
		t.Errorf("got %d samples, want the %d of the list", len(got), len(want))
	}
	rest := numbersOf(t, s, d.dataset, made[0].Digest, Rest)
	if len(rest) != 500 {
		t.Errorf("the rest has %d samples, want 500", len(rest))
	}
	if _, err := s.Default(t.Context(), d.Generation()); !errors.Is(err, ErrNoDefault) {
		t.Errorf("default split: got %v, want none", err)
	}
}

func TestFindKeys_WrongKeys(t *testing.T) {
	d := keyed{dataset{{"x", "y"}, {"y", "z"}}, []string{"a.tar", "b.tar"}}
	for _, c := range []struct {
		keys []string
		want string
	}{
		{[]string{"x", "n4", "n3", "n2", "n1"}, `no sample has 4 of 5 keys: "n1", "n2", "n3", ...`},
		{[]string{"x", "y"}, `add a tab and the shard after each key that several shards have: 1 of 2 keys: "y"`},
		{[]string{"y\tc.tar"}, `no sample has 1 of 1 keys: "y\tc.tar"`},
		{[]string{"x", ""}, "a key is empty"},
	} {
		_, _, err := FindKeys(t.Context(), d, c.keys)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.keys, err, c.want)
		}
	}
	runs, repeated, err := FindKeys(t.Context(), d, []string{"z", "y\tb.tar", "z\tb.tar"})
	if err != nil || repeated != 1 || !slices.Equal(runs, []Places{{2, 3}}) {
		t.Errorf("got %v, %d repeated, %v", runs, repeated, err)
	}
}

func TestKeepSubset_Empty(t *testing.T) {
	s, _ := newStore(t)
	d := testDataset(3)
	c, err := NewCut(t.Context(), d, d.First(), nil, []Step{{Places: []Places{{5, 9}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.KeepSubset(t.Context(), d, c); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v, want no sample", err)
	}
}
