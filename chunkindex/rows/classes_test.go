package rows_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// TestClasses checks that only integers have class names, at any depth, and that the constants
// contain the names.
func TestClasses(t *testing.T) {
	fields := []*rows.Node{
		fixed("label", 4, false), text("caption"), listOf("tags", fixed("", 4, true)),
		listOf("objects", structOf("", fixed("kind", 4, false), text("note"))), structOf("box", listOf("sides", fixed("", 4, false))),
		{Name: "span", Type: "interval[day_time]", Kind: rows.Fixed, Size: 8},
	}
	want := map[string][]string{"label": {"a"}, "tags": {"b"}, "objects.kind": {"c"}, "box.sides": {"d", "<e>"}}
	all := map[string][]string{"caption": {"x"}, "objects": {"x"}, "objects.note": {"x"}, "box": {"x"}, "span": {"x"}, "nothing": {"x"}}
	for path, names := range want {
		all[path] = names
	}
	rows.SetClasses(fields, all)
	if d := cmp.Diff(want, rows.Classes(fields)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	constants, err := rows.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	again, err := rows.Unmarshal(constants)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(fields, again); d != "" {
		t.Errorf("read again (-want +got):\n%s", d)
	}
	rows.SetClasses(fields, nil)
	if got := rows.Classes(fields); len(got) > 0 {
		t.Errorf("got %v after all names were removed", got)
	}
}
