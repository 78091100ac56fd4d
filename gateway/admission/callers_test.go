package admission

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// request counts a request of a caller with a limit of requests per second.
func (c *Callers) request(name string, limit float64) time.Duration {
	return (&Account{Callers: c, Name: name, Requests: limit}).Request()
}

// hold reserves n bytes for a caller that may hold at most most bytes.
func (c *Callers) hold(name string, n, most int64) (release func(), ok bool) {
	return (&Account{Callers: c, Name: name, Memory: most}).Hold(n)
}

func TestRequestsOfACaller(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var c Callers
		for range 5 {
			if wait := c.request("a", 5); wait != 0 {
				t.Fatalf("got a wait of %v within the first second's worth, want none", wait)
			}
		}
		if wait := c.request("a", 5); wait < time.Millisecond || wait > time.Second {
			t.Errorf("the sixth: got a wait of %v, want up to a second", wait)
		}
		if wait := c.request("b", 5); wait != 0 {
			t.Errorf("another caller: got a wait of %v, want none", wait)
		}
		time.Sleep(time.Second)
		for i := range 6 {
			if got, want := c.request("a", 5) == 0, i < 5; got != want {
				t.Errorf("request %d after a second: got %v, want %v", i, got, want)
			}
		}
		if wait := c.request("a", 50); wait != 0 {
			t.Errorf("under a new limit: got a wait of %v, want none", wait)
		}
		for _, limit := range []float64{1e-300, 1e300, 0.001} {
			if wait := c.request(fmt.Sprint(limit), limit); wait != 0 {
				t.Errorf("%g a second: got a wait of %v for the first, want none", limit, wait)
			}
			if wait := c.request(fmt.Sprint(limit), limit); wait < 0 || wait == 0 && limit < 1 {
				t.Errorf("%g a second: got a wait of %v for the second", limit, wait)
			}
		}
	})
}

func TestMemoryOfACaller(t *testing.T) {
	var c Callers
	first, ok := c.hold("a", 500, 100)
	if !ok {
		t.Fatal("a body larger than the share: got it refused, want it held: nothing else is")
	}
	if _, ok := c.hold("a", 1, 100); ok {
		t.Error("a second body: got it held, want it refused")
	}
	if release, ok := c.hold("b", 60, 100); !ok {
		t.Error("another caller's: got it refused, want it held")
	} else if _, ok := c.hold("b", 41, 100); ok {
		t.Error("above the share: got it held, want it refused")
	} else {
		release()
	}
	first()
	if again, ok := c.hold("a", 1, 100); !ok {
		t.Error("once the first is gone: got it refused, want it held")
	} else {
		again()
	}
	if n := c.of["a"].bodies + c.of["b"].bodies; n != 0 {
		t.Errorf("got %d bytes held by nobody, want 0", n)
	}
}

// TestCallersAreForgotten: idle callers are removed, and no caller exceeds its limit because of
// that.
func TestCallersAreForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var c Callers
		slow := c.request("slow", 0.001) // permits the next request in 1000 s
		_, held := c.hold("holder", 10, 100)
		if slow != 0 || !held {
			t.Fatal("got the first ones refused")
		}
		for i := range 3 * mostCallers {
			c.request(fmt.Sprint("caller ", i), 100)
		}
		if n := len(c.of); n < 3*mostCallers {
			t.Errorf("got %d callers, want all: each is over its burst", n)
		}
		time.Sleep(2 * time.Minute)
		for i := range 3 * mostCallers {
			c.request(fmt.Sprint("late ", i), 100)
			time.Sleep(time.Microsecond)
		}
		if n := len(c.of); n > 5*mostCallers {
			t.Errorf("got %d callers, want those forgotten who were not seen", n)
		}
		if c.request("slow", 0.001) == 0 {
			t.Error("a caller that has used its burst was forgotten")
		}
		if _, ok := c.hold("holder", 100, 100); ok {
			t.Error("a caller that holds memory was forgotten")
		}
		synctest.Wait()
	})
}

func TestAnAccountWithoutLimits(t *testing.T) {
	var c Callers
	for _, a := range []*Account{nil, {Callers: &c, Name: "a"}} {
		for range 1000 {
			if wait := a.Request(); wait != 0 {
				t.Fatalf("got a wait of %v, want none", wait)
			}
			if _, ok := a.Hold(1 << 40); !ok {
				t.Fatal("got memory refused, want it held")
			}
		}
	}
	if len(c.of) != 0 {
		t.Errorf("got %d callers remembered, want none: nothing limits them", len(c.of))
	}
}

func TestCallersAtATime(t *testing.T) {
	var c Callers
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 500 {
				c.request(fmt.Sprint(k%7), float64(1+i%2))
				if release, ok := c.hold("one", 10, 30); ok {
					release()
				}
			}
		})
	}
	all.Wait()
	if n := c.of["one"].bodies; n != 0 {
		t.Errorf("got %d bytes held, want 0", n)
	}
}

// TestMemoryThatIsLent: the shared memory that a caller's processes hold is bounded by its limit,
// and never blocks responses to the caller.
func TestMemoryThatIsLent(t *testing.T) {
	var c Callers
	a := &Account{Callers: &c, Name: "a", Memory: 100}
	first, ok := a.Lend(60)
	if !ok {
		t.Fatal("60 of 100 bytes were refused")
	}
	if _, ok := a.Lend(41); ok {
		t.Error("got 101 of 100 bytes")
	}
	body, ok := a.Hold(100)
	if !ok {
		t.Error("what is lent hinders an answer")
	}
	second, ok := a.Lend(40)
	if !ok {
		t.Error("an answer hinders what is lent")
	}
	first()
	if third, ok := a.Lend(60); !ok {
		t.Error("what was given back is not there again")
	} else {
		third()
	}
	if c.of["a"].idle(time.Now()) {
		t.Error("a caller whose processes hold memory counts as idle")
	}
	second()
	body()
	if _, ok := (*Account)(nil).Lend(1 << 40); !ok {
		t.Error("nobody limits this caller")
	}
}
