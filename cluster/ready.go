package cluster

import (
	"fmt"
	"time"
)

// mostWait is how long a gateway that has just started waits for the others at most. It covers two look-ups of names that are
// never answered, 5 s each; addresses without an answer take 2 s. Whatever is wrong with the others, this gateway can serve.
const mostWait = 10 * time.Second

// Awaits says what this gateway waits for before requests should come to it, "" once it waits for nothing. Until it has met
// the others it takes every chunk for its own, and reads from the store what they hold. It waits until the first of these:
//
//   - It has met a gateway that serves a dataset in the same generation as this one.
//   - The discovery has spoken, and each address that is known has been asked once. It does not matter who has answered:
//     so the first gateway of all is ready at once, and gateways that are started one after the other never wait for those
//     that come after them.
//   - mostWait is over. The log says so.
//
// Once it waits for nothing it never waits again, whoever comes or goes.
func (c *Cluster) Awaits() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ready {
		return ""
	}
	return c.awaited()
}

// awaited says what is still to happen. It names no address: whoever asks may not know them. The caller holds mu.
func (c *Cluster) awaited() string {
	if !c.listed {
		return "where the other gateways are is being looked up"
	}
	asked, all := c.asked()
	return fmt.Sprintf("the other gateways are greeted: %d of %d addresses have been asked", asked, all)
}

// asked counts the addresses whose first hello has ended, with an answer or without, among all that are known.
// The caller holds mu.
func (c *Cluster) asked() (asked, all int) {
	for _, k := range c.contacts {
		if k.asked {
			asked++
		}
	}
	return asked, len(c.contacts)
}

// met reports whether a member answers that serves what this gateway serves. The caller holds mu.
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

// settle ends the waiting if there is nothing left to wait for. The caller holds mu.
func (c *Cluster) settle() {
	if c.ready {
		return
	}
	asked, all := c.asked()
	c.ready = c.met() || c.listed && asked == all
}

// stopWaiting ends the waiting in any case, and logs what was waited for.
func (c *Cluster) stopWaiting() {
	c.mu.Lock()
	defer c.unlock()
	if c.ready {
		return
	}
	c.note(c.cfg.Log.Warn().Dur("after", mostWait).Str("waited_for", c.awaited()), "ready without having met another gateway")
	c.ready = true
}
