package harness

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// A gateway on a stalled machine is as silent as a dead one, and the other gateways then correctly
// read from the store. Tests that count such reads check whether the machine stalled during the
// test. The bytes must be correct in any case.
const (
	paceTick = 5 * time.Millisecond
	// A fifth of 500 ms, which is the shortest silence after which a gateway is presumed dead.
	mostStill = 100 * time.Millisecond
	// The part of the processors' time that a hypervisor may take. Above it, queues of ten
	// processes on two processors cause such silences, although no single thread observes them.
	mostStolen = 0.1
)

// Pace measures stalls of the machine.
type Pace struct {
	stop, done chan struct{}

	mu           sync.Mutex // guards the fields below
	still        time.Duration
	stolen, busy uint64 // ticks at Forget
}

// WatchPace starts measuring, until the test ends.
func WatchPace(t testing.TB) *Pace {
	t.Helper()
	p := &Pace{stop: make(chan struct{}), done: make(chan struct{})}
	p.Forget()
	go p.watch()
	t.Cleanup(func() {
		close(p.stop)
		<-p.done
	})
	return p
}

func (p *Pace) watch() {
	defer close(p.done)
	tick := time.NewTicker(paceTick)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
		}
		now := time.Now()
		p.mu.Lock()
		p.still = max(p.still, now.Sub(last)-paceTick)
		p.mu.Unlock()
		last = now
	}
}

// Forget starts a new measurement.
func (p *Pace) Forget() {
	stolen, busy := processors()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.still, p.stolen, p.busy = 0, stolen, busy
}

// Fault describes how the machine stalled since Forget; empty: not significantly.
func (p *Pace) Fault() string {
	stolen, busy := processors()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.still > mostStill {
		return fmt.Sprintf("the machine stood still for %v", p.still.Round(time.Millisecond))
	}
	stolen, busy = stolen-p.stolen, busy-p.busy
	if share := float64(stolen) / float64(max(stolen+busy, 1)); share > mostStolen {
		return fmt.Sprintf("%.0f %% of the processors' time went to other machines", 100*share)
	}
	return ""
}

// Judge reports whether a test may compare its measurements with a limit. It may not if fault is
// set, which comes from Pace.Fault. Judge logs "judged" or "not judged: FAULT"; tools/gotest.py
// counts both.
func Judge(t testing.TB, fault string) bool {
	t.Helper()
	if fault != "" {
		t.Logf("not judged: %s", fault)
		return false
	}
	t.Log("judged")
	return true
}

// processors returns two times in ticks: the time that a hypervisor withheld from runnable work,
// and the busy time. Both are zero if the system does not report them.
func processors() (stolen, busy uint64) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	var user, nice, system, idle, wait, irq, softirq uint64
	if _, err := fmt.Sscanf(line, "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &softirq, &stolen); err != nil {
		return 0, 0
	}
	return stolen, user + nice + system + irq + softirq
}
