package published_test

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/millrace-data/millrace/integration/experiments/published"
)

// TestRebalance_AgreesWithTransformers compares divisions with those of BatchRebalanceSampler of
// Transformers 5.24.0. Each case has the shares that rank_mbs of its method _assign has for the
// indices 0 to n-1.
func TestRebalance_AgreesWithTransformers(t *testing.T) {
	text, err := os.ReadFile("testdata/rebalance.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Lengths      []uint32
		Ranks, Micro int
		Quadratic    float64
		Shares       [][][]int
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 20 {
		t.Fatalf("got %d cases, want 20 or more", len(cases))
	}
	for i, c := range cases {
		if got := published.Rebalance(c.Lengths, c.Ranks, c.Micro, c.Quadratic); !reflect.DeepEqual(got, c.Shares) {
			t.Errorf("case %d, %d samples for %d ranks with %d micro-batches: got %v, want %v", i, len(c.Lengths), c.Ranks, c.Micro, got, c.Shares)
		}
	}
}
