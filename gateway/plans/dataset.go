package plans

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/gateway/address"
)

// Importance stores reported losses of a dataset and snapshots of weights made from them, such as
// *importance.Log.
type Importance interface {
	Add(ctx context.Context, r importance.Report) (added bool, err error)
	Freeze(ctx context.Context, q importance.FreezeRequest) (importance.Frozen, error)
	Open(ctx context.Context, digest, generation string, first []uint64) (*importance.Snapshot, error)
}

// Selection stores the subsets, quarantines, schedules and cost tables of a dataset. *selection.Store
// implements it.
type Selection interface {
	Default(ctx context.Context, generation string) (digest string, err error)
	OpenSubset(ctx context.Context, digest, name, generation string, first []uint64) (*selection.Subset, error)
	KeepSubset(ctx context.Context, d selection.Dataset, members selection.Base) (selection.SplitResult, error)
	OpenQuarantine(ctx context.Context, digest string) (selection.Quarantine, error)
	KeepSchedule(ctx context.Context, s selection.Schedule) (digest string, created bool, err error)
	Schedules(ctx context.Context) (digests []string, err error)
	OpenSchedule(ctx context.Context, digest string) (selection.Schedule, error)
	CostsNamed(ctx context.Context, generation, name string) (digest string, err error)
	OpenCosts(ctx context.Context, digest, generation string, first []uint64) (*selection.Costs, error)
}

// Dataset is a served dataset with data derived from its index.
type Dataset struct {
	Address    address.Dataset // properties for parsing URLs
	Index      Index
	Importance Importance // nil: losses are rejected, and plans have no weights
	Selection  Selection  // nil: plans have no subset or quarantine
	PartNames  *PartNames

	mixture      *mixture               // nil: not a mixture
	defaultSplit atomic.Pointer[string] // digest of the default split; nil: not loaded yet
	costNames    sync.Map               // digest of each cost table whose name was resolved, by name
}

// NewDataset returns a dataset with the given forms, its own first.
func NewDataset(name string, x Index, forms []address.Form) *Dataset {
	return &Dataset{
		Address: address.Dataset{Name: name, Generation: x.Generation(), Defaults: x.Defaults(), Forms: forms},
		Index:   x, PartNames: &PartNames{index: x, turn: semaphore.NewWeighted(1), known: map[string]bool{}},
	}
}

// Name returns the name of the dataset.
func (d *Dataset) Name() string { return d.Address.Name }

// CheckFields rejects field names that no sample of the dataset has.
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

// CheckImportance returns an error if the dataset has no importance store.
func (d *Dataset) CheckImportance() error {
	if d.Importance == nil {
		return address.Refuse(address.NotFound, "this gateway does not support importance for the dataset")
	}
	return nil
}

// RefuseMixture returns an error if the dataset is a mixture; what names the unsupported resource.
func (d *Dataset) RefuseMixture(what string) error {
	if d.mixture == nil {
		return nil
	}
	return address.Refuse(address.Invalid, "%s requires a single dataset, not a mixture: use one of the sources", what)
}

// chunkLengths returns the length of each chunk in bytes.
func (d *Dataset) chunkLengths() []uint64 {
	lengths := make([]uint64, d.Index.Chunks())
	for i := range lengths {
		lengths[i] = uint64(d.Index.Chunk(i).Length)
	}
	return lengths
}

// generationText describes the served generation, for errors.
func (d *Dataset) generationText() string {
	return fmt.Sprintf("the dataset has generation %.12s", d.Index.Generation())
}

// Limits of the cached part names of a dataset.
const (
	maxNames     = 4096
	maxNameBytes = 1 << 20
)

// PartNames collects the names of the parts of samples from the index. It reads chunks in order,
// each once, until it has found the requested names. Only an unknown name makes it read the rest of
// the index, once.
type PartNames struct {
	index Index
	turn  *semaphore.Weighted // lock with context, for the fields below

	known    map[string]bool
	bytes    int
	next     int  // first chunk not read yet
	many     bool // there are more names than the limit
	pictures bool // some samples are pictures in class folders, which match any picture suffix
}

// missing returns the names that no sample has. It returns none if the dataset has more names than
// the limit.
func (n *PartNames) missing(ctx context.Context, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	if err := n.turn.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("part names: %w", err)
	}
	defer n.turn.Release(1)
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

// All returns the names of all parts in byte order. ok is false if the dataset has more names than
// the limit.
func (n *PartNames) All(ctx context.Context) (names []string, ok bool, err error) {
	if err := n.turn.Acquire(ctx, 1); err != nil {
		return nil, false, fmt.Errorf("part names: %w", err)
	}
	defer n.turn.Release(1)
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

// read reads the next chunk.
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
