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

// Killed: each of its mutants is noticed.
func Killed(a, b int) bool { return a < b }

// Lived: no test asks at the boundary.
func Lived(a time.Duration) bool { return a > 0 }

// Uncovered: no test calls it.
func Uncovered(a int) int { return -a }

// Hangs ends only as long as i grows.
func Hangs(n int) (sum int) {
	for i := 0; i != n; i++ {
		sum += i * 2
	}
	return sum
}

// Grows ends only as long as the slice does not grow beyond the machine.
func Grows(n int) int {
	var all [][]byte
	for len(all) < n {
		all = append(all, make([]byte, 1<<28))
		all[len(all)-1][0] = 1
		n--
	}
	return len(all)
}

// Equivalent returns the larger of two: where they are equal it does not matter which.
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

// Take takes a place, which release puts back.
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

// Finish drops a result, and no test looks.
func (t *Toy) Finish() {
	_ = t.close()
}

func (t *Toy) close() error {
	t.Ended = true
	return nil
}

const constant = 2*3 < 7 && -1 < 0 // no mutants

// Shift adds a shifted constant, whose type its operand decides: only the comparison with 0 has mutants.
func Shift(s uint, n int64) bool { return n < 1<<s && n != 0 && constant }
