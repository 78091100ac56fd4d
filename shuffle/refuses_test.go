package shuffle

import (
	"fmt"
	"slices"
	"testing"
)

// Each error describes the problem and the solution. NewPlan accepts values at the limits.
func TestPlans_Refuse(t *testing.T) {
	first := []uint64{0, 5, 5, 12}
	plan := func(p Params, first ...uint64) func() error {
		return func() error { _, err := NewPlan(p, first); return err }
	}
	weighted := func(p Params, totals ...uint64) func() error {
		return func() error { _, err := NewWeightedPlan(p, first, totals); return err }
	}
	subset := func(p Params, members ...uint64) func() error {
		return func() error { _, err := NewSubsetPlan(p, first, members); return err }
	}
	check := func(p Params, worldSize, homes uint64) func() error {
		return func() error {
			plan, err := NewPlan(p, []uint64{0, 100, 200, 300, 400})
			if err != nil {
				return err
			}
			return plan.CheckSharing(worldSize, homes)
		}
	}
	quarantine := func(first []uint64, bad ...uint64) func() error {
		return func() error { _, err := NewQuarantine(1, first, bad); return err }
	}
	mixture := func(samples uint64, from ...Ingredient) func() error {
		return func() error { _, err := NewMixture(1, samples, from); return err }
	}
	slot, drawn, part := Params{Shuffle: Slot, Window: 2}, Params{Shuffle: Full, Importance: "i"}, Params{Shuffle: Full, Subset: "s"}
	for _, c := range []struct {
		do   func() error
		want string
	}{
		{plan(Params{Shuffle: "x"}, first...), "unknown shuffle \"x\": must be one of none, window, slot, full"},
		{plan(Params{Shuffle: Window}, first...), "shuffle window: window is 0: must be at least 1"},
		{plan(Params{Shuffle: Slot}, first...), "shuffle slot: window is 0: must be at least 1"},
		{plan(Params{Shuffle: Slot, Window: MaxLanes}, first...), "accepted"},
		{plan(Params{Shuffle: Slot, Window: MaxLanes + 1}, first...), "shuffle slot: window is 1048577 lanes: must be at most 1048576; to mix all chunks at once, use shuffle window"},
		{plan(Params{Shuffle: Slot, Window: 4, Strata: 2}, first...), "shuffle slot: strata is 2: must be 0, since only window has strata"},
		{plan(Params{Shuffle: Window, Window: 2 * MaxStrata, Strata: MaxStrata}, first...), "accepted"},
		{plan(Params{Shuffle: Window, Window: 2 * (MaxStrata + 1), Strata: MaxStrata + 1}, first...), "shuffle window: strata is 65537: must be at most 65536"},
		{plan(Params{Shuffle: Window, Window: 4, Strata: 3}, first...), "shuffle window: strata is 3: must divide the window, 4"},
		{plan(drawn, first...), "plan full: importance i without its weights: use NewWeightedPlan"},
		{plan(part, first...), "plan full: subset s without its members: use NewSubsetPlan"},
		{plan(slot), "plan slot: prefix sums of the chunks do not begin with 0"},
		{plan(slot, 1, 2), "plan slot: prefix sums of the chunks do not begin with 0"},
		{plan(slot, 0, 5, 4), "plan slot: prefix sums of the chunks descend at chunk 1"},
		{plan(slot, 0, maxSamples), "accepted"},
		{plan(slot, 0, maxSamples+1), "plan slot: 9223372036854775808 samples, at most 9223372036854775807 can be planned"},
		{weighted(slot, 1, 0, 1), "weighted plan slot: params.Importance is empty"},
		{weighted(Params{Shuffle: Full, Importance: "i", Subset: "s"}, 1, 0, 1), "importance i: subset s: importance and subset cannot be combined: weights are for all samples"},
		{weighted(Params{Shuffle: "x", Importance: "i"}, 1, 0, 1), "importance i: unknown shuffle \"x\": must be one of none, window, slot, full"},
		{weighted(drawn, 1, 0), "importance i: weights of 2 chunks instead of 3"},
		{weighted(drawn, 1, 1, 1), "importance i: chunk 1 has weight 1 and no samples"},
		{weighted(drawn, 1<<63, 0, 1<<63), "importance i: weights sum to 2^64 or more"},
		{weighted(drawn, 1<<63, 0, 1<<63-1), "accepted"},
		{weighted(drawn, 0, 0, 0), "importance i: weights sum to 0"},
		{subset(slot, 0, 1, 1, 2), "plan slot: params.Subset is empty"},
		{subset(Params{Shuffle: Full, Subset: "s", Importance: "i"}, 0, 1, 1, 2), "subset s: importance and subset cannot be combined: weights are for all samples"},
		{subset(part, 0, 1, 2), "subset s: the membership list covers 2 chunks, want 3"},
		{subset(part, 0, 1, 2, 2), "subset s: chunk 1 has 1 members, but only 0 samples"},
		{subset(part, 0, 5, 5, 12), "accepted"},
		{subset(part, 0, 6, 6, 12), "subset s: chunk 0 has 6 members, but only 5 samples"},
		{subset(part, 0, 2, 1, 1), "subset s: plan full: prefix sums of the chunks descend at chunk 1"},
		{check(slot, 0, 1), "share locality: world size is 0: must be at least 1"},
		{check(slot, 2, 0), "share locality: homes is 0: must be at least 1"},
		{check(slot, 2, 3), "share locality: 3 homes for 2 ranks: at most one home per rank is possible"},
		{check(slot, 2, 2), "accepted"},
		{check(Params{Shuffle: Slot, Window: 2}, 400, 400), "share locality: 400 homes for 2 lanes: homes must be at most 2"},
		{check(Params{Shuffle: Window, Window: 4, Strata: 2}, 8, 4), "share locality: 4 homes for 2 strata: homes must be at most 2"},
		{check(Params{Shuffle: Window, Window: 4, Strata: 2}, 8, 2), "accepted"},
		{check(Params{Shuffle: Window, Window: 4}, 2, 2), "share locality: shuffle window without strata has no homes: strata must be at least 2"},
		{check(Params{Shuffle: Full}, 2, 2), "share locality: shuffle full has no homes: use slot, or window with strata"},
		{quarantine(first, 12), "quarantine: sample 12 of 12"},
		{quarantine(first, 3, 3), "quarantine: sample 3 after sample 3"},
		{quarantine(first, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), "quarantine: all 12 samples are bad"},
		{quarantine(first, 0, 11), "accepted"},
		{quarantine(nil), "quarantine: plan none: prefix sums of the chunks do not begin with 0"},
		{mixture(0), "mixture of 0 sources: must be 1 to 1024"},
		{mixture(0, make([]Ingredient, maxSources+1)...), "mixture of 1025 sources: must be 1 to 1024"},
		{mixture(0, slices.Repeat([]Ingredient{{Samples: 1, Weight: 1}}, maxSources)...), "accepted"},
		{mixture(0, Ingredient{Weight: 1}), "mixture: source 0 has no samples"},
		{mixture(0, Ingredient{Samples: 1}), "mixture: source 0 has weight 0: must be at least 1"},
		{mixture(0, Ingredient{Samples: 1, Weight: 1}, Ingredient{Samples: 1, PerBatch: 1}), "mixture: source 1 has 1 samples in a batch, source 0 has 0: either all sources have counts or none has"},
		{mixture(0, Ingredient{Samples: maxSamples, Weight: 1}, Ingredient{Samples: 1, Weight: 1}), "mixture: samples, weights or counts of its sources sum to 2^63 or more"},
		{mixture(0, Ingredient{Samples: 1, Weight: maxSamples}, Ingredient{Samples: 1, Weight: 1}), "mixture: samples, weights or counts of its sources sum to 2^63 or more"},
		{mixture(0, Ingredient{Samples: 1, PerBatch: maxSamples}, Ingredient{Samples: 1, PerBatch: 1}), "mixture: samples, weights or counts of its sources sum to 2^63 or more"},
		{mixture(maxSamples, Ingredient{Samples: maxSamples, Weight: maxSamples}), "accepted"},
		{mixture(maxSamples+1, Ingredient{Samples: 1, Weight: 1}), "mixture of 9223372036854775808 positions per epoch: must be at most 9223372036854775807"},
		{mixture(maxSamples, Ingredient{Samples: 1, PerBatch: 2}), "mixture of 9223372036854775808 positions per epoch: must be at most 9223372036854775807"},
	} {
		got := "accepted"
		if err := c.do(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// Programming errors panic: a position, a sample or a bitmap that does not exist.
func TestOrders_PanicOutOfRange(t *testing.T) {
	plan, err := NewPlan(Params{Shuffle: Slot, Window: 2}, []uint64{0, 5, 12})
	if err != nil {
		t.Fatal(err)
	}
	part, err := NewSubsetPlan(Params{Shuffle: Full, Subset: "s"}, []uint64{0, 5, 12}, []uint64{0, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	mixed, err := NewMixture(1, 20, []Ingredient{{Samples: 3, Weight: 1}, {Samples: 9, Weight: 2}})
	if err != nil {
		t.Fatal(err)
	}
	epoch, members := plan.Epoch(0), part.Members()
	for want, do := range map[string]func(){
		"shuffle: range [12, 13) of an epoch of 12 samples":                                                            func() { epoch.At(12) },
		"shuffle: range [11, 13) of an epoch of 12 samples":                                                            func() { epoch.Append(nil, 11, 13) },
		"shuffle: range [99, 100) of an epoch of 12 samples":                                                           func() { epoch.Position(99) },
		"shuffle: range [20, 21) of epoch 0 of a mixture of 20 positions and 461168601842738790 epochs":                func() { mixed.At(0, 20) },
		"shuffle: range [19, 21) of epoch 0 of a mixture of 20 positions and 461168601842738790 epochs":                func() { mixed.Append(nil, 0, 19, 21) },
		"shuffle: range [0, 1) of epoch 461168601842738790 of a mixture of 20 positions and 461168601842738790 epochs": func() { mixed.At(mixed.Epochs(), 0) },
		"shuffle: chunk 0 has no virtual sample 2":                                                                     func() { members.Sample(0, []byte{3}, 2) },
		"shuffle: chunk 1 has no virtual sample 1":                                                                     func() { members.Sample(1, []byte{1}, 1) },
		"shuffle: the bitmap of chunk 0 has fewer members than its count":                                              func() { members.Sample(0, []byte{1}, 1) },
		"shuffle: a bitmap of 2 bytes for chunk 0 instead of 1":                                                        func() { members.Sample(0, []byte{3, 0}, 0) },
		"shuffle: a bitmap of 0 bytes for chunk 1 instead of 1":                                                        func() { members.Of(1, nil, 0) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}()
			do()
		}()
	}
	if got := epoch.Append(nil, 3, 3); len(got) > 0 {
		t.Errorf("no positions: got %d", got)
	}
	if got := mixed.Append(nil, 0, 3, 3); len(got) > 0 {
		t.Errorf("no positions of a mixture: got %v", got)
	}
	if got := mixed.Append(nil, 0, 0, 20); len(got) != 20 || mixed.Sources() != 2 || mixed.BatchSize() != 0 {
		t.Errorf("got %d turns of %d sources in batches of %d", len(got), mixed.Sources(), mixed.BatchSize())
	}
}

// There is one group per home. Without a number of homes there is one group per rank. There is only
// one group if shares do not follow homes.
func TestCursor_Group(t *testing.T) {
	for _, c := range []struct {
		rank, worldSize, homes uint64
		sharing                Sharing
		group, of              uint64
	}{
		{5, 8, 0, Contiguous, 0, 1},
		{5, 8, 4, Contiguous, 0, 1},
		{5, 8, 0, Locality, 5, 8},
		{5, 8, 4, Locality, 2, 4},
		{7, 8, 4, Locality, 3, 4},
		{8, 8, 4, Locality, 0, 1},
		{0, 0, 0, Locality, 0, 1},
	} {
		group, of := Cursor{Rank: c.rank, WorldSize: c.worldSize, Homes: c.homes, Sharing: c.sharing}.Group()
		if group != c.group || of != c.of {
			t.Errorf("%+v: got group %d of %d", c, group, of)
		}
	}
}
