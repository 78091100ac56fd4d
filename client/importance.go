package client

import (
	"context"
	"fmt"
	"net/url"
)

// Report tells the gateways the losses of a batch's samples, in the order of the batch. The same losses may be reported again, by
// whoever and to whichever gateway; another loss for the same place of the same epoch is refused as CodeConflict.
// A bucket that takes no writes is CodeReadOnly.
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

// Freeze makes a snapshot of the losses that were reported of the epoch that a batch belongs to, and returns its
// name: the value of Options.Importance for the epochs to come. The same losses make the same snapshot, whichever gateway is asked.
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
		return "", fmt.Errorf("send %s/snapshots: no snapshot is named: %w", path, ErrProtocol)
	}
	return out.Snapshot, nil
}

func importancePath(dataset, location string) (string, error) {
	if dataset == "" || location == "" {
		return "", fmt.Errorf("report losses: no Content-Location named the batch: %w", ErrProtocol)
	}
	return "/v1/datasets/" + url.PathEscape(dataset) + "/importance", nil
}
