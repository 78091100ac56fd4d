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
	Follows    bool     `json:"follows,omitempty"`     // the gateways move to new generations by themselves
	Fields     []Field  `json:"fields,omitempty"`      // what the parts of samples hold; empty: it is not known
	OtherParts bool     `json:"other_parts,omitempty"` // samples have parts that Fields does not list
}

// Field says what a part of a sample holds. The words of its encodings and types are explained in docs/api.md.
type Field struct {
	Name     string   `json:"name"`               // of the part; "" where the sample itself is the value
	Encoding string   `json:"encoding"`           // how the bytes are written: "raw" is the little-endian value of Type
	Type     string   `json:"type,omitempty"`     // of the value, in Arrow's words; with a shape, of an element; "": not known
	Logical  string   `json:"logical,omitempty"`  // what the file says that a value of Type stands for: "int8" of an "int32"; "": no other type
	Shape    []uint64 `json:"shape,omitempty"`    // of an array, whose elements are in C order
	Nullable bool     `json:"nullable,omitempty"` // samples may lack the part
	Classes  []string `json:"classes,omitempty"`  // names of an integer's values, from 0; of a list those of its elements' values
	Children []Field  `json:"children,omitempty"` // of a nested value: what it holds, the one element of a list or the fields of a struct
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
