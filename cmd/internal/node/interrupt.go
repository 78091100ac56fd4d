package node

import (
	"context"
	"fmt"
	"time"
)

// ErrInterrupted is the cause of a context that the user ended with Ctrl-C. An unused node then ends immediately. With any
// other cause, such as an orchestrator's signal, it serves for the whole lame-duck time.
var ErrInterrupted = fmt.Errorf("interrupted: %w", context.Canceled)

const (
	quietTime  = time.Second     // without a request: a load balancer that probes every second still sees not ready
	pauseTime  = 5 * time.Second // allowed between two batches of a reader
	pauseTimes = 10              // times its usual pause in addition
)

// unused reports whether no client would notice the shutdown: the node is in no cluster, answers no request, and no reader
// is between two batches. A reader with one request has no usual pause and counts as gone: it may be a manual curl.
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
