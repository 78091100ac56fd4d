package plans

import (
	"context"
	"errors"

	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// Mix returns the dataset of a mixture that a URL defines, from the datasets of its sources.
func (p *Plans) Mix(ctx context.Context, m address.Mixture, parts []*Dataset, forms func(Index) []address.Form) (*Dataset, error) {
	sources := make([]Source, len(parts))
	for i, s := range m.Sources {
		own := address.Plan{Quarantine: s.Quarantine}
		own.Params.Subset = s.Subset
		if err := p.Complete(ctx, parts[i], &own); err != nil {
			return nil, err
		}
		sources[i] = NewSource(parts[i], s, m.PerBatch)
		sources[i].Samples = own.Samples
	}
	schedule, err := scheduleOf(ctx, m, parts[0])
	if err != nil {
		return nil, err
	}
	d, err := NewMixture(m.Name(), m.Samples, sources, schedule, forms)
	if err != nil {
		return nil, address.RefuseParameter("dataset", "%v", err)
	}
	return d, nil
}

// NewSource returns a dataset as a source of a mixture.
func NewSource(d *Dataset, s address.Source, perBatch bool) Source {
	of := Source{Dataset: d, Weight: s.Share, Subset: s.Subset, Quarantine: s.Quarantine}
	if perBatch {
		of.Weight, of.PerBatch = 1, s.Share
	}
	return of
}

// scheduleOf returns the segments of the schedule that the URL of a mixture names. It is stored with
// the first source.
func scheduleOf(ctx context.Context, m address.Mixture, first *Dataset) ([]shuffle.Segment, error) {
	if m.Schedule == "" {
		return nil, nil
	}
	err := selection.ErrNotFound
	var rows selection.Schedule
	if first.Selection != nil {
		rows, err = first.Selection.OpenSchedule(ctx, m.Schedule)
	}
	if errors.Is(err, selection.ErrNotFound) {
		return nil, address.Refuse(address.NotFound, "dataset %s has no schedule %.12s: store it with POST /v1/datasets/%[1]s/schedules", first.Name(), m.Schedule).Because(err)
	}
	if err != nil {
		return nil, err
	}
	segments, err := address.Segments(rows, len(m.Sources))
	if err != nil {
		return nil, address.RefuseParameter("dataset", "schedule %.12s: %v", m.Schedule, err)
	}
	return segments, nil
}
