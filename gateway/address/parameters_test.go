package address

import (
	"encoding/json"
	"math"
	"regexp"
	"testing"
)

func TestParameters_RowsAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Parameters() {
		if seen[r.Name] || r.Help == "" || r.Group&allGroups == 0 || r.read == nil || r.write == nil {
			t.Errorf("%s: the row comes twice or lacks its help, group or functions", r.Name)
		}
		seen[r.Name] = true
		if r.Least > r.Most || r.Most > 0 && (r.Words != nil || r.Pattern != "") {
			t.Errorf("%s: want bounds in order, and only for numbers", r.Name)
		}
		if _, err := regexp.Compile(r.Pattern); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
}

func TestPlanValues_AreThoseOfTheCanonicalURL(t *testing.T) {
	d := photos()
	d.Defaults.Seed = math.MaxUint64
	b, err := decode(d, "shuffle=window&window=9&strata=3&fields=jpg,cls&world_size=4&share=locality&homes=1", "0", "0")
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(b.Values())
	want := `{"batch_size":16,"fields":"jpg,cls","format":"tar","generation":"` + generation + `","homes":1,"rank":0,"seed":"18446744073709551615",` +
		`"share":"locality","shuffle":"window","strata":3,"tail":"short","window":9,"world_size":4}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}
