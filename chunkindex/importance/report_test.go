package importance

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestReportIsRefusedWithAllItsFaults(t *testing.T) {
	good := report(epochLosses(43, 1), 8, 12)
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(r *Report)
		want   []string
	}{
		"nothing":         {func(r *Report) { *r = Report{} }, []string{"no plan", "has 0 positions", "no positions"}},
		"not finite":      {func(r *Report) { r.Losses[0], r.Losses[1], r.Losses[3] = math.NaN(), math.Inf(1), math.Inf(-1) }, []string{"position 8: loss NaN", "position 9: loss +Inf", "position 11: loss -Inf"}},
		"twice":           {func(r *Report) { r.Positions[2] = 8 }, []string{"position 8 is given more than once"}},
		"another batch":   {func(r *Report) { r.Positions[0], r.Positions[1] = 7, 16 }, []string{"position 7 is not in global batch 1", "position 16"}},
		"lengths":         {func(r *Report) { r.Losses = r.Losses[:3] }, []string{"4 positions, but 3 losses"}},
		"empty":           {func(r *Report) { r.Positions, r.Losses = nil, nil }, []string{"no positions"}},
		"large":           {func(r *Report) { r.Count = MaxBatch + 1 }, []string{"global batch has 1048577 positions"}},
		"wrong beginning": {func(r *Report) { r.Batch = 3 }, []string{"global batch 3 cannot hold"}},
		"overlapping":     {func(r *Report) { r.Batch = 2 }, []string{"global batch 2 cannot hold"}},
		"first batch":     {func(r *Report) { r.Batch = 0 }, []string{"global batch 0 cannot hold"}},
		"far away":        {func(r *Report) { r.First, r.Batch = math.MaxInt64, 1 }, []string{"beyond every epoch"}},
		"long plan":       {func(r *Report) { r.Plan = strings.Repeat("x", maxPlan+1) }, []string{"plan has 4097 bytes"}},
		"no text":         {func(r *Report) { r.Plan = "\xff" }, []string{"plan is not UTF-8"}},
		"many faults": {func(r *Report) {
			r.Positions, r.Losses = make([]uint64, 20), make([]float64, 20)
			for i := range r.Positions {
				r.Positions[i] = 100 + uint64(i)
			}
		}, []string{"position 107", "and 12 more faults"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := *good.canonical()
			c.change(&r)
			err := r.Check()
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("got %v, want %v", err, ErrInvalid)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want a mention of %q", err, want)
				}
			}
		})
	}
}

// TestReport_TakesWhatTheLimitsAllow checks that a report that reaches all limits is accepted and
// can be decoded again.
func TestReport_TakesWhatTheLimitsAllow(t *testing.T) {
	r := Report{Plan: strings.Repeat("x", maxPlan), Batch: 1, First: math.MaxInt64 - MaxBatch, Count: MaxBatch}
	for p := r.First; p < r.First+r.Count; p++ {
		r.Positions, r.Losses = append(r.Positions, p), append(r.Losses, 1)
	}
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	b := r.canonical().encode()
	if again, err := decodeReport(b); err != nil || len(b) != maxReport || len(again.Positions) != MaxBatch || again.Plan != r.Plan {
		t.Errorf("%d bytes: got %v, want the report back", len(b), err)
	}
	eight := Report{Plan: "x", Count: 8, Positions: []uint64{8, 9, 10, 11, 12, 13, 14, 15}, Losses: make([]float64, 8)}
	if err := eight.Check(); err == nil || strings.Contains(err.Error(), "more faults") || !strings.Contains(err.Error(), "position 15 ") {
		t.Errorf("eight faults: got %v, want each by name", err)
	}
}

func TestReportHasOneForm(t *testing.T) {
	r := report(epochLosses(43, 1), 8, 12)
	other := r
	other.Positions = []uint64{11, 8, 10, 9}
	other.Losses = []float64{r.Losses[3], r.Losses[0], r.Losses[2], r.Losses[1]}
	if got, want := other.canonical().encode(), r.canonical().encode(); !bytes.Equal(got, want) {
		t.Errorf("other order of positions: got %x, want %x", got, want)
	}
	zero, minus := r, r
	zero.Losses, minus.Losses = make([]float64, 4), []float64{math.Copysign(0, -1), 0, 0, 0}
	if got, want := minus.canonical().encode(), zero.canonical().encode(); !bytes.Equal(got, want) {
		t.Errorf("negative zero: got %x, want %x", got, want)
	}
	got, err := decodeReport(r.canonical().encode())
	if err != nil {
		t.Fatal(err)
	}
	if want := r.canonical(); !reflect.DeepEqual(got, want) {
		t.Errorf("decoded: got %+v, want %+v", got, want)
	}
}

func TestDamagedReportIsRefused(t *testing.T) {
	r := report(epochLosses(43, 1), 8, 12)
	b := r.canonical().encode()
	for n := range b {
		if _, err := decodeReport(b[:n]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("first %d bytes: got %v, want %v", n, err, ErrCorrupt)
		}
	}
	for i := range 8 * len(b) {
		bad := bytes.Clone(b)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := decodeReport(bad); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("bit %d flipped: got %v, want %v", i, err, ErrCorrupt)
		}
	}
	if _, err := decodeReport(reseal(append([]byte("MRLOSS02"), b[8:]...))); !errors.Is(err, ErrVersion) {
		t.Errorf("newer version: got %v, want %v", err, ErrVersion)
	}
}

// FuzzReport checks that accepted bytes are valid and have a unique form. It recomputes the
// checksum, because otherwise the decoder would reject all inputs.
func FuzzReport(f *testing.F) {
	r := report(epochLosses(43, 1), 8, 12)
	f.Add(r.canonical().encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 4 {
			return
		}
		b = reseal(b)
		r, err := decodeReport(b)
		if err != nil {
			return
		}
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		if got := r.canonical().encode(); !bytes.Equal(got, b) {
			t.Fatalf("encoded again: got %x, want %x", got, b)
		}
	})
}
