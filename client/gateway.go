package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
)

// Gateway is one of the gateways that a client knows. A program that watches each gateway asks it by itself; one that reads batches asks the
// client, which chooses.
type Gateway struct {
	client *Client
	at     *gateway
}

// Each returns the gateways that Config.Gateways stands for now. It looks names up again where that is due, and is an error if no gateway is known.
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

// String returns the gateway's address, as it may be given in Config.Gateways.
func (g Gateway) String() string { return g.at.name() }

// JSON reads a resource, such as /v1/stats, of this gateway alone. There is one attempt, of Config.AttemptTimeout at most.
func (g Gateway) JSON(ctx context.Context, path string, q url.Values, v any) error {
	ctx, cancel := context.WithTimeout(ctx, g.client.cfg.AttemptTimeout)
	defer cancel()
	var came atomic.Int64
	if err := g.client.askJSON(ctx, g.at, request{method: http.MethodGet, path: path, query: q}, maxJSON, v, &came); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
