package selection

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Format of a schedule (see docs/spec/index-format.md).
const (
	scheduleDir = ".millrace/schedule/"
	maxSchedule = 1 << 20 // maximum bytes of the object
)

// Schedule has the segments of a mixture after the first: of each, its first position and the weight
// of each source.
type Schedule [][]uint64

// scheduleObject is the content of a stored schedule.
type scheduleObject struct {
	Version  int      `json:"version"`
	Schedule Schedule `json:"schedule"`
}

// KeepSchedule stores a schedule and returns its digest. Equal schedules have equal digests.
func (s *Store) KeepSchedule(ctx context.Context, of Schedule) (digest string, created bool, err error) {
	b, err := json.Marshal(scheduleObject{1, of})
	if err != nil {
		return "", false, err
	}
	return s.keep(ctx, scheduleDir, append(b, '\n'))
}

// OpenSchedule reads a schedule. It returns ErrNotFound if the bucket has no such schedule. The
// caller checks positions and weights.
func (s *Store) OpenSchedule(ctx context.Context, digest string) (Schedule, error) {
	b, err := s.read(ctx, scheduleDir, digest, maxSchedule)
	var of scheduleObject
	if err == nil && json.Unmarshal(b, &of) != nil {
		err = corrupt("not a schedule")
	} else if err == nil && of.Version != 1 {
		err = ErrVersion
	}
	if err != nil {
		return nil, fmt.Errorf("schedule %.12s: %w", digest, err)
	}
	return of.Schedule, nil
}

// Schedules returns the digests of the stored schedules, the newest first.
func (s *Store) Schedules(ctx context.Context) ([]string, error) {
	var all []objstore.Object
	err := s.cfg.Reader.List(ctx, s.cfg.Prefix+scheduleDir, func(o objstore.Object) error {
		all = append(all, o)
		return nil
	})
	slices.SortStableFunc(all, func(a, b objstore.Object) int { return b.Modified.Compare(a.Modified) })
	digests := make([]string, len(all))
	for i, o := range all {
		digests[i] = path.Base(o.Key)
	}
	return digests, err
}
