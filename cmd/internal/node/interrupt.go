package node

import (
	"context"
	"fmt"
	"time"
)

// ErrInterrupted is the cause of a context that the user ended with Ctrl-C. A node without clients
// then exits immediately. With any other cause, such as an orchestrator's signal, it serves for the
// whole lame-duck time.
var ErrInterrupted = fmt.Errorf("interrupted: %w", context.Canceled)

const (
	quietTime  = time.Second     // time without a request; a load balancer that probes every second still sees that the gateway is not ready
	pauseTime  = 5 * time.Second // pause allowed between two batches of a reader
	pauseTimes = 10              // additional pause, in multiples of the reader's usual pause
)

// unused reports whether no client would notice the shutdown: the node is in no cluster, serves no
// request, and no reader is between two batches. A reader with only one request has no usual pause
// and counts as gone: it may be a manual curl.
func (s *Node) unused() bool {
	if s.peers != nil || !s.gateway.Quiet(quietTime) {
		return false
	}
	for _, r := range s.readers() {
		pause := time.Duration(r.ThinkMS * float64(time.Millisecond))
		if idle := time.Duration(r.IdleSeconds * float64(time.Second)); pause > 0 && idle < pauseTime+pauseTimes*pause {
			return false
		}
	}
	return true
}
