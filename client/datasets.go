package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
)

// Dataset describes a dataset that a gateway serves.
type Dataset struct {
	Name       string   `json:"name"`
	Default    bool     `json:"default,omitempty"` // used for addresses without a dataset name
	Generation string   `json:"generation"`
	Format     string   `json:"format"`
	Samples    uint64   `json:"samples"`
	Chunks     uint64   `json:"chunks"`
	Shards     uint64   `json:"shards"`
	Bytes      uint64   `json:"bytes"`
	Plan       Defaults `json:"default_plan"`
	Follows    bool     `json:"follows,omitempty"`     // gateways load new generations by themselves
	Cluster    bool     `json:"cluster,omitempty"`     // the gateway that answered is a member of a cluster
	Fields     []Field  `json:"fields,omitempty"`      // parts of the samples; empty: unknown
	OtherParts bool     `json:"other_parts,omitempty"` // samples have parts that Fields does not list
}

// Field describes a part of a sample. docs/api.md lists the encodings and types.
type Field struct {
	Name     string   `json:"name"`               // name of the part; "" if the sample itself is the value
	Encoding string   `json:"encoding"`           // encoding of the bytes: "raw" is the little-endian value of Type
	Type     string   `json:"type,omitempty"`     // Arrow type of the value, or of an element if Shape is set; "": unknown
	Logical  string   `json:"logical,omitempty"`  // type that the file declares for the value, such as "int8" for an "int32"; "": none
	Shape    []uint64 `json:"shape,omitempty"`    // shape of an array with elements in C order
	Nullable bool     `json:"nullable,omitempty"` // samples may lack the part
	Classes  []string `json:"classes,omitempty"`  // names of an integer's values, from 0; for a list, names of its elements' values
	Children []Field  `json:"children,omitempty"` // content of a nested value: the element of a list, or the fields of a struct
}

// Defaults are the dataset's plan parameters, used if an address does not set them.
type Defaults struct {
	BatchSize uint64 `json:"batch_size"`
	Window    uint64 `json:"window"`
	Shuffle   string `json:"shuffle"`
	Seed      uint64 `json:"seed,string"`
	Tail      string `json:"tail"`
}

// Datasets lists the datasets of the gateways, the default one first.
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

// DatasetName returns Config.Dataset, or the name of the gateways' default dataset.
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

// Describe describes Config.Dataset, or the gateways' default dataset. Rank 0 of a job passes the
// returned generation to all ranks as Options.Generation.
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

// EpochPath returns the URL path of the description of an epoch.
func EpochPath(dataset string, epoch uint64) string {
	return fmt.Sprintf("%s/epochs/%d", datasetPath(dataset), epoch)
}

func datasetPath(name string) string { return "/v1/datasets/" + url.PathEscape(name) }
