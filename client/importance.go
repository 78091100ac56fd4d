package client

import (
	"context"
	"fmt"
	"net/url"
)

// Report sends the losses of a batch's samples, in the order of the batch. Reports are idempotent,
// from any reader to any gateway. A different loss for the same position of the same epoch fails
// with CodeConflict. A read-only bucket fails with CodeReadOnly.
func (c *Client) Report(ctx context.Context, b *Batch, losses []float64) error {
	path, err := importancePath(b.Dataset, b.Location)
	if err != nil {
		return err
	}
	in := struct {
		URL    string    `json:"url"`
		Losses []float64 `json:"losses"`
	}{b.Location, losses}
	var out struct{}
	return c.Post(ctx, path, nil, in, &out)
}

// Freeze creates a snapshot of the losses reported for the batch's epoch and returns its name,
// which later epochs use as Options.Importance. Snapshots are deterministic: all gateways return
// the same one for the same losses.
func (c *Client) Freeze(ctx context.Context, b *Batch) (snapshot string, err error) {
	path, err := importancePath(b.Dataset, b.Location)
	if err != nil {
		return "", err
	}
	var out struct {
		Snapshot string `json:"snapshot"`
	}
	if err := c.Post(ctx, path+"/snapshots", nil, map[string]string{"url": b.Location}, &out); err != nil {
		return "", err
	}
	if out.Snapshot == "" {
		return "", fmt.Errorf("send %s/snapshots: the response has no snapshot: %w", path, ErrProtocol)
	}
	return out.Snapshot, nil
}

func importancePath(dataset, location string) (string, error) {
	if dataset == "" || location == "" {
		return "", fmt.Errorf("report losses: the response with the batch had no Content-Location: %w", ErrProtocol)
	}
	return "/v1/datasets/" + url.PathEscape(dataset) + "/importance", nil
}
