package gateway

import (
	"net/http"

	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/gateway/address"
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
