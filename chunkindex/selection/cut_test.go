package selection

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// numbers returns the numbers of a subset's samples from its bitmaps, after checking their counts.
func numbers(t *testing.T, d dataset, members []uint64, bitmap func(context.Context, int) ([]byte, error)) []uint64 {
	t.Helper()
	out := []uint64{}
	for i := range d {
		b, err := bitmap(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkBitmap(b, uint64(len(d[i])), members[i+1]-members[i]); err != nil || int64(len(b)) != bitmapSize(uint64(len(d[i]))) {
			t.Fatalf("chunk %d: a bitmap of %d bytes: %v", i, len(b), err)
		}
		for k := range d[i] {
			if b[k/8]>>(k%8)&1 == 1 {
				out = append(out, d.First()[i]+uint64(k))
			}
		}
	}
	return out
}

func cutOf(t *testing.T, d dataset, base Base, steps ...Step) []uint64 {
	t.Helper()
	c, err := NewCut(t.Context(), d, d.First(), base, steps)
	if err != nil {
		t.Fatal(err)
	}
	if got, most := c.Bytes(), CutBytes(d.First(), -1); got > most {
		t.Errorf("a cut holds %d bytes, want at most %d", got, most)
	}
	return numbers(t, d, c.Members(), c.Bitmap)
}

// TestCutIsTheSplitThatWouldBeStored compares the cut of each subset of a rule with the stored
// subset.
func TestCutIsTheSplitThatWouldBeStored(t *testing.T) {
	d := testDataset(7, 0, 64, 1, 200, 33)
	s, _ := newStore(t)
	for _, salt := range []string{"", "seven"} {
		rule := mustRule(t, "train=6,val=2,test=1", salt)
		made, err := s.Split(t.Context(), d, rule)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range rule.Parts {
			x, err := s.OpenSubset(t.Context(), made.Digest, p.Name, d.Generation(), d.First())
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			want := numbers(t, d, x.Members(), x.Bitmap)
			if got := cutOf(t, d, nil, Step{Rule: rule, Name: p.Name}); !slices.Equal(got, want) || uint64(len(got)) != made.Counts[i] {
				t.Errorf("salt %q, %s: got %v, want %v", salt, p.Name, got, want)
			}
			if got := cutOf(t, d, x, Step{Places: []Places{{2, 4}, {9, 9}}}); !slices.Equal(got, append(slices.Clone(want[2:5]), want[9])) {
				t.Errorf("salt %q, some of %s: got %v of %v", salt, p.Name, got, want)
			}
		}
	}
}

func TestCutByPlaces(t *testing.T) {
	d := testDataset(7, 0, 64, 1, 200)
	all := make([]uint64, 272)
	for i := range all {
		all[i] = uint64(i)
	}
	for _, c := range []struct {
		steps []Step
		want  []uint64
	}{
		{[]Step{{Places: []Places{{0, 9}}}}, all[:10]},
		{[]Step{{Places: []Places{{0, 6}}}}, all[:7]},
		{[]Step{{Places: []Places{{7, 70}, {72, 1000}}}}, append(slices.Clone(all[7:71]), all[72:]...)},
		{[]Step{{Places: []Places{{5, 80}}}, {Places: []Places{{1, 2}, {70, 90}}}}, []uint64{6, 7, 75, 76, 77, 78, 79, 80}},
		{[]Step{{Places: []Places{{1000, 1001}}}}, all[:0]},
		{[]Step{{Places: []Places{{5, 7}}}}, all[5:8]}, // the last position is the first of a later chunk
		{[]Step{{Places: []Places{{5, 6}, {71, 71}}}}, []uint64{5, 6, 71}},
	} {
		if got := cutOf(t, d, nil, c.steps...); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.steps, got, c.want)
		}
	}
}

// TestCutBytes_ManyRuns cuts a subset that omits some samples in each of many chunks.
func TestCutBytes_ManyRuns(t *testing.T) {
	first := make([]uint64, 1001)
	for i := range first {
		first[i] = 8000 * uint64(i)
	}
	runs := []Places{{0, 4}}
	for i := range uint64(400) {
		runs = append(runs, Places{6 + 16000*i, 4 + 16000*(i+1)})
	}
	for _, some := range [][]Places{runs[:1], runs[:20], runs} {
		c, err := NewCut(t.Context(), nil, first, nil, []Step{{Places: some}})
		if err != nil {
			t.Fatal(err)
		}
		if got, most := c.Bytes(), CutBytes(first, len(some)); got > most {
			t.Errorf("%d runs: got %d bytes, want at most %d", len(some), got, most)
		}
	}
	if got := CutBytes(first, 1); got > 32<<10 {
		t.Errorf("one run: %d bytes, want no more than 32 KiB", got)
	}
}

// unread is a dataset that returns an error if the keys of a chunk are read, from a given chunk on.
type unread struct {
	dataset
	from int
}

func (u unread) Keys(ctx context.Context, chunk int, visit func(uint64, []byte)) error {
	if chunk >= u.from {
		return fmt.Errorf("chunk %d is read", chunk)
	}
	return u.dataset.Keys(ctx, chunk, visit)
}

// TestCutReadsNoMoreNamesThanItNeeds cuts the first samples of a split of a large dataset.
func TestCutReadsNoMoreNamesThanItNeeds(t *testing.T) {
	d := testDataset(50, 50, 50, 50, 50, 50)
	steps := []Step{{Rule: mustRule(t, "a=1,b=1", ""), Name: "a"}, {Places: []Places{{0, 9}}}}
	if got := cutOf(t, d, nil, steps...); len(got) != 10 {
		t.Fatalf("got %d samples, want 10", len(got))
	}
	if _, err := NewCut(t.Context(), unread{d, 2}, d.First(), nil, steps); err != nil {
		t.Error(err)
	}
	if _, err := NewCut(t.Context(), unread{d, 0}, d.First(), nil, []Step{{Places: []Places{{3, 100}}}}); err != nil {
		t.Error(err)
	}
}

// short is a dataset that returns one key too few.
type short struct{ dataset }

func (s short) Keys(_ context.Context, chunk int, visit func(uint64, []byte)) error {
	for i := range s.dataset[chunk][1:] {
		visit(0, []byte(s.dataset[chunk][i]))
	}
	return nil
}

func TestCutRefuses(t *testing.T) {
	d := testDataset(7, 9)
	byName := []Step{{Rule: mustRule(t, "a=1,b=1", ""), Name: "a"}}
	for name, c := range map[string]struct {
		steps []Step
		want  error
	}{
		"no such part":  {[]Step{{Rule: mustRule(t, "a=1,b=1", ""), Name: "c"}}, ErrNoSubset},
		"a bad rule":    {[]Step{{Rule: Rule{Parts: []Part{{Name: "a"}}}, Name: "a"}}, ErrInvalid},
		"parts by name": {[]Step{{Rule: mustRule(t, "a=a-*", ""), Name: "a"}}, ErrInvalid},
	} {
		if _, err := NewCut(t.Context(), d, d.First(), nil, c.steps); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	if _, err := NewCut(t.Context(), short{d}, d.First(), nil, byName); err == nil {
		t.Error("an index with too few keys was cut")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewCut(ended, d, d.First(), nil, byName); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was called off", err)
	}
	huge := []uint64{0, MostHashed + 1}
	if _, err := NewCut(t.Context(), d, huge, nil, byName); !errors.Is(err, ErrInvalid) {
		t.Errorf("more names than are hashed: got %v, want ErrInvalid", err)
	}
}

// failsAt is both a dataset and a base. One of its chunks fails after some of its keys.
type failsAt struct {
	dataset
	chunk, after int
	fails        func() error
}

func (f failsAt) Keys(ctx context.Context, chunk int, visit func(uint64, []byte)) error {
	if chunk != f.chunk {
		return f.dataset.Keys(ctx, chunk, visit)
	}
	for _, key := range f.dataset[chunk][:f.after] {
		visit(0, []byte(key))
	}
	return f.fails()
}

func (f failsAt) Bitmap(_ context.Context, chunk int) ([]byte, error) {
	if chunk != f.chunk {
		return ones(uint64(len(f.dataset[chunk]))), nil
	}
	return nil, f.fails()
}

// TestNewCut_ReturnsErrorsOfWhatItReads lets the keys and the base fail in each chunk, after any
// number of the chunk's keys.
func TestNewCut_ReturnsErrorsOfWhatItReads(t *testing.T) {
	d := testDataset(3, 0, 2)
	byName := []Step{{Rule: mustRule(t, "a=1,b=1", ""), Name: "a"}}
	for _, chunk := range []int{0, 2} {
		want := fmt.Sprintf("cut: chunk %d: %v", chunk, errStore)
		for after := range len(d[chunk]) + 1 {
			f := failsAt{d, chunk, after, func() error { return errStore }}
			if _, err := NewCut(t.Context(), f, d.First(), nil, byName); !errors.Is(err, errStore) || err.Error() != want {
				t.Errorf("after %d keys: got %v, want %s", after, err, want)
			}
			if _, err := NewCut(t.Context(), d, d.First(), f, byName); !errors.Is(err, errStore) || err.Error() != want {
				t.Errorf("the base: got %v, want %s", err, want)
			}
			ctx, cancel := context.WithCancel(t.Context())
			f.fails = func() error { cancel(); return ctx.Err() }
			if _, err := NewCut(ctx, f, d.First(), nil, byName); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled after %d keys of chunk %d: got %v, want %v", after, chunk, err, context.Canceled)
			}
		}
	}
}

// TestCutter_BoundsTheNamesOfAllStepsAndChunks hashes the maximum number of names, and then one
// more chunk.
func TestCutter_BoundsTheNamesOfAllStepsAndChunks(t *testing.T) {
	d := testDataset(5, 5)
	byName := Step{Rule: mustRule(t, "a=1", ""), Name: "a"}
	w, err := newCutter(d, d.First(), nil, []Step{byName, byName})
	if err != nil {
		t.Fatal(err)
	}
	w.hashed = MostHashed - 15
	if _, n, err := w.chunk(t.Context(), 0); err != nil || n != 5 {
		t.Errorf("got %d samples, %v, want 5", n, err)
	}
	if _, _, err := w.chunk(t.Context(), 1); !errors.Is(err, ErrInvalid) {
		t.Errorf("five names too many: got %v, want %v", err, ErrInvalid)
	}
	w.hashed = MostHashed - 10
	if _, n, err := w.chunk(t.Context(), 1); err != nil || n != 5 {
		t.Errorf("got %d samples, %v, want 5", n, err)
	}
}

// TestCut_Bitmap checks that a chunk needs no stored bitmap if it belongs to the cut in full or not
// at all. An unknown chunk must have none.
func TestCut_Bitmap(t *testing.T) {
	d := testDataset(7, 9, 16)
	c, err := NewCut(t.Context(), d, d.First(), nil, []Step{{Places: []Places{{0, 6}, {16, 17}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for chunk, want := range [][]byte{{0x7f}, {0, 0}, {3, 0}} {
		if got, err := c.Bitmap(t.Context(), chunk); err != nil || !bytes.Equal(got, want) {
			t.Errorf("chunk %d: got %x, %v, want %x", chunk, got, err, want)
		}
	}
	if got, want := c.Bytes(), int64(8<<10+16*4+2); got != want {
		t.Errorf("got %d bytes of memory, want %d: the bitmap of one chunk", got, want)
	}
	for runs, want := range map[int]int64{-1: 2 * 5, 0: 0, 1: 2 * 4, 9: 2 * 5} {
		if got := CutBytes(d.First(), runs); got != 8<<10+16*4+want {
			t.Errorf("a cut of %d runs: got %d bytes at most, want %d", runs, got, 8<<10+16*4+want)
		}
	}
	for _, chunk := range []int{-1, 3} {
		if _, err := c.Bitmap(t.Context(), chunk); err == nil || err.Error() != fmt.Sprintf("cut: no chunk %d: there are 3 chunks", chunk) {
			t.Errorf("chunk %d: got %v, want a refusal", chunk, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Bitmap(ended, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if _, err := NewCut(t.Context(), d, d.First(), unreadable{}, []Step{{Places: []Places{{0, 6}}}}); !errors.Is(err, errStore) || !strings.HasPrefix(err.Error(), "cut: chunk 0: ") {
		t.Errorf("a base that cannot be read: got %v, want %v", err, errStore)
	}
}

// unreadable is a subset with unreadable bitmaps.
type unreadable struct{}

func (unreadable) Bitmap(context.Context, int) ([]byte, error) { return nil, errStore }

func BenchmarkCut(b *testing.B) {
	d := testDataset(1000, 1000, 1000, 1000)
	rule := mustRule(b, "train=9,val=1", "")
	for b.Loop() {
		if _, err := NewCut(b.Context(), d, d.First(), nil, []Step{{Rule: rule, Name: "val"}}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4000, "ns/name")
}
