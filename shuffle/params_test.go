package shuffle

import (
	"reflect"
	"testing"
)

func TestParams_CompareSeesEveryField(t *testing.T) {
	for i := range reflect.TypeFor[Params]().NumField() {
		var low, high Params
		field := reflect.ValueOf(&high).Elem().Field(i)
		if field.Kind() == reflect.String {
			field.SetString("a")
		} else {
			field.SetUint(1)
		}
		name := reflect.TypeFor[Params]().Field(i).Name
		if low.Compare(high) != -1 || high.Compare(low) != 1 || high.Compare(high) != 0 {
			t.Errorf("%s: got %d, %d and %d, want -1, 1 and 0", name, low.Compare(high), high.Compare(low), high.Compare(high))
		}
	}
}

func TestOrderDigest_SeesEveryNumber(t *testing.T) {
	base := Params{Shuffle: Window, Window: 4}
	of := func(p Params) string { return mustPlan(t, p, equal(8, 2)).OrderDigest() }
	for i := range reflect.TypeFor[Params]().NumField() {
		other := base
		if field := reflect.ValueOf(&other).Elem().Field(i); field.Kind() == reflect.Uint64 {
			field.SetUint(2)
			if of(other) == of(base) {
				t.Errorf("%s: got the digest of an order without it", reflect.TypeFor[Params]().Field(i).Name)
			}
		}
	}
}

func TestParams_DescribeNamesTheOrder(t *testing.T) {
	for want, p := range map[string]Params{
		"full":                 {Shuffle: Full, Window: 4, Seed: 1},
		"slot 4":               {Shuffle: Slot, Window: 4, Seed: 1},
		"window 4":             {Shuffle: Window, Window: 4},
		"window 4 in 2 strata": {Shuffle: Window, Window: 4, Strata: 2},
		"window 4 in 1 strata": {Shuffle: Window, Window: 4, Strata: 1, Importance: "i"},
		"none":                 {Shuffle: None},
	} {
		if got := p.Describe(); got != want {
			t.Errorf("%+v: got %q, want %q", p, got, want)
		}
	}
}

// TestParams_BoundsOfMemory compares the bounds with a count of numbers of 4 and 8 bytes. A gateway
// reserves the bounds in its budget before it plans.
func TestParams_BoundsOfMemory(t *testing.T) {
	const chunks = 10
	for _, c := range []struct {
		params      Params
		samples     uint64
		plan, epoch int64
	}{
		{Params{Shuffle: None}, 100, 1024, 1024 + 480},
		{Params{Shuffle: Full, Window: 4}, 100, 1024, 1024 + 480},
		{Params{Shuffle: Window, Window: 4}, 100, 1024, 1024 + 480},
		{Params{Shuffle: Window, Window: 4, Strata: 2}, 100, 1024 + 40, 1024 + 480},
		{Params{Shuffle: Full, Subset: "s"}, 100, 1024 + 80, 1024 + 480},
		{Params{Shuffle: Full, Importance: "i"}, 100, 1024 + 80, 1024 + 480 + 80},
		{Params{Shuffle: Slot, Window: 4}, 100, 1024 + 14*16 + 4*28, 1024 + 14*48 + 4*8},
		{Params{Shuffle: Slot, Window: 4}, 3, 1024 + 13*16 + 3*28, 1024 + 13*48 + 3*8},
		{Params{Shuffle: Slot, Window: 4, Importance: "i"}, 100, 1024 + 80 + 14*16 + 4*28, 1024 + 14*48 + 4*8 + 80 + 14*16 + 4*28},
	} {
		if plan, epoch := c.params.PlanBytes(chunks, c.samples), c.params.EpochBytes(chunks, c.samples); plan != c.plan || epoch != c.epoch {
			t.Errorf("%+v: got %d and %d bytes, want %d and %d", c.params, plan, epoch, c.plan, c.epoch)
		}
	}
}
