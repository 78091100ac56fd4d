package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// Limits of a request that stores a schedule.
const (
	maxSchedule   = 1 << 20 // size of the body in bytes
	scheduleTimes = 6       // memory per byte of the body
)

// postSchedule stores a schedule for mixtures whose first source is the dataset. It is idempotent:
// equal schedules have equal digests.
func (g *Gateway) postSchedule(x *exchange) error {
	if err := noQuery(x); err != nil {
		return err
	}
	sent, err := g.toStore(x, "schedule", maxSchedule, scheduleTimes)
	if err != nil {
		return err
	}
	var wish struct {
		Schedule selection.Schedule `json:"schedule"`
	}
	if err := decodeJSON(sent, &wish); err != nil {
		return err
	}
	if len(wish.Schedule) == 0 || len(wish.Schedule[0]) < 2 {
		return invalid("schedule: must be a non-empty list of segments, each a list of a position and the weight of each source")
	}
	if _, err := address.Segments(wish.Schedule, len(wish.Schedule[0])-1); err != nil {
		return address.RefuseParameter("schedule", "%v", err)
	}
	digest, created, err := x.dataset.Selection.KeepSchedule(x.r.Context(), wish.Schedule)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return sendJSONStatus(x, status, map[string]any{"schedule": digest, "dataset": x.dataset.Name()})
}

// getSchedules lists the digests of the schedules that are stored with the dataset, the newest first.
func (g *Gateway) getSchedules(x *exchange) (err error) {
	if err := noQuery(x); err != nil {
		return err
	}
	digests := []string{}
	if x.dataset.Selection != nil {
		if digests, err = x.dataset.Selection.Schedules(x.r.Context()); err != nil {
			return err
		}
	}
	return sendJSON(x, map[string]any{"schedules": digests})
}

// scheduleOf returns the segments of the schedule that the URL of a mixture names. It is stored with
// the first source.
func scheduleOf(ctx context.Context, m address.Mixture, first *dataset) ([]shuffle.Segment, error) {
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
