package simulate

import (
	"container/heap"
	"errors"
	"iter"
	"time"
)

// clock runs events in order of time, and tasks, which are sequences of steps with waits between
// them. Events at the same time run in the order in which they were scheduled. Only one task runs
// at a time, until it waits or ends.
type clock struct {
	now    time.Duration
	set    uint64
	events pile
	task   *task          // the task that is running
	tasks  map[*task]bool // the tasks that have not ended
	pieces int64          // maximum number of pieces of a transfer
}

func newClock(pieces int64) *clock { return &clock{tasks: map[*task]bool{}, pieces: pieces} }

// task is a coroutine.
type task struct {
	run  func()      // continues it until it waits or ends
	wait func() bool // called by the task; false: the clock has stopped
	end  func()
}

// errStopped ends the tasks of a clock that has stopped.
var errStopped = errors.New("the simulation has ended")

type event struct {
	at  time.Duration
	set uint64
	do  func()
}

// after schedules an event after a delay.
func (c *clock) after(d time.Duration, do func()) {
	c.set++
	heap.Push(&c.events, &event{c.now + max(d, 0), c.set, do})
}

// step runs the next event and reports whether there was one.
func (c *clock) step() bool {
	if len(c.events) == 0 {
		return false
	}
	e := heap.Pop(&c.events).(*event)
	c.now = e.at
	e.do()
	return true
}

// start starts a task after the events that are scheduled for this instant.
func (c *clock) start(do func()) {
	t := &task{}
	next, stop := iter.Pull(func(yield func(struct{}) bool) {
		t.wait = func() bool { return yield(struct{}{}) }
		defer func() {
			delete(c.tasks, t)
			if err := recover(); err != nil && err != errStopped {
				panic(err)
			}
		}()
		do()
	})
	t.end = stop
	t.run = func() {
		c.task = t
		next()
	}
	c.tasks[t] = true
	c.after(0, t.run)
}

// stop ends all tasks.
func (c *clock) stop() {
	for t := range c.tasks {
		t.end()
		delete(c.tasks, t) // also if it has not begun
	}
}

// park waits until another task wakes the running one.
func (c *clock) park() {
	if !c.task.wait() {
		panic(errStopped)
	}
}

// wake continues a task that waits.
func (c *clock) wake(t *task) { c.after(0, t.run) }

// sleep waits for a duration.
func (c *clock) sleep(d time.Duration) {
	c.after(d, c.task.run)
	c.park()
}

// each calls do for the numbers below n, at most limit of them concurrently, and waits for all.
func (c *clock) each(n, limit int, do func(i int)) {
	if n == 1 {
		do(0)
		return
	}
	caller, next, left := c.task, 0, min(n, limit)
	for range left {
		c.start(func() {
			for next < n {
				next++
				do(next - 1)
			}
			if left--; left == 0 {
				c.wake(caller)
			}
		})
	}
	if left > 0 {
		c.park()
	}
}

// latch is an occurrence that tasks wait for. It occurs once.
type latch struct {
	done    bool
	waiting []*task
}

func (l *latch) wait(c *clock) {
	if !l.done {
		l.waiting = append(l.waiting, c.task)
		c.park()
	}
}

func (l *latch) open(c *clock) {
	l.done = true
	for _, t := range l.waiting {
		c.wake(t)
	}
}

// queue serves tasks that wait for a number of units, in the order of arrival.
type queue struct {
	clock   *clock
	take    func(n int64) bool // takes n units if they are free
	waiters []waiter
}

type waiter struct {
	n    int64
	task *task
}

// enter waits for n units.
func (q *queue) enter(n int64) {
	if len(q.waiters) == 0 && q.take(n) {
		return
	}
	q.waiters = append(q.waiters, waiter{n, q.clock.task})
	q.clock.park()
}

// next serves waiters while there are units for them.
func (q *queue) next() {
	for len(q.waiters) > 0 && q.take(q.waiters[0].n) {
		q.clock.wake(q.waiters[0].task)
		q.waiters = q.waiters[1:]
	}
}

// instant returns the simulated time as a time.Time, for package lookahead.
func (c *clock) instant() time.Time { return time.Unix(0, 0).Add(c.now) }

// seconds converts seconds to a duration, limited to the longest one.
func seconds(s float64) time.Duration {
	return time.Duration(min(s*float64(time.Second), float64(1<<62)))
}

// pile is a heap of events with the next event on top.
type pile []*event

func (p pile) Len() int { return len(p) }
func (p pile) Less(i, j int) bool {
	return p[i].at < p[j].at || p[i].at == p[j].at && p[i].set < p[j].set
}
func (p pile) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p *pile) Push(x any)   { *p = append(*p, x.(*event)) }

// Pop removes the last element.
func (p *pile) Pop() any {
	old := *p
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*p = old[:len(old)-1]
	return last
}
