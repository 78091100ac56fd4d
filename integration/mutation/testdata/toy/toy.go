// Package toy has mutants whose results are known.
package toy

import (
	"errors"
	"sync"
	"time"
)

// Toy has statements that can be dropped.
type Toy struct {
	lock   sync.Mutex
	places int
	Ended  bool
}

// Killed has only mutants that tests detect.
func Killed(a, b int) bool { return a < b }

// Lived has a mutant that lives, because no test passes the boundary.
func Lived(a time.Duration) bool { return a > 0 }

// Uncovered is called by no test.
func Uncovered(a int) int { return -a }

// Hangs returns only while i increases.
func Hangs(n int) (sum int) {
	for i := 0; i != n; i++ {
		sum += i * 2
	}
	return sum
}

// Grows returns only while the slice does not exceed the machine's memory.
func Grows(n int) int {
	var all [][]byte
	for len(all) < n {
		all = append(all, make([]byte, 1<<28))
		all[len(all)-1][0] = 1
		n--
	}
	return len(all)
}

// Equivalent returns the larger value. If both are equal, the mutant's result is the same.
func Equivalent(a, b float64) float64 {
	if a > b {
		return a
	}
	return b
}

// ShortCircuit must not divide by zero.
func ShortCircuit(a, b int, named map[string]int) bool {
	named["calls"]++
	return b != 0 &&
		a%b == 0 || // a multiple
		a == 1
}

// Take occupies a place, and release frees it.
func (t *Toy) Take(fail bool) error {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.places++
	if fail {
		t.release()
		return errors.New("failed")
	}
	return nil
}

func (t *Toy) release() { t.places-- }

// Finish ignores a result that no test checks.
func (t *Toy) Finish() {
	_ = t.close()
}

func (t *Toy) close() error {
	t.Ended = true
	return nil
}

const constant = 2*3 < 7 && -1 < 0 // no mutants

// Shift compares with a shifted constant, whose type depends on the other operand. Only the
// comparison with 0 has mutants.
func Shift(s uint, n int64) bool { return n < 1<<s && n != 0 && constant }
