package plans

import (
	"context"
	"errors"
	"strings"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/selection"
	"github.com/millrace-data/millrace/shuffle"
)

// nameSplit adds the digest of the default split to a subset that is given by its name alone. The default split of a
// generation never changes, so it is asked for once.
func (d *Dataset) nameSplit(ctx context.Context, params *shuffle.Params) error {
	if strings.Contains(params.Subset, ":") {
		return nil
	}
	digest := d.defaultSplit.Load()
	if digest == nil {
		s, err := d.Selection.Default(ctx, d.Index.Generation())
		if err != nil {
			return d.selectionRefusal(err)
		}
		digest = &s
		d.defaultSplit.Store(digest)
	}
	params.Subset = *digest + ":" + params.Subset
	return nil
}

// openSubset opens the subset that a key names: digest, colon, name.
func (p *Plans) openSubset(ctx context.Context, key openedKey) (*selection.Subset, error) {
	d := key.dataset
	digest, name, _ := strings.Cut(key.name, ":")
	s, err := d.Selection.OpenSubset(ctx, digest, name, d.Index.Generation(), d.Index.First())
	if err != nil {
		return nil, d.selectionRefusal(err)
	}
	return s, nil
}

// quarantine replaces bad samples in the orders of plans with some parameters.
type quarantine struct{ *shuffle.Quarantine }

// bytes is the memory that it holds.
func (q quarantine) bytes() int64 { return q.Bytes() }

// Close has nothing to close.
func (quarantine) Close() error { return nil }

// quarantineBytes is the memory to open a quarantine, whatever is in it.
const quarantineBytes = 12 << 20

// openQuarantine opens a list of bad samples for plans over a dataset, or over the subset that the key's parameters name.
func (p *Plans) openQuarantine(ctx context.Context, key openedKey) (quarantine, error) {
	d := key.dataset
	list, err := d.Selection.OpenQuarantine(ctx, key.name, d.Index.Generation(), d.Index.Samples())
	if err != nil {
		return quarantine{}, d.selectionRefusal(err)
	}
	first, bad := d.Index.First(), list.Numbers()
	if key.params.Subset != "" {
		s, leave, err := p.subsets.acquire(ctx, openedKey{dataset: d, name: key.params.Subset})
		if err != nil {
			return quarantine{}, err
		}
		defer leave()
		if bad, err = membersOf(ctx, d, s, bad); err != nil {
			return quarantine{}, err
		}
		first = s.Members()
	}
	q, err := shuffle.NewQuarantine(key.params.Seed, first, bad)
	if err != nil {
		r := address.Refuse(address.Invalid, "%v", err)
		r.Faults = []address.Fault{{Name: "quarantine", Reason: err.Error()}}
		return quarantine{}, r
	}
	return quarantine{q}, nil
}

// membersOf keeps those of some samples, ascending, that belong to a subset, and returns their numbers in its plans.
func membersOf(ctx context.Context, d *Dataset, s *selection.Subset, samples []uint64) ([]uint64, error) {
	p, err := shuffle.NewSubsetPlan(shuffle.Params{Shuffle: shuffle.None, Subset: "its samples"}, d.Index.First(), s.Members())
	if err != nil {
		return nil, err
	}
	var out []uint64
	first := d.Index.First()
	for len(samples) > 0 {
		chunk := d.Index.ChunkOf(samples[0])
		bitmap, err := s.Bitmap(ctx, chunk)
		if err != nil {
			return nil, err
		}
		for ; len(samples) > 0 && samples[0] < first[chunk+1]; samples = samples[1:] {
			if v, ok := p.Members().Of(chunk, bitmap, samples[0]-first[chunk]); ok {
				out = append(out, v)
			}
		}
	}
	return out, nil
}

// selectionRefusal turns the errors of Selection that the sender caused into refusals. It leaves the others as they
// are: the gateway has rows for them.
func (d *Dataset) selectionRefusal(err error) error {
	switch {
	case errors.Is(err, selection.ErrCorrupt): // whatever is wrong in a damaged object
		return err
	case errors.Is(err, selection.ErrNoDefault):
		return address.Refuse(address.NotFound,
			"generation %.12s of the dataset was not cut into subsets: millrace subset does it", d.Index.Generation()).Because(err)
	case errors.Is(err, selection.ErrNotFound):
		return address.Refuse(address.NotFound, "no subset or quarantine of this digest").Because(err)
	case errors.Is(err, selection.ErrNoSubset):
		return address.Refuse(address.NotFound, "%v", err).Because(err)
	case errors.Is(err, selection.ErrGeneration):
		return address.Refuse(address.Invalid, "%v; %s", err, d.generationText()).Because(err)
	}
	return err
}
