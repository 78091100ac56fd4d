package toy

import "testing"

func TestKilled(t *testing.T) {
	if !Killed(1, 2) || Killed(1, 1) || Killed(2, 1) {
		t.Error("wrong")
	}
}

func TestLived(t *testing.T) {
	if !Lived(5) || Lived(-5) {
		t.Error("wrong")
	}
}

func TestHangs(t *testing.T) {
	if Hangs(4) != 12 {
		t.Error("wrong")
	}
}

func TestGrows(t *testing.T) {
	if Grows(4) != 2 {
		t.Error("wrong")
	}
}

func TestEquivalent(t *testing.T) {
	if Equivalent(1, 2) != 2 || Equivalent(2, 1) != 2 || Equivalent(1, 1) != 1 {
		t.Error("wrong")
	}
}

func TestShortCircuit(t *testing.T) {
	named := map[string]int{}
	for _, c := range []struct {
		a, b int
		want bool
	}{{4, 2, true}, {3, 2, false}, {3, 0, false}, {1, 0, true}, {1, 2, true}} {
		if got := ShortCircuit(c.a, c.b, named); got != c.want {
			t.Errorf("ShortCircuit(%d, %d) is %v", c.a, c.b, got)
		}
	}
	if named["calls"] != 5 {
		t.Error("wrong")
	}
}

func TestTake(t *testing.T) {
	var toy Toy
	if toy.Take(true) == nil || toy.places != 0 {
		t.Error("the place is gone")
	}
	if toy.Take(false) != nil || toy.places != 1 {
		t.Error("no place")
	}
}

func TestFinish(t *testing.T) {
	var toy Toy
	toy.Finish()
}

func TestShift(t *testing.T) {
	if !Shift(3, 7) || Shift(3, 8) || Shift(3, 0) {
		t.Error("wrong")
	}
}

func TestSlow(t *testing.T) {
	if Uncovered(1) != -1 {
		t.Error("wrong")
	}
}
