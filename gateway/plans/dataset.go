package plans

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/importance"
	"github.com/millrace-data/millrace/selection"
)

// Importance keeps the losses that trainers report of a dataset, and the snapshots of weights made of them.
// *importance.Log is one.
type Importance interface {
	Add(ctx context.Context, r importance.Report) (added bool, err error)
	Freeze(ctx context.Context, q importance.FreezeRequest) (importance.Frozen, error)
	Open(ctx context.Context, digest, generation string, first []uint64) (*importance.Snapshot, error)
}

// Selection keeps how a dataset is cut into subsets, and lists of its bad samples. *selection.Store is one.
type Selection interface {
	Default(ctx context.Context, generation string) (digest string, err error)
	OpenSubset(ctx context.Context, digest, name, generation string, first []uint64) (*selection.Subset, error)
	OpenQuarantine(ctx context.Context, digest, generation string, samples uint64) (selection.Quarantine, error)
}

// Dataset is a dataset that is served, with what is derived from its index once.
type Dataset struct {
	Address    address.Dataset // what its URLs are read against
	Index      Index
	Importance Importance // nil: no losses are taken, and no plan has weights
	Selection  Selection  // nil: no plan has a subset or a quarantine
	PartNames  *PartNames

	mixture      *mixture               // nil: it is none
	defaultSplit atomic.Pointer[string] // digest of the split that is meant where a URL names none; nil: not known yet
}

// NewDataset returns a dataset whose batches may have some forms, its own first.
func NewDataset(name string, x Index, forms []address.Form) *Dataset {
	return &Dataset{
		Address: address.Dataset{Name: name, Generation: x.Generation(), Defaults: x.Defaults(), Forms: forms},
		Index:   x, PartNames: newPartNames(x),
	}
}

// Name returns the name of the dataset.
func (d *Dataset) Name() string { return d.Address.Name }

// CheckFields refuses names of parts that no sample of the dataset has.
func (d *Dataset) CheckFields(ctx context.Context, v address.View) error {
	absent, err := d.PartNames.missing(ctx, v.Fields)
	if err != nil || len(absent) == 0 {
		return err
	}
	q := &address.Query{}
	for _, name := range absent {
		q.Fail("fields", "no sample has a part %s", address.Bounded(name))
	}
	return q.Err()
}

// CheckImportance refuses where no importance of the dataset is kept.
func (d *Dataset) CheckImportance() error {
	if d.Importance == nil {
		return address.Refuse(address.NotFound, "this gateway keeps no importance of the dataset")
	}
	return nil
}

// RefuseMixture refuses what has a meaning for one dataset only.
func (d *Dataset) RefuseMixture(what string) error {
	if d.mixture == nil {
		return nil
	}
	return address.Refuse(address.Invalid, "%s is of one dataset: ask the mixture's sources", what)
}

// chunkLengths returns the length of each chunk in bytes.
func (d *Dataset) chunkLengths() []uint64 {
	lengths := make([]uint64, d.Index.Chunks())
	for i := range lengths {
		lengths[i] = uint64(d.Index.Chunk(i).Length)
	}
	return lengths
}

// generationText is the part of an error that says which generation is served.
func (d *Dataset) generationText() string {
	return fmt.Sprintf("the dataset is of generation %.12s", d.Index.Generation())
}
