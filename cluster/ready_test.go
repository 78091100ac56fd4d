package cluster

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/cluster/peer"
)

// wantsReady checks the readiness of a gateway. waiting is a part of the expected reason for
// waiting, "" if the gateway must be ready.
func wantsReady(t *testing.T, when string, n *node, waiting string) {
	t.Helper()
	synctest.Wait()
	if got := n.Awaits(); (got == "") != (waiting == "") || !strings.Contains(got, waiting) {
		t.Errorf("%s: got %q, want %q", when, got, waiting)
	}
}

// delayedDiscovery finds its addresses after a delay. If the delay is negative, it never finds any.
type delayedDiscovery struct {
	wait  time.Duration
	knows list
}

func (a delayedDiscovery) Again() {}

func (a delayedDiscovery) Run(ctx context.Context, found func([]string)) error {
	if a.wait < 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(a.wait)
	return a.knows.Run(ctx, found)
}

// TestFirstOfAllIsReadyAtOnce: a gateway is ready at once if the discovery finds only the gateway
// itself, or nothing, or addresses without a gateway.
func TestFirstOfAllIsReadyAtOnce(t *testing.T) {
	for name, known := range map[string][]int{"itself": {0}, "a name without addresses": {}, "all dead": {0, 5, 6, 7}} {
		inWorld(t, func(t *testing.T, w *world) {
			wantsReady(t, name, w.join(0, known, nil), "")
		})
	}
}

// TestReadyOnceItHasMetAnother: a gateway is ready as soon as one other gateway has answered. It
// does not wait for a third one.
func TestReadyOnceItHasMetAnother(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.slow = map[string]time.Duration{at(0): 100 * time.Millisecond, at(2): 3 * time.Second}
		w.join(0, []int{0}, nil)
		w.join(2, []int{2}, nil)
		b := w.join(1, []int{0, 1, 2, 7}, nil)
		wantsReady(t, "before any answer", b, "2 of 4 addresses have been asked") // the gateway itself, and an address without a gateway
		w.pass(99 * time.Millisecond)
		wantsReady(t, "before the answer", b, "2 of 4 addresses have been asked")
		w.pass(time.Millisecond)
		wantsReady(t, "after the first answer", b, "")
	})
}

// TestReadyOnceAllWereAsked: answers of gateways that are no members, or serve another generation,
// end the wait too.
func TestReadyOnceAllWereAsked(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"another generation": func(c *Config) { c.Serves = map[peer.DatasetGeneration]int{{Dataset: "photos", Generation: "g1"}: 1} },
		"another cluster":    func(c *Config) { c.Name = "job-b" },
	} {
		inWorld(t, func(t *testing.T, w *world) {
			w.slow = map[string]time.Duration{at(2): time.Second}
			w.join(0, []int{0}, change)
			w.join(2, []int{2}, change)
			b := w.join(1, []int{0, 2}, nil)
			w.pass(999 * time.Millisecond)
			wantsReady(t, name+", one of two", b, "1 of 2 addresses have been asked")
			w.pass(time.Millisecond)
			wantsReady(t, name+", both", b, "")
		})
	}
}

// TestReadyAfterSomeSecondsAnyway: a lookup or an address that hangs delays readiness for at most
// mostWait. This is logged once.
func TestReadyAfterSomeSecondsAnyway(t *testing.T) {
	for name, c := range map[string]struct {
		where   Discovery
		waiting string
	}{
		"look-up": {delayedDiscovery{-1, nil}, "looking up the addresses"},
		"address": {delayedDiscovery{time.Second, list{at(0), at(7)}}, "1 of 2 addresses have been asked"},
	} {
		inWorld(t, func(t *testing.T, w *world) {
			var log bytes.Buffer
			w.slow = map[string]time.Duration{at(0): time.Minute}
			w.join(0, nil, nil)
			b := w.join(1, nil, func(cfg *Config) { cfg.Discovery, cfg.Log = c.where, zerolog.New(&log) })
			wantsReady(t, name+" at first", b, "looking up the addresses")
			w.pass(mostWait - time.Millisecond)
			wantsReady(t, name+" before its time", b, c.waiting)
			w.pass(time.Millisecond)
			wantsReady(t, name, b, "")
			w.pass(5 * time.Minute)
			if got := strings.Count(log.String(), "ready without having met"); got != 1 || !strings.Contains(log.String(), c.waiting) {
				t.Errorf("%s: got %d lines, want one with %q: %s", name, got, c.waiting, log.String())
			}
		})
	}
}

// TestReady_NeverWaitsAgain: a ready gateway stays ready when members leave or are found later.
func TestReady_NeverWaitsAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var log bytes.Buffer
		w.slow = map[string]time.Duration{at(2): time.Hour}
		a := w.join(0, nil, nil)
		b := w.join(1, []int{0, 2}, func(cfg *Config) { cfg.Log = zerolog.New(&log) })
		wantsReady(t, "both there", b, "")
		a.end()
		w.join(2, []int{1}, nil)
		w.pass(time.Minute)
		if got := states(b)["gw-0"]; got != Gone {
			t.Errorf("got %v, want %v", got, Gone)
		}
		wantsReady(t, "alone again", b, "")
		if strings.Contains(log.String(), "ready without") {
			t.Errorf("got %s, want no word of waiting in vain", log.String())
		}
	})
}

// TestReady_GatewaysStartedInTurn: gateways are started one by one, each when the previous one is
// ready, as by a StatefulSet. Each of them becomes ready at once.
func TestReady_GatewaysStartedInTurn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		all := []int{0, 1, 2, 3}
		for i := range all {
			n := w.join(i, all, nil)
			wantsReady(t, n.cfg.ID, n, "")
			alive := 0
			for _, s := range states(n) {
				if s == Alive {
					alive++
				}
			}
			if i > 0 && alive == 0 {
				t.Errorf("%s: got %v, want another one alive once it is ready", n.cfg.ID, states(n))
			}
		}
	})
}
