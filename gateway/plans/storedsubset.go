package plans

import (
	"context"
	"errors"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/gateway/address"
)

// StoredSubset describes a subset that is stored as a list of samples.
type StoredSubset struct {
	Subset     string `json:"subset"` // value for subset=
	Dataset    string `json:"dataset"`
	Generation string `json:"generation"`
	Samples    uint64 `json:"samples"`
	Repeated   int    `json:"repeated"` // number of keys whose sample an earlier key already selected
	New        bool   `json:"-"`        // the subset was not in the bucket before
}

// KeepKeys stores the samples with the given keys as a subset.
func (p *Plans) KeepKeys(ctx context.Context, d *Dataset, keys []string) (StoredSubset, error) {
	if n := d.Index.Samples(); n > selection.MostHashed {
		return StoredSubset{}, address.Refuse(address.Invalid, "a request can select samples by key only in a dataset of at most %d samples: use `millrace subset --keys FILE`", selection.MostHashed)
	}
	if err := p.cutting.Acquire(ctx, 1); err != nil {
		return StoredSubset{}, err
	}
	runs, repeated, err := selection.FindKeys(ctx, d.Index, keys)
	p.cutting.Release(1)
	if err != nil {
		return StoredSubset{}, refuseKept("keys", err)
	}
	c, err := selection.NewCut(ctx, d.Index, d.Index.First(), nil, []selection.Step{{Places: runs}})
	if err != nil {
		return StoredSubset{}, err
	}
	kept, err := d.keep(ctx, "keys", c)
	kept.Repeated = repeated
	return kept, err
}

// KeepText stores a subset in the syntax of subset=, of any length.
func (p *Plans) KeepText(ctx context.Context, d *Dataset, text string) (StoredSubset, error) {
	s, reason := address.ParseLongSubset(text)
	if reason != "" {
		return StoredSubset{}, address.RefuseParameter("subset", "%s", reason)
	}
	split, err := d.splitOf(ctx, s)
	if err != nil {
		return StoredSubset{}, err
	}
	s.Stored = split + s.Stored
	c, err := p.cut(ctx, d, s)
	if err != nil {
		return StoredSubset{}, err
	}
	return d.keep(ctx, "subset", c)
}

// KeepBytes returns the memory needed to store a subset, in addition to the request body.
func (d *Dataset) KeepBytes() int64 { return selection.CutBytes(d.Index.First(), -1) }

func (d *Dataset) keep(ctx context.Context, what string, members subset) (StoredSubset, error) {
	made, err := d.Selection.KeepSubset(ctx, d.Index, members)
	if err != nil {
		return StoredSubset{}, refuseKept(what, err)
	}
	return StoredSubset{
		Subset: made.Digest + ":" + selection.Listed, Dataset: d.Name(), Generation: d.Index.Generation(), Samples: made.Counts[0], New: made.New,
	}, nil
}

// refuseKept converts an error that the caller caused into a refusal.
func refuseKept(what string, err error) error {
	if !errors.Is(err, selection.ErrInvalid) {
		return err
	}
	_, reason, _ := strings.Cut(err.Error(), selection.ErrInvalid.Error()+": ")
	return address.RefuseParameter(what, "%s", reason)
}
