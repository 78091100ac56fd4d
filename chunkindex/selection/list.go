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

// Inventory lists the splits, defaults and quarantines of a dataset.
type Inventory struct {
	Splits      []StoredSplit
	Defaults    []StoredDefault
	Quarantines []StoredQuarantine
}

// Stored lists the splits and quarantines of the dataset by reading their headers.
func (s *Store) Stored(ctx context.Context) (*Inventory, error) {
	all := &Inventory{}
	for _, dir := range []string{quarantineDir, subsetDir} {
		err := s.cfg.Reader.List(ctx, s.cfg.Prefix+dir, func(o objstore.Object) error {
			name := strings.TrimPrefix(o.Key, s.cfg.Prefix+dir)
			generation, isDefault := strings.CutPrefix(name, strings.TrimPrefix(defaultPrefix, subsetDir))
			switch {
			case isDefault && dir == subsetDir && isDigest(generation):
				all.Defaults = append(all.Defaults, StoredDefault{o, generation})
			case !isDigest(name):
			case dir == subsetDir:
				all.Splits = append(all.Splits, StoredSplit{Object: o, Digest: name})
			default:
				all.Quarantines = append(all.Quarantines, StoredQuarantine{Object: o, Digest: name})
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list selections: %w", err)
		}
	}
	chosen := map[string]bool{}
	for _, d := range all.Defaults {
		if digest, err := s.defaultOf(ctx, d.Generation); err == nil {
			chosen[digest] = true
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
	return all, ctx.Err()
}

func (s *Store) describeSplit(ctx context.Context, x *StoredSplit) error {
	if x.Size < splitHeader {
		return corrupt("invalid size of a split: %d bytes", x.Size)
	}
	b := make([]byte, splitHeader)
	if err := s.cfg.Reader.ReadRange(ctx, x.Ref(), 0, b); err != nil {
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
	if x.Size < quarantineHeader {
		return corrupt("invalid size of a quarantine: %d bytes", x.Size)
	}
	b := make([]byte, quarantineHeader)
	if err := s.cfg.Reader.ReadRange(ctx, x.Ref(), 0, b); err != nil {
		return err
	}
	if err := checkMagic(b); err != nil {
		return err
	}
	x.Generation, x.Bad = hex.EncodeToString(b[8:40]), uint64(binary.LittleEndian.Uint32(b[48:]))
	return nil
}
