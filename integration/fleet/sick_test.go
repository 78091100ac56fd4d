//go:build linux

package fleet_test

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

const (
	stepBatch  = 8 // samples in a batch of all ranks: small, so that the 99th percentile covers many steps
	sickMember = 1
)

// sickness is a fault of one of eight gateways for a whole epoch.
type sickness struct {
	name string
	wait time.Duration // longest time that a reader waits for a batch

	storeless bool                                        // it cannot read from the store
	args      func(t *testing.T, l *lab) (flags []string) // sets up a fault, and returns flags for the gateway
	then      func(t *testing.T, l *lab) (undo func())    // called when all gateways run
}

func sicknesses() []sickness {
	cut := func(t *testing.T, l *lab) func() {
		l.nodes[sickMember].Lose(t, l.storeNode)
		return func() { l.nodes[sickMember].Find(t, l.storeNode) }
	}
	// The proxy listens on the address of the peer port, and the gateway on another one.
	behind := func(stand func(t *testing.T, n *harness.Node, listen, gateway string)) func(*testing.T, *lab) []string {
		return func(t *testing.T, l *lab) []string {
			n := l.nodes[sickMember]
			stand(t, n, n.IP+":7946", n.IP+":7948")
			return []string{"--peer-listen", n.IP + ":7948"}
		}
	}
	late := func(by time.Duration) func(*testing.T, *lab) []string {
		return behind(func(t *testing.T, n *harness.Node, listen, gateway string) { harness.Late(t, n, listen, gateway, by) })
	}
	return []sickness{
		{name: "without store, 60 s to wait", wait: time.Minute, storeless: true, then: cut},
		{name: "overloaded", wait: time.Minute, args: func(t *testing.T, l *lab) []string {
			return behind(func(t *testing.T, n *harness.Node, listen, gateway string) {
				harness.Overloaded(t, n, l.tls, "gw-1", listen, gateway)
			})(t, l)
		}},
		{name: "300 ms late", wait: time.Minute, args: late(300 * time.Millisecond)},
		{name: "450 ms late", wait: time.Minute, args: late(450 * time.Millisecond)},
		{name: "without store, 2 s to wait", wait: 2 * time.Second, storeless: true, then: cut},
	}
}

// TestSick reads a cold epoch while one of eight gateways has a fault, with all ranks in step. It
// compares this with an epoch of healthy gateways. Every batch must be correct. Package clustersim
// measures the cost of each fault in simulated time; this test judges the cost only if the machine
// was not stalled.
func TestSick(t *testing.T) {
	l := newLab(t)
	l.tls = certtest.New(t)
	well := l.steps(t, sickness{name: "well", wait: time.Minute})
	all := sicknesses()
	count := times(3, len(all))
	for _, s := range all[count:] {
		t.Logf("only with long counts: %s", s.name)
	}
	for _, s := range all[:count] {
		t.Run(s.name, func(t *testing.T) {
			ill := l.steps(t, s)
			p99 := ill.at(.99).Seconds() / well.at(.99).Seconds()
			t.Logf("figure: one of eight %s: %v; p99 %.2f x, p99.9 %.2f x of healthy; healthy: %v", s.name, ill, p99, ill.at(.999).Seconds()/well.at(.999).Seconds(), well)
			if !harness.Judge(t, cmp.Or(well.fault, ill.fault)) {
				return
			}
			if most := 1.25 * float64(well.reads); float64(ill.reads) > most {
				t.Errorf("got %d reads of the store, want at most %v", ill.reads, most)
			}
			// A busy machine shifts times by milliseconds; a gateway's fault that
			// affects readers would shift them by three hundred.
			if got := ill.at(.99); long() && p99 > 1.3 && got > well.at(.99)+10*time.Millisecond {
				t.Errorf("p99: got %v, want at most 1.3 x %v", got, well.at(.99))
			}
			// Ranks in step wait for the slowest of them. A single batch of several
			// seconds raises the sum, but no percentile.
			if got := ill.together; long() && got > well.together*3/2 {
				t.Errorf("all steps: got %v, want at most 1.5 x %v", got, well.together)
			}
		})
	}
}

// stepped is the result of an epoch.
type stepped struct {
	took     []time.Duration // of each rank's share of each batch, sorted
	together time.Duration   // of all steps; each step ends with its slowest rank
	reads    int
	fault    string // of the machine during the epoch
}

func (s stepped) at(q float64) time.Duration { return s.took[int(q*float64(len(s.took)))] }

func (s stepped) String() string {
	return fmt.Sprintf("%d batches in %v, median %v, p99 %v, p99.9 %v, longest %v, %d reads of the store", len(s.took), s.together.Round(time.Millisecond),
		s.at(.5).Round(time.Millisecond), s.at(.99).Round(time.Millisecond), s.at(.999).Round(time.Millisecond), s.took[len(s.took)-1].Round(time.Millisecond), s.reads)
}

// steps reads one cold epoch. All ranks read their share of a batch before any begins the next.
func (l *lab) steps(t *testing.T, s sickness) stepped {
	t.Helper()
	if s.args == nil {
		l.cold(t)
	} else {
		l.sickFleet(t, s.args(t, l))
	}
	if s.then != nil {
		defer s.then(t, l)()
	}
	opt := slot
	opt.BatchSize, opt.WorldSize = stepBatch, ranks
	log := harness.Record(t, l.packed)
	var clients []*client.Client
	for r := range ranks {
		clients = append(clients, l.client(t, log, fmt.Sprint("rank ", r), s.wait, l.fleet.URLs()...))
	}
	var out stepped
	var mu sync.Mutex
	for m := range l.samples / stepBatch {
		var all sync.WaitGroup
		step := time.Now()
		for r, c := range clients {
			all.Go(func() {
				of := opt
				of.Rank = uint64(r)
				begun := time.Now()
				b, err := c.Batch(t.Context(), of, m)
				took := time.Since(begun)
				if err != nil {
					t.Errorf("batch %d, rank %d: %v", m, r, err)
					return
				}
				log.Took(fmt.Sprint("rank ", r), jobName(0), b)
				mu.Lock()
				defer mu.Unlock()
				out.took = append(out.took, took)
			})
		}
		all.Wait()
		out.together += time.Since(step)
		if t.Failed() || log.Err() != nil {
			t.FailNow()
		}
	}
	log.Complete("job", jobName(0), 0)
	slices.Sort(out.took)
	out.reads, out.fault = len(l.reads.All()), l.pace.Fault()
	if got := l.reads.Bytes(); got < l.bytes {
		t.Errorf("%s: got %d bytes of the store, want at least all %d", s.name, got, l.bytes)
	}
	for _, read := range l.reads.All() {
		if s.storeless && read.Who == l.nodes[sickMember].IP {
			t.Fatalf("%s: it has read from the store", s.name)
		}
	}
	for _, m := range l.fleet.Members {
		m.Kill()
	}
	return out
}

// sickFleet gives the lab a fleet with empty caches, and one of its gateways additional flags.
func (l *lab) sickFleet(t *testing.T, flags []string) {
	t.Helper()
	l.newFleet(t)
	for i := range gateways {
		if i != sickMember {
			l.fleet.Start(t, i, "MILLRACE_PEER_SHARED_CERT=true")
		}
	}
	l.fleet.Start(t, sickMember, append(flags, "MILLRACE_PEER_SHARED_CERT=true")...)
	l.fleet.Agree(t)
	l.reads.Forget()
	l.pace.Forget()
}
