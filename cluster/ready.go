package cluster

import (
	"fmt"
	"time"
)

// mostWait is the maximum time that a newly started gateway waits for others. It covers two DNS
// lookups without an answer, 5 s each; an address without an answer takes 2 s. After that the
// gateway serves even if no other has answered.
const mostWait = 10 * time.Second

// Awaits describes the condition for which this gateway waits before it should receive requests, ""
// once it waits for nothing. Until it has met the others it owns every chunk in its view, and reads
// chunks from the store that they hold. It waits until the first of these:
//
//   - It has met a gateway that serves a dataset in the same generation as this one.
//   - The discovery has delivered addresses, and each of them got one hello, answered or not. So
//     the first gateway of a cluster is ready at once, and gateways that are started one after
//     another never wait for later ones.
//   - mostWait has passed. This is logged.
//
// Once it waits for nothing it never waits again, even if members join or leave.
func (c *Cluster) Awaits() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ready {
		return ""
	}
	return c.awaited()
}

// awaited describes the condition that the gateway waits for. It contains no addresses, which may
// be confidential. The caller holds mu.
func (c *Cluster) awaited() string {
	if !c.listed {
		return "looking up the addresses of other gateways"
	}
	asked, all := c.asked()
	return fmt.Sprintf("greeting other gateways: %d of %d addresses have been asked", asked, all)
}

// asked returns the number of addresses whose first hello has ended, with or without an answer, and
// the number of all known addresses. The caller holds mu.
func (c *Cluster) asked() (asked, all int) {
	for _, k := range c.contacts {
		if k.asked {
			asked++
		}
	}
	return asked, len(c.contacts)
}

// met reports whether an alive member serves a generation that this gateway serves. The caller
// holds mu.
func (c *Cluster) met() bool {
	for _, m := range c.members {
		if m.state != Alive {
			continue
		}
		for _, key := range m.Serves {
			if _, ok := c.cfg.Serves[key]; ok {
				return true
			}
		}
	}
	return false
}

// settle ends the wait if there is nothing left to wait for. The caller holds mu.
func (c *Cluster) settle() {
	if c.ready {
		return
	}
	asked, all := c.asked()
	c.ready = c.met() || c.listed && asked == all
}

// stopWaiting ends the wait in any case, and logs the condition that was not met.
func (c *Cluster) stopWaiting() {
	c.mu.Lock()
	defer c.unlock()
	if c.ready {
		return
	}
	c.note(c.cfg.Log.Warn().Dur("after", mostWait).Str("waited_for", c.awaited()), "ready without having met another gateway")
	c.ready = true
}
