package cluster

import (
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/shuffle"
)

// Met handles the hello of another gateway, which came from the address remote. It returns this
// gateway's own hello, or an error if the other gateway cannot be a member. The other gateway
// becomes a member, or counts as draining, only when it answers a hello at an address that the
// discovery lists. A hello alone is not enough: the link may work in one direction only, and the
// hello may be sent in another gateway's name.
func (c *Cluster) Met(h peer.Hello, remote string) (peer.Hello, error) {
	c.mu.Lock()
	defer c.unlock()
	own := c.self()
	if h.ID == own.ID && h.Boot == own.Boot && h.Cluster == own.Cluster {
		return own, nil // this gateway has found itself
	}
	if err := c.check(h, remote); err != nil {
		return own, fmt.Errorf("cluster %s: %w", own.Cluster, err)
	}
	own.Held = c.heirs[h.ID]
	m := c.members[h.ID]
	if m == nil || m.Boot != h.Boot || m.state == Gone || m.Draining != h.Draining || m.at.misses > 0 || !slices.Equal(m.Serves, distinct(h.Serves)) {
		if m != nil {
			m.at.awake()
		}
		c.seek(remote)
	}
	return own, nil
}

// check returns the reason why a gateway cannot be a member, nil if it can. remote is the address
// that its hello came from, or the address where it was found.
func (c *Cluster) check(h peer.Hello, remote string) error {
	if err := CheckName(h.Cluster); err != nil {
		return fmt.Errorf("a hello's cluster: %w", err)
	}
	if err := CheckName(h.ID); err != nil {
		return fmt.Errorf("a hello's member name: %w", err)
	}
	switch {
	case h.Cluster != c.cfg.Name:
		return fmt.Errorf("gateway %q belongs to cluster %q, but this gateway belongs to %q", h.ID, h.Cluster, c.cfg.Name)
	case h.OrderVersion != shuffle.OrderVersion:
		return fmt.Errorf("gateway %q has version %d of the order, but gateway %q has %d: run the same release on all gateways",
			h.ID, h.OrderVersion, c.cfg.ID, shuffle.OrderVersion)
	case h.Boot == "" || len(h.Boot) > nameBytes:
		return fmt.Errorf("gateway %q: its hello has no boot name", h.ID)
	case len(h.Serves) > mostServed:
		return fmt.Errorf("gateway %q: it serves %d datasets: must be at most %d", h.ID, len(h.Serves), mostServed)
	}
	for _, s := range h.Serves {
		if len(s.Dataset) > nameBytes || len(s.Generation) > nameBytes {
			return fmt.Errorf("gateway %q: the names of dataset %.40q... or generation %.40q... have more than %d bytes", h.ID, s.Dataset, s.Generation, nameBytes)
		}
	}
	if h.ID == c.cfg.ID {
		return fmt.Errorf("two gateways have the name %q, this one and one at %s: give each its own --member name", h.ID, remote)
	}
	return nil
}

// errEjected is the error of Read for an ejected member.
var errEjected = errors.New("the member is ejected")
