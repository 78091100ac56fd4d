package demo

import (
	"testing"
)

// Two demos that start at once must not be given one port.
func TestDemoKeepsThePortItFound(t *testing.T) {
	first, err := Listen(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := Listen(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if first.Addr().String() == second.Addr().String() {
		t.Errorf("got %s twice, want two ports", first.Addr())
	}
}
