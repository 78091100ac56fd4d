package plans

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/gateway/address"
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
	KeepSubset(ctx context.Context, d selection.Dataset, members selection.Base) (selection.SplitResult, error)
	OpenQuarantine(ctx context.Context, digest string) (selection.Quarantine, error)
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

// Bounds of the part names that are kept of a dataset.
const (
	maxNames     = 4096
	maxNameBytes = 1 << 20
)

// PartNames learns from the index which parts the samples of a dataset have. It reads chunk after chunk, each once, until
// the names that are asked for are found. Only a name that no sample has makes it read the whole index, and only once.
type PartNames struct {
	index Index
	turn  chan struct{} // a lock that respects contexts: it holds a token while a request uses the fields below

	known    map[string]bool
	bytes    int
	next     int  // the first chunk that was not read yet
	many     bool // there are more names than are kept
	pictures bool // some samples are pictures in class folders, which go by any suffix of pictures
}

func newPartNames(x Index) *PartNames {
	return &PartNames{index: x, turn: make(chan struct{}, 1), known: map[string]bool{}}
}

// enter locks n.
func (n *PartNames) enter(ctx context.Context) (leave func(), err error) {
	select {
	case n.turn <- struct{}{}:
		return func() { <-n.turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("part names: %w", ctx.Err())
	}
}

// missing returns those of some names that no sample has; none where the dataset has more names than are kept.
func (n *PartNames) missing(ctx context.Context, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	leave, err := n.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	absent := slices.Clone(names)
	for {
		absent = slices.DeleteFunc(absent, func(name string) bool { return n.known[name] || n.pictures && chunkindex.IsPicture(name) })
		if len(absent) == 0 || n.many {
			return nil, nil
		}
		if n.next == n.index.Chunks() {
			return absent, nil
		}
		if err := n.read(ctx); err != nil {
			return nil, err
		}
	}
}

// All returns the names of all parts in byte order. ok is false where the dataset has more names than are kept.
func (n *PartNames) All(ctx context.Context) (names []string, ok bool, err error) {
	leave, err := n.enter(ctx)
	if err != nil {
		return nil, false, err
	}
	defer leave()
	for n.next < n.index.Chunks() && !n.many {
		if err := n.read(ctx); err != nil {
			return nil, false, err
		}
	}
	for name := range n.known {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, !n.many, nil
}

// read reads one chunk more.
func (n *PartNames) read(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("part names: %w", err)
	}
	names, err := n.index.PartNames(ctx, n.next)
	if err != nil {
		return fmt.Errorf("part names: chunk %d: %w", n.next, err)
	}
	if _, ok := n.index.ClassOf(n.index.First()[n.next]); ok {
		n.pictures, names = true, append(names, chunkindex.ClassPart)
	}
	for _, name := range names {
		if n.known[name] {
			continue
		}
		if n.bytes += len(name); len(n.known) == maxNames || n.bytes > maxNameBytes {
			n.many = true
			return nil
		}
		n.known[name] = true
	}
	n.next++
	return nil
}
