package orders_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/cmd/internal/orders"
	"github.com/millrace-data/millrace/shuffle"
)

func TestLastRow_IsStatedBelow64Rows(t *testing.T) {
	slot := shuffle.Params{Shuffle: shuffle.Slot, Window: 8}
	for _, c := range []struct {
		params         shuffle.Params
		samples, batch uint64
		want           string
	}{
		{slot, 62*8 + 3, 16, "millrace: shuffle slot 8 has 63 rows, the last of 3 longer lanes: the 310 samples of the other lanes never stand there; tail=drop leaves out 3 samples an epoch, never one of these"},
		{slot, 63*8 + 3, 16, ""},
		{slot, 62*8 + 1, 31, "millrace: shuffle slot 8 has 63 rows, the last of 1 longer lane: the 434 samples of the other lanes never stand there; tail=drop leaves out 1 sample an epoch, never one of these"},
		{slot, 62 * 8, 16, ""},
		{slot, 70, 14, "millrace: shuffle slot 8 has 9 rows, the last of 6 longer lanes: the 16 samples of the other lanes never stand there; tail=drop leaves out nothing"},
		{slot, 70, 31, "millrace: shuffle slot 8 has 9 rows, the last of 6 longer lanes: the 16 samples of the other lanes never stand there; tail=drop leaves out 8 samples an epoch, any of them, these more rarely"},
		{slot, 70, 71, "millrace: shuffle slot 8 has 9 rows, the last of 6 longer lanes: the 16 samples of the other lanes never stand there; tail=drop leaves out all samples"},
		{slot, 7, 2, ""},
		{slot, 0, 2, ""},
		{shuffle.Params{Shuffle: shuffle.Window, Window: 8}, 70, 31, ""},
		{shuffle.Params{Shuffle: shuffle.Full}, 70, 31, ""},
	} {
		if got := orders.LastRow(c.params, c.samples, c.batch); got != c.want {
			t.Errorf("%+v of %d in batches of %d: got %q, want %q", c.params, c.samples, c.batch, got, c.want)
		}
		plan := map[string]any{"samples": number(c.samples), "parameters": map[string]any{"shuffle": c.params.Shuffle, "window": number(c.params.Window), "batch_size": number(c.batch)}}
		if got := orders.LastRowOfPlan(plan); got != c.want {
			t.Errorf("%v: got %q, want %q", plan, got, c.want)
		}
		for _, other := range []string{"importance", "quarantine"} {
			plan["parameters"].(map[string]any)[other] = "5c0e1f"
			if got := orders.LastRowOfPlan(plan); got != "" {
				t.Errorf("%v: got %q, want nothing", plan, got)
			}
			delete(plan["parameters"].(map[string]any), other)
		}
	}
}

func number(n uint64) json.Number { return json.Number(fmt.Sprint(n)) }

// TestLastRow_IsTrue compares the report with the order itself. The reported samples never occur
// among the last ones, and tail=drop omits none of them.
func TestLastRow_IsTrue(t *testing.T) {
	const samples, batch = 9*8 + 6, 24 // 78 samples, of which six are left over; the last row has six as well
	first := make([]uint64, 0, 14)
	for at := uint64(0); at <= samples; at += 6 {
		first = append(first, at)
	}
	params := shuffle.Params{Shuffle: shuffle.Slot, Window: 8}
	said := orders.LastRow(params, samples, batch)
	if !strings.Contains(said, " 10 rows, the last of 6 longer lanes: the 18 samples ") || !strings.Contains(said, "leaves out 6 samples an epoch, never one of these") {
		t.Fatalf("got %q", said)
	}
	var stood [samples]int
	for seed := range uint64(40) {
		params.Seed = seed
		plan, err := shuffle.NewPlan(params, first)
		if err != nil {
			t.Fatal(err)
		}
		for e := range uint64(40) {
			epoch := plan.Epoch(e)
			for at := uint64(samples - 6); at < samples; at++ {
				stood[epoch.At(at)]++
			}
		}
	}
	never := len(stood) - len(slices.DeleteFunc(stood[:], func(n int) bool { return n == 0 }))
	if never != 18 {
		t.Errorf("got %d samples that never stand in the last row, want 18", never)
	}
}
