package pack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// finished is one stored shard, as the state object remembers it.
type finished struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	ETag   string `json:"etag"`
	SHA256 string `json:"sha256"`
	Stamp  string `json:"stamp"`
}

// state is the content of the state object.
type state struct {
	Version int        `json:"version"`
	Shards  []finished `json:"shards"`
}

const (
	own          = ".millrace/" // below the prefix: Millrace's own objects, no shards
	ownFiles     = ".millrace-" // what the names of a directory's lock and of unfinished writes begin with
	stateVersion = 1
	maxState     = 1 << 30
	// lastSave is how long an interrupted run may take to note what it has stored.
	lastSave = 5 * time.Second
)

func (j *job) stateKey() string { return j.prefix + own + "pack/" + j.plan.hash + ".json" }

// prepare reads the state of an earlier run of the same plan, or, where there is none, makes sure that the prefix
// is free and leaves an empty one: from then on shards with this plan's names are this plan's.
func (j *job) prepare(ctx context.Context) error {
	known, err := j.load(ctx)
	if err != nil {
		return fmt.Errorf("pack: read state: %w", err) // a store names the object
	}
	if err := j.occupied(ctx, known); err != nil || known {
		return err
	}
	return j.save(ctx, nil)
}

func (j *job) load(ctx context.Context) (known bool, err error) {
	obj, err := j.store.Stat(ctx, j.stateKey())
	if errors.Is(err, objstore.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if obj.Size > maxState {
		return false, fmt.Errorf("%s: %d bytes long", obj.Key, obj.Size)
	}
	var s state
	data := make([]byte, obj.Size)
	if len(data) > 0 {
		if err := j.store.ReadRange(ctx, obj.Ref(), 0, data); err != nil {
			return false, err
		}
	}
	// A state that cannot be read is worth no more than an empty one: the shards are simply written again.
	if json.Unmarshal(data, &s) == nil && s.Version == stateVersion {
		for _, f := range s.Shards {
			j.done[f.Name] = f
		}
	}
	return true, nil
}

// save writes the state. When ctx ends, before or meanwhile, it is given a moment of its own, because what it notes
// is what the next run need not do again.
func (j *job) save(ctx context.Context, shards map[string]finished) error {
	saving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastSave, cancel) })()
	all := make(map[string]finished, len(j.done)+len(shards))
	for name, f := range j.done {
		all[name] = f
	}
	s := state{Version: stateVersion, Shards: []finished{}}
	for name, f := range shards {
		all[name] = f
	}
	for _, f := range all {
		s.Shards = append(s.Shards, f)
	}
	slices.SortFunc(s.Shards, func(a, b finished) int { return strings.Compare(a.Name, b.Name) })
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if _, err := j.store.Put(saving, j.stateKey(), bytes.NewReader(data), int64(len(data)), objstore.Condition{}); err != nil {
		return fmt.Errorf("pack: write state: %w", err)
	}
	return nil
}

// occupied refuses shards under the prefix that this plan does not write. Shards with this plan's names are allowed
// once its state object is there.
func (j *job) occupied(ctx context.Context, known bool) error {
	mine := map[string]bool{}
	if known {
		for _, s := range j.plan.shards {
			mine[s.name] = true
		}
	}
	var foreign []string
	err := j.store.List(ctx, j.prefix, func(o objstore.Object) error {
		name := strings.TrimPrefix(o.Key, j.prefix)
		if strings.HasSuffix(name, ".tar") && !strings.HasPrefix(name, own) && !mine[name] {
			foreign = append(foreign, o.Key)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	if len(foreign) > 0 {
		return fmt.Errorf("pack: %s: %w (of other data, or of a run with other files or options): choose an empty prefix or remove them",
			list(foreign), ErrOccupied)
	}
	return nil
}

// confirm makes sure, at the end, that nobody else has written to the prefix meanwhile.
func (j *job) confirm(ctx context.Context) error {
	if err := j.occupied(ctx, true); err != nil {
		return err
	}
	missing := maps.Clone(j.stored)
	err := j.store.List(ctx, j.prefix+"shard-", func(o objstore.Object) error {
		name := strings.TrimPrefix(o.Key, j.prefix)
		f, ok := j.stored[name]
		if !ok {
			return nil
		}
		delete(missing, name)
		if f.ETag != o.ETag || f.Size != o.Size {
			return fmt.Errorf("%s was written by somebody else meanwhile: %w", o.Key, objstore.ErrChanged)
		}
		return nil
	})
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%s: gone meanwhile: %w", list(slices.Sorted(maps.Keys(missing))), objstore.ErrChanged)
	}
	if err != nil {
		return fmt.Errorf("pack: confirm (run again when nobody else writes here): %w", err)
	}
	return nil
}
