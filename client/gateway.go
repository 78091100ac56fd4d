package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
)

// Gateway is one of a client's gateways. Programs that monitor each gateway use it directly;
// readers use the Client, which selects a gateway.
type Gateway struct {
	client *Client
	at     *gateway
}

// Each returns the gateways that Config.Gateways currently resolves to. It repeats the name lookups
// if they are due, and fails if no gateway is known.
func (c *Client) Each(ctx context.Context) ([]Gateway, error) {
	if err := c.fleet.refresh(ctx); err != nil {
		return nil, err
	}
	renew, end := c.fleet.renewals(ctx)
	renew()
	end()
	c.fleet.mu.Lock()
	defer c.fleet.mu.Unlock()
	all := make([]Gateway, len(c.fleet.gateways))
	for i, g := range c.fleet.gateways {
		all[i] = Gateway{c, g}
	}
	return all, nil
}

// String returns the gateway's address in the form of Config.Gateways.
func (g Gateway) String() string { return g.at.name() }

// JSON reads a resource, such as /v1/stats, from this gateway only. It makes one attempt of at most
// Config.AttemptTimeout.
func (g Gateway) JSON(ctx context.Context, path string, q url.Values, v any) error {
	ctx, cancel := context.WithTimeout(ctx, g.client.cfg.AttemptTimeout)
	defer cancel()
	var came atomic.Int64
	if err := g.client.askJSON(ctx, g.at, request{method: http.MethodGet, path: path, query: q}, maxJSON, v, &came); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
