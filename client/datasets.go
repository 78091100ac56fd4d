package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
)

// Dataset is what a gateway says of a dataset that it serves.
type Dataset struct {
	Name       string   `json:"name"`
	Default    bool     `json:"default,omitempty"` // the dataset that an address without a name means
	Generation string   `json:"generation"`
	Format     string   `json:"format"`
	Samples    uint64   `json:"samples"`
	Chunks     uint64   `json:"chunks"`
	Shards     uint64   `json:"shards"`
	Bytes      uint64   `json:"bytes"`
	Plan       Defaults `json:"default_plan"`
	Follows    bool     `json:"follows,omitempty"` // the gateways move to new generations by themselves
}

// Defaults are the plan parameters of an address that names none.
type Defaults struct {
	BatchSize uint64 `json:"batch_size"`
	Window    uint64 `json:"window"`
	Shuffle   string `json:"shuffle"`
	Seed      uint64 `json:"seed,string"`
	Tail      string `json:"tail"`
}

// Datasets lists what the gateways serve, the default one first.
func (c *Client) Datasets(ctx context.Context) ([]Dataset, error) {
	var all struct {
		Datasets []Dataset `json:"datasets"`
	}
	if err := c.JSON(ctx, "/v1/datasets", nil, &all); err != nil {
		return nil, err
	}
	if len(all.Datasets) == 0 {
		return nil, errors.New("the gateway serves no dataset")
	}
	return all.Datasets, nil
}

// DatasetName returns Config.Dataset, or else the name of the gateways' default one.
func (c *Client) DatasetName(ctx context.Context) (string, error) {
	if c.cfg.Dataset != "" {
		return c.cfg.Dataset, nil
	}
	all, err := c.Datasets(ctx)
	if err != nil {
		return "", err
	}
	return all[0].Name, nil
}

// Describe describes Config.Dataset, or else the gateways' default one. Its generation is the one that rank 0 of a job tells the
// other ranks, as Options.Generation.
func (c *Client) Describe(ctx context.Context) (Dataset, error) {
	if c.cfg.Dataset == "" {
		all, err := c.Datasets(ctx)
		if err != nil {
			return Dataset{}, err
		}
		return all[0], nil
	}
	d := Dataset{Name: c.cfg.Dataset}
	err := c.JSON(ctx, datasetPath(d.Name), nil, &d)
	return d, err
}

// EpochPath is where the gateways describe an epoch of a dataset.
func EpochPath(dataset string, epoch uint64) string {
	return fmt.Sprintf("%s/epochs/%d", datasetPath(dataset), epoch)
}

func datasetPath(name string) string { return "/v1/datasets/" + url.PathEscape(name) }
