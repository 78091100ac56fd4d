package selection

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/millrace-data/millrace/internal/objstore"
)

// StoredSplit describes a split in the bucket. The fields come from the split's header.
type StoredSplit struct {
	objstore.Object
	Digest     string
	Generation string
	Rule       Rule
	Default    bool  // this is the default split of its generation
	Fault      error // error that prevented reading the fields other than Digest
}

// StoredQuarantine describes a quarantine in the bucket. The fields come from the quarantine's
// header.
type StoredQuarantine struct {
	objstore.Object
	Digest     string
	Generation string
	Bad        uint64 // number of bad samples
	Fault      error  // error that prevented reading the fields other than Digest
}

// StoredDefault describes the object that names the default split of a generation.
type StoredDefault struct {
	objstore.Object
	Generation string
}

// StoredCosts describes a cost table in the bucket. Generation and Samples come from its header.
type StoredCosts struct {
	objstore.Object
	Digest     string
	Generation string
	Samples    uint64
	Names      []string // names of the table
	Fault      error    // error that prevented reading Generation and Samples
}

// StoredName describes the object that names a cost table of a generation.
type StoredName struct {
	objstore.Object
	Generation, Name string
}

// Inventory lists the splits, quarantines and cost tables of a dataset, and the objects that name
// some of them.
type Inventory struct {
	Splits      []StoredSplit
	Defaults    []StoredDefault
	Quarantines []StoredQuarantine
	Costs       []StoredCosts
	CostNames   []StoredName
}

// Stored lists the selections and cost tables of the dataset by reading their headers.
func (s *Store) Stored(ctx context.Context) (*Inventory, error) {
	all := &Inventory{}
	for _, dir := range []string{quarantineDir, subsetDir, costDir} {
		err := s.cfg.Reader.List(ctx, s.cfg.Prefix+dir, func(o objstore.Object) error {
			all.add(dir, strings.TrimPrefix(o.Key, s.cfg.Prefix), o)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list selections: %w", err)
		}
	}
	chosen, names := map[string]bool{}, map[string][]string{} // by digest
	for _, d := range all.Defaults {
		if digest, err := s.named(ctx, defaultPrefix+d.Generation, "subset"); err == nil {
			chosen[digest] = true
		}
	}
	for _, n := range all.CostNames {
		if digest, err := s.CostsNamed(ctx, n.Generation, n.Name); err == nil {
			names[digest] = append(names[digest], n.Name)
		}
	}
	for i := range all.Splits {
		x := &all.Splits[i]
		x.Fault = s.describeSplit(ctx, x)
		x.Default = chosen[x.Digest]
	}
	for i := range all.Quarantines {
		x := &all.Quarantines[i]
		x.Fault = s.describeQuarantine(ctx, x)
	}
	for i := range all.Costs {
		x := &all.Costs[i]
		x.Fault = s.describeCosts(ctx, x)
		x.Names = names[x.Digest]
	}
	return all, ctx.Err()
}

// add adds an object of a directory to the list. It ignores objects of other programs.
func (v *Inventory) add(dir, key string, o objstore.Object) {
	digest := strings.TrimPrefix(key, dir)
	generation, isDefault := strings.CutPrefix(key, defaultPrefix)
	of, isName := strings.CutPrefix(key, costNames)
	owner, name, _ := strings.Cut(of, "-")
	switch {
	case isDefault && isDigest(generation):
		v.Defaults = append(v.Defaults, StoredDefault{o, generation})
	case isName && isDigest(owner) && isCostName(name):
		v.CostNames = append(v.CostNames, StoredName{o, owner, name})
	case !isDigest(digest):
	case dir == subsetDir:
		v.Splits = append(v.Splits, StoredSplit{Object: o, Digest: digest})
	case dir == quarantineDir:
		v.Quarantines = append(v.Quarantines, StoredQuarantine{Object: o, Digest: digest})
	default:
		v.Costs = append(v.Costs, StoredCosts{Object: o, Digest: digest})
	}
}

func (s *Store) describeSplit(ctx context.Context, x *StoredSplit) error {
	b, err := s.start(ctx, x.Object, "split", splitHeader)
	if err != nil {
		return err
	}
	h, err := decodeHead(b)
	if err != nil {
		return err
	}
	if x.Size < h.table() {
		return corrupt("it is truncated in its rule")
	}
	rule := make([]byte, h.rule)
	if err := s.cfg.Reader.ReadRange(ctx, x.Ref(), splitHeader, rule); err != nil {
		return err
	}
	r, err := decodeRule(rule)
	if err != nil {
		return err
	}
	x.Generation, x.Rule = h.generation, r
	return nil
}

func (s *Store) describeQuarantine(ctx context.Context, x *StoredQuarantine) error {
	b, err := s.start(ctx, x.Object, "quarantine", quarantineHeader)
	if err != nil {
		return err
	}
	if err := checkMagic(b); err != nil {
		return err
	}
	x.Generation, x.Bad = hex.EncodeToString(b[8:40]), uint64(binary.LittleEndian.Uint32(b[48:]))
	return nil
}

func (s *Store) describeCosts(ctx context.Context, x *StoredCosts) error {
	b, err := s.start(ctx, x.Object, "cost table", costHeader)
	if err != nil {
		return err
	}
	generation, samples, err := decodeCostHead(b, x.Size)
	if err != nil {
		return err
	}
	x.Generation, x.Samples = generation, samples
	return nil
}
