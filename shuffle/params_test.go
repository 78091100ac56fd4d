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
