package plans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// splitOf returns the digest of the default split and a colon, for a subset that is given only by
// name. The default split of a generation never changes, so it is loaded once.
func (d *Dataset) splitOf(ctx context.Context, s address.Subset) (prefix string, err error) {
	if s.Stored == "" || strings.Contains(s.Stored, ":") {
		return "", nil
	}
	digest := d.defaultSplit.Load()
	if digest == nil {
		found, err := d.Selection.Default(ctx, d.Index.Generation())
		if err != nil {
			return "", d.selectionRefusal(err)
		}
		digest = &found
		d.defaultSplit.Store(digest)
	}
	return *digest + ":", nil
}

// subset is a subset of a dataset, as plans use it.
type subset interface {
	Members() []uint64 // prefix sums of its samples by chunk, read-only
	Bitmap(ctx context.Context, chunk int) ([]byte, error)
	Close() error
}

// SubsetSamples returns the number of samples in a subset in canonical form.
func (p *Plans) SubsetSamples(ctx context.Context, d *Dataset, name string) (uint64, error) {
	var held Holds
	defer held.Drop()
	s, err := p.subsets.acquire(ctx, &held, key{dataset: d, name: name})
	if err != nil {
		return 0, err
	}
	members := s.Members()
	return members[len(members)-1], nil
}

// subsetBytes returns the memory to open a subset.
func subsetBytes(k key) int64 {
	x := k.dataset.Index
	s, _ := address.ParseSubset(k.name)
	if len(s.Steps) == 0 {
		return selection.SubsetBytes(x.Chunks())
	}
	runs := 0 // ranges, if they define the whole subset
	for _, step := range s.Steps {
		runs += len(step.Places)
	}
	if s.Stored != "" || slices.ContainsFunc(s.Steps, func(step selection.Step) bool { return step.Rule.Parts != nil }) {
		runs = -1
	}
	return selection.CutBytes(x.First(), runs)
}

// heldBySubset returns the memory that an open subset uses.
func heldBySubset(s subset) int64 {
	if c, ok := s.(*selection.Cut); ok {
		return c.Bytes()
	}
	return selection.SubsetBytes(len(s.Members()) - 1)
}

// openSubset opens the stored subset of a key and applies the steps after it.
func (p *Plans) openSubset(ctx context.Context, k key) (subset, error) {
	d := k.dataset
	s, reason := address.ParseSubset(k.name)
	switch {
	case reason != "":
		return nil, address.RefuseParameter("subset", "%s", reason)
	case len(s.Steps) > 0:
		return p.cut(ctx, d, s)
	}
	digest, name, _ := strings.Cut(s.Stored, ":")
	stored, err := d.Selection.OpenSubset(ctx, digest, name, d.Index.Generation(), d.Index.First())
	if err != nil {
		return nil, d.selectionRefusal(err)
	}
	return stored, nil
}

// cut computes a subset that an address defines.
func (p *Plans) cut(ctx context.Context, d *Dataset, s address.Subset) (subset, error) {
	var held Holds
	defer held.Drop()
	var base selection.Base
	if s.Stored != "" {
		stored, err := p.subsets.acquire(ctx, &held, key{dataset: d, name: s.Stored})
		if err != nil {
			return nil, err
		}
		base = stored
	}
	if err := p.cutting.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer p.cutting.Release(1)
	c, err := selection.NewCut(ctx, d.Index, d.Index.First(), base, s.Steps)
	if errors.Is(err, selection.ErrInvalid) {
		return nil, address.RefuseParameter("subset", "%v", err)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// quarantineBytes returns the memory to open a quarantine. The number of samples in a stored list is
// not known before it is read.
func quarantineBytes(k key) int64 {
	const stored, perList, perSample, perChunk = 12 << 20, 4 << 10, 192, 16
	if runs, _ := address.ParseQuarantine(k.name); runs != nil {
		return perList + perSample*int64(runs.Count()) + perChunk*int64(k.dataset.Index.Chunks())
	}
	return stored
}

// openQuarantine opens a list of bad samples for plans over a dataset, or over the subset in the
// key's parameters.
func (p *Plans) openQuarantine(ctx context.Context, k key) (*shuffle.Quarantine, error) {
	d := k.dataset
	bad, err := d.badSamples(ctx, k.name)
	if err != nil {
		return nil, err
	}
	first := d.Index.First()
	if k.params.Subset != "" {
		var held Holds
		defer held.Drop()
		s, err := p.subsets.acquire(ctx, &held, key{dataset: d, name: k.params.Subset})
		if err != nil {
			return nil, err
		}
		if bad, err = membersOf(ctx, d, s, bad); err != nil {
			return nil, err
		}
		first = s.Members()
	}
	q, err := shuffle.NewQuarantine(k.params.Seed, first, bad)
	if err != nil {
		return nil, refuseQuarantine(err)
	}
	return q, nil
}

func refuseQuarantine(err error) error {
	r := address.Refuse(address.Invalid, "%v", err)
	r.Faults = []address.Fault{{Name: "quarantine", Reason: err.Error()}}
	return r
}

// badSamples returns the bad samples of a quarantine, ascending, from a stored list or from the
// list in the address.
func (d *Dataset) badSamples(ctx context.Context, name string) ([]uint64, error) {
	samples := d.Index.Samples()
	runs, reason := address.ParseQuarantine(name)
	switch {
	case reason != "":
		return nil, address.RefuseParameter("quarantine", "%s", reason)
	case runs == nil:
		list, err := d.Selection.OpenQuarantine(ctx, name)
		if err != nil {
			return nil, d.selectionRefusal(err)
		}
		bad, err := list.Numbers(ctx, d.Index)
		if _, ok := errors.AsType[*chunkindex.AmbiguousKeyError](err); ok {
			return nil, refuseQuarantine(fmt.Errorf("%w: store the list again with millrace quarantine; %s", err, d.generationText()))
		}
		return bad, err
	case runs[len(runs)-1].Last >= samples:
		return nil, refuseQuarantine(fmt.Errorf("sample %d does not exist: the dataset has %d samples", runs[len(runs)-1].Last, samples))
	}
	bad := make([]uint64, 0, runs.Count())
	for _, run := range runs {
		for n := run.First; n <= run.Last; n++ {
			bad = append(bad, n)
		}
	}
	return bad, nil
}

// membersOf returns the numbers, in the plans of a subset, of those given samples that belong to
// the subset. The samples are ascending.
func membersOf(ctx context.Context, d *Dataset, s subset, samples []uint64) ([]uint64, error) {
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

// selectionRefusal converts errors of Selection that the caller caused into refusals. It returns
// other errors unchanged, for the gateway's error table.
func (d *Dataset) selectionRefusal(err error) error {
	switch {
	case errors.Is(err, selection.ErrCorrupt): // a damaged object may cause other errors too
		return err
	case errors.Is(err, selection.ErrNoDefault):
		return address.Refuse(address.NotFound,
			"generation %.12s of the dataset has no subsets: create them with millrace subset", d.Index.Generation()).Because(err)
	case errors.Is(err, selection.ErrNotFound):
		return address.Refuse(address.NotFound, "no subset or quarantine has this digest").Because(err)
	case errors.Is(err, selection.ErrNoSubset):
		return address.Refuse(address.NotFound, "%v", err).Because(err)
	case errors.Is(err, selection.ErrGeneration):
		return address.Refuse(address.Invalid, "%v; %s", err, d.generationText()).Because(err)
	}
	return err
}
