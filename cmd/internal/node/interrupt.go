package node

import (
	"context"
	"fmt"
	"time"
)

// ErrInterrupted is the cause of a context that a person at a keyboard ended. A node that nobody uses ends at once then. Any
// other cause, such as an orchestrator's signal, gets the whole lame-duck time.
var ErrInterrupted = fmt.Errorf("interrupted: %w", context.Canceled)

const (
	quietTime  = time.Second     // without a request: a load balancer that probes each second is still told
	pauseTime  = 5 * time.Second // that a reader may take between two batches
	pauseTimes = 10              // and so many times its usual pause
)

// unused reports whether nobody would notice that the node goes: it is alone, answers nothing, and no reader is between two
// batches. A reader that has asked once has no usual pause, so that it counts as gone: it may be a person's curl.
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
