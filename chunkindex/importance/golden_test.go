package importance

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGoldenReport decodes a report stored by an older program and encodes it again. The bytes must
// be the same. The file never changes.
func TestGoldenReport(t *testing.T) {
	const file = "testdata/report.golden"
	report := Report{
		Plan: "generation=1111111111111111111111111111111111111111111111111111111111111111&batch_size=8&seed=7&shuffle=slot&window=4&tail=short", Reporter: "trainer", Epoch: 3, Batch: 2, First: 16, Count: 8,
		Positions: []uint64{23, 16, 18}, Losses: []float64{0.125, 7.5e-3, 1e6},
	}
	made := report.canonical()
	stored, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := made.encode(); !bytes.Equal(got, stored) {
		t.Errorf("got %d other bytes than the %d of the golden file", len(got), len(stored))
	}
	got, err := decodeReport(stored)
	if err != nil {
		t.Fatal(err)
	}
	want := &Report{
		Plan: report.Plan + "&reporter=trainer", Epoch: 3, Batch: 2, First: 16, Count: 8,
		Positions: []uint64{16, 18, 23}, Losses: []float64{7.5e-3, 1e6, 0.125},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}
