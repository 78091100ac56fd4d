package harness

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// A gateway whose machine stands still is as silent as one that is dead, and the others are right to read from the store
// then. Tests that count such reads ask whether the machine went on meanwhile. Right bytes are owed in any case.
const (
	paceTick = 5 * time.Millisecond
	// A fifth of the shortest silence by which a gateway is told from a dead one, 500 ms.
	mostStill = 100 * time.Millisecond
	// Of the processors' time, what a hypervisor may give to others: beyond it, queues of ten processes on two processors
	// reach such silences without one thread seeing it.
	mostStolen = 0.1
)

// Pace watches how the machine goes on.
type Pace struct {
	stop, done chan struct{}

	mu           sync.Mutex // guards what follows
	still        time.Duration
	stolen, busy uint64 // ticks at Forget
}

// WatchPace begins to watch, until the test ends.
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

// Forget begins anew.
func (p *Pace) Forget() {
	stolen, busy := processors()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.still, p.stolen, p.busy = 0, stolen, busy
}

// Fault says what kept the machine from going on since Forget; empty: nothing that matters.
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

// Judge reports whether a test can hold its measurements against a bound: not if fault, from Pace.Fault, is set.
// It logs "judged" or "not judged: FAULT"; tools/gotest.py counts both.
func Judge(t testing.TB, fault string) bool {
	t.Helper()
	if fault != "" {
		t.Logf("not judged: %s", fault)
		return false
	}
	t.Log("judged")
	return true
}

// processors returns for how many ticks the processors wanted to work and were kept from it by a
// hypervisor, and for how many they worked. Zeros where the system does not say.
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
