package shuffle

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestWorkedExample holds the figures that docs/order.md prints.
func TestWorkedExample(t *testing.T) {
	page, err := os.ReadFile("../docs/order.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ")
	first := prefix(3, 0, 5, 2, 4)
	var want []string
	for _, name := range []string{None, Window, Slot, Full} {
		e := mustPlan(t, Params{Shuffle: name, Window: 2, Seed: 42}, first).Epoch(0)
		want = append(want, name+" "+spaced(e.Append(nil, 0, 14)))
	}
	k := newKey("chunks", 42)
	large := newPerm(newKey("full", 42, 0), 1000)
	var begins []uint64
	for i := range uint64(8) {
		begins = append(begins, large.at(i))
	}
	want = append(want,
		fmt.Sprintf("`mix(1)` = %#x.", mix(1)),
		fmt.Sprintf("`key(\"chunks\", 42)` = %#x, its first words are %#x, 0x%016x, %#x,", uint64(k), k.word(0), k.word(1), k.word(2)),
		fmt.Sprintf("are %d, %d, %d, %d.", k.draw(4, 5), k.draw(3, 4), k.draw(2, 3), k.draw(1, 2)),
		fmt.Sprintf("= %#x and n = 1000, a = b = %d and perm begins %s.", uint64(large.k), large.a, spaced(begins)),
	)
	for _, name := range []string{Slot, None} {
		p := mustPlan(t, Params{Shuffle: name, Window: 2, Seed: 42}, first)
		want = append(want, fmt.Sprintf("for `%s`, %s", name, p.OrderDigest()))
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("docs/order.md: got no %q", w)
		}
	}
}

func spaced(numbers []uint64) string { return strings.Trim(fmt.Sprint(numbers), "[]") }
