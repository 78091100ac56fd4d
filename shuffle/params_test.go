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
