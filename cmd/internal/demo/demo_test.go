package demo

import (
	"testing"
)

// TestListen_KeepsPortBound: two demos that start concurrently get different ports.
func TestListen_KeepsPortBound(t *testing.T) {
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
